"""The audit on a cluster of processes: equal tables, also when a worker is lost, and files that workers do not see."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from benchmarks.reliability_parts.lost_workers import STAGES, lost_workers, submitted, traces_for_both_readers
from benchmarks.runs import ROOT
from cluster.standalone import StandaloneCluster

pytestmark = [pytest.mark.spark, pytest.mark.e2e, pytest.mark.slow]

SAMPLES = ROOT / "data" / "samples"
# A busy machine takes several times what a quiet one does.
TIMEOUT_S = 900


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneCluster]:
    with StandaloneCluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


def test_a_worker_that_is_lost_changes_nothing(spark: SparkSession, tmp_path: Path) -> None:
    found = lost_workers(spark, tmp_path, len(STAGES))
    assert found["workers_killed_by_stage"] == dict.fromkeys(STAGES, 1)
    assert found["workers_killed_equal"] == len(STAGES)


def test_a_trace_that_only_the_driver_sees_is_refused(
    cluster: StandaloneCluster, spark: SparkSession, tmp_path: Path
) -> None:
    # In Parquet, which the workers try to read themselves before Spark does.
    Path(traces_for_both_readers(spark, tmp_path)[0]).rename(tmp_path / "trace")
    # The same words name a folder of the driver, and none of an executor, which works in another place.
    seen_by_driver = "/proc/self/cwd/trace"
    log = tmp_path / "driver.log"
    with submitted(cluster, log, seen_by_driver, "--out", str(tmp_path / "out"), "--quiet", cwd=tmp_path) as job:
        assert job.wait(TIMEOUT_S) == 2, log.read_text()[-3000:]
    assert "a worker does not find /proc/self/cwd/trace/" in log.read_text()
    assert "put it where every worker can read it" in log.read_text()


def test_tables_that_only_a_worker_sees_are_refused(cluster: StandaloneCluster, tmp_path: Path) -> None:
    # Each process writes below its own folder, and without a look at the number of rows there would be a clean verdict.
    log = tmp_path / "driver.log"
    sample = str(SAMPLES / "hung-consumer-4.0.8")
    with submitted(cluster, log, sample, "--out", "/proc/self/cwd/out", "--quiet", cwd=tmp_path) as job:
        assert job.wait(TIMEOUT_S) == 2, log.read_text()[-3000:]
    assert "workers wrote to /proc/self/cwd/out on their own disks, which the driver cannot read" in log.read_text()
