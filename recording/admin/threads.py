"""Calls a function in threads, a few at a time, without waiting for a call when it is to end."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from itertools import islice
from threading import Event, Thread
from typing import Final, TypeVar

_T = TypeVar("_T")
_R = TypeVar("_R")

_LOOK_S: Final = 0.2
"""How often it looks whether it is to end."""


def called_in_threads(
    function: Callable[[_T], _R], arguments: Iterable[_T], at_a_time: int, stop: Event
) -> Iterator[_R]:
    """Yields what a function returns for each argument, in the order in which the calls end.

    A broker that hangs answers late or never. So nothing waits for calls that have not ended when `stop` is set: no
    executor, whose threads the interpreter would join at its end.

    Args:
        function: called in threads.
        arguments: taken in the thread of the caller, one when its call begins.
        at_a_time: calls that run beside each other.
        stop: ends it.
    """
    waiting = iter(arguments)

    def begun(count: int) -> set[Future[_R]]:
        return {_begun(function, argument) for argument in islice(waiting, count)}

    running = begun(at_a_time)
    while running and not stop.is_set():
        done, running = wait(running, _LOOK_S, FIRST_COMPLETED)
        # As many new ones as have ended, so that results do not pile up while the caller works on them.
        for one in done:
            yield one.result()
        running |= begun(len(done))


def _begun(function: Callable[[_T], _R], argument: _T) -> Future[_R]:
    future: Future[_R] = Future()

    def call() -> None:
        try:
            future.set_result(function(argument))
        # Raised where the result is asked for.
        except Exception as error:
            future.set_exception(error)

    Thread(target=call, name="record-stats", daemon=True).start()
    return future
