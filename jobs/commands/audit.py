"""`dispatch-audit audit`: audits traces, and reports what it found."""

from pathlib import Path
from typing import Annotated

import typer

from dispatch_audit.jobs.api.arguments import DEFAULT_TARGET
from dispatch_audit.jobs.api.audit import audit as run_audit
from dispatch_audit.jobs.commands.options import (
    ConfigOption,
    DebugOption,
    EngineChoice,
    LogFormatOption,
    ProfileOption,
    QuietOption,
    StorageOption,
    SubscriptionsOption,
    TopicsOption,
    TracesArgument,
    VerboseOption,
    WidthOption,
)
from dispatch_audit.jobs.logs import log_runs
from dispatch_audit.jobs.progress import shown_stages
from dispatch_audit.jobs.reports import FILE_FORMATS, Format, parse_reports, write_reports
from dispatch_audit.jobs.stderr import errors_on_one_line
from dispatch_audit.pipeline.report.text.report import ReportOptions

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
            help="Also write a report to a file: html, text, json, junit, sarif or perfetto. May be repeated.",
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
    topic: TopicsOption = None,
    subscription: SubscriptionsOption = None,
    sample: Annotated[
        str | None,
        typer.Option(
            metavar="1/N", help="Audit one in N sticky hashes: exact for these, at less cost.", show_default=False
        ),
    ] = None,
    sample_salt: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="Another text chooses other hashes for --sample.", show_default=False),
    ] = None,
    engine: EngineChoice = "auto",
    storage_option: StorageOption = None,
    config: ConfigOption = None,
    log_format: LogFormatOption = "text",
    quiet: QuietOption = False,
    debug: DebugOption = False,
) -> None:
    """Audits traces: whether order was kept, and who blocked whom.

    It also says which consumer held which key, and what to do next.
    """
    with errors_on_one_line(debug, log_format, _INTERRUPTED, storage=storage_option) as stderr:
        reports = parse_reports(report or (), FILE_FORMATS)
        with shown_stages(not quiet and not debug and log_format == "text") as begin:
            result = run_audit(
                traces,
                out=out,
                profile=profile,
                fail_on=fail_on or ("violation",),
                begin_at=begin_at,
                end_at=end_at,
                reaudit=reaudit,
                baseline=baseline,
                write_baseline=write_baseline,
                topics=topic or (),
                subscriptions=subscription or (),
                sample=sample,
                sample_salt=sample_salt,
                config=config,
                engine=engine,
                progress=begin,
                debug=debug,
            )
        text = ReportOptions(findings, verbose, result.took)
        write_reports(
            result.spark, result.summary, result.traces, result.conditions, report_format, reports, text, width
        )
        if result.baseline_note is not None:
            stderr.note(result.baseline_note)
        for _, error in result.unusable:
            stderr.error(str(error), error.exit_code)
        log_runs(result.summary, result.exit_code)
        raise typer.Exit(result.exit_code)
