"""`dispatch-audit diagnose`: says from the statistics of a broker who holds a subscription up."""

import sys
from typing import Annotated, Final, Literal

import typer

from dispatch_audit.jobs.api.diagnose import diagnose as run_diagnosis
from dispatch_audit.jobs.commands.options import DebugOption, EngineChoice, LogFormatOption, StorageOption
from dispatch_audit.jobs.reports import console, parse_reports, write_report
from dispatch_audit.jobs.stderr import errors_on_one_line
from dispatch_audit.pipeline.errors import UsageError

_FileFormat = Literal["text", "json", "html"]
_FILE_FORMATS: Final[tuple[_FileFormat, ...]] = ("text", "json", "html")
_INTERRUPTED: Final = "interrupted; nothing was diagnosed"
_PIPE: Final = "pulsar-admin topics stats TOPIC | dispatch-audit diagnose"
_KEPT: Final = "the diagnosis is on stdout"


def diagnose(
    files: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FILE",
            help="What `pulsar-admin topics stats` and `stats-internal` print, or metrics of a broker, as pasted, of "
            "one moment or several; - or nothing is standard input; a folder is one of record-stats.",
            show_default=False,
        ),
    ] = None,
    version: Annotated[
        str | None,
        typer.Option(
            "--version", metavar="V", help="Release of the broker, which decides the known bugs and the remedy."
        ),
    ] = None,
    report_format: Annotated[
        Literal["text", "json"], typer.Option("--format", help="Format of the answer on stdout.")
    ] = "text",
    report: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FORMAT=FILE",
            help="Also write the answer to a file: text, json or html. May be repeated.",
            show_default=False,
        ),
    ] = None,
    show: Annotated[
        int, typer.Option(metavar="N", min=0, help="Subscriptions that the text shows with all facts.")
    ] = 3,
    out: Annotated[
        str | None,
        typer.Option(
            metavar="TARGET",
            help="Also add the answers to the Delta table `diagnoses` of a folder, a URI or catalog.schema.",
            show_default=False,
        ),
    ] = None,
    fail_on: Annotated[
        Literal["proved", "compatible", "never"],
        typer.Option(
            help="Exit with 1 if the dumps prove that something holds messages up or that a counter cannot be "
            "(proved), or if they are at least compatible with it."
        ),
    ] = "proved",
    engine: EngineChoice = "auto",
    storage_option: StorageOption = None,
    log_format: LogFormatOption = "text",
    debug: DebugOption = False,
) -> None:
    """Says from a broker's statistics who holds messages up.

    It also says what is certain of that, and what would decide the rest.
    """
    with errors_on_one_line(debug, log_format, _INTERRUPTED, storage=storage_option):
        reports = parse_reports(report or (), _FILE_FORMATS)
        if not files and sys.stdin.isatty():
            raise UsageError("no file is named", f"pipe statistics into it: {_PIPE}; or name files with them")
        result = run_diagnosis(files or ["-"], version=version, fail_on=fail_on, out=out, engine=engine, debug=debug)
        for one in reports:
            write_report(one.path, f"{result.report(one.format, show=show)}\n".encode(), kept=_KEPT)
        if report_format == "json":
            typer.echo(result.report("json"))
        else:
            result.print_to(console(), show)
        raise typer.Exit(1 if result.failed else 0)
