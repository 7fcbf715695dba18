"""Writes the reports of an audit: one to stdout, and others to files."""

import os
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from io import StringIO
from pathlib import Path
from typing import Generic, Literal, TypeVar, get_args

import typer
from pyspark.sql import SparkSession
from rich.console import Console

from dispatch_audit.pipeline.contract.fail_on import FailOn
from dispatch_audit.pipeline.errors import UsageError
from dispatch_audit.pipeline.report.ci.github import annotations, markdown
from dispatch_audit.pipeline.report.ci.junit import junit_report
from dispatch_audit.pipeline.report.ci.sarif import sarif_report
from dispatch_audit.pipeline.report.json_summary import json_summary
from dispatch_audit.pipeline.report.summary import Summary
from dispatch_audit.pipeline.report.text.layout import WHOLE_LINES
from dispatch_audit.pipeline.report.text.report import ReportOptions, print_report
from dispatch_audit.pipeline.run.run_key import code_version
from dispatch_audit.pipeline.trace import Trace

TextFormat = Literal["text", "json", "junit", "sarif"]
FileFormat = Literal["text", "json", "junit", "sarif", "html", "perfetto"]
Format = Literal["text", "json", "junit", "sarif", "github"]

FILE_FORMATS: tuple[FileFormat, ...] = get_args(FileFormat)
_Format = TypeVar("_Format", bound=str)
# The variable with the file for the page of a step; commands append to the file.
_STEP_SUMMARY = "GITHUB_STEP_SUMMARY"
_IN_THE_TABLES = "the audit is in the tables"


@dataclass(frozen=True)
class ReportFile(Generic[_Format]):
    """A report in a file."""

    format: _Format
    path: Path


def parse_reports(arguments: Sequence[str], formats: Sequence[_Format]) -> list[ReportFile[_Format]]:
    """Returns the report that each `FORMAT=FILE` names.

    Args:
        arguments: of `--report`.
        formats: those that the command writes to files.

    Raises:
        UsageError: the format does not exist, the folder of the file does not exist, or two reports name one file.
    """
    reports = [_report_file(argument, formats) for argument in arguments]
    files = Counter(report.path.absolute() for report in reports)
    for report in reports:
        if files[report.path.absolute()] > 1:
            raise UsageError(f"two reports name the file {report.path}", "give each --report a file of its own")
    return reports


def _report_file(argument: str, formats: Sequence[_Format]) -> ReportFile[_Format]:
    name, _, file = argument.partition("=")
    known = next((known for known in formats if known == name), None)
    if known is None or not file:
        raise UsageError(f"--report {argument} is not FORMAT=FILE", f"the formats are {', '.join(formats)}")
    path = Path(file)
    check_writable(path)
    return ReportFile(known, path)


def check_writable(file: Path) -> None:
    """Refuses a file that cannot be written, before the work begins, which may take hours.

    Raises:
        UsageError: it is a folder, or lies in none.
    """
    if file.is_dir():
        raise UsageError(f"cannot write {file}: it is a folder", "name a file")
    if not file.absolute().parent.is_dir():
        raise UsageError(f"cannot write {file}: its folder does not exist", "create the folder")


def write_reports(
    spark: SparkSession | None,
    summary: Summary,
    traces: Sequence[Trace],
    fail_on: FailOn,
    shown: Format,
    reports: Sequence[ReportFile[FileFormat]],
    text: ReportOptions,
    width: int | None = None,
) -> None:
    """Writes the report to its files, and then to stdout.

    Args:
        spark: the session; None is enough for tables below a local path.
        summary: of the audit.
        traces: the audited traces, in the order of the summary's runs.
        fail_on: what fails the audit.
        shown: the format on stdout. `github` also appends to the page of the step, if there is one.
        reports: the files.
        text: how much a text shows.
        width: columns to wrap a text at; None: those of the terminal, and none elsewhere.

    Raises:
        UsageError: a file cannot be written.
    """
    for report in reports:
        if report.format == "html":
            _write_pages(spark, summary, report.path)
        elif report.format == "perfetto":
            # Imported here like the page, because both read tables, whose packages other reports do not need.
            from dispatch_audit.pipeline.report.perfetto.build import perfetto_trace  # noqa: PLC0415

            write_report(report.path, perfetto_trace(spark, summary).encode())
        else:
            write_report(report.path, rendered_report(report.format, summary, traces, fail_on, text, width))
    if shown == "text":
        print_report(summary, console(width), replace(text, wrote=tuple(_named(summary, of) for of in reports)))
    elif shown == "github":
        # Bytes, because the locale may not be UTF-8.
        typer.echo(annotations(summary, traces).encode(), nl=False)
        if page := os.environ.get(_STEP_SUMMARY):
            write_report(Path(page), markdown(summary).encode(), mode="ab")
    else:
        typer.echo(rendered_report(shown, summary, traces, fail_on, text, width))


