"""`dispatch-audit diagnose`: says from the statistics of a broker who holds a subscription up."""

import sys
from io import StringIO
from typing import TYPE_CHECKING, Annotated, Final, Literal

import typer
from rich.console import Console

from dispatch_audit.jobs.commands.options import DebugOption, EngineChoice, LogFormatOption
from dispatch_audit.jobs.commands.preparation import EngineNeeds, session_for
from dispatch_audit.jobs.engines.choice import EngineOption
from dispatch_audit.jobs.engines.delta import needs_delta
from dispatch_audit.jobs.engines.load import Load
from dispatch_audit.jobs.reports import console, parse_reports, write_report
from dispatch_audit.jobs.stderr import errors_on_one_line
from dispatch_audit.pipeline.report.text.layout import WHOLE_LINES
from dispatch_audit.pipeline.tables.target import parse_target

if TYPE_CHECKING:
    from dispatch_audit.pipeline.statistics.diagnose import Result

_FileFormat = Literal["text", "json", "html"]
_FILE_FORMATS: Final[tuple[_FileFormat, ...]] = ("text", "json", "html")
_INTERRUPTED: Final = "interrupted; nothing was diagnosed"
_KEPT: Final = "the diagnosis is on stdout"


def diagnose(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE",
            help="What `pulsar-admin topics stats` and `stats-internal` print, as pasted, of one moment or several; - "
            "is standard input; a folder is one of record-stats.",
            show_default=False,
        ),
    ],
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
    log_format: LogFormatOption = "text",
    debug: DebugOption = False,
) -> None:
    """Says from a broker's statistics who holds messages up.

    It also says what is certain of that, and what would decide the rest.
    """
    with errors_on_one_line(debug, log_format, _INTERRUPTED):
        # Imported here, because the other commands need nothing of it.
        from dispatch_audit.pipeline.statistics.diagnose import diagnose as run_diagnosis  # noqa: PLC0415
        from dispatch_audit.pipeline.statistics.files import inputs_of  # noqa: PLC0415

        reports = parse_reports(report or (), _FILE_FORMATS)
        if out is not None:
            parse_target(out)
        result = run_diagnosis(inputs_of(files, sys.stdin.buffer), version)
        for one in reports:
            write_report(one.path, f"{_rendered(one.format, result, show)}\n".encode(), kept=_KEPT)
        if out is not None:
            _write_table(result, out, engine, debug)
        if report_format == "json":
            typer.echo(_rendered("json", result, show))
        else:
            _print(result, console(), show)
        raise typer.Exit(1 if _fails(result, fail_on) else 0)


def _print(result: "Result", to: Console, show: int) -> None:
    # Imported here, because the other commands need nothing of it.
    from dispatch_audit.pipeline.statistics.output.text import print_diagnoses  # noqa: PLC0415

    print_diagnoses(result, to, show)


def _rendered(form: _FileFormat, result: "Result", show: int) -> str:
    if form == "json":
        # Imported here, because the other commands need nothing of it.
        from dispatch_audit.pipeline.statistics.output.as_json import json_diagnoses  # noqa: PLC0415

        return json_diagnoses(result)
    if form == "html":
        # Imported here: the library of the charts, whose look the page has, takes 0.4 s.
        from dispatch_audit.pipeline.statistics.output.page import page_of  # noqa: PLC0415

        return page_of(result)
    text = StringIO()
    # No colours in a file, even if FORCE_COLOR is set.
    _print(result, Console(file=text, force_terminal=False, width=WHOLE_LINES), show)
    return text.getvalue().rstrip("\n")


def _write_table(result: "Result", out: str, engine: EngineOption, debug: bool) -> None:
    # Imported here, because few diagnoses are kept, and Delta takes half a second.
    from dispatch_audit.pipeline.statistics.output.table import write_diagnoses  # noqa: PLC0415

    target = parse_target(out)
    needs, spark = EngineNeeds(Load.BRIEF, needs_delta(target, ())), None
    if not target.local:
        spark = session_for(engine, needs, debug, meanwhile_import="dispatch_audit.pipeline.statistics.output.table")
    write_diagnoses(result, target, spark)


def _fails(result: "Result", fail_on: str) -> bool:
    if fail_on == "compatible":
        return any(diagnosis.certainty is not None for diagnosis in result.diagnoses)
    return fail_on == "proved" and result.is_alarm
