"""`dispatch-audit convert`: writes the logs of a trace as Parquet or Delta, partitioned by topic."""

from typing import Annotated, Literal

import typer
from rich.console import Console

from dispatch_audit.jobs.api.preparation import engine_needs, session_for, warn_of_unknown_names
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
from dispatch_audit.pipeline.run.target_beside_traces import refuse_target_in_trace
from dispatch_audit.pipeline.settings import load_settings

_INTERRUPTED = "interrupted; nothing was converted: convert again"


def convert(
    traces: TracesArgument,
    to: Annotated[
        str, typer.Option("--to", metavar="TARGET", help="Where it goes: a folder, a URI or catalog.schema.table.")
    ],
    form: Annotated[
        Literal["parquet", "delta"] | None,
        typer.Option(
            "--as", help="What a folder gets: Parquet (the default) or a Delta table. Elsewhere it is a Delta table."
        ),
    ] = None,
    replace: Annotated[bool, typer.Option("--replace", help="Replace an earlier conversion at the target.")] = False,
    profile: ProfileOption = None,
    report_format: Annotated[Literal["text", "json"], typer.Option("--format", help="Format of the report.")] = "text",
    engine: EngineChoice = "auto",
    storage_option: StorageOption = None,
    config: ConfigOption = None,
    log_format: LogFormatOption = "text",
    quiet: QuietOption = False,
    debug: DebugOption = False,
) -> None:
    """Writes a trace as Parquet or Delta, partitioned by topic.

    Refused rows are kept beside it.
    """
    with errors_on_one_line(debug, log_format, _INTERRUPTED, storage=storage_option):
        # Imported here, because the other commands need nothing of it.
        from dispatch_audit.pipeline.convert.report import json_conversion, print_conversion  # noqa: PLC0415
        from dispatch_audit.pipeline.convert.request import ConvertRequest, parse_converted  # noqa: PLC0415
        from dispatch_audit.pipeline.trace import open_traces  # noqa: PLC0415

        request = ConvertRequest(tuple(traces), to, form, replace, profile, load_settings(config))
        target, opened = parse_converted(to, form).target, open_traces(traces, profile)
        refuse_target_in_trace(target, opened, "--to")
        warn_of_unknown_names(opened)
        needs = engine_needs(target, opened)
        with shown_stages(not quiet and not debug and log_format == "text") as begin:
            begin("start the engine")
            spark = session_for(engine, needs, debug, meanwhile_import="dispatch_audit.pipeline.convert.convert")
            # Imported here, because `session_for` imports it while the engine starts.
            from dispatch_audit.pipeline.convert.convert import convert as run_conversion  # noqa: PLC0415

            result = run_conversion(spark, request, begin)
        if report_format == "json":
            typer.echo(json_conversion(result))
        else:
            print_conversion(result, Console())
        raise typer.Exit(0)
