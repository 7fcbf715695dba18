"""`dispatch-audit validate`: reads traces, and reports the rows that an audit would refuse."""

from typing import Annotated, Literal

import typer
from rich.console import Console

from dispatch_audit.jobs.api.preparation import parsed_request, session_for
from dispatch_audit.jobs.commands.options import (
    ConfigOption,
    DebugOption,
    EngineChoice,
    LogFormatOption,
    ProfileOption,
    QuietOption,
    StorageOption,
    TracesArgument,
)
from dispatch_audit.jobs.progress import shown_stages
from dispatch_audit.jobs.stderr import errors_on_one_line
from dispatch_audit.pipeline.errors import TraceError
from dispatch_audit.pipeline.report.validation import json_validation, print_validation


def validate(
    traces: TracesArgument,
    profile: ProfileOption = None,
    show_rows: Annotated[
        int, typer.Option(metavar="N", min=0, help="Also show the first N rows that an audit would refuse.")
    ] = 0,
    replay: Annotated[
        bool,
        typer.Option("--replay/--no-replay", help="Look for rows that contradict others, too, which takes a replay."),
    ] = True,
    report_format: Annotated[Literal["text", "json"], typer.Option("--format", help="Format of the report.")] = "text",
    engine: EngineChoice = "auto",
    storage_option: StorageOption = None,
    config: ConfigOption = None,
    log_format: LogFormatOption = "text",
    quiet: QuietOption = False,
    debug: DebugOption = False,
) -> None:
    """Reports the rows of traces that an audit would refuse.

    It writes no tables.
    """
    with errors_on_one_line(debug, log_format, storage=storage_option) as stderr:
        request, needs = parsed_request(traces, "", profile, config)
        with shown_stages(not quiet and not debug and log_format == "text") as begin:
            begin("start the engine")
            spark = session_for(engine, needs, debug, meanwhile_import="dispatch_audit.pipeline.validation")
            # Imported here, because `session_for` imports it while the engine starts.
            from dispatch_audit.pipeline.validation import validate as run_validation  # noqa: PLC0415

            results = run_validation(spark, request, begin, replay=replay, rows_max=show_rows)
        if report_format == "json":
            typer.echo(json_validation(results))
        else:
            print_validation(results, Console())
        exit_code = 0
        for fault in (result.fault for result in results if not result.usable):
            exit_code = stderr.error(fault, TraceError.exit_code)
        raise typer.Exit(exit_code)
