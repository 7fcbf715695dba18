"""Fresh environments of each release: installing leaves Spark as it is, and all ways to start have the same rows."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import every_kind
import pytest
from embedded_commands import EmbeddedCommands
from environments import DELTA_OF, ROOT, Environment, environment_with
from kinds_of_embedded import assert_equal_rows, audit_embedded

from benchmarks.table_rows import Tables, rows_of_tables
from cluster.standalone import StandaloneCluster
from dispatch_audit.jobs.engines.releases import RELEASES

pytestmark = [pytest.mark.spark, pytest.mark.e2e, pytest.mark.slow]

# Of every dispatcher and of several kinds of events.
RECORDINGS = [
    f"tests/data/traces/{name}"
    for name in (
        "batch-index-ack-4.0.8",
        "four-partitions-4.0.8",
        "hung-consumer-5.0.0-M1",
        "join-leave-autosplit-4.0.8-classic",
        "max-unacked-consumer-3.0.7",
        "mixed-batch-4.0.8",
        "seek-4.2.4",
        "sticky-ranges-4.0.8",
        "two-subscriptions-4.2.4",
        "unload-4.0.8",
    )
]
SAMPLE = "data/samples/heavy-churn-3.0.7"
FINDINGS = 1  # the exit code of an audit that finds what the traces hold
SMALL = {
    "spark.driver.memory": "700m",
    "spark.executor.memory": "700m",
    "spark.sql.shuffle.partitions": "2",
    "spark.databricks.delta.snapshotPartitions": "1",
}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)], cwd=ROOT, check=True)
    (built,) = folder.iterdir()
    return str(built)


@pytest.fixture(scope="module", params=DELTA_OF)
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def environment(version: str, wheel: str, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """The release with its Delta Lake; then the wheel, and then what its extras add."""
    spark = (f"pyspark=={version}", f"delta-spark=={DELTA_OF[version]}")
    made = environment_with(tmp_path_factory.mktemp("environment") / version, *spark)
    made.install(wheel)
    made.install(f"{wheel}[spark,connect]")
    return made


@pytest.fixture(scope="module")
def rows_of_embedded(run_embedded: EmbeddedCommands, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Tables]:
    """The rows that the embedded engine writes for traces; each is audited once."""
    known: dict[tuple[str, ...], Tables] = {}

    def rows(*traces: str) -> Tables:
        if traces not in known:
            out = tmp_path_factory.mktemp("embedded")
            with pytest.MonkeyPatch.context() as patch:
                patch.chdir(ROOT)
                done = run_embedded("audit", *traces, "--out", out, "--quiet")
            assert done.returncode == FINDINGS, done.stderr
            known[traces] = rows_of_tables(out)
        return known[traces]

    return rows


@pytest.fixture(scope="module")
def cluster(environment: Environment, tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneCluster]:
    with StandaloneCluster(tmp_path_factory.mktemp("cluster"), spark_home=environment.spark_home) as running:
        yield running


def test_installing_leaves_spark_and_delta_lake_as_they_are(version: str, environment: Environment) -> None:
    before, with_wheel, with_extras = environment.listed
    assert {f"pyspark=={version}", f"delta-spark=={DELTA_OF[version]}"} <= {line.replace("_", "-") for line in before}
    assert before == with_wheel == with_extras


def test_ten_recordings_on_a_cluster_by_spark_submit(
    version: str,
    environment: Environment,
    cluster: StandaloneCluster,
    rows_of_embedded: Callable[..., Tables],
    tmp_path: Path,
) -> None:
    of_release = RELEASES[version.rpartition(".")[0]]
    package, delta = of_release.delta
    settings = {"spark.pyspark.python": environment.program("python"), **SMALL}
    done = environment.run(
        environment.program("spark-submit"),
        *("--master", cluster.url, "--packages", f"io.delta:{package}_{of_release.scala}:{delta}"),
        *(f"--conf={name}={value}" for name, value in settings.items()),
        *(ROOT / "jobs" / "nightly_audit.py", "--", *RECORDINGS, "--out", tmp_path / "out", "--quiet"),
        SPARK_HOME=str(environment.spark_home),
    )
    assert done.returncode == FINDINGS, done.stdout[-2000:] + done.stderr[-2000:]
    assert rows_of_tables(tmp_path / "out") == rows_of_embedded(*RECORDINGS)


@pytest.mark.parametrize(("option", "remote"), [("spark", ""), ("auto", "local[2]")], ids=["local", "Spark Connect"])
def test_the_command(
    option: str, remote: str, environment: Environment, rows_of_embedded: Callable[..., Tables], tmp_path: Path
) -> None:
    audit = (environment.program("dispatch-audit"), "audit", SAMPLE, "--out", tmp_path / "out", "--engine", option)
    done = environment.run(*audit, **({"SPARK_REMOTE": remote} if remote else {}))
    assert (done.returncode, done.stderr) == (FINDINGS, "")
    assert "13 findings of single_holder" in done.stdout
    assert f"Spark {'Connect ' if remote else ''}{environment.of_spark()[-1].partition('==')[2]}" in done.stdout
    assert rows_of_tables(tmp_path / "out") == rows_of_embedded(SAMPLE)


def test_every_kind_of_audit_has_the_rows_of_the_embedded_engine(
    environment: Environment, run_embedded: EmbeddedCommands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, embedded = tmp_path / "spark", tmp_path / "embedded"
    for folder in (found, embedded):
        folder.mkdir()
    monkeypatch.chdir(embedded)
    audit_embedded(run_embedded, embedded)
    done = environment.run(environment.program("python"), every_kind.__file__, found)
    assert done.returncode == 0, done.stderr[-3000:]
    assert_equal_rows(found, embedded)


def test_a_spark_that_does_not_fit_is_one_sentence(wheel: str, tmp_path: Path) -> None:
    old = environment_with(tmp_path / "environment", "pyspark==3.3.4")
    old.install(wheel)
    assert "pyspark==3.3.4" in old.of_spark()
    before = os.times()
    done = old.run(old.program("dispatch-audit"), "audit", SAMPLE, "--out", tmp_path / "out")
    after = os.times()
    assert (done.returncode, done.stdout, (tmp_path / "out").exists()) == (2, "", False)
    assert done.stderr.startswith("dispatch-audit: error: Spark 3.3.4 is too old: the audit runs on Spark 3.5, ")
    assert done.stderr.count("\n") == 1
    assert after.children_user + after.children_system - before.children_user - before.children_system < 2
