"""Delta debugging: finds a part of some units that keeps a property, and loses it without any one of its units.

Source: Zeller and Hildebrandt, "Simplifying and Isolating Failure-Inducing Input" (2002), ddmin by complements.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TypeVar

Unit = TypeVar("Unit")


def minimized(units: Sequence[Unit], holds: Callable[[Sequence[Unit]], bool]) -> list[Unit]:
    """Returns units that have the property, and lose it without any one of them.

    Args:
        units: they have the property together.
        holds: whether some of them, in their order, have it. If it answers False from some point on, the search ends
            with the fewest units found so far.
    """
    kept, parts = list(units), 2
    while kept:
        parts = min(parts, len(kept))
        bounds = [len(kept) * number // parts for number in range(parts + 1)]
        for begin, end in pairwise(bounds):
            rest = kept[:begin] + kept[end:]
            if holds(rest):
                kept, parts = rest, max(parts - 1, 2)
                break
        else:
            if parts == len(kept):
                break
            parts *= 2
    return kept
