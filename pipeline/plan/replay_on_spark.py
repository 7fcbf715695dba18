"""The replay on Spark: one exchange, one sort, one grouped function.

    rows of a trace -> mapInArrow(pack) -> staged packed batches (`dispatch_audit.pipeline.plan.pack_on_spark`)
                    -> each to the groups that need it (`dispatch_audit.pipeline.plan.place_on_spark`)
                    -> exchange on the task -> sort of the packed batches by group
                    -> applyInArrow: replay of the groups of a task -> rows of all tables, as payloads

It uses only `pyspark.sql`, so that Spark Connect and serverless can run it. The functions that Spark sends to the
workers contain plain values only; the workers need this package and its dependencies.
"""

from collections.abc import Iterator
from itertools import chain, groupby

import pyarrow as pa
from pyspark.sql import DataFrame

from dispatch_audit.pipeline.engine.functions import map_groups
from dispatch_audit.pipeline.engine.worker_process import Batches
from dispatch_audit.pipeline.groups.columns import Columns
from dispatch_audit.pipeline.groups.replay_group import replay_group
from dispatch_audit.pipeline.packing.packed_batch import Group, PackedBatch, rows_for
from dispatch_audit.pipeline.plan.place_on_spark import STATE_SEQ, Placed
from dispatch_audit.pipeline.plan.staged_batches import decoded_batches
from dispatch_audit.pipeline.plan.task_result import task_result
from dispatch_audit.pipeline.recorders.recorders import ONE
from dispatch_audit.pipeline.replay.config import ReplayConfig
from dispatch_audit.pipeline.tables.payload import RESULT_SCHEMA


def replayed(
    placed: Placed, config: ReplayConfig, findings_per_rule_max: int, *, keep_state: bool = False
) -> DataFrame:
    """The rows of all tables that the replay of a trace fills, at most so many findings of a rule for each group.

    With `keep_state` the log goes on after these rows, so a state is written for the next window.

    Returns:
        `RESULT_SCHEMA`; evaluating it runs the replay, so it is written down once and read from there.
    """
    # Workers get plain values only.
    groups, all_recorders = placed.groups, placed.recorders

    def of_group(number: int, batches: Batches) -> Iterator[tuple[str, Columns]]:
        group = groups[number]
        before, rest = _state_in(batches)
        recorders, packed = all_recorders.get(group.topic, ONE), packed_batches_in(rest, group)
        return replay_group(
            group, packed, config, findings_per_rule_max, before=before, keep_state=keep_state, recorders=recorders
        )

    def replay(batches: Batches) -> Batches:
        of_groups = (of_group(number, rows) for number, rows in by_group(batches))
        yield from task_result(chain.from_iterable(of_groups))

    return map_groups(placed.batches, "group", "first_seq", placed.tasks, replay, RESULT_SCHEMA)


def by_group(batches: Batches) -> Iterator[tuple[int, Batches]]:
    """Yields the number and the rows of each group of a task; read them before the next group."""
    for number, rows in groupby(_of_one_group(batches), lambda rows: rows[0]):
        yield number, (batch for _, batch in rows)


def _of_one_group(batches: Batches) -> Iterator[tuple[int, pa.RecordBatch]]:
    for batch in batches:
        numbers = batch["group"].to_pylist()
        begin = 0
        for number, rows in groupby(numbers):
            end = begin + len(list(rows))
            yield number, batch.slice(begin, end - begin)
            begin = end


def _state_in(rows: Batches) -> tuple[bytes | None, Batches]:
    """The state that a group starts from, which is its first row if it has one; and the rows after it."""
    first = next(rows)
    if first["first_seq"][0].as_py() != STATE_SEQ:
        return None, chain([first], rows)
    return first["events"][0].as_py(), chain([first.slice(1)], rows)


def packed_batches_in(batches: Batches, group: Group) -> Iterator[PackedBatch]:
    """The packed batches of a group, from the rows that Spark gives to a grouped function."""
    for packed in decoded_batches(batches):
        of_group = rows_for(group.subscription, packed)
        if of_group is not None:
            yield of_group
