"""Returns the rows that were not audited, each with its reason, file, line and text.

It scans the logs a second time, and only if a row was refused: the first scan has neither files nor texts. An input row
is at most one row here, so that rows in = rows audited + rows quarantined.
"""

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as sf

from dispatch_audit.pipeline.spark_errors import trace_errors
from dispatch_audit.pipeline.trace.quarantine.line_numbers import numbered
from dispatch_audit.pipeline.trace.quarantine.truncated_logs import TruncatedLog
from dispatch_audit.pipeline.trace.read import read_parts
from dispatch_audit.pipeline.trace.sources import Trace

QUARANTINE_COLUMNS = ("topic", "subscription", "seq", "reason", "detail", "file", "line", "raw")

# The refusals of a row by the replay: by which subscription and broker, and one reason for each refusal.
_LATE = "STRUCT<subscription: STRING, broker: STRING, refusals: ARRAY<STRUCT<reason: STRING, detail: STRING>>>"
_CARRIED = ("topic", "subscription", "seq", "ts_us", "refused", "detail", "late", "raw")


def quarantined(
    spark: SparkSession,
    trace: Trace,
    *,
    cut_off: Sequence[TruncatedLog] = (),
    refused_late: DataFrame | None = None,
) -> DataFrame:
    """Returns the quarantine rows of `trace`: refused rows in its range of seq, and rows that the replay refused.

    Args:
        spark: the session.
        trace: the trace that was read.
        cut_off: the truncated logs that the survey found.
        refused_late: rows that the replay refused, as topic, subscription, broker, seq, reason and detail; broker null
            stands for rows of any broker.

    Returns:
        `QUARANTINE_COLUMNS`. `line` is 1-based, in Parquet the row's number in its file, and null for Delta and tables,
        where Spark does not report it. `raw` is the line, or the row of a columnar log as JSON.

    Raises:
        TraceError: a file cannot be read any more.
    """
    rows = refused_rows(spark, trace, refused_late)
    in_cut_off_row = reduce(
        Column.__or__,
        [(sf.col("file") == where.file) & (sf.col("line") == where.line) for where in cut_off],
        sf.lit(False),
    )
    reason = sf.when(in_cut_off_row, "cut_off").otherwise(sf.col("reason")).alias("reason")
    return rows.select(*[reason if name == "reason" else sf.col(name) for name in QUARANTINE_COLUMNS])


def refused_rows(spark: SparkSession, trace: Trace, refused_late: DataFrame | None = None) -> DataFrame:
    """Returns the rows of `quarantined` with `last_line`; truncated rows are still `broken_json`."""
    with trace_errors():
        # Rows that the replay refuses may be older than the window: an earlier window left them open.
        wanted = f"if(refused IS NULL, late IS NOT NULL, {trace.seqs.sql})"
        read = read_parts(spark, trace, origin=True)
        parts = [_with_origin(_with_late_refusals(part, refused_late), wanted) for part in read]
    rows = reduce(DataFrame.unionByName, parts).withColumn("file", _plain_path("file"))
    if refused_late is None:
        return rows.withColumnRenamed("refused", "reason").drop("late")
    return _with_one_reason(rows)


def _with_origin(rows: DataFrame, wanted: str) -> DataFrame:
    """Returns the rows that meet the condition `wanted`, with file, line and whether the line is the last."""
    if "row_id" in rows.columns:
        # A blank line has no raw text: it is no row, but it counts as a line.
        return numbered(rows, f"raw IS NOT NULL AND {wanted}", _CARRIED)
    return rows.where(wanted).select(*_CARRIED, "file", "line", sf.lit(False).alias("last_line"))


def _with_late_refusals(rows: DataFrame, refused_late: DataFrame | None) -> DataFrame:
    """Returns the rows with `late`: the subscription that refused the row, and its refusals of that topic and seq.

    A publish belongs to every subscription of its topic, so any of them may have refused it.
    """
    if refused_late is None:
        return rows.withColumn("late", sf.lit(None).cast(_LATE))
    # One row per topic and seq, so that the join never doubles a row.
    late = (
        refused_late.groupBy("topic", "seq", "subscription", "broker")
        .agg(sf.sort_array(sf.collect_list(sf.struct("reason", "detail"))).alias("refusals"))
        .groupBy("topic", "seq")
        .agg(sf.sort_array(sf.collect_list(sf.struct("subscription", "broker", "refusals"))).alias("late"))
    )
    by_broker = sf.filter("late", lambda r: r.broker.isNull() | (r.broker == sf.coalesce("broker", sf.lit(""))))
    of_row = sf.filter(by_broker, lambda r: (sf.col("event") == "publish") | (r.subscription == sf.col("subscription")))
    return rows.join(late, ["topic", "seq"], "left").withColumn("late", sf.get(of_row, sf.lit(0)))


def _with_one_reason(rows: DataFrame) -> DataFrame:
    """Returns the rows with one reason each: that of the checks, or that of the replay.

    The replay names rows by seq. Where more rows have that seq than it refused, it used one of the earliest time, so
    the last rows are taken for the refused ones.
    """
    rows = rows.withColumn("late", sf.when(sf.col("refused").isNull(), sf.col("late")))
    # Rows that the replay did not get are separated by line, because broken ones have neither topic nor seq.
    unseen = sf.when(sf.col("late").isNull(), sf.col("line"))
    same_seq = Window.partitionBy("topic", "seq", "late.subscription", "late.broker", unseen)
    last_first = same_seq.orderBy(sf.desc("ts_us"), sf.desc("file"), sf.desc("line"))
    rows = rows.withColumn("refusal", sf.get("late.refusals", sf.row_number().over(last_first) - 1))
    return rows.where("late IS NULL OR refusal IS NOT NULL").select(
        "topic",
        sf.coalesce("subscription", "late.subscription").alias("subscription"),
        "seq",
        sf.coalesce("refused", "refusal.reason").alias("reason"),
        sf.coalesce("detail", "refusal.detail").alias("detail"),
        "file",
        "line",
        "last_line",
        "raw",
    )


def _plain_path(name: str) -> Column:
    """Returns the path of a `file:` URI as people write it; other URIs stay as they are."""
    path = sf.regexp_replace(name, "^file:(//)?", "")
    # url_decode would turn a plus into a space, as in HTML forms.
    decoded = sf.url_decode(sf.replace(path, sf.lit("+"), sf.lit("%2B")))
    return sf.when(sf.startswith(name, sf.lit("file:")), decoded).otherwise(sf.col(name))
