"""Several statements at one time.

Much of a small statement's time is planning, which Spark does in the thread that asks; while one is planned,
another can use the cores.
"""

from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Thread
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


def both(brief: Callable[[], First], long: Callable[[], Second]) -> tuple[First, Second]:
    """Does two different things at one time.

    Args:
        brief: takes seconds. If it fails its error is raised at once, and what `long` has begun is of no use any more.
        long: may take much longer. Spark has no way of ending its jobs, and no others of the session, that the classic
            client and Connect share, so they go on until they, or the session, end.
    """
    done: Future[Second] = Future()

    def work() -> None:
        try:
            done.set_result(long())
        except BaseException as error:  # handed on to whoever waits
            done.set_exception(error)

    # Of a pool the process would wait for the thread before it ends.
    Thread(target=work, daemon=True).start()
    return brief(), done.result()
