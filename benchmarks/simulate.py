"""Measures the simulation: `python -m benchmarks.simulate`: messages simulated per second and core.

The scenario of PIP-474 on one partition, with and without the hung consumer, and in growing lengths, so that the table
shows whether the cost grows with the messages only, also while the replay queue is full. CPU seconds of one process; no
audit, no files.
"""

import time
from dataclasses import replace
from pathlib import Path

import typer

from dispatch_audit.pipeline.simulate.partition import PartitionSimulation
from dispatch_audit.pipeline.simulate.setup import Setup
from dispatch_audit.pipeline.simulate.traffic import broker_of
from dispatch_audit.pipeline.simulate.variants import variants_for
from dispatch_audit.pipeline.simulate.workload.described import partition_of
from dispatch_audit.pipeline.simulate.workload.description import WorkloadDescription, read_description
from dispatch_audit.pipeline.simulate.workload.partition_workload import PartitionWorkload

SCENARIO = Path(__file__).resolve().parents[1] / "conf/workloads/pip-474.toml"
DURATIONS_S = (60, 120, 240, 480)
EVENTS = 1_000_000


def lasting(description: WorkloadDescription, seconds: float, hang: bool) -> PartitionWorkload:
    """The first partition of the scenario for so long, with its hung consumer or without."""
    topic = description.topic.model_copy(update={"duration_s": seconds})
    events = description.events if hang else ()
    return partition_of(description.model_copy(update={"topic": topic, "events": events}), 0)


def measured(workload: PartitionWorkload, setup: Setup) -> tuple[float, PartitionSimulation]:
    """The CPU seconds of a simulation."""
    simulation = PartitionSimulation(workload, setup)
    begun = time.process_time()
    while not simulation.run(EVENTS):
        simulation.log.take()
    return time.process_time() - begun, simulation


def row(name: str, workload: PartitionWorkload, setup: Setup) -> str:
    """One row of the table."""
    seconds, simulation = measured(workload, setup)
    rate = len(workload) / seconds
    peak = simulation.progress.measures.replay_peak
    return f"| {name} | {len(workload):,} | {peak:,} | {seconds:.1f} | {rate:,.0f} |"


def main() -> None:
    """Prints the table."""
    description = read_description(SCENARIO)
    described, *others = variants_for(*broker_of(description))
    typer.echo("| dispatcher | messages | largest replay | CPU s | messages a second and core |")
    typer.echo("|---|--:|--:|--:|--:|")
    for seconds in DURATIONS_S:
        for hang in (False, True):
            name = f"{described.name}, {seconds} s, {'one consumer hangs' if hang else 'nobody hangs'}"
            typer.echo(row(name, lasting(description, seconds, hang), described.setup(*broker_of(description), 0)))
    for variant in others:
        setup = replace(variant.setup(*broker_of(description), 0), stats_us=0)
        typer.echo(row(f"{variant.name}, 120 s, one consumer hangs", lasting(description, 120, True), setup))


if __name__ == "__main__":
    main()
