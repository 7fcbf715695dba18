"""Runs Python functions on the rows of a DataFrame, in the way of its engine."""

from typing import Any, Final, Literal

import pyarrow as pa
from pyspark.sql import DataFrame

from dispatch_audit.pipeline.engine.frozen_imports import with_frozen_imports
from dispatch_audit.pipeline.engine.name import on_sail
from dispatch_audit.pipeline.engine.thread_tasks import in_threads
from dispatch_audit.pipeline.engine.worker_pool import in_process
from dispatch_audit.pipeline.engine.worker_process import Batches, Function

WORKERS: Final = "dispatch_audit.workers"
"""Setting of a session on Sail: what runs Python functions, `Workers`; without it processes do."""

# A group of fewer bytes is handed over as one batch, because each batch costs.
_TOGETHER_BYTES: Final = 1 << 20

Workers = Literal["threads", "processes"]


def map_in_arrow(frame: DataFrame, function: Function, schema: str) -> DataFrame:
    """Returns the result of `function` on the batches of each partition, as `DataFrame.mapInArrow` does."""
    return frame.mapInArrow(_runner(frame, function), schema)


def map_groups(frame: DataFrame, group: str, order: str, tasks: int, function: Function, schema: str) -> DataFrame:
    """Returns the result of `function` on each group, whose rows come in their order.

    Args:
        frame: the rows.
        group: the column with the number of the group, an INT.
        order: the column that orders the rows of a group.
        tasks: the number of tasks that Spark divides the groups into; Sail calls the function as processes get free.
        function: gets the rows of one group, in at least one batch.
        schema: of the result, as DDL.
    """
    sail = on_sail(frame.sparkSession)
    run = _runner(frame, function)

    # The type hints make the engine hand over the batches one by one, instead of the group as a whole.
    def call(key: tuple[Any, ...], batches: Batches) -> Batches:
        return run(rows_in_order(batches, order) if sail else batches)

    ordered = frame if sail else in_order(frame, group, order, tasks)
    return ordered.groupBy(group).applyInArrow(call, schema)


def _runner(frame: DataFrame, function: Function) -> Function:
    spark = frame.sparkSession
    if not on_sail(spark):
        return with_frozen_imports(function)
    return in_threads(function) if spark.conf.get(WORKERS, "") == "threads" else in_process(function)


def in_order(frame: DataFrame, group: str, order: str, tasks: int) -> DataFrame:
    """Returns the rows of each group together and in their order, divided into so many tasks; on Spark only."""
    # Without the sort the rows of a group would come in any order: the exchange keeps none.
    # By the number and not by its hash, which puts several groups into one task and leaves others without any.
    return frame.repartitionById(tasks, group).sortWithinPartitions(group, order)


def rows_in_order(batches: Batches, order: str) -> Batches:
    """Yields the rows of a group in their order, those of a large group one by one.

    Sail drops a sort in front of a function, so they are sorted here.
    """
    found = list(batches)
    if sum(batch.nbytes for batch in found) < _TOGETHER_BYTES:
        yield pa.concat_batches(found).sort_by(order)
        return
    rows = [(value, at, row) for at, batch in enumerate(found) for row, value in enumerate(batch[order].to_pylist())]
    for _, at, row in sorted(rows):
        yield found[at].slice(row, 1)
