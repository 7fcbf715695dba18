"""`dispatch-audit audit`: audits traces, and reports what it found."""

import time
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Annotated

import typer

from dispatch_audit.jobs.commands.options import (
    DEFAULT_TARGET,
    ConfigOption,
    DebugOption,
    EngineChoice,
    LogFormatOption,
    ProfileOption,
    QuietOption,
    TracesArgument,
    VerboseOption,
    WidthOption,
)
from dispatch_audit.jobs.commands.preparation import parsed_request, session_for
from dispatch_audit.jobs.logs import log_runs, log_stage
from dispatch_audit.jobs.progress import shown_stages
from dispatch_audit.jobs.reports import FILE_FORMATS, Format, check_writable, parse_reports, write_reports
from dispatch_audit.jobs.stderr import errors_on_one_line
from dispatch_audit.pipeline.contract.fail_on import FailOn, parse_fail_on
from dispatch_audit.pipeline.errors import UsageError
from dispatch_audit.pipeline.report.ci.failing import failed
from dispatch_audit.pipeline.report.text.report import ReportOptions
from dispatch_audit.pipeline.report.warnings import warnings_about
from dispatch_audit.pipeline.run.baseline import read_baseline
from dispatch_audit.pipeline.run.request import AuditRequest
from dispatch_audit.pipeline.windows.window import WHOLE, moment_us, window_of

_INTERRUPTED = "interrupted; traces without a row in `runs` were not audited: run the audit again"


def audit(
    traces: TracesArgument,
    out: Annotated[
        str, typer.Option(metavar="TARGET", help="Where the Delta tables go: a folder, a URI or catalog.schema.")
    ] = DEFAULT_TARGET,
    profile: ProfileOption = None,
    report_format: Annotated[Format, typer.Option("--format", help="Format of the report on stdout.")] = "text",
    report: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FORMAT=FILE",
            help="Also write a report to a file: html, text, json, junit or sarif. May be repeated.",
            show_default=False,
        ),
    ] = None,
    findings: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=0,
            help="Incidents that a report in text shows, which are findings with one cause; the worst of each rule "
            "first, by default 3 that need a look.",
            show_default=False,
        ),
    ] = None,
    verbose: VerboseOption = False,
    width: WidthOption = None,
    fail_on: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CONDITION",
            help="Exit with 1 if one of these holds. violation (the default; a known bug counts as one), not_provable, "
            "permitted, info: a finding of this severity or worse. only:violation, only:known_bug: a finding of this "
            "kind. order, stalled: a violation or known bug that is about this. rule:NAME: one of this rule. "
            "held-up:30s: nothing was sent to any consumer for longer although entries waited. never. Several with "
            "commas, or repeated.",
            show_default=False,
        ),
    ] = None,
    begin_at: Annotated[
        str | None,
        typer.Option(
            "--from", metavar="TIME", help="Begin here (ISO 8601, UTC); by default where the last window ended."
        ),
    ] = None,
    end_at: Annotated[
        str | None,
        typer.Option("--to", metavar="TIME", help="End here, for a growing log; the next window continues from here."),
    ] = None,
    reaudit: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Audit the window that holds this time, and all later ones, again."),
    ] = None,
    baseline: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Findings that are accepted: they do not fail.", show_default=False),
    ] = None,
    write_baseline: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write what fails to a baseline, which keeps what it accepts of other traces, and exit with 0.",
            show_default=False,
        ),
    ] = None,
    engine: EngineChoice = "auto",
    config: ConfigOption = None,
    log_format: LogFormatOption = "text",
    quiet: QuietOption = False,
    debug: DebugOption = False,
) -> None:
    """Audits traces: whether order was kept, and who blocked whom.

    It also says which consumer held which key, and what to do next.
    """
    with errors_on_one_line(debug, log_format, _INTERRUPTED) as stderr:
        request, needs = parsed_request(traces, out, profile, config, stderr)
        request = _with_window(request, begin_at, end_at, reaudit)
        accepting = None if baseline is None else read_baseline(baseline)
        request = replace(request, baseline=accepting)
        reports = parse_reports(report or (), FILE_FORMATS)
        conditions = parse_fail_on(fail_on or ("violation",))
        if write_baseline is not None:
            _refuse_baseline(write_baseline, request, conditions)
        with shown_stages(not quiet and not debug and log_format == "text") as begin:
            clock = [time.monotonic()]
            begin("start the engine")
            spark = session_for(engine, needs, debug, meanwhile_import="dispatch_audit.pipeline.audit")
            # Imported here, because `session_for` imports it while the engine starts.
            from dispatch_audit.pipeline.audit import audit as run_audit  # noqa: PLC0415
            from dispatch_audit.pipeline.report.ci.accepting import (  # noqa: PLC0415
                warning_of,
                written_baseline,
            )
            from dispatch_audit.pipeline.report.query import summarise  # noqa: PLC0415

            clock.append(time.monotonic())
            log_stage("start the engine", clock[-1] - clock[-2])
            result = run_audit(spark, request, begin)
            clock.append(time.monotonic())
            begin("report")
            summary = summarise(spark, result.target, result.run_keys)
            summary = replace(summary, unusable=result.unusable, stale=result.stale)
            clock.append(time.monotonic())
            log_stage("report", clock[-1] - clock[-2])
        for warning in warnings_about(summary):
            stderr.warning(warning)
        if accepting is not None and summary.stale:
            stderr.warning(warning_of(accepting.path, summary.stale))
        start_up, audited, reported = (after - before for before, after in pairwise(clock))
        took = f"{start_up:.1f} s to start up, {audited:.1f} s to audit, {reported:.1f} s to report"
        text = ReportOptions(findings, verbose, took)
        write_reports(spark, summary, result.traces, conditions, report_format, reports, text, width)
        exit_code = 1 if failed(summary, conditions) else 0
        if write_baseline is not None:
            written = written_baseline(spark, summary, write_baseline, conditions)
            for sentence in written.warnings:
                stderr.warning(sentence)
            stderr.note(written.note)
            exit_code = 0
        for _, error in result.unusable:
            exit_code = stderr.error(str(error), error.exit_code)
        log_runs(summary, exit_code)
        raise typer.Exit(exit_code)


def _refuse_baseline(path: Path, request: AuditRequest, conditions: FailOn) -> None:
    """Refuses a baseline that cannot be written or would accept nothing, before the work begins."""
    if not conditions.asks_for_findings:
        raise UsageError("no finding fails by this --fail-on, so that --write-baseline accepts none", "leave one out")
    if request.window != WHOLE or request.reaudit_us is not None:
        raise UsageError(
            "--write-baseline takes in all findings of a trace, and a window has some of them",
            "leave --from, --to and --reaudit out",
        )
    check_writable(path)


def _with_window(request: AuditRequest, begin_at: str | None, end_at: str | None, reaudit: str | None) -> AuditRequest:
    """Returns the request with the window, or the windows to audit again, that the options name."""
    window = window_of(begin_at, end_at)
    if reaudit is None:
        return replace(request, window=window)
    if window != WHOLE:
        raise UsageError("--reaudit repeats whole windows and takes neither --from nor --to", "leave them out")
    return replace(request, reaudit_us=moment_us(reaudit))
