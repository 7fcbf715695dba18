"""Keys in words: who sent how many messages without one (contract 1.1), and keys that several partitions have.

Order is kept within a partition only. A producer chooses the partition by a hash of the key, which clients of different
languages may compute differently, and by the number of partitions, which may be raised.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from dispatch_audit.pipeline.contract.profile import profile_named
from dispatch_audit.pipeline.plural import count
from dispatch_audit.pipeline.report.summary import KeylessProducer, SpreadKey
from dispatch_audit.pipeline.report.wording import printable, share

_ROUTING: Final[Mapping[str, str]] = MappingProxyType(
    {
        "producer_sequence": "the broker hashes each by its producer and sequence id, so they are spread over the "
        "consumers and not kept in order",
        "none_key": "the broker gives all of them the same hash, so they all go to one consumer",
    }
)

_PARTITION: Final = re.compile(r"(.+)-partition-(\d+)")


def keyless_routing(profile: str) -> str:
    """Returns what a broker does with messages without a key, as a clause.

    Args:
        profile: the name of its profile.
    """
    return _ROUTING[profile_named(profile).keyless]


def keyless_line(producer: KeylessProducer) -> str:
    """Returns how many entries of a producer have no key."""
    name = "a producer without a name" if producer.producer_name is None else printable(producer.producer_name)
    part = share(producer.keyless_entries / producer.entries)
    entries = count(producer.entries, "entry", "entries")
    return f"{name}: {producer.keyless_entries:,} of {entries} without a key ({part})"


def spread_keys(rows: Iterable[Mapping[str, Any]]) -> tuple[SpreadKey, ...]:
    """The keys that rows of `hot_keys` have for several partitions, in the order of the rows."""
    found: dict[tuple[str, str], set[int]] = {}
    for row in rows:
        partition = _PARTITION.fullmatch(row["topic"])
        if partition is not None and row["key"] is not None:
            found.setdefault((partition[1], row["key"]), set()).add(int(partition[2]))
    return tuple(SpreadKey(*of, tuple(sorted(numbers))) for of, numbers in found.items() if len(numbers) > 1)


def spread_line(keys: Sequence[SpreadKey]) -> str:
    """What there is to say of the first of them, and how many more there are."""
    first, more = keys[0], f" and {len(keys) - 1:,} more" if len(keys) > 1 else ""
    numbers = ", ".join(map(str, first.partitions))
    return (
        f"key {printable(first.key)}{more} came to several partitions of {printable(first.topic)} ({numbers}), and "
        "order is kept within a partition only: clients hash keys differently, or partitions were added"
    )
