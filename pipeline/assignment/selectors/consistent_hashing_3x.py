"""Consistent hashing of 3.0.7 and 3.3.2 and later: a newcomer takes the ring points that it shares with others.

Source: contract 2.2, ring C, read from 3.0.7, 3.3.2, 3.3.5 and 3.3.6. Older rings are in `consistent_hashing_shared`.
"""

from collections.abc import Iterable, Mapping
from typing import TypeVar

import numpy as np

from dispatch_audit.pipeline.assignment.ranges.reported_ranges import ReportedRanges
from dispatch_audit.pipeline.assignment.ranges.routing import NOBODY
from dispatch_audit.pipeline.assignment.selectors.ring_selector import Member, RingSelector
from dispatch_audit.pipeline.checkpointed import checkpointed
from dispatch_audit.udfs.sticky_key_hash import HashRange

# A point may be at 2^31-1, but the broker's report ends one below it.
_REPORTED = HashRange(0, 2**31 - 2, zero_means_unset=False)


_S = TypeVar("_S", bound="ConsistentHashing3x")


@checkpointed("consistent_hashing_3x")
class ConsistentHashing3x(RingSelector):
    """The ring of 3.0.7 and 3.3.2 over all 31 bits.

    A point that its owner lost to a newcomer does not return when the newcomer leaves: the point is gone, and its
    hashes go to the owner of the next point (issue #23315: hashes of other consumers move).
    """

    __slots__ = ("_indexed",)

    def __init__(self, points: int) -> None:
        super().__init__(points, "raw", first_wins=False)
        # The consumers that own a point: the broker forgets the index of a name with the last point.
        self._indexed: set[int] = set()

    def copy(self: _S) -> _S:
        """A selector in the same state that later joins and leaves of this one do not change."""
        twin = super().copy()
        twin._indexed = set(self._indexed)
        return twin

    def emptied(self) -> "ConsistentHashing3x":
        """A ring of the same settings without consumers."""
        return ConsistentHashing3x(self._points)

    def ranges(self) -> ReportedRanges:
        """The ranges as the broker reports them: ascending, one for each point."""
        return self._ring.ranges(_REPORTED, fused=False)

    def _enter(self, consumer: int, member: Member) -> None:
        points, claims = member.points, self._contests.claims
        incumbents = self._ring.occupy(points, consumer)
        free = incumbents == NOBODY
        self._ring.hand_over(points[~free], consumer)
        self._indexed.add(consumer)
        for point in points[free].tolist():
            # A former owner of the point joined before this newcomer, so it no longer claims it.
            claims.pop(point, None)
        for point, incumbent in zip(points[~free].tolist(), incumbents[~free].tolist(), strict=True):
            self._contests.enter(point, incumbent, consumer)
        for incumbent in np.unique(incumbents[~free]).tolist():
            if not self._ring.holds(incumbent):
                self._release(incumbent)

    def _occupied(self, claims: Mapping[int, list[int]], reported: ReportedRanges) -> Iterable[int]:
        # Each point has its own range; a point without one disappeared with its last owner.
        ends = set(reported.ends.tolist())
        return [point for point in claims if point in ends]

    def _adopted(self, consumer: int, member: Member) -> None:
        self._indexed.discard(consumer)
        if self._ring.holds(consumer):
            self._indexed.add(consumer)
            self._names.put(member.name, member.index)

    def _contend(self, claims: Mapping[int, list[int]], owners: Mapping[int, int]) -> None:
        """Does nothing, because a consumer that lost a point never gets it back."""

    def _exit(self, consumer: int, member: Member) -> None:
        self._ring.vacate(consumer)
        self._release(consumer)
        for point in member.points.tolist():
            claimants = self._contests.claims.get(point)
            if claimants is None or consumer not in claimants:
                continue
            latest = claimants[-1]
            if consumer == latest:
                # The point is gone, unless one of the others may have come later and still owns it.
                if not any(self._contests.unordered(consumer, other) for other in claimants):
                    del self._contests.claims[point]
            elif not self._contests.unordered(consumer, latest):
                self._contests.withdraw(point, consumer)

    def _release(self, consumer: int) -> None:
        if consumer in self._indexed:
            self._indexed.discard(consumer)
            member = self._members[consumer]
            self._names.release(member.name, member.index)
