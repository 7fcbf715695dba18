"""Compares simulations with recordings of real brokers: `python -m benchmarks.simulated_recordings FOLDER...`.

Each recording gives the workload: its publishes, joins, leaves, receiver queues and acknowledgement delays. The
simulation dispatches it under the recorded settings, and the table has both sides. Nothing of the recording's own
dispatches is used, and no constant is fitted.
"""

import gzip
import json
import sys
from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import typer

from dispatch_audit.pipeline.contract.profile import profile_for
from dispatch_audit.pipeline.errors import DispatchAuditError
from dispatch_audit.pipeline.explain.trace_rows import subscription_rows
from dispatch_audit.pipeline.groups.columns import Rows
from dispatch_audit.pipeline.groups.replay_rows import packed_rows, replayed_rows
from dispatch_audit.pipeline.packing.packed_batch import Group
from dispatch_audit.pipeline.run.replay_config import replay_config
from dispatch_audit.pipeline.settings import load_settings
from dispatch_audit.pipeline.simulate.judge import judged
from dispatch_audit.pipeline.simulate.partition import PartitionSimulation
from dispatch_audit.pipeline.simulate.setup import setup_for
from dispatch_audit.pipeline.simulate.state.broker_settings import Timing
from dispatch_audit.pipeline.simulate.workload.from_trace import workload_from
from dispatch_audit.pipeline.trace import open_traces

SEED = 0
STATS_US = 100_000
HEAD = (
    "| recording | same consumer | violations | draining hashes | blocked message-seconds | largest replay "
    "| longest silence, s |"
)


@dataclass(frozen=True)
class Side:
    """What one side of a comparison did.

    Attributes:
        receivers: the name of the consumer that each entry went to first, by position.
        broken: findings that break the contract, by rule.
        draining: hashes that began to drain.
        blocked_s: message-seconds that entries waited for another consumer or a limit.
        replay_peak: the most entries in replay.
        silence: begin and end of the longest time without a dispatch between two dispatches, seconds from the start.
    """

    receivers: dict[tuple[int, int], str]
    broken: Counter[str]
    draining: int
    blocked_s: float
    replay_peak: int
    silence: tuple[float, float]


def side(rows: pa.Table, tables: dict[str, Rows], replay_peak: int) -> Side:
    """Measures rows and what the audit of them found."""
    columns = ["event", "phase", "ts_us", "ledger_id", "entry_id", "consumer", "consumer_name"]
    receivers: dict[tuple[int, int], str] = {}
    names: dict[int, str] = {}
    times = []
    start_us = rows["ts_us"][0].as_py()
    for row in rows.select(columns).to_pylist():
        if row["event"] == "join" and row["consumer"] is not None:
            names[row["consumer"]] = row["consumer_name"]
        if row["event"] == "dispatch" and row["phase"] == "start":
            receivers.setdefault((row["ledger_id"], row["entry_id"]), names.get(row["consumer"], "?"))
            times.append((row["ts_us"] - start_us) / 1e6)
    silence = max(pairwise(times), key=lambda pair: pair[1] - pair[0], default=(0.0, 0.0))
    broken = Counter(
        row["rule"] for row in tables.get("violations", []) if row["severity"] in {"violation", "known_bug"}
    )
    blocked_s = sum(row["message_seconds"] or 0 for row in tables.get("blocking", []) if row["scope"] == "hash")
    return Side(receivers, broken, len(tables.get("draining", [])), blocked_s, replay_peak, silence)


def compared(folder: Path) -> tuple[Side, Side]:
    """The recorded and the simulated side of one recording.

    Raises:
        DispatchAuditError: it is no recording, or none that can be simulated.
    """
    (trace,) = open_traces([folder])
    settings = load_settings()
    profile = profile_for(trace.manifest.pulsar_version, trace.manifest.settings)
    rows = subscription_rows(trace, _only_group(trace.path))
    config = replay_config(trace.manifest, profile, settings, complete_from_start=True)
    group = _only_group(trace.path)
    recorded = replayed_rows(packed_rows(rows.to_batches(), config), group, config)
    snapshots = [text for text in rows["snapshot"].to_pylist() if text]
    timing = Timing()
    setup = setup_for(
        trace.manifest.pulsar_version, trace.manifest.settings, seed=SEED, timing=timing, stats_us=STATS_US
    )
    simulation = PartitionSimulation(workload_from(rows, profile, timing), setup)
    collected: list[pa.RecordBatch] = []
    tables = judged(simulation, settings, collected.append)
    peak = max((_replay_in(text) for text in snapshots), default=0)
    return (
        side(rows, recorded, peak),
        side(pa.Table.from_batches(collected), tables, simulation.progress.measures.replay_peak),
    )


def _replay_in(snapshot: str) -> int:
    return int(json.loads(snapshot).get("msg_in_replay") or 0)


def _only_group(path: str) -> Group:
    groups = set()
    for log in sorted(Path(path).glob("consumers*.jsonl.gz")):
        with gzip.open(log, "rt") as lines:
            groups |= {Group(row["topic"], row["subscription"]) for row in map(json.loads, lines)}
    if len(groups) != 1:
        raise DispatchAuditError(f"{path} has {len(groups)} subscriptions on partitions")
    return groups.pop()


def line(name: str, recorded: Side, simulated: Side) -> str:
    """One row of the table, recorded / simulated."""
    both = recorded.receivers.keys() & simulated.receivers.keys()
    same = sum(recorded.receivers[position] == simulated.receivers[position] for position in both) / max(len(both), 1)
    cells = [
        name,
        f"{same:.1%}",
        f"{sum(recorded.broken.values())} / {sum(simulated.broken.values())}",
        f"{recorded.draining} / {simulated.draining}",
        f"{recorded.blocked_s:.1f} / {simulated.blocked_s:.1f}",
        f"{recorded.replay_peak} / {simulated.replay_peak}",
        " / ".join(
            f"{end - begin:.2f} ({begin:.2f} to {end:.2f})" for begin, end in (recorded.silence, simulated.silence)
        ),
    ]
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Prints the table."""
    typer.echo(HEAD)
    typer.echo("|---" * 7 + "|")
    for folder in map(Path, sys.argv[1:]):
        try:
            typer.echo(line(folder.name, *compared(folder)))
        except DispatchAuditError as error:
            typer.echo(f"| {folder.name} | not simulated: {error} |")


if __name__ == "__main__":
    main()
