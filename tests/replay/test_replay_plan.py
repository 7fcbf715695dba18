"""The plan of the replay: what moves between machines, and how often."""

import re

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from dispatch_audit.pipeline.contract.profile import profile_for
from dispatch_audit.pipeline.replay.pack_on_spark import packed_earlier_publishes, packed_rows, packed_states
from dispatch_audit.pipeline.replay.packing.packed_batch import Group
from dispatch_audit.pipeline.replay.recorders.recorders import Recorders, Term
from dispatch_audit.pipeline.replay.replay_on_spark import in_order, replayed
from dispatch_audit.pipeline.replay.subscription.config import ReplayConfig
from dispatch_audit.pipeline.trace.schema import EVENT_SCHEMA


@pytest.mark.spark
@pytest.mark.parametrize(("of_window", "moved"), [(False, False), (True, False), (False, True)])
def test_one_exchange_and_one_sort(
    of_window: bool, moved: bool, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    events = spark.createDataFrame([], EVENT_SCHEMA).withColumn("refused", sf.lit(None).cast("string"))
    config = ReplayConfig(profile_for("4.0.8", {}), "4.0.8", {}, skew_us=10_000, open_entries_max=1_000_000)
    groups = [Group("t", "s")]
    terms = (Term(0, 1, 9, first=1, until_us=5), Term(1, 1, 9, first=12, until_us=None))
    recorders = {"t": Recorders(("a", "b"), terms)} if moved else {}
    chunks = packed_rows(events, groups, config.profile, recorders)
    if of_window:
        state = spark.createDataFrame([("t", "s", b"state")], "topic STRING, subscription STRING, payload BINARY")
        chunks = chunks.unionByName(packed_states(state, groups))
        chunks = chunks.unionByName(packed_earlier_publishes(events, groups, set(groups), config.profile))
    replayed(
        chunks, groups, config, findings_per_rule_max=10, tasks=2, keep_state=of_window, recorders=recorders
    ).explain()
    plan = capsys.readouterr().out
    assert len(re.findall(r"\bExchange\b", plan)) == 1
    assert len(re.findall(r"\bSort\b", plan)) == 1
    assert len(re.findall(r"\bMapInArrow\b", plan)) == (3 if of_window else 1)
    assert "MapInArrow" in plan.split("Exchange")[1], "rows are packed before they are exchanged"


@pytest.mark.spark
def test_groups_are_dealt_out_to_the_tasks(spark: SparkSession) -> None:
    chunks = spark.createDataFrame(
        [(group, seq) for seq in range(3) for group in range(-1, 8)], "group INT, first_seq LONG"
    )
    for tasks, groups_a_task in ((9, {1}), (3, {3})):
        dealt = in_order(chunks, tasks).groupBy(sf.spark_partition_id()).agg(sf.count_distinct("group").alias("groups"))
        assert {row["groups"] for row in dealt.collect()} == groups_a_task
