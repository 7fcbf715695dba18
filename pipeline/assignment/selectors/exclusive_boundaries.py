"""STICKY before #24730: the selector keeps only the boundaries of the ranges, a flaw that the audit has to rebuild.

Source: contract 2.4; Pulsar's `HashRangeExclusiveStickyKeyConsumerSelector` up to 3.0.13, 3.3.8, 4.0.6 and 4.1.0, and
of all 3.1 and 3.2.
"""

from bisect import bisect_left, bisect_right
from itertools import islice
from typing import TypeVar

from dispatch_audit.pipeline.assignment.ranges.membership_change import DeclaredRanges
from dispatch_audit.pipeline.assignment.ranges.reported_ranges import ReportedRanges
from dispatch_audit.pipeline.assignment.ranges.routing import HashRangeOf, Routing, routing_of_ranges
from dispatch_audit.pipeline.assignment.selectors.exclusive import checked_ranges, conflict
from dispatch_audit.pipeline.assignment.selectors.selector import SlotSelector
from dispatch_audit.pipeline.checkpointed import checkpointed

_S = TypeVar("_S", bound="ExclusiveBoundaries")


@checkpointed("exclusive_boundaries")
class ExclusiveBoundaries(SlotSelector):
    """Starts and ends of the declared ranges in one ascending list, with their consumers.

    A hash goes to the consumer of the boundary below it if that consumer also has the boundary above. So a gap between
    two ranges of one consumer is routed to it, until another consumer declares a range in the gap.
    """

    __slots__ = ("_boundaries", "_declared", "_owners")

    def __init__(self, modulus: int = 0) -> None:
        super().__init__(modulus)
        self._boundaries: list[int] = []
        self._owners: list[int] = []
        self._declared: dict[int, DeclaredRanges] = {}

    def ranges(self) -> ReportedRanges:
        """The ranges as the broker reports them: ascending, the boundaries taken two by two.

        A range of one slot has only one boundary, and so shifts the pairs after it. A pair with two consumers is left
        out, so the report can lack ranges that are served; `select` is not affected.
        """
        ends = zip(self._boundaries, self._boundaries[1:], self._owners, self._owners[1:], strict=False)
        pairs = islice(ends, 0, None, 2)
        return ReportedRanges.of((start, end, owner) for start, end, owner, end_owner in pairs if owner == end_owner)

    def select(self, sticky_hash: int) -> int | None:
        """The consumer that has both the boundary below (or at) the hash and the one above (or at) it."""
        slot = self._slot(sticky_hash)
        below = bisect_right(self._boundaries, slot) - 1
        above = bisect_left(self._boundaries, slot)
        if below < 0 or above == len(self._boundaries) or self._owners[below] != self._owners[above]:
            return None
        return self._owners[below]

    def routing(self) -> Routing:
        """The owner of every hash, gaps included."""
        stretches: list[HashRangeOf] = []
        for at, (boundary, owner) in enumerate(zip(self._boundaries, self._owners, strict=True)):
            follows = at > 0 and self._owners[at - 1] == owner
            stretches.append((self._boundaries[at - 1] + 1 if follows else boundary, boundary, owner))
        return routing_of_ranges(stretches, self._modulus)

    def promised(self) -> Routing:
        """The owner of every hash that a consumer declared; a gap is nobody's (contract 9.2, V12)."""
        declared = ((start, end, owner) for owner, ranges in self._declared.items() for start, end in ranges)
        disjoint: list[HashRangeOf] = []
        for start, end, owner in sorted(declared):
            if disjoint and start <= disjoint[-1][1]:
                # Only ranges of the same consumer overlap.
                first, last, _ = disjoint.pop()
                disjoint.append((first, max(end, last), owner))
            else:
                disjoint.append((start, end, owner))
        return routing_of_ranges(disjoint, self._modulus)

    def copy(self: _S) -> _S:
        """A selector in the same state that later joins and leaves of this one do not change."""
        twin = super().copy()
        twin._declared = dict(self._declared)
        return twin

    def _place(self, consumer: int, name: str, ranges: DeclaredRanges) -> None:
        declared = checked_ranges(name, ranges)
        for start, end in declared:
            holder = self._conflicting(start, end)
            if holder is not None:
                raise conflict(name, (start, end), holder)
        # The broker does not compare the ranges of one consumer with each other; shared boundaries are merged.
        boundaries = dict(zip(self._boundaries, self._owners, strict=True))
        boundaries |= {boundary: consumer for both in declared for boundary in both}
        self._boundaries = sorted(boundaries)
        self._owners = [boundaries[boundary] for boundary in self._boundaries]
        self._declared[consumer] = declared

    def _withdraw(self, consumer: int) -> None:
        del self._declared[consumer]
        kept = [at for at, owner in enumerate(self._owners) if owner != consumer]
        self._boundaries = [self._boundaries[at] for at in kept]
        self._owners = [self._owners[at] for at in kept]

    def _conflicting(self, start: int, end: int) -> int | None:
        """The consumer that a new range conflicts with: it has a boundary inside it, or a declared range around it."""
        inside = bisect_right(self._boundaries, end) - 1
        if inside >= 0 and self._boundaries[inside] >= start:
            return self._owners[inside]
        below, above = inside, bisect_left(self._boundaries, start)
        if below < 0 or above == len(self._boundaries) or self._owners[below] != self._owners[above]:
            return None
        surrounding = self._declared[self._owners[below]]
        return self._owners[below] if any(s <= end and start <= e for s, e in surrounding) else None
