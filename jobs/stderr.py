"""What a command says beside its report: errors and remarks, a line each, or an object each if it logs."""

import logging
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Literal

import typer

from jobs.logs import json_logs
from pipeline.errors import DispatchAuditError
from pipeline.spark_errors import reason_of

NAME = "dispatch-audit"
LogFormat = Literal["text", "json"]

# What a shell reports of a program that Ctrl-C ended. Not 1, which would say that there are findings.
_INTERRUPTED = 130

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Stderr:
    """Where a command says it.

    Attributes:
        form: lines for people, or what `jobs.logs` makes of a log.
    """

    form: LogFormat

    def error(self, message: str, exit_code: int) -> int:
        """Tells an error; returns the exit code that it asks for."""
        if self.form == "json":
            _log.error(message, extra={"exit_code": exit_code})
        else:
            typer.echo(f"{NAME}: error: {message}", err=True)
        return exit_code

    def remark(self, message: str) -> None:
        """Tells what somebody should know, and what is no error."""
        if self.form == "json":
            _log.warning(message)
        else:
            typer.echo(f"{NAME}: {message}", err=True)


@contextmanager
def errors_on_one_line(debug: bool, form: LogFormat) -> Iterator[Stderr]:
    """Tells what is raised inside as one line, and exits with its code.

    Args:
        debug: show tracebacks too.
        form: of what is told.
    """
    stderr = Stderr(form)
    with json_logs() if form == "json" else nullcontext():
        try:
            yield stderr
        except typer.Exit:
            raise
        except KeyboardInterrupt:
            message = "interrupted; what has no row in `runs` was not audited: run it again"
            raise typer.Exit(stderr.error(message, _INTERRUPTED)) from None
        except DispatchAuditError as error:
            if debug:
                traceback.print_exc()
            raise typer.Exit(stderr.error(str(error), error.exit_code)) from None
        except Exception as error:
            if debug:
                traceback.print_exc()
            where = "see the traceback" if debug else "--debug shows where"
            message = f"internal error: {type(error).__name__}: {reason_of(error)}; {where}"
            raise typer.Exit(stderr.error(message, DispatchAuditError.exit_code)) from None
