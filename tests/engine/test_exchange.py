"""Each task has a partition of its own, however Spark divides rows."""

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from dispatch_audit.pipeline.engine.releases.exchange import in_own_partition, partition_keys


@pytest.mark.parametrize("partitions", [1, 2, 7, 400])
def test_there_is_a_key_for_each_partition(partitions: int) -> None:
    assert len(set(partition_keys(partitions))) == partitions


@pytest.mark.spark
def test_the_keys_are_those_of_the_hash_of_spark(spark: SparkSession) -> None:
    keys = partition_keys(7)
    frame = spark.createDataFrame([(key,) for key in keys], "key INT")
    hashed = frame.select("key", sf.pmod(sf.hash("key"), sf.lit(7)).alias("partition")).collect()
    assert [row["partition"] for row in sorted(hashed, key=lambda row: keys.index(row["key"]))] == list(range(7))


@pytest.mark.spark
def test_no_two_tasks_share_a_partition(spark: SparkSession) -> None:
    tasks = spark.range(0, 60).select((sf.col("id") % 20).cast("int").alias("task"))
    found = in_own_partition(tasks, 20, "task").select("task", sf.spark_partition_id().alias("partition")).collect()
    assert {(row["task"], row["partition"]) for row in found} == {(task, task) for task in range(20)}
