"""`dispatch-audit simulate`: what a dispatcher would do with recorded or described traffic, as a trace."""

import logging
from pathlib import Path
from typing import Annotated, Any

import typer

from dispatch_audit.jobs.api.preparation import needs_of, session_for, traces_in, warn_of_unknown_names
from dispatch_audit.jobs.commands.options import (
    DebugOption,
    EngineChoice,
    LogFormatOption,
    QuietOption,
    StorageOption,
    TrafficArgument,
)
from dispatch_audit.jobs.progress import shown_stages
from dispatch_audit.jobs.reports import console
from dispatch_audit.jobs.stderr import errors_on_one_line
from dispatch_audit.pipeline.contract.profile import refuse_version
from dispatch_audit.pipeline.errors import UsageError
from dispatch_audit.pipeline.simulate.policies.policy_names import POLICIES

_log = logging.getLogger(__name__)


def simulate(
    traffic: TrafficArgument,
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Where the simulated trace goes: a new folder.")],
    policy: Annotated[
        str | None,
        typer.Option(metavar="NAME", help=f"{', '.join(POLICIES)}; by default that of the version."),
    ] = None,
    version: Annotated[
        str | None, typer.Option(metavar="VERSION", help="Version of the broker; by default that of the traffic.")
    ] = None,
    setting: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A setting of broker.conf or of a proposal. May be repeated."),
    ] = None,
    partitions: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Simulate the first N partitions only; they do not interact."),
    ] = None,
    seed: Annotated[int, typer.Option(metavar="N", help="Decides what is random in the broker.")] = 0,
    stats_interval: Annotated[
        float, typer.Option(metavar="SECONDS", min=0, help="Time between two snapshots; 0: none.")
    ] = 1.0,
    engine: EngineChoice = "auto",
    storage_option: StorageOption = None,
    log_format: LogFormatOption = "text",
    quiet: QuietOption = False,
    debug: DebugOption = False,
) -> None:
    """Simulates a dispatcher on a trace or a described workload.

    It writes what the dispatcher did as a trace for `audit`.
    """
    with errors_on_one_line(debug, log_format, storage=storage_option):
        # Imported here, because it takes a second, which commands that read no trace need not wait.
        from dispatch_audit.pipeline.simulate.setting_names import (  # noqa: PLC0415
            refuse_settings,
            without_effect,
        )
        from dispatch_audit.pipeline.simulate.setup import setup_for  # noqa: PLC0415
        from dispatch_audit.pipeline.simulate.traffic import broker_of, opened, traffic_of  # noqa: PLC0415

        given = dict(_parsed(text) for text in setting or ())
        refuse_settings(given)
        if version is not None:
            refuse_version(version)
        source = opened(traffic)
        warn_of_unknown_names(traces_in(source))
        recorded_version, recorded_settings = broker_of(source)
        setup = setup_for(
            version or recorded_version,
            {**recorded_settings, **given},
            policy=_policy(policy),
            seed=seed,
            options=given,
            stats_us=round(stats_interval * 1_000_000),
        )
        for sentence in without_effect(given, setup):
            _log.warning(sentence)
        with shown_stages(not quiet and not debug and log_format == "text") as begin:
            begin("start the engine")
            needs = needs_of(source)
            spark = session_for(
                engine, needs, debug, meanwhile_import="dispatch_audit.pipeline.simulate.simulate_on_spark"
            )
            # Imported here, because `session_for` imports it while the engine starts.
            from dispatch_audit.pipeline.simulate.simulate_on_spark import simulate as run  # noqa: PLC0415

            begin("read the traffic")
            taken = traffic_of(source, spark, partitions, once_a_topic=True)
            begin("simulate")
            measured = run(spark, taken.work, setup, out)
        for reason in taken.left_out:
            _log.warning(reason)
        # Imported here, because a call with wrong arguments should not wait for it.
        from dispatch_audit.pipeline.simulate.comparison.simulation_text import print_simulation  # noqa: PLC0415

        print_simulation(measured, setup, out, console())


def _parsed(text: str) -> tuple[str, Any]:
    name, mark, value = text.partition("=")
    if not mark or not name:
        raise UsageError(f"--set {text!r} has no name and value", "write --set NAME=VALUE")
    if value in {"true", "false"}:
        return name, value == "true"
    try:
        return name, float(value) if "." in value else int(value)
    except ValueError:
        raise UsageError(f"--set {name}: {value!r} is neither a number nor true or false", "correct it") from None


def _policy(name: str | None) -> Any:
    if name is not None and name not in POLICIES:
        raise UsageError(f"there is no policy {name!r}", f"use one of: {', '.join(POLICIES)}")
    return name
