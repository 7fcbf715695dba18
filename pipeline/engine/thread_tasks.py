"""Functions that the embedded engine runs in threads of this process, and the wait for them at its end.

Also a function that hands its batches to a process of its own does so from such a thread.

If one task fails, the engine reports that at once and leaves the other tasks running. A thread that wants to run Python
while the interpreter ends is unwound through the engine's native code, which aborts the process with exit code 134.
"""

import atexit
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from dispatch_audit.pipeline.engine.worker_process import Batches, Function

_WAIT_S: Final = 60.0
"""Longest wait at the end; only brief work runs in threads."""

_CHANGED: Final = threading.Condition()
_RUNNING: Final = set[object]()


def in_threads(function: Function) -> Function:
    """Returns a function that does the same, and that the end of the process waits for."""

    def run(batches: Batches) -> Batches:
        with noted():
            yield from function(batches)

    return run


@contextmanager
def noted() -> Iterator[None]:
    """Makes the end of the process wait for its body."""
    task = object()
    with _CHANGED:
        _RUNNING.add(task)
    try:
        yield
    finally:
        with _CHANGED:
            _RUNNING.discard(task)
            _CHANGED.notify_all()


@atexit.register
def _wait_for_tasks() -> None:
    with _CHANGED:
        _CHANGED.wait_for(lambda: not _RUNNING, _WAIT_S)
