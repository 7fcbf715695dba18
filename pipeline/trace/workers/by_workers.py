"""Hands the shares of a trace to workers; the engine moves only their numbers."""

from collections.abc import Callable, Iterable, Iterator, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from dispatch_audit.pipeline.engine.functions import map_in_arrow
from dispatch_audit.pipeline.trace.workers.shares import Share


def by_workers(
    spark: SparkSession,
    shares: Sequence[Share],
    work: Callable[[Iterator[Share]], Iterator[pa.RecordBatch]],
    schema: str,
) -> DataFrame:
    """Returns the result of `work` on the shares, each in a task of its own.

    Args:
        spark: the session.
        shares: at least one.
        work: runs in the workers; gets the shares of a task and yields batches of `schema`.
        schema: of the result, as DDL.
    """

    def run_task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return work(shares[number] for batch in batches for number in batch.column(0).to_pylist())

    return map_in_arrow(spark.range(0, len(shares), 1, len(shares)), run_task, schema)
