"""Finds file, line and text of the rows that the replay refused, which names them by seq only."""

from collections.abc import Callable
from dataclasses import replace

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from dispatch_audit.pipeline.packing.repeated_rows import DUPLICATE_SEQ, REPEATED_ROW
from dispatch_audit.pipeline.plan.pack_on_spark import rows_with_texts
from dispatch_audit.pipeline.plan.staged_batches import STAGED_SCHEMA
from dispatch_audit.pipeline.plan.staged_texts import rows_in
from dispatch_audit.pipeline.trace import Trace
from dispatch_audit.pipeline.trace.checks.asked import AskedRows
from dispatch_audit.pipeline.trace.quarantine.late_refusals import late_refusals
from dispatch_audit.pipeline.trace.workers.tasks import evaluated


def refused_by_replay(
    spark: SparkSession,
    trace: Trace,
    refused: DataFrame,
    asked: AskedRows,
    keep: Callable[[DataFrame], DataFrame],
) -> DataFrame:
    """Returns the rows that the replay refused, by a second reading of the trace, which skips what cannot have them.

    Args:
        spark: the session.
        trace: the trace, or a window of it.
        refused: topic, subscription, broker, seq, reason and detail of each refusal.
        asked: the rows that these name.
        keep: evaluates a frame once and returns its rows.

    Returns:
        Topic, subscription, seq, reason, detail, file, line and raw.

    Raises:
        TraceError: a file cannot be read any more.
    """
    first = trace.seqs.first
    if first is not None:
        # A new subscription also gets the publishes of earlier windows, which quarantined these rows already.
        quarantined_before = sf.col("reason").isin(REPEATED_ROW, DUPLICATE_SEQ) & (sf.col("seq") < first)
        refused = refused.where(~quarantined_before)
    # Some refused rows are older than the window: an earlier window left them open.
    wider = replace(trace, seqs=asked.seqs)
    work = rows_with_texts(lambda found: found.asked, asked)
    return late_refusals(rows_in(evaluated(spark, wider, work, STAGED_SCHEMA, keep)), refused)
