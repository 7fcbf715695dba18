"""The plan of the replay: what moves between machines, and how often."""

import re

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from pipeline.profile import profile_for
from pipeline.replay.basis import Rules
from pipeline.replay.group import Group
from pipeline.replay.spark import chunks_of, replayed
from pipeline.trace.schema import EVENT_SCHEMA


@pytest.mark.spark
def test_one_exchange_and_one_sort(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    events = spark.createDataFrame([], EVENT_SCHEMA).withColumn("refused", sf.lit(None).cast("string"))
    rules = Rules(profile_for("4.0.8", {}), "4.0.8", {}, skew_us=10_000, open_entries_max=1_000_000)
    groups = [Group("t", "s")]
    chunks = chunks_of(events, groups, rules.profile)
    replayed(chunks, groups, rules, findings_per_rule_max=10, tasks=2).explain()
    plan = capsys.readouterr().out
    assert len(re.findall(r"\bExchange\b", plan)) == 1
    assert len(re.findall(r"\bSort\b", plan)) == 1
    assert "MapInArrow" in plan.split("Exchange")[1], "rows are packed before they are exchanged"
