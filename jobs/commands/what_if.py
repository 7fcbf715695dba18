"""`dispatch-audit what-if`: the same traffic under several dispatchers, side by side."""

import json
from typing import Annotated, Any, Literal

import typer

from dispatch_audit.jobs.commands.options import (
    ConfigOption,
    DebugOption,
    EngineChoice,
    LogFormatOption,
    QuietOption,
    TrafficArgument,
)
from dispatch_audit.jobs.commands.preparation import needs_of, session_for
from dispatch_audit.jobs.progress import shown_stages
from dispatch_audit.jobs.stderr import errors_on_one_line
from dispatch_audit.pipeline.settings import load_settings

_MOST = 10_000_000


def what_if(
    traffic: TrafficArgument,
    report_format: Annotated[
        Literal["markdown", "json"], typer.Option("--format", help="Format of the comparison.")
    ] = "markdown",
    judge: Annotated[
        bool, typer.Option("--audit/--no-audit", help="Audit what each dispatcher did: violations and blocked time.")
    ] = True,
    search: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", help="Find the smallest value of this setting without a stall. Repeated: of all together."
        ),
    ] = None,
    partitions: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Simulate the first N partitions only; they do not interact."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Decides what is random in the broker.")] = 0,
    engine: EngineChoice = "auto",
    config: ConfigOption = None,
    log_format: LogFormatOption = "text",
    quiet: QuietOption = False,
    debug: DebugOption = False,
) -> None:
    """Simulates a recorded trace or a described workload under several dispatchers, and compares what came of it."""
    with errors_on_one_line(debug, log_format) as stderr:
        # Imported here, because it takes a second, which commands that read no trace need not wait.
        from dispatch_audit.pipeline.simulate.comparison_text import markdown, sentence  # noqa: PLC0415
        from dispatch_audit.pipeline.simulate.traffic import broker_of, opened, traffic_of  # noqa: PLC0415
        from dispatch_audit.pipeline.simulate.variants import DEFAULT_VARIANTS  # noqa: PLC0415

        source = opened(traffic)
        settings = load_settings(config)
        version, recorded = broker_of(source)
        setups = [variant.setup(version, recorded, seed) for variant in DEFAULT_VARIANTS]
        with shown_stages(not quiet and not debug and log_format == "text") as begin:
            begin("start the engine")
            needs = needs_of(source)
            spark = session_for(engine, needs, debug, meanwhile_import="dispatch_audit.pipeline.simulate.what_if")
            # Imported here, because `session_for` imports it while the engine starts.
            from dispatch_audit.pipeline.simulate.what_if import compared, smallest_without_stall  # noqa: PLC0415

            begin("read the traffic")
            taken = traffic_of(source, spark, partitions)
            begin("simulate")
            found = compared(spark, taken.work, setups, settings if judge else None)
            searched = None
            if search:
                begin("search")
                searched = smallest_without_stall(spark, taken.work, setups[0], search, _MOST)
        for reason in taken.left_out:
            stderr.warning(reason)
        rows = [{"variant": variant.name, **row} for variant, row in zip(DEFAULT_VARIANTS, found, strict=True)]
        if report_format == "json":
            result: dict[str, Any] = {"traffic": traffic, "left_out": taken.left_out, "variants": rows}
            if searched is not None:
                result["search"] = {"settings": search, "smallest": searched.value, "tried": searched.tried}
            typer.echo(json.dumps(result, indent=1))
            return
        typer.echo(markdown(rows))
        if searched is not None:
            typer.echo(f"\n{sentence(search or [], searched.value, searched.tried)}")
