"""`dispatch-audit report`: writes the page of a run, or other reports of it."""

from pathlib import Path
from typing import Annotated, Final, Literal

import typer

from dispatch_audit.jobs.api.arguments import DEFAULT_TARGET
from dispatch_audit.jobs.api.audit import read_audit
from dispatch_audit.jobs.commands.options import DebugOption, EngineChoice, StorageOption
from dispatch_audit.jobs.reports import parse_reports, write_report
from dispatch_audit.jobs.stderr import errors_on_one_line

# Not SARIF, which names the lines of traces: an audit that is read back has no traces.
_FileFormat = Literal["html", "perfetto", "text", "json", "junit"]
_FILE_FORMATS: Final[tuple[_FileFormat, ...]] = ("html", "perfetto", "text", "json", "junit")
_PAGE: Final = Path("dispatch-audit.html")


def report(
    target: Annotated[str, typer.Argument(metavar="TARGET", help="Where an audit wrote its tables.")] = DEFAULT_TARGET,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help=f"The page, one HTML file; by default {_PAGE}.", show_default=False),
    ] = None,
    report_format: Annotated[
        list[str] | None,
        typer.Option(
            "--format",
            metavar="FORMAT=FILE",
            help="Write another report instead of the page, or besides --out: perfetto (a time line for the viewers of "
            "Perfetto and Chrome), html, text, json or junit. May be repeated.",
            show_default=False,
        ),
    ] = None,
    run: Annotated[
        str | None,
        typer.Option(metavar="KEY", help="The run; by default the one that ended last.", show_default=False),
    ] = None,
    engine: EngineChoice = "auto",
    storage_option: StorageOption = None,
    debug: DebugOption = False,
) -> None:
    """Writes the page of a run, or the same in other forms.

    The page has the findings with their evidence, who blocked whom, and charts.
    """
    with errors_on_one_line(debug, "text", storage=storage_option):
        page = out or (None if report_format else _PAGE)
        reports = parse_reports([*([f"html={page}"] if page else ()), *(report_format or ())], _FILE_FORMATS)
        audit = read_audit(target, run=run, engine=engine, debug=debug)
        for file in reports:
            write_report(file.path, audit.report(file.format).encode())
            typer.echo(f"wrote {file.path}", err=True)
        raise typer.Exit
