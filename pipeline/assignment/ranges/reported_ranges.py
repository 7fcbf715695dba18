"""An assignment as a broker reports it: the ranges of every consumer at one moment (contract 7, `keyHashRanges`)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final, TypeAlias

import numpy as np

from dispatch_audit.pipeline.assignment.ranges.routing import HASH_MAX, HashRangeOf, Routing, routing_of_ranges
from dispatch_audit.pipeline.checkpointed import checkpointed
from dispatch_audit.udfs.sticky_key_hash import Int64Array

RangesOfOne: TypeAlias = frozenset[tuple[int, int]]
"""The ranges of one consumer, both ends inclusive."""

RangesByConsumer: TypeAlias = Mapping[int, RangesOfOne]
"""The ranges of several consumers, by their numbers."""

# The range after the last ring point ends here: in reports of brokers, and among all hashes.
_TAIL_ENDS: Final = (HASH_MAX - 1, HASH_MAX)


def report_agrees(reported: RangesOfOne, consumer: int, ranges: RangesByConsumer) -> bool:
    """Whether a report for one consumer agrees with an assignment.

    If the consumers of a ring share its points (contract 2.2, rings A and B), brokers report such a range for each of
    them and the hashes after the last point for none. Another report of them contradicts no owner: a
    shared range may be missing, and the hashes after the last point may be with a consumer of the first one.

    Args:
        reported: its ranges.
        consumer: its number.
        ranges: the ranges of all consumers, in the form in which brokers report them.
    """
    own = ranges.get(consumer, frozenset())
    if reported == own:
        return True
    shared = {both for other, of_other in ranges.items() if other != consumer for both in own & of_other}
    tail: set[tuple[int, int]] = set()
    if own and min(own)[0] == 0:
        after = max(end for of_one in ranges.values() for _, end in of_one) + 1
        tail = {(after, end) for end in _TAIL_ENDS}
    return own - shared <= reported <= own | tail


@checkpointed("range_columns")
@dataclass(frozen=True, eq=False, repr=False)
class ReportedRanges:
    """The ranges of all connected consumers: disjoint, but for a range that comes once for each of its several owners.

    They are columns, because a consistent hashing ring has a hundred ranges for each consumer. A consumer that has none
    counts as not connected.

    Attributes:
        starts: the first hash of each range, ascending.
        ends: the last hash of each range, inclusive.
        owners: the consumer that owns it.
    """

    starts: Int64Array
    ends: Int64Array
    owners: Int64Array

    @staticmethod
    def of(ranges: Iterable[HashRangeOf]) -> "ReportedRanges":
        """The ranges of all consumers, given one by one in any order."""
        # Each column by itself in memory, as a ring makes them, so that compiled walks see one kind of array.
        return ReportedRanges(*np.array(sorted(ranges), dtype=np.int64).reshape(-1, 3).T.copy())

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, ReportedRanges) or self.starts.size != other.starts.size:
            return False
        pairs = ((self.starts, other.starts), (self.ends, other.ends), (self.owners, other.owners))
        return all(bool((own == others).all()) for own, others in pairs)

    __hash__ = None  # type: ignore[assignment]  # compared, never looked up

    def __repr__(self) -> str:
        # In full, because tests compare what is printed; numpy leaves out the middle of a long array.
        return f"ReportedRanges{self.rows}"

    @cached_property
    def rows(self) -> tuple[HashRangeOf, ...]:
        """The same ranges one by one."""
        return tuple(zip(self.starts.tolist(), self.ends.tolist(), self.owners.tolist(), strict=True))

    @cached_property
    def by_consumer(self) -> RangesByConsumer:
        """The ranges of each consumer that has any."""
        found: dict[int, set[tuple[int, int]]] = {}
        for start, end, consumer in self.rows:
            found.setdefault(consumer, set()).add((start, end))
        return {consumer: frozenset(of_one) for consumer, of_one in found.items()}

    @cached_property
    def routing(self) -> Routing:
        """The owner of every hash."""
        return routing_of_ranges(self.rows)

    def owner_of_range(self, start: int, end: int) -> int:
        """The consumer that owns all hashes between two bounds, inclusive, which must have a single owner."""
        return self.owner_of(end)

    def owner_of(self, sticky_hash: int) -> int:
        """The owner of a hash, or `NOBODY`."""
        return int(self.routing.owners_of([sticky_hash])[0])

    def ends_of(self, consumer: int) -> Int64Array:
        """The last hash of each range of a consumer, ascending."""
        ends: Int64Array = self.ends[self.owners == consumer]
        return ends
