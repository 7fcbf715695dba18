"""Plans run to their end: in the session of the tests, and in processes of their own."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from pyspark.sql import SparkSession

from benchmarks.generate import Shape, write_trace
from benchmarks.plan import EngineName
from benchmarks.runs import ROOT, require_equal_work, run_once
from benchmarks.side_by_side import main as side_by_side
from benchmarks.stored_as import Source
from benchmarks.traces import require_trace, rows_in
from dispatch_audit.pipeline.errors import DispatchAuditError, UsageError

SHAPE = Shape(events=3_000, partitions=3, consumers=3, keys=30, changes=4, files=2)


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("generated") / "trace"
    write_trace(folder, SHAPE)
    return folder


@pytest.mark.slow
@pytest.mark.spark
def test_the_floors_count_every_row(spark: SparkSession, trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from benchmarks.own_floor import own_floor, placed
    from benchmarks.row_floor import row_floor

    _, groups, tasks, *_ = placed(spark, trace)
    assert len(groups) == SHAPE.partitions
    counted = [
        {row["group"]: row["rows"] for row in floor.collect() if row["group"] >= 0}
        for floor in (own_floor(spark, trace), row_floor(spark, trace, groups, tasks))
    ]
    assert counted[0] == counted[1]
    assert sum(counted[0].values()) == rows_in(trace)
    row_floor(spark, trace, groups, tasks).explain()
    plan = capsys.readouterr().out
    assert len(re.findall(r"\bExchange\b", plan)) == 1
    assert len(re.findall(r"\bSort\b", plan)) == 1


@pytest.mark.heavy
def test_a_plan_in_a_process_of_its_own(trace: Path) -> None:
    runs = [run_once(name, trace, trace) for name in ("duckdb", "polars")]
    require_equal_work(runs, rows_in(trace))
    for run in runs:
        assert run.found["first_delivery_order"] == 0
        assert 0 < run.wall_s < 60
        assert 0 <= run.used.cpu_python_s < 60
        assert run.used.peak_python_mb > 20
        assert run.shuffle_bytes is None


def test_a_plan_that_fails_says_why(trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(DispatchAuditError, match=r"^duckdb failed before it was ready; "):
        run_once("duckdb", trace, tmp_path / "nothing")
    assert "No files found" in capsys.readouterr().err


def test_a_trace_of_another_shape_is_not_taken(trace: Path, tmp_path: Path) -> None:
    require_trace(trace, SHAPE, "parquet")
    with pytest.raises(UsageError, match="no trace of the wanted shape"):
        require_trace(trace, Shape(events=5_000), "parquet")
    with pytest.raises(UsageError, match="no trace"):
        require_trace(tmp_path, SHAPE, "parquet")
    with pytest.raises(UsageError, match="change --source"):
        require_trace(trace, SHAPE, "delta")


@pytest.mark.heavy
def test_duckdb_runs_beside_the_embedded_engine(capsys: pytest.CaptureFixture[str]) -> None:
    side_by_side(events=2_000, partitions=2, changes=2, engine="embedded", rounds=1, only=["duckdb"], print_json=True)
    reported = json.loads(capsys.readouterr().out)
    assert reported["duckdb"]["wall_s"] > 0
    assert "audit" not in reported


@pytest.mark.parametrize(
    ("engine", "source", "plan", "why"),
    [
        ("embedded", "parquet", "row_floor", "row_floor runs on Spark only; pass --engine spark"),
        ("embedded", "json", "duckdb", "duckdb reads Parquet files only; pass --source parquet"),
    ],
)
def test_a_plan_that_cannot_be_run_is_refused(
    engine: EngineName, source: Source, plan: str, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(typer.Exit) as exited:
        side_by_side(engine=engine, source=source, only=["audit", plan])
    assert exited.value.exit_code == 2
    assert capsys.readouterr().err.startswith(f"side_by_side: error: {why}")


# Half a minute of generating, Spark and processes of their own, for a tool of those who measure.
@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.e2e
def test_the_command_line(tmp_path: Path) -> None:
    """On Delta, which the generator's process writes and each plan's own process reads."""
    command = [sys.executable, "-m", "benchmarks.side_by_side", "--json", "--rounds", "1", "--source", "delta"]
    shape = ["--events", "2000", "--partitions", "2", "--consumers", "2", "--keys", "20", "--changes", "2"]
    plans = ["--only", "row_floor", "--only", "duckdb", "--trace", str(tmp_path / "trace")]
    done = subprocess.run(
        [*command, *shape, *plans], cwd=ROOT, capture_output=True, text=True, check=False, timeout=600
    )
    assert done.returncode == 0, done.stderr
    reported = json.loads(done.stdout)
    assert reported["events"] == rows_in(tmp_path / "trace")
    assert reported["row_floor"]["shuffle_bytes"] > 0
    assert reported["row_floor"]["cpu_jvm_s"] > 0
    assert reported["row_floor"]["cpu_python_s"] > 0
    assert reported["duckdb"]["cpu_jvm_s"] == 0
    assert "audit" not in reported
