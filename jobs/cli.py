"""The command line: turns arguments into a request, and a result into a report and an exit code.

Only the report goes to stdout. Progress, logs and errors go to stderr; an error is one line that ends with the next
step. Exit codes: 0 clean, 1 findings at or above `--fail-on`, 2 usage or configuration, 3 the trace cannot be audited,
4 a fault of the audit itself, or another audit of the same traces and settings wrote the run at the same time.
"""

import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Literal, NamedTuple, NoReturn

import typer
from pyspark.sql import SparkSession
from rich.console import Console

from dispatch_audit.jobs.engines.choice import EngineOption
from dispatch_audit.jobs.engines.delta import needs_delta
from dispatch_audit.jobs.engines.load import Load, load_of
from dispatch_audit.jobs.logs import log_runs, log_stage
from dispatch_audit.jobs.progress import shown_stages
from dispatch_audit.jobs.reports import Format, parse_reports, write_reports
from dispatch_audit.jobs.stderr import NAME, LogFormat, Stderr, errors_on_one_line
from dispatch_audit.pipeline.contract.profile import profile_named
from dispatch_audit.pipeline.contract.severity import FailOn, fails
from dispatch_audit.pipeline.errors import TraceError, UsageError
from dispatch_audit.pipeline.report.validation import json_validation, print_validation
from dispatch_audit.pipeline.report.warnings import warnings_about
from dispatch_audit.pipeline.run.request import AuditRequest
from dispatch_audit.pipeline.run.run_key import code_version
from dispatch_audit.pipeline.settings import load_settings
from dispatch_audit.pipeline.tables.target import parse_target
from dispatch_audit.pipeline.tables.threads import both
from dispatch_audit.pipeline.trace import open_traces
from dispatch_audit.pipeline.windows.window import WHOLE, moment_us, window_of

_USAGE = 2

