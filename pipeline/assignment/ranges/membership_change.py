"""A membership change, as far as an assignment depends on it."""

from collections.abc import Sequence
from typing import Literal, NamedTuple, TypeAlias

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
