"""Messages without a key in words: who sent how many, and what the broker does with them.

Source: contract 1.1.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from dispatch_audit.pipeline.contract.profile import profile_named
from dispatch_audit.pipeline.plural import count
from dispatch_audit.pipeline.report.summary import KeylessProducer
from dispatch_audit.pipeline.report.wording import printable, share

_ROUTING: Final[Mapping[str, str]] = MappingProxyType(
    {
        "producer_sequence": "the broker hashes each by its producer and sequence id, so they are spread over the "
        "consumers and not kept in order",
        "none_key": "the broker gives all of them the same hash, so they all go to one consumer",
    }
)


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
