"""Ends the process of the command line on Ctrl-C, for all commands and from the first import on.

Nothing is unwound. SIGINT reaches the embedded engine too, which ends by itself, and the client of Spark Connect then
calls it again for minutes: in threads that pools wait for, and in what both sides do when the interpreter ends. Tables
and staging areas are made so that an audit may be killed at any moment, so Ctrl-C does what a kill does, with a message
and an exit code. The JVM of a local Spark and the workers of the embedded engine end when this process has ended.

A thread ends the process, because a handler in Python waits for the main thread, which may be in compiled code. It
takes no lock and imports nothing, because the other threads may hold any lock.

Only `dispatch_audit.jobs.program` calls `end_on_interrupt`. In a notebook, on Databricks and below spark-submit, Ctrl-C
belongs to the program around the audit.
"""

import atexit
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import FrameType
from typing import Any, Final

INTERRUPTED: Final = 130
"""The exit code that a shell reports after Ctrl-C. Not 1, which means findings."""

_Handler = Callable[[int, FrameType | None], Any] | int | signal.Handlers | None

# The display of progress hides the cursor.
_SHOW_CURSOR: Final = b"\x1b[?25h"


@dataclass
class _Watch:
    """What the thread knows that ends the process.

    Attributes:
        stderr: a copy of its descriptor, because the start of a JVM redirects the common one.
        line: returns the message as it is written to stderr.
    """

    stderr: int
    line: Callable[[], bytes]

    def wait_and_end(self, woken: int) -> None:
        """Ends the process with the first SIGINT.

        Args:
            woken: the descriptor from which the numbers of signals are read.
        """
        while os.read(woken, 1)[0] != signal.SIGINT:
            pass
        # Other threads and processes that fail now must print nothing.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        # A terminal that is stopped takes no message, and must not keep the process.
        os.set_blocking(self.stderr, False)
        with suppress(OSError):
            os.write(self.stderr, (_SHOW_CURSOR if os.isatty(self.stderr) else b"") + self.line())
        os._exit(INTERRUPTED)


_WATCH: _Watch | None = None


def end_on_interrupt() -> None:
    """Makes Ctrl-C end this process with a message and exit code 130, from now on.

    Call it once, in the main thread. Nothing changes where SIGINT is ignored, as it is for a job in the background of a
    shell.
    """
    global _WATCH  # noqa: PLW0603 - a process has one SIGINT
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        return
    woken, wakes = os.pipe()
    os.set_blocking(wakes, False)
    _WATCH = _Watch(os.dup(2), lambda: b"dispatch-audit: error: interrupted\n")
    threading.Thread(target=_WATCH.wait_and_end, args=(woken,), daemon=True).start()
    signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
    signal.signal(signal.SIGINT, _wait_for_the_end)
    # Runs last at exit: the interpreter would restore the default handler, which ends the process without this code.
    atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)


def wait_if_interrupted() -> None:
    """Waits for the end of the process if `end_on_interrupt` was called; else returns.

    For a `KeyboardInterrupt`, which the handler of a library may raise in the main thread before the process ends.
    """
    if _WATCH is not None:
        _wait_for_the_end()


@contextmanager
def line_on_interrupt(line: Callable[[], bytes]) -> Iterator[None]:
    """Lets `line` return the message of an interrupt during its body; it takes no lock and imports nothing."""
    if _WATCH is None:
        yield
        return
    before, _WATCH.line = _WATCH.line, line
    try:
        yield
    finally:
        _WATCH.line = before


@contextmanager
def interrupt_left_to_handlers() -> Iterator[None]:
    """Leaves Ctrl-C to the handlers of `signal.signal` during its body."""
    before = signal.set_wakeup_fd(-1)
    try:
        yield
    finally:
        signal.set_wakeup_fd(before)


@contextmanager
def handler_kept() -> Iterator[None]:
    """Keeps the handler of `end_on_interrupt` while its body starts an engine.

    PySpark's would call the JVM in the midst of another call, and report what fails then with a traceback. PySpark has
    no setting for that, so its call is caught; a child in which PySpark ignores the signal is another process.
    """
    if _WATCH is None:
        yield
        return
    process, set_handler = os.getpid(), signal.signal

    def set_others(signalnum: int, handler: _Handler) -> _Handler:
        if signalnum == signal.SIGINT and os.getpid() == process:
            return signal.getsignal(signalnum)
        return set_handler(signalnum, handler)

    signal.signal = set_others
    try:
        yield
    finally:
        signal.signal = set_handler


def _wait_for_the_end(*_: object) -> None:
    """Keeps the main thread from printing anything, such as that a child process was interrupted too."""
    threading.Event().wait()
