"""Several statements at one time.

Much of a small statement's time is planning, which Spark does in the thread that asks; while one is planned,
another can use the cores.
"""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")
First = TypeVar("First")
Second = TypeVar("Second")

# Four keep two cores busy; eight were no faster.
_THREADS = 4


def at_one_time(work: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
    """Does `work` for every item; all are finished before the first error, by the order of items, is raised."""
    with ThreadPoolExecutor(_THREADS) as threads:
        pending = [threads.submit(work, item) for item in items]
    return [done.result() for done in pending]


def both(first: Callable[[], First], second: Callable[[], Second]) -> tuple[First, Second]:
    """Does two different things; both are finished before the first error is raised."""
    with ThreadPoolExecutor(2) as threads:
        one, other = threads.submit(first), threads.submit(second)
    return one.result(), other.result()