app = typer.Typer(
    name=NAME,
    help="Audits recorded Apache Pulsar Key_Shared dispatch traces.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

_Traces = Annotated[
    list[str],
    typer.Argument(metavar="TRACE...", help="Recorded traces: folders, logs or tables.", show_default=False),
]
_Profile = Annotated[
    str | None,
    typer.Option(
        metavar="NAME", help="Broker profile (conf/profiles). By default the version in the trace selects it."
    ),
]
_Config = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="TOML file with settings to change; conf/audit.toml has all.", show_default=False
    ),
]
_Engine = Annotated[
    EngineOption,
    typer.Option(
        help="auto: what is there (spark-submit, Databricks, SPARK_REMOTE), else Apache Spark if there is a Java, else "
        "embedded; spark: Apache Spark; embedded: an engine for one machine, without Java."
    ),
]
_LogFormat = Annotated[
    LogFormat,
    typer.Option(help="Form of stderr: progress and lines of text, or one JSON object for each stage and error."),
]
_Quiet = Annotated[bool, typer.Option("--quiet", "--no-progress", help="Show no progress.")]
_Debug = Annotated[bool, typer.Option("--debug", help="Show tracebacks and the output of Spark.")]


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Runs the command line and exits.

    Args:
        arguments: without the name of the program; None: those of the process.
    """
    try:
        sys.exit(app(args=arguments, prog_name=NAME, standalone_mode=False))
    except typer.TyperException as error:
        sys.exit(Stderr("text").error(f"{error.format_message().rstrip('.')}; see {NAME} --help", _USAGE))


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


@app.command()
def audit(
    traces: _Traces,
    out: Annotated[
        str, typer.Option(metavar="TARGET", help="Where the Delta tables go: a folder, a URI or catalog.schema.")
    ],
    profile: _Profile = None,
    report_format: Annotated[Format, typer.Option("--format", help="Format of the report on stdout.")] = "text",
    report: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FORMAT=FILE",
            help="Also write a report to a file: text, json, junit or sarif. May be repeated.",
            show_default=False,
        ),
    ] = None,
    fail_on: Annotated[
        FailOn,
        typer.Option(help="Exit with 1 on findings of this severity or worse; a known bug counts as a violation."),
    ] = "violation",
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
    engine: _Engine = "auto",
    config: _Config = None,
    log_format: _LogFormat = "text",
    quiet: _Quiet = False,
    debug: _Debug = False,
) -> None:
    """Audits traces: which consumer held which key, whether order was kept, and who blocked whom."""
    with errors_on_one_line(debug, log_format) as stderr:
        request, needs = _request(traces, out, profile, config)
        request = _with_window(request, begin_at, end_at, reaudit)
        reports = parse_reports(report or ())
        with shown_stages(not quiet and not debug and log_format == "text") as begin:
            clock = [time.monotonic()]
            begin("start the engine")
            spark = _spark_session(engine, needs, debug, meanwhile_import="dispatch_audit.pipeline.audit")
            # Imported here, because `_spark_session` imports it while the engine starts.
            from dispatch_audit.pipeline.audit import audit as run_audit  # noqa: PLC0415
            from dispatch_audit.pipeline.report.query import summarise  # noqa: PLC0415

            clock.append(time.monotonic())
            log_stage("start the engine", clock[-1] - clock[-2])
            result = run_audit(spark, request, begin)
            clock.append(time.monotonic())
            begin("report")
            summary = summarise(spark, result.target, result.run_keys)
            clock.append(time.monotonic())
            log_stage("report", clock[-1] - clock[-2])
        for warning in warnings_about(summary):
            stderr.warning(warning)
        write_reports(summary, result.traces, fail_on, report_format, reports)
        if report_format == "text":
            start_up, audited, reported = (after - before for before, after in pairwise(clock))
            typer.echo(f"Took    {start_up:.1f} s to start up, {audited:.1f} s to audit, {reported:.1f} s to report")
        exit_code = 1 if fails(fail_on, summary.severities) else 0
        log_runs(summary, exit_code)
        raise typer.Exit(exit_code)


@app.command()
def validate(
    traces: _Traces,
    profile: _Profile = None,
    report_format: Annotated[Literal["text", "json"], typer.Option("--format", help="Format of the report.")] = "text",
    engine: _Engine = "auto",
    config: _Config = None,
    log_format: _LogFormat = "text",
    quiet: _Quiet = False,
    debug: _Debug = False,
) -> None:
    """Reads traces and reports the rows that an audit would refuse; writes no tables."""
    with errors_on_one_line(debug, log_format) as stderr:
        request, needs = _request(traces, "", profile, config)
        with shown_stages(not quiet and not debug and log_format == "text") as begin:
            begin("start the engine")
            spark = _spark_session(engine, needs, debug, meanwhile_import="dispatch_audit.pipeline.validation")
            # Imported here, because `_spark_session` imports it while the engine starts.
            from dispatch_audit.pipeline.validation import validate as run_validation  # noqa: PLC0415

            results = run_validation(spark, request, begin)
        if report_format == "json":
            typer.echo(json_validation(results))
        else:
            print_validation(results, Console())
        exit_code = 0
        for fault in (result.fault for result in results if not result.usable):
            exit_code = stderr.error(fault, TraceError.exit_code)
        raise typer.Exit(exit_code)


class _Needs(NamedTuple):
    """What an engine has to be prepared for: the load of the traces, and whether Spark needs Delta Lake."""

    load: Load
    delta: bool


def _request(traces: Sequence[str], out: str, profile: str | None, config: Path | None) -> tuple[AuditRequest, _Needs]:
    """Returns the request, checked as far as possible without an engine, and what it needs of one."""
    settings = load_settings(config)
    if profile is not None:
        profile_named(profile)
    target = parse_target(out) if out else None
    opened = open_traces(traces, profile)
    needs = _Needs(load_of(opened), needs_delta(target, opened))
    return AuditRequest(tuple(traces), out, profile, settings), needs


def _spark_session(engine: EngineOption, needs: _Needs, debug: bool, *, meanwhile_import: str) -> SparkSession:
    """Returns the session; imports a module while the engine starts.

    Importing the compiler of the replay takes half a second, which a call with wrong arguments should not wait for.
    """
    from dispatch_audit.jobs.session import spark_session  # noqa: PLC0415 - an engine is needed from here on only

    def start() -> SparkSession:
        return spark_session(NAME, quiet=not debug, load=needs.load, engine=engine, delta=needs.delta)

    session, _ = both(start, lambda: import_module(meanwhile_import))
    return session


def _with_window(request: AuditRequest, begin_at: str | None, end_at: str | None, reaudit: str | None) -> AuditRequest:
    """Returns the request with the window, or the windows to audit again, that the options name."""
    window = window_of(begin_at, end_at)
    if reaudit is None:
        return replace(request, window=window)
    if window != WHOLE:
        raise UsageError("--reaudit repeats whole windows and takes neither --from nor --to", "leave them out")
    return replace(request, reaudit_us=moment_us(reaudit))


if __name__ == "__main__":
    main()
