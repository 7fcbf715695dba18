"""When Spark needs the jars of Delta Lake, and which ones a session has."""

import re
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession

from dispatch_audit.jobs.engines.delta import needs_delta
from dispatch_audit.pipeline.tables.target import parse_target
from dispatch_audit.pipeline.trace import open_traces

SAMPLE = "data/samples/heavy-churn-3.0.7"


@pytest.mark.parametrize(
    ("target", "needed"),
    [("tables", False), ("/tmp/tables", False), ("catalog.schema", True), ("s3://b/t", True), ("file:///tmp/t", True)],
)
def test_for_tables_that_spark_writes(target: str, needed: bool) -> None:
    assert needs_delta(parse_target(target), open_traces([SAMPLE])) is needed


@pytest.mark.parametrize("source", ["catalog.schema.table", "hdfs://host/trace", "hdfs://host/trace.parquet"])
def test_for_logs_that_only_spark_reaches(source: str) -> None:
    assert needs_delta(None, open_traces([source], "pulsar-4.0.7"))


def test_for_delta_tables_but_not_for_files(tmp_path: Path) -> None:
    (tmp_path / "events.delta" / "_delta_log").mkdir(parents=True)
    assert needs_delta(None, open_traces([tmp_path], "pulsar-4.0.7"))
    assert not needs_delta(None, open_traces([SAMPLE]))


@pytest.mark.spark
def test_a_session_copies_no_jar_that_spark_has_itself(spark: SparkSession) -> None:
    of_spark = [jar.name for jar in Path(pyspark.__file__).with_name("jars").glob("*.jar")]
    # Ivy names a jar by its group, its name and its version.
    names = [re.sub(r"^[^_]*_|-[0-9].*", "", Path(jar).name) for jar in str(spark.conf.get("spark.jars")).split(",")]
    assert "delta-storage" in names
    assert [name for name in names if any(re.match(rf"{name}-[0-9]", jar) for jar in of_spark)] == []
