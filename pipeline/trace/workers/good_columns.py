"""Returns columns of the good rows of a trace as a frame."""

from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from dispatch_audit.pipeline.trace.columnar.conform import conform
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
        columns: of `EVENT_SCHEMA`.

    Raises:
        UsageError: a table or a remote path does not exist, or the engine cannot read it.
        TraceError: Parquet or Delta cannot be opened.
    """

    def read(parts: Iterator[Part]) -> Iterator[pa.RecordBatch]:
        for part in parts:
            for found in part.read(columns, _ROWS):
                yield typed(found.good, columns)

    schema = ", ".join(f"{name} {EVENT_SCHEMA[name].dataType.simpleString()}" for name in columns)
    return in_tasks(spark, trace, read, schema)


def typed(good: pa.RecordBatch, columns: Sequence[str]) -> pa.RecordBatch:
    """Returns columns of good rows as the types of the format; a snapshot is JSON before, and a struct after."""
    arrays = [conform(good.column(name), ARROW_TYPES[name]) for name in columns]
    plain = [array.dictionary_decode() if pa.types.is_dictionary(array.type) else array for array in arrays]
    return pa.record_batch(plain, schema=pa.schema([(name, ARROW_TYPES[name]) for name in columns]))
