"""`simulate` and `what-if` on the embedded engine, as users run them, and on Spark."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from dispatch_audit.pipeline.simulate.judge import batches_of
from dispatch_audit.pipeline.simulate.partition import PartitionSimulation
from dispatch_audit.pipeline.simulate.setup import setup_for
from dispatch_audit.pipeline.simulate.simulate_on_spark import simulate
from dispatch_audit.pipeline.simulate.variants import DEFAULT_VARIANTS
from dispatch_audit.pipeline.simulate.what_if import smallest_without_stall
from dispatch_audit.pipeline.simulate.work import DescribedPartition
from dispatch_audit.pipeline.simulate.workload.described import partition_of
from dispatch_audit.pipeline.simulate.workload.description import read_description

PROGRAM = Path(sys.executable).with_name("dispatch-audit")
ROOT = Path(__file__).resolve().parents[2]

WORKLOAD = """
[topic]
partitions = 2
duration_s = 6
drain_s = 4
[keys]
per_partition = 12
[publish]
rate_per_s = 300
[[clients]]
count = 3
processing_ms = 2
receiver_queue = 50
[[events]]
at_s = 1
what = "hang"
consumer = "consumer-1"
[broker]
version = "4.0.8"
[broker.settings]
keySharedLookAheadMsgInReplayThresholdPerConsumer = 40
keySharedLookAheadMsgInReplayThresholdPerSubscription = 100
"""


@pytest.fixture
def workload(tmp_path: Path) -> Path:
    path = tmp_path / "workload.toml"
    path.write_text(WORKLOAD)
    return path


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    # No Java, wherever the tests run. The program of the environment, with the package of this checkout.
    env = {**os.environ, "JAVA_HOME": "/nonexistent", "PYTHONPATH": str(ROOT), "COLUMNS": "200"}
    command = [sys.executable, "-m", "dispatch_audit.jobs.cli", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env=env, check=False, timeout=600)


@pytest.mark.e2e
def test_a_simulated_trace_is_audited_like_a_recorded_one(workload: Path, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    done = run("simulate", workload, "--out", trace, "--engine", "embedded", "--quiet")
    assert (done.returncode, done.stderr) == (0, "")
    assert sorted(path.name for path in trace.iterdir()) == [
        "events-00000.parquet",
        "events-00001.parquet",
        "trace.json",
    ]

    again = run("simulate", workload, "--out", trace, "--engine", "embedded", "--quiet")
    assert again.returncode == 2
    assert "is not empty; name a new folder" in again.stderr

    audited = run("audit", trace, "--out", tmp_path / "tables", "--engine", "embedded", "--quiet")
    assert audited.returncode == 0, audited.stdout
    assert "quarantine" not in audited.stderr


@pytest.mark.e2e
def test_what_if_names_the_dispatchers_that_stall_and_the_limit_that_does_not(workload: Path) -> None:
    limit = "keySharedLookAheadMsgInReplayThresholdPerSubscription"
    per_consumer = "keySharedLookAheadMsgInReplayThresholdPerConsumer"
    arguments = ("--engine", "embedded", "--quiet", "--format", "json", "--search", limit, "--search", per_consumer)
    done = run("what-if", workload, *arguments)
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    stalled = {row["variant"] for row in found["variants"] if row["no_progress_s"] > 0}

    assert [row["variant"] for row in found["variants"]] == [variant.name for variant in DEFAULT_VARIANTS]
    assert {"as described"} <= stalled
    assert not stalled & {"no look-ahead limit", "hot-key overflow (PIP-474)"}
    assert all(row["violations"] == 0 for row in found["variants"])
    assert found["search"]["tried"][str(found["search"]["smallest"])] == 0


def test_wrong_arguments_are_one_line_with_a_way_out(workload: Path, tmp_path: Path) -> None:
    for extra, message in (
        (["--policy", "fair"], "there is no policy 'fair'; use one of: draining, recently_joined, "),
        (["--set", "keySharedUnblockingIntervalMs"], "has no name and value; write --set NAME=VALUE"),
        (["--policy", "last_sent"], "is none for the dispatcher of 4.0.8; name another version, such as 3.3.2"),
        (["--version", "four"], "'four' is no version number"),
    ):
        done = run("simulate", workload, "--out", tmp_path / "out", *extra)
        assert (done.returncode, done.stdout) == (2, "")
        assert message in done.stderr
        assert len(done.stderr.splitlines()) == 1


@pytest.mark.spark
def test_spark_simulates_each_partition_as_one_process_does(
    workload: Path, tmp_path: Path, spark: SparkSession
) -> None:
    description = read_description(workload)
    setup = setup_for("4.0.8", description.broker.settings, seed=3)
    simulate(spark, [DescribedPartition(description, number) for number in range(2)], setup, tmp_path / "trace")

    for number in range(2):
        written = pq.read_table(tmp_path / "trace" / f"events-{number:05d}.parquet")
        alone = PartitionSimulation(partition_of(description, number), setup.with_seed_of(number))
        assert written.to_pylist() == [row for batch in batches_of(alone) for row in batch.to_pylist()]


@pytest.mark.spark
def test_the_search_says_when_no_value_helps(workload: Path, spark: SparkSession) -> None:
    description = read_description(workload)
    setup = setup_for("4.0.8", description.broker.settings)
    work = [DescribedPartition(description, 0)]

    # The number of points on the ring does not make the hung consumer go on.
    found = smallest_without_stall(spark, work, setup, ["subscriptionKeySharedConsistentHashingReplicaPoints"], 200)
    assert found.value is None
    assert set(found.tried) == {100, 200}
