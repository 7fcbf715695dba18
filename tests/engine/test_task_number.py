"""Into how many tasks work is divided: few where little is to be done."""

from collections.abc import Iterator

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf
from samples import SAMPLES

from dispatch_audit.pipeline.engine.task_number import task_number
from dispatch_audit.pipeline.trace import open_traces
from dispatch_audit.pipeline.trace.workers import tasks
from dispatch_audit.pipeline.trace.workers.part import Part

pytestmark = pytest.mark.spark

PARTITIONS = "spark.sql.shuffle.partitions"
SAMPLE = SAMPLES / "heavy-churn-3.0.7"


@pytest.fixture
def three(spark: SparkSession) -> Iterator[SparkSession]:
    """The session, as on a machine with three cores."""
    before = spark.conf.get(PARTITIONS) or ""
    spark.conf.set(PARTITIONS, "3")
    yield spark
    spark.conf.set(PARTITIONS, before)


@pytest.mark.parametrize(
    ("pieces", "starts", "expected"),
    [
        (0, 0.0, 1),
        (2, 0.1, 2),
        (8, 0.1, 3),
        (8, 4.2, 5),
        (8, 90.0, 8),
        (400, 90.0, 12),
    ],
)
def test_there_is_a_task_for_what_takes_as_long_as_its_start(
    three: SparkSession, pieces: int, starts: float, expected: int
) -> None:
    assert task_number(three, pieces, starts, 4) == expected


def test_without_a_limit_there_are_as_many_as_are_worth_it(three: SparkSession) -> None:
    assert task_number(three, 400, 90.0) == 90


@pytest.mark.parametrize(("bytes_a_task", "expected"), [(tasks._TASK_BYTES, 3), (1, 4)])
def test_small_files_share_tasks(
    three: SparkSession, monkeypatch: pytest.MonkeyPatch, bytes_a_task: int, expected: int
) -> None:
    monkeypatch.setattr(tasks, "_TASK_BYTES", bytes_a_task)
    (trace,) = open_traces([SAMPLE])

    def work(parts: Iterator[Part]) -> Iterator[pa.RecordBatch]:
        for part in parts:
            yield pa.record_batch([pa.array([part.file])], names=["file"])

    frame = tasks.in_tasks(three, trace, work, "file STRING")
    rows = frame.select("file", sf.spark_partition_id().alias("task")).collect()
    assert len({row["file"] for row in rows}) == len(rows) == 4
    assert len({row["task"] for row in rows}) == expected
