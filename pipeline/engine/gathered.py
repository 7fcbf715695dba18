"""Brings small things together before each of them costs something by itself: a message, a batch, a call."""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

_Item = TypeVar("_Item")


def gathered(items: Iterable[_Item], size: Callable[[_Item], int], enough: int) -> Iterator[list[_Item]]:
    """Yields items in lists, each as soon as it is large enough; the last one may be smaller, none is empty.

    Args:
        items: in their order.
        size: of one, in any unit.
        enough: the size of a list from which on it is yielded, in that unit.
    """
    together: list[_Item] = []
    total = 0
    for item in items:
        together.append(item)
        total += size(item)
        if total >= enough:
            yield together
            together, total = [], 0
    if together:
        yield together
