"""STICKY: each consumer declares hash ranges and owns them alone.

Source: contract 2.4; Pulsar's `HashRangeExclusiveStickyKeyConsumerSelector` with #24730.
"""

from bisect import bisect_right
from itertools import pairwise

from dispatch_audit.pipeline.assignment.ranges.membership_change import DeclaredRanges
from dispatch_audit.pipeline.assignment.ranges.reported_ranges import ReportedRanges
from dispatch_audit.pipeline.assignment.ranges.routing import HashRangeOf, Routing, routing_of_ranges
from dispatch_audit.pipeline.assignment.selectors.selector import SlotSelector
from dispatch_audit.pipeline.checkpointed import checkpointed
from dispatch_audit.pipeline.errors import AssignmentError


@checkpointed("exclusive")
class Exclusive(SlotSelector):
    """Disjoint ranges; a hash outside of all of them goes to nobody.

    A join or leave moves no hash between consumers. In a conflict the broker also checks whether the other consumer is
    still connected; this is not known here, so the caller has to remove a dead consumer before.
    """

    __slots__ = ("_ranges",)

    def __init__(self, modulus: int = 0) -> None:
        super().__init__(modulus)
        self._ranges: list[HashRangeOf] = []

    def ranges(self) -> ReportedRanges:
        """The ranges as the broker reports them: ascending, as they were declared."""
        return ReportedRanges.of(self._ranges)

    def select(self, sticky_hash: int) -> int | None:
        """The consumer that declared a range with this hash."""
        slot = self._slot(sticky_hash)
        found = self._range_from(slot)
        return found[2] if found is not None and slot <= found[1] else None

    def routing(self) -> Routing:
        """The owner of every hash."""
        return routing_of_ranges(self._ranges, self._modulus)

    def _place(self, consumer: int, name: str, ranges: DeclaredRanges) -> None:
        declared = checked_ranges(name, ranges)
        for (start, end), (next_start, next_end) in pairwise(declared):
            if next_start <= end:
                raise AssignmentError(f"{name} declares [{start}, {end}] and [{next_start}, {next_end}], which overlap")
        for start, end in declared:
            # The ranges are disjoint: the last one that starts at or below `end` reaches highest.
            below = self._range_from(end)
            if below is not None and below[1] >= start:
                raise conflict(name, (start, end), below[2])
        self._ranges = sorted([*self._ranges, *((start, end, consumer) for start, end in declared)])

    def _withdraw(self, consumer: int) -> None:
        self._ranges = [declared for declared in self._ranges if declared[2] != consumer]

    def _range_from(self, slot: int) -> HashRangeOf | None:
        """The range with the highest start that is not above `slot`."""
        at = bisect_right(self._ranges, slot, key=lambda declared: declared[0])
        return self._ranges[at - 1] if at else None


def checked_ranges(name: str, ranges: DeclaredRanges) -> list[tuple[int, int]]:
    """The ranges that a STICKY consumer declares, ascending.

    Raises:
        AssignmentError: there is no range, or one ends before it starts.
    """
    if not ranges:
        raise AssignmentError(f"{name} declares no hash range")
    for start, end in ranges:
        if start > end:
            raise AssignmentError(f"{name} declares [{start}, {end}], which ends before it starts")
    return sorted((start, end) for start, end in ranges)


def conflict(name: str, declared: tuple[int, int], holder: int) -> AssignmentError:
    """The refusal of a range that overlaps with that of another consumer."""
    return AssignmentError(f"{name} declares [{declared[0]}, {declared[1]}], held by consumer {holder} in part")
