"""Joins the rows that the replay refused with their file, line and text.

The replay names rows by topic, subscription, recorder and seq; a second reading of the trace finds the rows of these
seqs (`dispatch_audit.pipeline.trace.checks.asked`). An input row is at most one row here, so that rows in = rows
audited + rows quarantined.
"""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as sf

# Stands for no topic; the names of topics are not empty.
_ANY = ""


def late_refusals(rows: DataFrame, refused: DataFrame) -> DataFrame:
    """Returns the rows that the replay refused, with one reason each.

    Args:
        rows: good rows with the seqs of refused ones, as
            `dispatch_audit.pipeline.plan.staged_texts.rows_in` returns them.
        refused: topic, subscription, broker, seq, reason and detail; broker null stands for rows of any broker.

    Returns:
        Topic, subscription, seq, reason, detail, file, line and raw.
    """
    by_row = refused.groupBy("topic", "seq", "subscription", "broker").agg(
        sf.sort_array(sf.collect_list(sf.struct("reason", "detail"))).alias("refusals")
    )
    late = sf.sort_array(sf.collect_list(sf.struct("topic", "subscription", "broker", "refusals"))).alias("late")
    # A gap of all topics names none, and each of them has refused it. One row per topic and seq, so that the join never
    # doubles a row.
    of_any_topic = by_row.groupBy("seq").agg(late).withColumn("of_topic", sf.lit(_ANY))
    named = by_row.groupBy(sf.col("topic").alias("of_topic"), "seq").agg(late).unionByName(of_any_topic)
    by_broker = sf.filter("late", lambda r: r.broker.isNull() | (r.broker == sf.coalesce("broker", sf.lit(""))))
    # A publish belongs to every subscription of its topic, so any of them may have refused it.
    of_all = (sf.col("event") == "publish") | sf.col("subscription").isNull()
    of_row = sf.filter(by_broker, lambda r: of_all | (r.subscription == sf.col("subscription")))
    own = rows.drop("reason", "detail").withColumn("of_topic", sf.coalesce("topic", sf.lit(_ANY)))
    own = own.join(named, ["of_topic", "seq"])
    return _with_one_reason(own.withColumn("late", sf.get(of_row, sf.lit(0))).where("late IS NOT NULL"))


def _with_one_reason(rows: DataFrame) -> DataFrame:
    """Returns the refused rows.

    If more rows have a seq than the replay refused, it used the earliest ones, so the last ones are taken as refused.
    """
    same_seq = Window.partitionBy("late.topic", "seq", "late.subscription", "late.broker")
    last_first = same_seq.orderBy(sf.desc("ts_us"), sf.desc("file"), sf.desc("line"))
    numbered = rows.withColumn("refusal", sf.get("late.refusals", sf.row_number().over(last_first) - 1))
    return numbered.where("refusal IS NOT NULL").select(
        sf.coalesce("topic", "late.topic").alias("topic"),
        sf.coalesce("subscription", "late.subscription").alias("subscription"),
        "seq",
        sf.col("refusal.reason").alias("reason"),
        sf.col("refusal.detail").alias("detail"),
        "file",
        "line",
        "raw",
    )
