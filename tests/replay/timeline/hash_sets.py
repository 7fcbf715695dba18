"""Sets of hashes as ascending ranges with both ends inclusive, and what two assignments make of them."""

from collections.abc import Iterable, Mapping
from typing import TypeAlias

Range: TypeAlias = tuple[int, int]
Owned: TypeAlias = Mapping[int, list[Range]]
"""By consumer the hashes that it owns."""


def fused(ranges: Iterable[Range]) -> list[Range]:
    """The same hashes in as few ranges as there can be, ascending."""
    made: list[Range] = []
    for start, end in sorted(ranges):
        if made and start <= made[-1][1] + 1:
            made[-1] = made[-1][0], max(made[-1][1], end)
        else:
            made.append((start, end))
    return made


def without(ranges: Iterable[Range], others: Iterable[Range]) -> list[Range]:
    """The hashes of the first that are not in the second."""
    left: list[Range] = []
    taken = fused(others)
    # Both ascend: what ends before a range ends before all that follow, so that no range looks at it again.
    at = 0
    for begin, end in fused(ranges):
        while at < len(taken) and taken[at][1] < begin:
            at += 1
        start, place = begin, at
        while place < len(taken) and taken[place][0] <= end:
            if start < taken[place][0]:
                left.append((start, taken[place][0] - 1))
            start = taken[place][1] + 1
            place += 1
        if start <= end:
            left.append((start, end))
    return left


def size(ranges: Iterable[Range]) -> int:
    """How many hashes there are."""
    return sum(end - start + 1 for start, end in fused(ranges))


def contains(ranges: Iterable[Range], sticky_hash: int) -> bool:
    """Whether the hash is one of them."""
    return any(start <= sticky_hash <= end for start, end in ranges)


def agree(some: Owned, others: Owned, besides: Iterable[Range] = ()) -> bool:
    """Whether each hash has the same owner in both, or none in both, leaving out the hashes `besides`."""
    left_out = fused(besides)

    def judged(owned: Owned) -> dict[int, list[Range]]:
        of_each = {consumer: without(ranges, left_out) for consumer, ranges in owned.items()}
        return {consumer: ranges for consumer, ranges in of_each.items() if ranges}

    return judged(some) == judged(others)
