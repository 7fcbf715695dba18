"""`simulate` and `what-if` on the embedded engine, as users run them, and on Spark."""

import gzip
import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from conftest import RunCli
from embedded_commands import EmbeddedCommands
from outline import Outline
from pyspark.sql import SparkSession

from dispatch_audit.jobs.api.preparation import needs_of
from dispatch_audit.jobs.engines.load import Load
from dispatch_audit.pipeline.simulate.judge import batches_of
from dispatch_audit.pipeline.simulate.partition import PartitionSimulation
from dispatch_audit.pipeline.simulate.setup import setup_for
from dispatch_audit.pipeline.simulate.simulate_on_spark import simulate
from dispatch_audit.pipeline.simulate.traffic import opened
from dispatch_audit.pipeline.simulate.variants import variants_for
from dispatch_audit.pipeline.simulate.what_if import smallest_without_stall
from dispatch_audit.pipeline.simulate.work import DescribedPartition
from dispatch_audit.pipeline.simulate.workload.described import partition_of
from dispatch_audit.pipeline.simulate.workload.description import read_description

Run = Callable[..., "subprocess.CompletedProcess[str]"]
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


@pytest.mark.parametrize("traffic", ["described", "recorded"])
def test_a_simulation_has_processes_however_little_is_read(workload: Path, traffic: str) -> None:
    source = str(workload if traffic == "described" else ROOT / "data/samples/hung-consumer-4.0.8")

    # In threads of one process it would use one core.
    assert needs_of(opened(source)).load is not Load.BRIEF


@pytest.fixture
def run(run_embedded: EmbeddedCommands) -> Run:
    return lambda *arguments: run_embedded(*arguments, "--quiet")


def count_of(trace: Path, event: str) -> int:
    with gzip.open(trace / "messages.jsonl.gz", "rt") as lines:
        return sum(json.loads(line)["event"] == event for line in lines)


