"""Where a report goes: to stdout in one format, and to files in others, all of one audit."""

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Literal, get_args

import typer
from rich.console import Console

from pipeline.contract.severity import FailOn
from pipeline.errors import UsageError
from pipeline.report.github import annotations, markdown
from pipeline.report.json_summary import json_summary
from pipeline.report.junit import junit_report
from pipeline.report.sarif import sarif_report
from pipeline.report.summary import Summary
from pipeline.report.text import print_report
from pipeline.run.run_key import code_version
from pipeline.trace import Trace

FileFormat = Literal["text", "json", "junit", "sarif"]
Format = Literal["text", "json", "junit", "sarif", "github"]

_FILE_FORMATS: tuple[FileFormat, ...] = get_args(FileFormat)
# The file behind the page of a step, which every step appends to.
_STEP_SUMMARY = "GITHUB_STEP_SUMMARY"


@dataclass(frozen=True)
class ReportFile:
    """A report in a file."""

    format: FileFormat
    path: Path


def parse_reports(arguments: Sequence[str]) -> list[ReportFile]:
    """What each `FORMAT=FILE` means.

    Raises:
        UsageError: there is no such format, no folder for the file, or two reports are to go to one file.
    """
    reports = [_report_file(argument) for argument in arguments]
    files = Counter(report.path.absolute() for report in reports)
    for report in reports:
        if files[report.path.absolute()] > 1:
            raise UsageError(f"{report.path} cannot hold two reports", "give each --report a file of its own")
    return reports


def _report_file(argument: str) -> ReportFile:
    name, _, file = argument.partition("=")
    known = next((known for known in _FILE_FORMATS if known == name), None)
    if known is None or not file:
        formats = ", ".join(_FILE_FORMATS)
        raise UsageError(f"--report {argument} is no FORMAT=FILE", f"the formats are {formats}")
    path = Path(file)
    # Said now, and not when the audit is done.
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise UsageError(f"cannot write {path}: it is a folder, or its folder is missing", "choose another --report")
    return ReportFile(known, path)


def write_reports(
    summary: Summary, traces: Sequence[Trace], fail_on: FailOn, shown: Format, reports: Sequence[ReportFile]
) -> None:
    """Writes the report to its files, and then to stdout.

    Args:
        summary: of the audit.
        traces: those audited, in the order of the summary's runs.
        fail_on: from which severity on the audit fails.
        shown: the format on stdout. `github` also appends to the page of the step, if there is one.
        reports: the files.

    Raises:
        UsageError: a file cannot be written.
    """
    for report in reports:
        _write(report.path, _rendered(report.format, summary, traces, fail_on))
    if shown == "text":
        print_report(summary, Console())
    elif shown == "github":
        # Bytes, so that the locale does not matter.
        typer.echo(annotations(summary, traces).encode(), nl=False)
        if page := os.environ.get(_STEP_SUMMARY):
            _write(Path(page), markdown(summary).encode(), mode="ab")
    else:
        typer.echo(_rendered(shown, summary, traces, fail_on))


def _rendered(form: FileFormat, summary: Summary, traces: Sequence[Trace], fail_on: FailOn) -> bytes:
    if form == "junit":
        return junit_report(summary, fail_on)
    if form == "sarif":
        return sarif_report(summary, traces, code_version()).encode()
    if form == "json":
        return json_summary(summary).encode()
    text = StringIO()
    # A file is no terminal, whatever FORCE_COLOR says of stdout.
    print_report(summary, Console(file=text, force_terminal=False))
    return text.getvalue().encode()


def _write(path: Path, report: bytes, mode: Literal["wb", "ab"] = "wb") -> None:
    try:
        with path.open(mode) as file:
            file.write(report)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}", "the tables hold the run") from None
