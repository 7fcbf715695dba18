"""A membership change with the values that an assignment depends on."""

from collections.abc import Sequence
from typing import Literal, NamedTuple, TypeAlias

DeclaredRanges: TypeAlias = Sequence[tuple[int, int]]
"""(start, end) pairs that a STICKY consumer asks for, both ends inclusive."""


class Change(NamedTuple):
    """A join or leave with the name and the declared ranges of the consumer, or a reset."""

    kind: Literal["join", "leave", "reset"]
    consumer: int
    name: str
    ranges: DeclaredRanges = ()

    def touches(self, other: "Change") -> bool:
        """Whether a range that one consumer declares has a hash in common with a range of the other."""
        return any(start <= last and first <= end for start, end in self.ranges for first, last in other.ranges)
