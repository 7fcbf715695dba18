"""The command line: turns arguments into a request, and a result into a report and an exit code.

Only the report goes to stdout. Progress, logs and errors go to stderr; an error is one line that ends with the next
step. Exit codes: 0 no condition of `--fail-on` holds, 1 one does, 2 usage or configuration, 3 a trace cannot be audited
(others are), 4 a fault of the audit itself, or another audit of the same traces and settings wrote the run at the same
time, 130 Ctrl-C.
"""

import gc
import sys
from collections.abc import Sequence
from typing import Annotated, NoReturn

import typer
from pydantic import ValidationError

from dispatch_audit.jobs.commands.audit import audit
from dispatch_audit.jobs.commands.convert import convert
from dispatch_audit.jobs.commands.diagnose import diagnose
from dispatch_audit.jobs.commands.explain import explain
from dispatch_audit.jobs.commands.init import init
from dispatch_audit.jobs.commands.record_stats import record_stats
from dispatch_audit.jobs.commands.report import report
from dispatch_audit.jobs.commands.simulate import simulate
from dispatch_audit.jobs.commands.validate import validate
from dispatch_audit.jobs.commands.what_if import what_if
from dispatch_audit.jobs.stderr import NAME, Stderr
from dispatch_audit.pipeline.messages.model_errors import value_in_words
from dispatch_audit.pipeline.run.run_key import code_version

_USAGE = 2
# The number of new objects after which Python looks for garbage among them.
_NEW_OBJECTS_MIN = 50_000

app = typer.Typer(
    name=NAME,
    help="Audits recorded Apache Pulsar Key_Shared dispatch traces.",
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
for command in (audit, diagnose, validate, init, report, explain, convert, record_stats, simulate, what_if):
    app.command()(command)


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Runs the command line and exits.

    Args:
        arguments: without the name of the program; None: those of the process.
    """
    # Imports stay until the end; to look through them again and again took 8 % of a short audit (docs/TRIED.md).
    gc.set_threshold(_NEW_OBJECTS_MIN)
    try:
        sys.exit(app(args=arguments, prog_name=NAME, standalone_mode=False))
    except typer.TyperException as error:
        sys.exit(Stderr("text").error(f"{_in_words(error).rstrip('.')}; see {NAME} --help", _USAGE))


def _in_words(error: typer.TyperException) -> str:
    """Returns what is wrong with the arguments, without the Python terms that pydantic uses for their values."""
    if isinstance(error, typer.BadParameter) and isinstance(error.__cause__, ValidationError) and error.param:
        return value_in_words(error.param.opts[0], error.__cause__)
    return error.format_message()


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"{NAME} {code_version()}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _without_command(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help(), err=True)
        raise typer.Exit(_USAGE)


if __name__ == "__main__":
    main()
