"""How many rows come to Python at a time: as many as a worker has the memory for.

From Spark 4.0 on a batch ends at a number of bytes. Before, only the number of rows counts, for all statements of a
session; rows of a trace are small, and packed batches of them large.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from pyspark.sql import SparkSession

from dispatch_audit.pipeline.engine.name import release

_ROWS: Final = "spark.sql.execution.arrow.maxRecordsPerBatch"
_BYTES: Final = "spark.sql.execution.arrow.maxBytesPerBatch"
# The bytes of rows or packed batches that a worker is given at a time, which it needs besides the open state.
_FRAME_BYTES: Final = 8 << 20
# Without a limit of bytes. A packed batch takes half a megabyte, and 4 MB at most where one file has its rows.
_PACKED_BATCHES: Final = 16
# Of a trace, each of some hundred bytes.
_TRACE_ROWS: Final = 1 << 14


def limit_batches(spark: SparkSession, rows_max: int) -> None:
    """Sets the size of the batches in which rows come to Python.

    Args:
        spark: the session.
        rows_max: most rows of a trace in one batch.
    """
    if release(spark) >= (4, 0):
        spark.conf.set(_ROWS, str(rows_max))
        spark.conf.set(_BYTES, str(_FRAME_BYTES))
    else:
        spark.conf.set(_ROWS, str(min(rows_max, _PACKED_BATCHES)))


@contextmanager
def rows_of_a_trace(spark: SparkSession) -> Iterator[None]:
    """Lets the statements of its body have more rows in a batch, where a batch has no limit of bytes."""
    if release(spark) >= (4, 0):
        yield
        return
    before = spark.conf.get(_ROWS) or str(_PACKED_BATCHES)
    spark.conf.set(_ROWS, str(_TRACE_ROWS))
    try:
        yield
    finally:
        spark.conf.set(_ROWS, before)
