"""The rows that were not audited, each with its reason, its place and its text.

Runs a second scan over the logs and is for the case that something was refused; the first scan carries
neither files nor texts. One input row is at most one row here, so rows in = rows audited + rows quarantined.
"""

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as sf

from pipeline.spark_errors import trace_errors
from pipeline.trace.quarantine.line_numbers import numbered
from pipeline.trace.quarantine.truncated_logs import TruncatedLog
from pipeline.trace.read import read_parts
from pipeline.trace.sources import Trace

QUARANTINE_COLUMNS = ("topic", "subscription", "seq", "reason", "detail", "file", "line", "raw")

# What the replay says of a row: who refused it, and why, once for each time it did.
_LATE = "STRUCT<subscription: STRING, broker: STRING, refusals: ARRAY<STRUCT<reason: STRING, detail: STRING>>>"
_CARRIED = ("topic", "subscription", "seq", "ts_us", "refused", "detail", "late", "raw")


def quarantined(
    spark: SparkSession,
    trace: Trace,
    *,
    cut_off: Sequence[TruncatedLog] = (),
    refused_late: DataFrame | None = None,
) -> DataFrame:
    """The quarantine rows of `trace`: those of its range of seq, and those that the replay names.

    Args:
        spark: the session.
        trace: what was read.
        cut_off: where logs end in the middle of a row, as the survey found.
        refused_late: what the replay refused: topic, subscription, broker, seq, reason, detail; a broker that is null
            means rows of any.

    Returns:
        `QUARANTINE_COLUMNS`. `line` is 1-based, in Parquet the row's number in its file, and null where Spark
        does not tell (Delta, tables). `raw` is the line, or the row of a log of columns as JSON.

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
    """As `quarantined`, with `last_line` and without a look at how the files end."""
    with trace_errors():
        # What the replay refuses may have been held back since an earlier window.
        meant = f"if(refused IS NULL, late IS NOT NULL, {trace.seqs.sql})"
        read = read_parts(spark, trace, origin=True)
        parts = [_placed(_with_late_refusals(part, refused_late), meant) for part in read]
    rows = reduce(DataFrame.unionByName, parts).withColumn("file", _plain_path("file"))
    if refused_late is None:
        return rows.withColumnRenamed("refused", "reason").drop("late")
    return _with_one_reason(rows)


def _placed(rows: DataFrame, meant: str) -> DataFrame:
    """Those of `rows` for which the condition `meant` holds, with file, line and whether it is the last."""
    if "row_id" in rows.columns:
        # A blank line has no raw text: it is no row, but it counts as a line.
        return numbered(rows, f"raw IS NOT NULL AND {meant}", _CARRIED)
    return rows.where(meant).select(*_CARRIED, "file", "line", sf.lit(False).alias("last_line"))


def _with_late_refusals(rows: DataFrame, refused_late: DataFrame | None) -> DataFrame:
    """Adds `late`: who refused the row, and every refusal of that topic, subscription and seq.

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
    own = sf.filter(by_broker, lambda r: (sf.col("event") == "publish") | (r.subscription == sf.col("subscription")))
    return rows.join(late, ["topic", "seq"], "left").withColumn("late", sf.get(own, sf.lit(0)))


def _with_one_reason(rows: DataFrame) -> DataFrame:
    """One reason a row: its own, or that of the replay.

    The replay names rows by seq. Where more rows bear that seq than it refused it kept one of the earliest time, and
    those that stand last are taken for the refused ones.
    """
    rows = rows.withColumn("late", sf.when(sf.col("refused").isNull(), sf.col("late")))
    # The line keeps apart the rows that the replay never saw: broken ones have neither topic nor seq.
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
    """A path as people write it, for the `file:` URI that Spark makes of it."""
    path = sf.regexp_replace(name, "^file:(//)?", "")
    # url_decode reads forms, in which a plus is a space; in a path it is a plus.
    decoded = sf.url_decode(sf.replace(path, sf.lit("+"), sf.lit("%2B")))
    return sf.when(sf.startswith(name, sf.lit("file:")), decoded).otherwise(sf.col(name))
