"""Runs Python functions on the rows of a DataFrame, in the way of its engine."""

from itertools import chain
from operator import attrgetter
from typing import Final, Literal

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from dispatch_audit.pipeline.engine.frozen_imports import with_frozen_imports
from dispatch_audit.pipeline.engine.gathered import gathered
from dispatch_audit.pipeline.engine.name import on_sail
from dispatch_audit.pipeline.engine.releases.exchange import in_own_partition
from dispatch_audit.pipeline.engine.thread_tasks import in_threads
from dispatch_audit.pipeline.engine.worker_pool import in_process
from dispatch_audit.pipeline.engine.worker_process import Batches, Function

WORKERS: Final = "dispatch_audit.workers"
"""Setting of a session on Sail: what runs Python functions, `Workers`; without it processes do."""

# Rows are handed over together up to this size, because each batch costs.
_TOGETHER_BYTES: Final = 1 << 20
_TASK: Final = "task"

Workers = Literal["threads", "processes"]


def map_in_arrow(frame: DataFrame, function: Function, schema: str) -> DataFrame:
    """Returns the result of `function` on the batches of each partition, as `DataFrame.mapInArrow` does."""
    return frame.mapInArrow(_runner(frame, function), schema)


def map_groups(frame: DataFrame, group: str, order: str, tasks: int, function: Function, schema: str) -> DataFrame:
    """Returns the result of `function` on the groups of each task, whose rows come in their order.

    A task has several groups, because each call of a function costs (docs/TRIED.md).

    Args:
        frame: the rows.
        group: the column with the number of the group, an INT that is not negative.
        order: the column that orders the rows of a group.
        tasks: the number of tasks that the groups are divided into.
        function: gets the rows of one task in at least one batch, those of one group after those of another.
        schema: of the result, as DDL.
    """
    divided = frame.withColumn(_TASK, (sf.col(group) % tasks).cast("int"))
    if on_sail(frame.sparkSession):
        # It hashes with a seed of its own, so that several tasks may share a partition.
        return divided.repartition(tasks, _TASK).mapInArrow(_runner(frame, _sorted(function, group, order)), schema)
    # Without the sort the rows of a group would come in any order: the exchange keeps none.
    rows = in_own_partition(divided, tasks, _TASK).sortWithinPartitions(group, order)
    return rows.mapInArrow(_runner(frame, _if_any(function)), schema)


def _sorted(function: Function, group: str, order: str) -> Function:
    """Returns a function that does the same with rows that come in no order."""

    def run(batches: Batches) -> Batches:
        return _if_any(function)(rows_in_order(batches, group, order))

    return run


def _if_any(function: Function) -> Function:
    """Returns a function that does the same, and nothing where there are no rows: a partition may be empty."""

    def run(batches: Batches) -> Batches:
        filled = (batch for batch in batches if batch.num_rows)
        first = next(filled, None)
        if first is not None:
            yield from function(chain([first], filled))

    return run


def _runner(frame: DataFrame, function: Function) -> Function:
    spark = frame.sparkSession
    if not on_sail(spark):
        return with_frozen_imports(function)
    if spark.conf.get(WORKERS, "") == "threads":
        return in_threads(function)
    return in_process(with_frozen_imports(function))


def rows_in_order(batches: Batches, group: str, order: str) -> Batches:
    """Yields the rows of a task, those of a group together and in their order, in batches of about a megabyte.

    Sail drops a sort in front of a function, so they are sorted here.
    """
    found = list(batches)
    rows = [
        (*key, at, row)
        for at, batch in enumerate(found)
        for row, key in enumerate(zip(batch[group].to_pylist(), batch[order].to_pylist(), strict=True))
    ]
    in_order = (found[at].slice(row, 1) for *_, at, row in sorted(rows))
    yield from map(pa.concat_batches, gathered(in_order, attrgetter("nbytes"), _TOGETHER_BYTES))
