"""Runs several statements at one time.

Spark plans a statement in the calling thread, and a small one takes most of its time there. While one statement is
planned, another can use the cores.
"""

from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from threading import Thread
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")
First = TypeVar("First")
Second = TypeVar("Second")

# Four keep two cores busy; eight were no faster.
_THREADS = 4


def at_one_time(work: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
    """Returns `work` of every item, in their order.

    After an error no further item is begun, and those that were begun are finished before it is raised: that of the
    first item that failed.
    """
    with ThreadPoolExecutor(_THREADS) as threads:
        pending = [threads.submit(work, item) for item in items]
        wait(pending, return_when=FIRST_EXCEPTION)
        threads.shutdown(cancel_futures=True)
    # Those that were never begun come last, after the error.
    return [done.result() for done in sorted(pending, key=Future.cancelled)]


def both(brief: Callable[[], First], long: Callable[[], Second]) -> tuple[First, Second]:
    """Returns the results of two functions that run at one time.

    Args:
        brief: takes seconds. If it fails, its error is raised at once and the result of `long` is lost.
        long: may take much longer. The classic client and Connect share no way of ending only its Spark jobs, so these
            run on until they, or the session, end.
    """
    done: Future[Second] = Future()

    def work() -> None:
        try:
            done.set_result(long())
        except BaseException as error:  # raised again by `done.result()`
            done.set_exception(error)

    # A daemon thread and no pool: the process would wait for a pool's thread before it ends.
    Thread(target=work, daemon=True).start()
    return brief(), done.result()
