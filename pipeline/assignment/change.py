"""A membership change, as far as an assignment depends on it."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from pipeline.errors import AssignmentError

if TYPE_CHECKING:
    from pipeline.assignment.selector import Selector

DeclaredRanges: TypeAlias = Sequence[tuple[int, int]]
"""(start, end) pairs that a STICKY consumer asks for, both ends inclusive."""


class Change(NamedTuple):
    """A membership change: who joins with which name and declared ranges, who leaves, or a reset of everything.

    A leave has the name and the ranges of its consumer.
    """

    kind: Literal["join", "leave", "reset"]
    consumer: int
    name: str
    ranges: DeclaredRanges = ()

    def touches(self, other: "Change") -> bool:
        """Whether a range that one consumer declares has a hash in common with a range of the other."""
        return any(start <= last and first <= end for start, end in self.ranges for first, last in other.ranges)

    def enter(self, selector: "Selector", fresh: Callable[[], "Selector"]) -> "Selector":
        """The selector behind the change; `selector` itself changes but for a reset, which needs a `fresh` one."""
        if self.kind == "reset":
            return fresh()
        if self.kind == "leave":
            selector.remove(self.consumer)
        else:
            # A join that the selector refuses is no change; that the broker did not refuse it shows in ownership.
            with suppress(AssignmentError):
                selector.add(self.consumer, self.name, self.ranges or None)
        return selector
