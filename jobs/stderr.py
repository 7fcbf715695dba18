"""Writes errors, warnings and notes to stderr: a line each, or a JSON object each with `--log-format json`."""

import logging
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

import typer

from dispatch_audit.jobs.interruption import INTERRUPTED, line_on_interrupt, wait_if_interrupted
from dispatch_audit.jobs.logs import LOGGER, json_logs, json_of_error
from dispatch_audit.jobs.one_error import reported
from dispatch_audit.pipeline.errors import InternalError
from dispatch_audit.pipeline.messages.written_out import written_out
from dispatch_audit.pipeline.storage.options import options_given, parsed_options, without_values

NAME = "dispatch-audit"
LogFormat = Literal["text", "json"]

_RUN_AGAIN = "interrupted; run it again"

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
            typer.echo(written_out(f"{NAME}: error: {message}"), err=True)
        return exit_code

    def line(self, message: str, exit_code: int) -> bytes:
        """Returns an error as `error` writes it."""
        text = json_of_error(message, exit_code) if self.form == "json" else written_out(f"{NAME}: error: {message}")
        return f"{text}\n".encode()

    def note(self, message: str) -> None:
        """Writes what was done besides the result on stdout."""
        if self.form == "json":
            _log.info(message)
        else:
            typer.echo(written_out(f"{NAME}: {message}"), err=True)


class _Lines(logging.Handler):
    """Writes each record as a line."""

    def emit(self, record: logging.LogRecord) -> None:
        """Writes a record."""
        typer.echo(written_out(f"{NAME}: {record.getMessage()}"), err=True)


@contextmanager
def _warnings_in_lines() -> Iterator[None]:
    """Writes the warnings that this project logs to stderr while its body runs."""
    logger, handler = logging.getLogger(LOGGER), _Lines(logging.WARNING)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)


@contextmanager
def errors_on_one_line(
    debug: bool, form: LogFormat, interrupted: str = _RUN_AGAIN, *, storage: Sequence[str] | None = None
) -> Iterator[Stderr]:
    """Writes an error that its body raises as one line, and exits with the code of the error.

    Args:
        debug: whether to show tracebacks too.
        form: of the messages.
        interrupted: the message after Ctrl-C.
        storage: `--storage-option`, which hold for the body.
    """
    stderr = Stderr(form)
    logs = json_logs() if form == "json" else _warnings_in_lines()
    with logs, line_on_interrupt(lambda: stderr.line(interrupted, INTERRUPTED)):
        try:
            with options_given(parsed_options(storage)):
                yield stderr
        except typer.Exit:
            raise
        except KeyboardInterrupt:
            wait_if_interrupted()
            raise typer.Exit(stderr.error(interrupted, INTERRUPTED)) from None
        except Exception as error:
            if debug:
                typer.echo(without_values(traceback.format_exc()), nl=False, err=True)
            found = reported(error)
            if isinstance(found, InternalError):
                found.way_out = "see the traceback" if debug else "--debug shows where"
            raise typer.Exit(stderr.error(str(found), found.exit_code)) from None
