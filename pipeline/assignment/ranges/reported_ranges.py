"""An assignment as a broker reports it: the ranges of every consumer at one moment (contract 7, `keyHashRanges`)."""

from collections.abc import Iterable
from functools import cached_property

import numpy as np

from dispatch_audit.pipeline.assignment.ranges.routing import HashRangeOf, Routing, routing_of_ranges
from dispatch_audit.udfs.sticky_key_hash import Int64Array


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
