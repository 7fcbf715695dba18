"""Runs Python functions on the rows of a DataFrame, in the way of its engine."""

from operator import attrgetter
from typing import Any, Final, Literal

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from dispatch_audit.pipeline.engine.frozen_imports import with_frozen_imports
from dispatch_audit.pipeline.engine.gathered import gathered
from dispatch_audit.pipeline.engine.name import on_sail
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
    sail = on_sail(frame.sparkSession)
    run = _runner(frame, function)

    # The type hints make the engine hand over the batches one by one, instead of the group as a whole.
    def call(key: tuple[Any, ...], batches: Batches) -> Batches:
        return run(rows_in_order(batches, group, order) if sail else batches)

    divided = frame.withColumn(_TASK, sf.col(group) % tasks)
    if not sail:
        # Without the sort the rows of a group would come in any order: the exchange keeps none.
        divided = divided.repartitionById(tasks, _TASK).sortWithinPartitions(_TASK, group, order)
    return divided.groupBy(_TASK).applyInArrow(call, schema)


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
