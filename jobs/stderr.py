"""Writes errors, warnings and notes to stderr: a line each, or a JSON object each with `--log-format json`."""

import logging
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Literal

import typer

from dispatch_audit.jobs.interruption import INTERRUPTED, line_on_interrupt, wait_if_interrupted
from dispatch_audit.jobs.logs import json_logs, json_of_error
from dispatch_audit.pipeline.errors import DispatchAuditError, UsageError
from dispatch_audit.pipeline.spark_errors import reason_of

NAME = "dispatch-audit"
LogFormat = Literal["text", "json"]

_RUN_AGAIN = "interrupted; run it again"
# ENOSPC and EDQUOT, in the words of the C library.
_FULL_DISK = ("No space left on device", "Disk quota exceeded")
_MAKE_ROOM = "make room where it writes, and in the temporary folder (TMPDIR), and run it again"

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Stderr:
    """Writes messages to stderr.

    Attributes:
        form: lines of text, or the JSON objects of `dispatch_audit.jobs.logs`.
    """

    form: LogFormat

    def error(self, message: str, exit_code: int) -> int:
        """Writes an error; returns its exit code."""
        if self.form == "json":
            _log.error(message, extra={"exit_code": exit_code})
        else:
            typer.echo(f"{NAME}: error: {message}", err=True)
        return exit_code

    def line(self, message: str, exit_code: int) -> bytes:
        """Returns an error as `error` writes it."""
        text = json_of_error(message, exit_code) if self.form == "json" else f"{NAME}: error: {message}"
        return f"{text}\n".encode()

    def warning(self, message: str) -> None:
        """Writes a warning."""
        self._write(logging.WARNING, message)

    def note(self, message: str) -> None:
        """Writes what was done besides the result on stdout."""
        self._write(logging.INFO, message)

    def _write(self, level: int, message: str) -> None:
        if self.form == "json":
            _log.log(level, message)
        else:
            typer.echo(f"{NAME}: {message}", err=True)


@contextmanager
def errors_on_one_line(debug: bool, form: LogFormat, interrupted: str = _RUN_AGAIN) -> Iterator[Stderr]:
    """Writes an error that its body raises as one line, and exits with the code of the error.

    Args:
        debug: whether to show tracebacks too.
        form: of the messages.
        interrupted: the message after Ctrl-C.
    """
    stderr = Stderr(form)
    logs = json_logs() if form == "json" else nullcontext()
    with logs, line_on_interrupt(lambda: stderr.line(interrupted, INTERRUPTED)):
        try:
            yield stderr
        except typer.Exit:
            raise
        except KeyboardInterrupt:
            wait_if_interrupted()
            raise typer.Exit(stderr.error(interrupted, INTERRUPTED)) from None
        except Exception as error:
            if debug:
                traceback.print_exc()
            reported = error if isinstance(error, DispatchAuditError) else _unexpected(error, debug)
            reported = _full_disk(error) or reported
            raise typer.Exit(stderr.error(str(reported), reported.exit_code)) from None


def _unexpected(error: Exception, debug: bool) -> DispatchAuditError:
    where = "see the traceback" if debug else "--debug shows where"
    return DispatchAuditError(f"internal error: {type(error).__name__}: {reason_of(error)}", where)


def _full_disk(error: BaseException | None) -> UsageError | None:
    """Returns the error for a disk without room, if that is the cause: engines and tables only pass its text on."""
    if isinstance(error, UsageError) and any(reason in str(error) for reason in _FULL_DISK):
        # Its message already names the file and a way out.
        return None
    while error is not None:
        if reason := next((reason for reason in _FULL_DISK if reason in str(error)), None):
            return UsageError(f"a disk is full: {reason}", _MAKE_ROOM)
        error = error.__cause__ or error.__context__
    return None
