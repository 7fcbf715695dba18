"""Returns columns of the good rows of a trace as a frame."""

from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from dispatch_audit.pipeline.trace.schema import ARROW_TYPES, EVENT_SCHEMA
from dispatch_audit.pipeline.trace.sources import Trace
from dispatch_audit.pipeline.trace.workers.part import Part
from dispatch_audit.pipeline.trace.workers.tasks import in_tasks

_ROWS: Final = 1 << 14


def good_columns(spark: SparkSession, trace: Trace, columns: Sequence[str]) -> DataFrame:
    """Returns columns of the good rows of a trace, not yet evaluated.

    Args:
        spark: the session.
        trace: the trace.
        columns: of `EVENT_SCHEMA`, not nested.

    Raises:
        UsageError: a table or a remote path does not exist, or the engine cannot read it.
        TraceError: Parquet or Delta cannot be opened.
    """

    def read(parts: Iterator[Part]) -> Iterator[pa.RecordBatch]:
        for part in parts:
            for found in part.read(columns, _ROWS):
                arrays = [found.good.column(name).cast(ARROW_TYPES[name]) for name in columns]
                yield pa.record_batch(arrays, names=list(columns))

    schema = ", ".join(f"{name} {EVENT_SCHEMA[name].dataType.simpleString()}" for name in columns)
    return in_tasks(spark, trace, read, schema)
