"""Measures what a quiet partition costs: packs and replays many of them in one process, without Spark.

    .venv/bin/python -m benchmarks.quiet_partitions --partitions 200

Each partition has ten consumers, four membership changes after their joins, and about a thousand events. The rows of
all partitions lie in one log by time, so that a batch of the log has some rows of each of them. Prints the CPU time of
this process for each partition, membership change and packed batch, and the size of the rows that a task of the replay
hands back, by table. A change costs what a partition with changes costs more than the same traffic among consumers
that stay. A packed batch costs what as many rows cost more on many partitions than on few.
"""

import gc
import json
import statistics
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated, NamedTuple

import numpy as np
import pyarrow as pa
import typer

from benchmarks.generate import SETTINGS, VERSION, Shape, rows_of
from benchmarks.trace_columns import batches, topic_of, with_all_columns
from dispatch_audit.pipeline.contract.profile import profile_for
from dispatch_audit.pipeline.groups.columns import Columns
from dispatch_audit.pipeline.groups.replay_group import replay_group
from dispatch_audit.pipeline.packing.pack import pack
from dispatch_audit.pipeline.packing.packed_batch import Group, PackedBatch, rows_for
from dispatch_audit.pipeline.plan.staged_batches import decoded_batches, encoded
from dispatch_audit.pipeline.plan.task_result import task_result
from dispatch_audit.pipeline.replay.config import ReplayConfig
from dispatch_audit.pipeline.tables.payload import batches_in

_SKEW_US = 10_000
_PROFILE = profile_for(VERSION, SETTINGS)
_CONFIG = ReplayConfig(_PROFILE, VERSION, _PROFILE.broker(SETTINGS), _SKEW_US, 1_000_000)


class Cost(NamedTuple):
    """CPU seconds and packed batches of one round, and the rows and bytes that it handed back, by table."""

    pack_s: float
    replay_s: float
    packed: int
    rows: Counter[str]
    bytes: Counter[str]


def trace_of(shape: Shape) -> list[pa.RecordBatch]:
    """The rows of all partitions in the order of time, with the columns that `pack` takes."""
    rows = rows_of(shape, np.random.default_rng(shape.seed))
    return [with_all_columns(batch) for batch in batches(rows, np.arange(rows.event.size))]


def measured(trace: list[pa.RecordBatch], partitions: int) -> Cost:
    """Packs and replays the trace in one task, with all that is encoded and decoded on the way."""
    groups = [Group(topic_of(number), "ks") for number in range(partitions)]
    began = time.process_time()
    packed = [chunk for batch in trace for chunk in decoded_batches([encoded(pack(batch, _PROFILE))])]
    between = time.process_time()
    by_topic: dict[str, list[PackedBatch]] = {group.topic: [] for group in groups}
    for chunk in packed:
        by_topic[chunk.topic].append(chunk)
    handed_back = list(task_result(_replayed(groups, by_topic)))
    replay_s = time.process_time() - between
    rows: Counter[str] = Counter()
    size: Counter[str] = Counter()
    for batch in handed_back:
        for table, payload in zip(batch["table"].to_pylist(), batch["payload"].to_pylist(), strict=True):
            rows[table] += sum(part.num_rows for part in batches_in(payload))
            size[table] += len(payload)
    return Cost(between - began, replay_s, len(packed), rows, size)


def _replayed(groups: list[Group], by_topic: dict[str, list[PackedBatch]]) -> Iterator[tuple[str, Columns]]:
    for group in groups:
        chunks = [own for chunk in by_topic[group.topic] if (own := rows_for(group.subscription, chunk)) is not None]
        yield from replay_group(group, sorted(chunks, key=lambda chunk: chunk.first_seq), _CONFIG, 100)


def main(
    partitions: Annotated[int, typer.Option(min=2, help="Topic partitions.")] = 200,
    events: Annotated[int, typer.Option(min=100, help="Events of each partition, about.")] = 1_000,
    consumers: Annotated[int, typer.Option(min=1, help="Consumers of each partition, at the start.")] = 10,
    changes: Annotated[int, typer.Option(min=1, help="Membership changes of each partition after the start.")] = 4,
    rounds: Annotated[int, typer.Option(min=1, help="How often each trace is replayed.")] = 3,
) -> None:
    """Measures what quiet partitions cost; prints one JSON object."""
    shape = Shape(partitions * events, partitions, consumers, changes=changes, order="time")
    # Twelve more changes, for what one of them costs.
    more = replace(shape, changes=changes + 12)
    # As many rows in fewer packed batches, for what one of them costs besides its rows.
    fewer = replace(shape, partitions=max(partitions // 50, 1))
    traces = {one: trace_of(one) for one in (shape, more, fewer)}
    measured(trace_of(replace(shape, partitions=2, events=2 * events)), 2)  # loads what is compiled
    gc.collect()
    gc.freeze()  # as `with_frozen_imports` does in workers
    costs: dict[Shape, list[Cost]] = {one: [] for one in traces}
    for _ in range(rounds):
        for one, trace in traces.items():
            costs[one].append(measured(trace, one.partitions))
    plain, changed, together = (
        {f: statistics.median(getattr(c, f) for c in of) for f in ("pack_s", "replay_s")} for of in costs.values()
    )
    first, batches_more = costs[shape][0], costs[shape][0].packed - costs[fewer][0].packed
    figures = {
        "partitions": partitions,
        "rows": sum(batch.num_rows for batch in traces[shape]),
        "packed_batches": first.packed,
        "ms_per_packed_batch_with_rows": round(1e3 * plain["pack_s"] / first.packed, 3),
        "ms_per_further_packed_batch": round(1e3 * (plain["pack_s"] - together["pack_s"]) / batches_more, 3),
        "ms_per_partition": round(1e3 * plain["replay_s"] / partitions, 2),
        "ms_per_further_change": round(1e3 * (changed["replay_s"] - plain["replay_s"]) / partitions / 12, 3),
        "kb_per_partition": round(first.bytes.total() / partitions / 1e3, 1),
        "kb_by_table": {table: round(size / partitions / 1e3, 2) for table, size in first.bytes.most_common()},
        "rows_by_table": {table: round(count / partitions, 1) for table, count in first.rows.most_common()},
    }
    print(json.dumps(figures, indent=1))  # noqa: T201 - its output


if __name__ == "__main__":
    typer.run(main)
