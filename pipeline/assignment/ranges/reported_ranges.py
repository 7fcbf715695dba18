"""An assignment as a broker reports it: the ranges of every consumer at one moment (contract 7, `keyHashRanges`)."""

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Final, TypeAlias

import numpy as np

from dispatch_audit.pipeline.assignment.ranges.routing import HASH_MAX, HashRangeOf, Routing, routing_of_ranges
from dispatch_audit.udfs.sticky_key_hash import Int64Array

RangesOfOne: TypeAlias = frozenset[tuple[int, int]]
"""The ranges of one consumer, both ends inclusive."""

# The hashes after the last ring point end here, in what brokers report and in all there are.
_TAIL_ENDS: Final = (HASH_MAX - 1, HASH_MAX)


def report_agrees(reported: RangesOfOne, consumer: int, ranges: Mapping[int, RangesOfOne]) -> bool:
    """Whether a report for one consumer agrees with an assignment.

    If the consumers of a ring share its points (contract 2.2, rings A and B), brokers report such a range for each of
    them and the hashes after the last point for none. What shows them otherwise contradicts no owner: a shared range
    may be missing, and the hashes after the last point may be with a consumer of the first one.

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


class ReportedRanges:
    """The ranges of all connected consumers.

    Attributes:
        ranges: all ranges, ascending, both ends inclusive.
        consumers: the consumers with ranges.
    """

    def __init__(self, ranges: Iterable[HashRangeOf]) -> None:
        """Takes the ranges of all consumers, in any order; a consumer without ranges counts as not connected."""
        self.ranges: list[HashRangeOf] = sorted(ranges)
        self.consumers = frozenset(consumer for _, _, consumer in self.ranges)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ReportedRanges) and self.ranges == other.ranges

    __hash__ = None  # type: ignore[assignment]  # compared, never looked up

    @cached_property
    def by_consumer(self) -> Mapping[int, RangesOfOne]:
        """The ranges of each consumer."""
        found: dict[int, set[tuple[int, int]]] = {}
        for start, end, consumer in self.ranges:
            found.setdefault(consumer, set()).add((start, end))
        return {consumer: frozenset(of_one) for consumer, of_one in found.items()}

    @cached_property
    def routing(self) -> Routing:
        """The owner of every hash."""
        return routing_of_ranges(self.ranges)

    def owner_of_range(self, start: int, end: int) -> int:
        """The consumer that owns all hashes between two bounds, inclusive, which must have a single owner."""
        return self.owner_of(end)

    def owner_of(self, sticky_hash: int) -> int:
        """The owner of a hash, or `NOBODY`."""
        return int(self.routing.owners_of([sticky_hash])[0])

    def ends_of(self, consumer: int) -> Int64Array:
        """The last hash of each range of a consumer, ascending."""
        return np.array([end for _, end, owner in self.ranges if owner == consumer], dtype=np.int64)
