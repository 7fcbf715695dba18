"""The audit on a cluster of processes: equal tables, also when a worker is lost, and files that workers do not see."""

import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

import pytest
from pyspark.sql import SparkSession

from cluster.standalone import StandaloneCluster
from cluster.submit import submit_command, submit_environment
from pipeline.audit import audit
from pipeline.request import AuditRequest
from pipeline.settings import load_settings
from pipeline.trace import open_traces, read_events

Job: TypeAlias = "subprocess.Popen[bytes]"
ToldByTables = Callable[[Path], dict[str, list[str]]]

pytestmark = [pytest.mark.spark, pytest.mark.e2e, pytest.mark.slow]

ROOT = Path(__file__).resolve().parents[2]
SAMPLES = ROOT / "data" / "samples"
# A busy machine takes several times what a quiet one does.
TIMEOUT_S = 900
SMALL = {
    "spark.driver.memory": "700m",
    "spark.executor.memory": "700m",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.databricks.delta.snapshotPartitions": "1",
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneCluster]:
    with StandaloneCluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture(scope="module")
def traces(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """A sample in Parquet, which the workers read, and another in Delta, which Spark does."""
    made = []
    for sample, kind in (("heavy-churn-3.0.7", "parquet"), ("hung-consumer-4.0.8", "delta")):
        folder = tmp_path_factory.mktemp(kind)
        shutil.copy(SAMPLES / sample / "trace.json", folder)
        (trace,) = open_traces([SAMPLES / sample])
        rows = read_events(spark, trace).drop("refused", "detail")
        rows.write.format(kind).save(str(folder / "events"))
        made.append(str(folder))
    return made


@contextmanager
def submitted(cluster: StandaloneCluster, log: Path, *arguments: str, cwd: Path = ROOT) -> Iterator[Job]:
    """A job on the cluster, which does not outlive the test."""
    with log.open("wb") as output:
        job = subprocess.Popen(
            submit_command(cluster.url, arguments, SMALL),
            stdout=output,
            stderr=subprocess.STDOUT,
            env=submit_environment() | {"SPARK_LOCAL_IP": "127.0.0.1"},
            cwd=cwd,
        )
    try:
        yield job
    finally:
        job.kill()
        job.wait()


def wait_for_the_replay(out: Path, job: Job) -> None:
    """Until tasks of the replay write what they found; there is no table yet then with a row."""
    while not list(out.glob("_replay/*/_temporary/0/_temporary")):
        assert job.poll() is None, "the job ended before its replay began"
        time.sleep(0.05)


def test_a_worker_that_is_lost_changes_nothing(
    cluster: StandaloneCluster, spark: SparkSession, traces: list[str], told_by_tables: ToldByTables, tmp_path: Path
) -> None:
    audit(spark, AuditRequest(tuple(traces), str(tmp_path / "local"), None, load_settings()), lambda stage: None)

    log = tmp_path / "driver.log"
    with submitted(cluster, log, *traces, "--out", str(tmp_path / "cluster"), "--quiet") as job:
        wait_for_the_replay(tmp_path / "cluster", job)
        cluster.kill_worker(0)
        code = job.wait(TIMEOUT_S)

    assert code == 1, log.read_text()[-3000:]
    assert "Lost executor" in log.read_text()
    assert told_by_tables(tmp_path / "cluster") == told_by_tables(tmp_path / "local")


def test_a_trace_that_only_the_driver_sees_is_refused(
    cluster: StandaloneCluster, traces: list[str], tmp_path: Path
) -> None:
    # In Parquet, which the workers try to read themselves before Spark does.
    shutil.copytree(traces[0], tmp_path / "trace")
    # The same words name a folder of the driver, and none of an executor, which works in another place.
    seen_by_driver = "/proc/self/cwd/trace"
    log = tmp_path / "driver.log"
    with submitted(cluster, log, seen_by_driver, "--out", str(tmp_path / "out"), "--quiet", cwd=tmp_path) as job:
        assert job.wait(TIMEOUT_S) == 2, log.read_text()[-3000:]
    assert "a worker does not find /proc/self/cwd/trace/" in log.read_text()
    assert "put it where every worker of the cluster sees it" in log.read_text()


def test_tables_that_only_a_worker_sees_are_refused(cluster: StandaloneCluster, tmp_path: Path) -> None:
    # Each process writes below its own folder, and without a look at the number of rows there would be a clean verdict.
    log = tmp_path / "driver.log"
    sample = str(SAMPLES / "hung-consumer-4.0.8")
    with submitted(cluster, log, sample, "--out", "/proc/self/cwd/out", "--quiet", cwd=tmp_path) as job:
        assert job.wait(TIMEOUT_S) == 2, log.read_text()[-3000:]
    assert "workers write to a /proc/self/cwd/out of their own, not to that of the driver" in log.read_text()