def console(width: int | None = None) -> Console:
    """Returns a console on stdout for texts.

    Args:
        width: columns to wrap at; None: those of a terminal, and whole lines elsewhere.
    """
    # Not `is_terminal` of rich, which FORCE_COLOR turns on where colours are wanted and nothing is to be wrapped.
    return Console(width=width or (None if sys.stdout.isatty() else WHOLE_LINES))


def _write_pages(spark: SparkSession | None, summary: Summary, path: Path) -> None:
    """Writes the page of each run; of several runs, each into a file with its key in the name, and an index of them."""
    # Imported here: few audits want a page, and the library of the charts takes 0.4 s.
    from dispatch_audit.pipeline.report.page.build import built_page  # noqa: PLC0415
    from dispatch_audit.pipeline.report.page.index import index_of  # noqa: PLC0415
    from dispatch_audit.pipeline.report.page.render import rendered  # noqa: PLC0415

    alone = len(summary.runs) == 1
    files = {run.run_key: path if alone else path.with_stem(f"{path.stem}-{run.run_key}") for run in summary.runs}
    for run in summary.runs:
        write_report(files[run.run_key], rendered(built_page(spark, summary.target, run)).encode())
    if not alone:
        write_report(path, index_of(summary, {key: file.name for key, file in files.items()}).encode())


def _named(summary: Summary, report: ReportFile[FileFormat]) -> str:
    """The file of a report, with those that were written besides."""
    pages = f" and {len(summary.runs):,} pages that it leads to, {report.path.stem}-*{report.path.suffix}"
    return f"{report.path}{pages if report.format == 'html' and len(summary.runs) > 1 else ''}"


def rendered_report(
    form: TextFormat,
    summary: Summary,
    traces: Sequence[Trace],
    fail_on: FailOn,
    shown: ReportOptions,
    width: int | None,
) -> bytes:
    """Returns a report as the bytes of its file; the arguments are those of `write_reports`."""
    if form == "junit":
        return junit_report(summary, fail_on)
    if form == "sarif":
        return sarif_report(summary, traces, code_version()).encode()
    if form == "json":
        return json_summary(summary).encode()
    # Nothing that differs from audit to audit.
    return as_text(lambda to_file: print_report(summary, to_file, replace(shown, took="", wrote=())), width).encode()


def as_text(show: Callable[[Console], None], width: int | None = None) -> str:
    """Returns what a function shows on a console, as it is written to a file.

    Args:
        show: the function.
        width: columns to wrap at; None: whole lines.
    """
    text = StringIO()
    # No colours in a file, even if FORCE_COLOR is set.
    show(Console(file=text, force_terminal=False, width=width or WHOLE_LINES))
    return text.getvalue()


def write_report(path: Path, report: bytes, mode: Literal["wb", "ab"] = "wb", kept: str = _IN_THE_TABLES) -> None:
    """Writes a report to a file.

    Args:
        path: the file.
        report: its content.
        mode: as `open` takes it.
        kept: where the result is if it cannot be written, as a clause.

    Raises:
        UsageError: the file cannot be written.
    """
    try:
        with path.open(mode) as file:
            file.write(report)
    except OSError as error:
        raise UsageError(
            f"cannot write {path}: {error.strerror}", f"{kept}; choose another file and run it again"
        ) from None
