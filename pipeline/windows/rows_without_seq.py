"""Finds rows without a readable seq, which belong to no window: the first window that reads them quarantines them.

Most are broken lines. A log that is still written often ends in half a row: a window that is not the last leaves that
row out, because it will be whole when the next window reads it.
"""

from collections.abc import Callable
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import Window as Rows
from pyspark.sql import functions as sf

from dispatch_audit.pipeline.errors import TraceError
from dispatch_audit.pipeline.plan.pack_on_spark import rows_with_texts
from dispatch_audit.pipeline.plan.staged_batches import STAGED_SCHEMA
from dispatch_audit.pipeline.plan.staged_texts import rows_in
from dispatch_audit.pipeline.settings import TraceSettings
from dispatch_audit.pipeline.tables.tables import of_runs
from dispatch_audit.pipeline.tables.target import Target
from dispatch_audit.pipeline.tables.way import tables_of
from dispatch_audit.pipeline.trace import trace_errors
from dispatch_audit.pipeline.trace.checks.row_batches import RowsRead
from dispatch_audit.pipeline.trace.quarantine.survey import cut_off_refused, truncated_logs
from dispatch_audit.pipeline.trace.workers.tasks import evaluated
from dispatch_audit.pipeline.windows.resolve import ResolvedWindow

_TIMES = "raw STRING, times LONG"


class RowsWithoutSeq(NamedTuple):
    """Rows of a window that have no readable seq.

    Attributes:
        rows: with the columns of `quarantine`, and others; None: there are no such rows.
        number: of these rows.
    """

    rows: DataFrame | None
    number: int


def rows_without_seq(
    spark: SparkSession,
    window: ResolvedWindow,
    target: Target,
    settings: TraceSettings,
    keep: Callable[[DataFrame], DataFrame],
) -> RowsWithoutSeq:
    """Returns such rows of the whole log that no other window of the chain has in `quarantine`.

    Args:
        spark: the session.
        window: the window.
        target: where the tables of the chain are.
        settings: allowed share of such rows, and whether truncated logs are allowed.
        keep: evaluates a frame once and returns its rows.

    Raises:
        TraceError: they are too large a share of the log, or a log that is taken to be complete is truncated.
    """
    without_seq, total = window.bounds.without_seq, window.bounds.rows
    if not without_seq:
        return RowsWithoutSeq(None, 0)
    if without_seq > settings.quarantine_ratio_max * total:
        raise TraceError(
            f"{window.whole.path}: no seq is readable in {without_seq} of {total} rows, more than the allowed share of "
            f"{settings.quarantine_ratio_max:g}",
            "check the recorder, or raise trace.quarantine_ratio_max",
        )
    with trace_errors():
        closed = window.next_seq is None
        found = rows_in(evaluated(spark, window.whole, rows_with_texts(_without_seq), STAGED_SCHEMA, keep))
        if closed and settings.truncated_log == "refuse" and (cut_off := truncated_logs(found)):
            raise cut_off_refused(cut_off[0])
        if not closed:
            found = found.where("reason <> 'cut_off'")
        known = tables_of(spark, target).query(
            "quarantine", "raw, count(*) AS times", f"WHERE {of_runs(window.plan.others)} GROUP BY raw"
        )
        rows = _not_known(found, spark.createDataFrame(known, _TIMES))
        return RowsWithoutSeq(rows, rows.count())


def _without_seq(found: RowsRead) -> pa.RecordBatch:
    return found.refused.filter(pc.is_null(found.refused.column("seq")))


def _not_known(rows: DataFrame, times: DataFrame) -> DataFrame:
    """Returns the rows beyond the known ones of the same text; a file may have moved, so its name does not matter."""
    same_text = Rows.partitionBy("raw").orderBy("file", "line")
    numbered = rows.withColumn("nth", sf.row_number().over(same_text)).join(times, "raw", "left")
    return numbered.where("nth > coalesce(times, 0)")