@pytest.mark.e2e
def test_a_simulated_trace_is_audited_like_a_recorded_one(run: Run, workload: Path, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    done = run("simulate", workload, "--out", trace)
    assert (done.returncode, done.stderr) == (0, "")
    assert sorted(path.name for path in trace.iterdir()) == [
        "events-00000.parquet",
        "events-00001.parquet",
        "trace.json",
    ]

    again = run("simulate", workload, "--out", trace)
    assert again.returncode == 2
    assert "is not empty; name a new folder" in again.stderr

    audited = run("audit", trace, "--out", tmp_path / "tables")
    assert audited.returncode == 0, audited.stdout
    assert "quarantine" not in audited.stderr


@pytest.mark.e2e
def test_what_if_names_the_dispatchers_that_stall_and_the_limit_that_does_not(run: Run, workload: Path) -> None:
    limit = "keySharedLookAheadMsgInReplayThresholdPerSubscription"
    per_consumer = "keySharedLookAheadMsgInReplayThresholdPerConsumer"
    arguments = ("--format", "json", "--search", limit, "--search", per_consumer)
    done = run("what-if", workload, *arguments)
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    stalled = {row["variant"] for row in found["variants"] if row["no_progress_s"] > 0}

    assert [row["variant"] for row in found["variants"]] == [variant.name for variant in variants_for("4.0.8", {})]
    assert {"as given"} <= stalled
    assert not stalled & {"no look-ahead limit", "hot-key overflow (PIP-474)"}
    assert all(row["violations"] == 0 for row in found["variants"])
    assert found["search"]["tried"][str(found["search"]["smallest"])] == 0


@pytest.mark.e2e
def test_what_if_writes_one_comparison_in_several_formats(
    run: Run, run_cli: RunCli, workload: Path, tmp_path: Path
) -> None:
    files = {form: tmp_path / f"what-if.{form}" for form in ("html", "markdown", "json")}
    options = [f"--report={form}={file}" for form, file in files.items()]
    done = run("what-if", workload, "--format", "markdown", *options)
    assert (done.returncode, done.stderr) == (0, "")
    assert files["markdown"].read_text() == done.stdout
    page = files["html"].read_text()
    text = " ".join(Outline(page).text.split())
    assert f"A simulation of {workload}, by" in text
    rows = {row["variant"]: row for row in json.loads(files["json"].read_text())["variants"]}
    given = rows["as given"]
    assert f"No progress for {given['no_progress_s']:.1f} s as given" in text
    assert f"As given: {given['sent']:,} in all. The most, " in text
    assert Outline(page).values("data-chart") == ["replay", "sent", "backlog"]

    for report, message in (
        (f"csv={tmp_path}/a", "is not FORMAT=FILE; the formats are html, markdown, json"),
        (f"html={tmp_path}/none/a", "its folder does not exist"),
    ):
        code, out, errors = run_cli("what-if", workload, "--report", report)
        assert (code, out) == (2, "")
        assert message in errors


@pytest.mark.e2e
def test_a_recorded_trace_is_simulated_under_the_recorded_broker_and_under_others(run: Run) -> None:
    sample = ROOT / "data/samples/hung-consumer-4.0.8"
    done = run("what-if", sample, "--format", "json", "--no-audit")
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    assert found["left_out"] == []
    rows = {row["variant"]: row for row in found["variants"]}
    published = count_of(sample, "publish")
    assert {row["entries"] for row in rows.values()} == {published}
    # The recorded consumer hangs for the whole recording, and the recorded limit stops all others.
    assert rows["as given"]["no_progress_s"] > 5
    assert rows["limits twice as high"]["replay_peak"] > rows["as given"]["replay_peak"] >= 200
    assert rows["no look-ahead limit"]["no_progress_s"] == 0


@pytest.mark.e2e
def test_what_cannot_be_simulated_is_named_and_the_rest_is_simulated(run: Run, tmp_path: Path) -> None:
    recordings = ROOT / "tests/data/traces"
    both = recordings / "two-subscriptions-4.2.4"
    trace = tmp_path / "trace"
    done = run("simulate", both, "--out", trace)
    assert done.returncode == 0
    (line,) = done.stderr.splitlines()
    assert "is left out: a simulated trace holds one subscription of a topic" in line
    simulated = pq.read_table(sorted(trace.glob("*.parquet")), columns=["event", "subscription"])
    assert simulated["event"].to_pylist().count("publish") == count_of(both, "publish")
    assert json.loads((trace / "trace.json").read_text())["pulsar_version"] == "4.2.4"

    done = run("what-if", recordings / "seek-4.0.8")
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert "subscription ks, is left out: the cursor was moved by seek, and no row has the target" in line


@pytest.mark.e2e
def test_every_partition_of_a_trace_is_simulated(run: Run, tmp_path: Path) -> None:
    recording = ROOT / "tests/data/traces/four-partitions-4.0.8"
    trace = tmp_path / "trace"
    done = run("simulate", recording, "--out", trace)
    assert (done.returncode, done.stderr) == (0, "")
    simulated = pq.read_table(sorted(trace.glob("*.parquet")), columns=["event", "topic"])
    assert len(set(simulated["topic"].to_pylist())) == 4
    assert simulated["event"].to_pylist().count("publish") == count_of(recording, "publish")

    done = run("simulate", recording, "--out", tmp_path / "one", "--partitions", "1")
    assert done.returncode == 0
    assert len(list((tmp_path / "one").glob("*.parquet"))) == 1


@pytest.mark.e2e
def test_one_topic_of_a_trace_is_compared(run: Run, tmp_path: Path) -> None:
    recording = ROOT / "tests/data/traces/four-partitions-4.0.8"
    with gzip.open(recording / "messages.jsonl.gz", "rt") as lines:
        rows = [json.loads(line) for line in lines]
    published = sum(row["event"] == "publish" and row["topic"].endswith("-partition-2") for row in rows)
    done = run("what-if", recording, "--format", "json", "--no-audit", "--topic", "*-partition-2")
    assert (done.returncode, done.stderr) == (0, "")
    assert {row["entries"] for row in json.loads(done.stdout)["variants"]} == {published}

    done = run("what-if", recording, "--subscription", "other")
    assert (done.returncode, done.stdout) == (2, "")
    assert "no row names a subscription, or one that is asked for" in done.stderr

    sampled = tmp_path / "sampled"
    shutil.copytree(recording, sampled)
    manifest = json.loads((recording / "trace.json").read_text()) | {"sample": {"share": "1/64", "salt": "s"}}
    (sampled / "trace.json").write_text(json.dumps(manifest))
    done = run("what-if", sampled)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "has 1/64 of the hashes, which is another load; record all of them" in done.stderr


def test_wrong_arguments_are_one_line_with_a_way_out(run_cli: RunCli, workload: Path, tmp_path: Path) -> None:
    for extra, message in (
        (["--policy", "fair"], "there is no policy 'fair'; use one of: draining, recently_joined, "),
        (["--set", "keySharedUnblockingIntervalMs"], "has no name and value; write --set NAME=VALUE"),
        (["--policy", "last_sent"], "is none for the dispatcher of 4.0.8; name another version, such as 3.3.2"),
        (["--version", "four"], "--version four is no version of Pulsar; write it like 4.0.8"),
    ):
        code, out, errors = run_cli("simulate", workload, "--out", tmp_path / "out", *extra)
        assert (code, out) == (2, "")
        assert message in errors
        assert len(errors.splitlines()) == 1


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
