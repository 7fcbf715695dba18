"""Rows that came to windows of a log after their audit; what was only delivered once more is none of them."""

from collections.abc import Sequence
from dataclasses import replace

from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from pipeline.replay.packing.refused import DUPLICATE_SEQ, REPEATED_ROW
from pipeline.tables.table_schema import RUN_KEY
from pipeline.tables.target import Target
from pipeline.trace import Trace, read_events, trace_errors
from pipeline.trace.seq_range import SeqRange
from pipeline.windows.chain import Past


def late_rows(
    spark: SparkSession, trace: Trace, windows: Sequence[Past], rows_now: Sequence[int], target: Target
) -> int:
    """How many rows of windows were not there when these were audited; rows that are gone make up for none.

    Args:
        spark: the session.
        trace: all of the log.
        windows: that were audited, each followed by the next.
        rows_now: how many rows each has now.
        target: where their tables are.

    Raises:
        TraceError: a file cannot be read.
    """
    grown = [(one, rows) for one, rows in zip(windows, rows_now, strict=True) if rows > one.rows]
    if not grown:
        return 0
    again_then = _set_aside_then(spark, [one for one, _ in grown], target)
    late = 0
    with trace_errors():
        for one, rows in grown:
            seqs_then = one.rows - again_then.get(one.run_key, 0)
            late += max(rows - _again(spark, trace, one) - seqs_then, 0)
    return late


def _set_aside_then(spark: SparkSession, windows: Sequence[Past], target: Target) -> dict[str, int]:
    """By run, how many rows were set aside because another one has the same seq."""
    of_windows = sf.col(RUN_KEY).isin([one.run_key for one in windows])
    of_seq = sf.col("reason").isin(REPEATED_ROW, DUPLICATE_SEQ)
    counts = target.read(spark, "quarantine").where(of_windows & of_seq).groupBy(RUN_KEY).count()
    return {row[RUN_KEY]: row["count"] for row in counts.collect()}


def _again(spark: SparkSession, trace: Trace, window: Past) -> int:
    """How many good rows of a window have the seq of another one."""
    good = read_events(spark, replace(trace, seqs=SeqRange(window.first_seq, window.next_seq))).where("refused IS NULL")
    (found,) = good.groupBy("topic", "subscription", "seq").count().agg(sf.sum(sf.col("count") - 1)).collect()
    return found[0] or 0
