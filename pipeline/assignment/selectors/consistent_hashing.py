"""Consistent hashing of 4.x: the first consumer on a ring point keeps it, and later ones queue for it.

Source: contract 2.1; Pulsar's `ConsistentHashingStickyKeyConsumerSelector` of 4.0.0 to 5.0.1.
"""

from collections.abc import Iterable, Mapping
from itertools import combinations

import numpy as np

from dispatch_audit.pipeline.assignment.ranges.reported_ranges import ReportedRanges
from dispatch_audit.pipeline.assignment.ranges.routing import NOBODY
from dispatch_audit.pipeline.assignment.selectors.ring_selector import Member, RingSelector
from dispatch_audit.pipeline.checkpointed import checkpointed
from dispatch_audit.udfs.sticky_key_hash import hash_range


@checkpointed("consistent_hashing")
class ConsistentHashing(RingSelector):
    """The ring of the draining dispatcher, and with the hash rule `classic` that of the classic one.

    The first consumer keeps a contested point, so a join moves hashes to the newcomer only, and a leave moves hashes of
    the leaver only: other consumers never exchange any. A newcomer whose points are all occupied is connected without a
    range.
    """

    __slots__ = ()

    def __init__(self, points: int, hash_rule: str) -> None:
        super().__init__(points, hash_rule, first_wins=True)

    def emptied(self) -> "ConsistentHashing":
        """A ring of the same settings without consumers."""
        return ConsistentHashing(self._points, self._hash_rule)

    def ranges(self) -> ReportedRanges:
        """The ranges as the broker reports them: ascending, neighbours of one consumer fused."""
        return self._ring.ranges(hash_range(self._hash_rule), fused=True)

    def _enter(self, consumer: int, member: Member) -> None:
        # If two points of a consumer are equal, the broker also queues it for its own point. That has no effect,
        # because it leaves all queues when it leaves.
        incumbents = self._ring.occupy(member.points, consumer)
        (taken,) = (incumbents != NOBODY).nonzero()
        for point, incumbent in zip(member.points[taken].tolist(), incumbents[taken].tolist(), strict=True):
            self._contests.enter(point, incumbent, consumer)

    def _occupied(self, claims: Mapping[int, list[int]], reported: ReportedRanges) -> Iterable[int]:
        return claims

    def _adopted(self, consumer: int, member: Member) -> None:
        self._names.put(member.name, member.index)

    def _contend(self, claims: Mapping[int, list[int]], owners: Mapping[int, int]) -> None:
        for point, claimants in claims.items():
            if len(claimants) > 1:
                queue = [claimant for claimant in claimants if claimant != owners[point]]
                self._contests.claims[point] = (owners[point], *queue)
                self._contests.leave_open(combinations(queue, 2))

    def _exit(self, consumer: int, member: Member) -> None:
        heirs: dict[int, int] = {}
        claims = self._contests.claims
        for point in sorted(claims.keys() & member.points.tolist()):
            claimants = claims[point]
            if claimants[0] == consumer:
                heirs[point] = claimants[1]
            self._contests.withdraw(point, consumer)
        if heirs:
            self._ring.hand_over(np.array([*heirs], dtype=np.int64), np.array([*heirs.values()], dtype=np.int64))
        self._ring.vacate(consumer)
        self._names.release(member.name, member.index)
