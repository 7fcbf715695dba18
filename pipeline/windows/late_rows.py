"""Counts the rows that were added to windows of a log after their audit; repeated rows are not counted."""

from collections.abc import Sequence
from dataclasses import replace

from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from dispatch_audit.pipeline.packing.repeated_rows import DUPLICATE_SEQ, REPEATED_ROW
from dispatch_audit.pipeline.tables.table_schema import RUN_KEY
from dispatch_audit.pipeline.tables.tables import of_runs
from dispatch_audit.pipeline.tables.target import Target
from dispatch_audit.pipeline.tables.way import tables_of
from dispatch_audit.pipeline.trace import Trace, trace_errors
from dispatch_audit.pipeline.trace.seq_range import SeqRange
from dispatch_audit.pipeline.trace.workers.good_columns import good_columns
from dispatch_audit.pipeline.windows.chain import PastWindow


def late_rows(
    spark: SparkSession, trace: Trace, windows: Sequence[PastWindow], rows_now: Sequence[int], target: Target
) -> int:
    """Returns how many rows were added to windows after their audit; removed rows are not subtracted.

    Args:
        spark: the session.
        trace: all of the log.
        windows: the audited windows, in their order.
        rows_now: the number of rows that each has now.
        target: where their tables are.

    Raises:
        TraceError: a file cannot be read.
    """
    grown = [(window, rows) for window, rows in zip(windows, rows_now, strict=True) if rows > window.rows]
    if not grown:
        return 0
    same_seq_then = _same_seq_then(spark, [window for window, _ in grown], target)
    late = 0
    with trace_errors():
        for window, rows in grown:
            seqs_then = window.rows - same_seq_then.get(window.run_key, 0)
            late += max(rows - _same_seq_now(spark, trace, window) - seqs_then, 0)
    return late


def _same_seq_then(spark: SparkSession, windows: Sequence[PastWindow], target: Target) -> dict[str, int]:
    """Returns by run how many rows its audit quarantined because another row has the same seq."""
    of_seq = f"reason IN ('{REPEATED_ROW}', '{DUPLICATE_SEQ}')"
    where = f"WHERE {of_runs([window.run_key for window in windows])} AND {of_seq}"
    counts = tables_of(spark, target).query(
        "quarantine", f"{RUN_KEY}, count(*) AS number", f"{where} GROUP BY {RUN_KEY}"
    )
    return {row[RUN_KEY]: row["number"] for row in counts}


def _same_seq_now(spark: SparkSession, trace: Trace, window: PastWindow) -> int:
    """Returns how many good rows of a window have the seq of another one."""
    rows = replace(trace, seqs=SeqRange(window.first_seq, window.next_seq))
    good = good_columns(spark, rows, ("topic", "subscription", "seq"))
    (found,) = good.groupBy("topic", "subscription", "seq").count().agg(sf.sum(sf.col("count") - 1)).collect()
    return found[0] or 0
