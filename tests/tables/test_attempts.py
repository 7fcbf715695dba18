"""Attempts at one run: what they stage, how they meet, and what a killed one leaves, in whichever way they write."""

import math
import os
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from meeting import tables_that_meet
from pyspark.sql import SparkSession
from table_rows import ROWS
from ways import TWO_TABLES, WITHOUT_RUNS, Way, by_path, contents, few_tables, results, rows_in

from dispatch_audit.pipeline.errors import GaveWayError
from dispatch_audit.pipeline.tables import staging
from dispatch_audit.pipeline.tables.delta_rs import local_staging
from dispatch_audit.pipeline.tables.rows import TableRows
from dispatch_audit.pipeline.tables.schemas import TABLES
from dispatch_audit.pipeline.tables.threads import at_one_time
from dispatch_audit.pipeline.tables.through_spark import spark_staging
from dispatch_audit.pipeline.tables.write import RunTables

pytestmark = pytest.mark.spark

Result = Mapping[str, list[dict[str, Any]]]


@pytest.fixture(scope="module")
def result(way: Way) -> Iterator[Result]:
    """What an attempt writes: rows of all tables by delta-rs, of few through Spark."""
    with few_tables(way):
        yield {name: rows for name, rows in WITHOUT_RUNS.items() if name in TABLES}


@pytest.fixture(scope="module")
def expected(way: Way, result: Result, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """What the tables hold after one attempt."""
    folder = tmp_path_factory.mktemp("alone")
    way.write_run(folder, "aaaa", result)
    return contents(folder)


def names_in(way: Way, folder: Path) -> set[str]:
    """What is below a target; through Spark a folder cannot be removed."""
    return {path.name for path in folder.iterdir()} - (set() if way.spark is None else {staging.STAGED})


@pytest.mark.slow_through_spark
@pytest.mark.parametrize("small_bytes", [math.inf, 0], ids=["held", "read again"])
def test_a_run_is_staged_written_and_cleared(
    way: Way,
    result: Result,
    expected: dict[str, list[str]],
    spark: SparkSession,
    tmp_path: Path,
    small_bytes: float,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As it is with tables that the driver holds, and with those that are read again."""
    for module in (local_staging, spark_staging):
        monkeypatch.setattr(module, "SMALL_BYTES", small_bytes)
    tables = way.opened(tmp_path, "aaaa")
    rows = tables.stage(results(spark, result))
    assert rows["metrics"].select("rule", "checked").to_pylist() == [{"rule": "single_holder", "checked": 100}]
    assert rows["quarantine"].counts("reason") == {"broken_json": 1}
    rows["metrics"] = rows["metrics"].with_column("rule", lambda batch: batch["rule"])
    tables.write(rows)
    tables.finish(ROWS["runs"])
    assert contents(tmp_path) == expected
    assert names_in(way, tmp_path) == TABLES.keys()
    assert tables.staging.attempts() == set()


@pytest.mark.usefixtures("result")
def test_rows_that_workers_make_become_rows_of_a_table(way: Way, spark: SparkSession, tmp_path: Path) -> None:
    tables = way.opened(tmp_path, "aaaa")
    texts = ("'f' AS file", "concat('r', id % 2) AS reason", "CAST(NULL AS STRING) AS detail", "string(id) AS raw")
    rows = tables.rows_of("quarantine", spark.range(1, 6, numPartitions=2).selectExpr("id AS line", *texts))
    assert rows.counts("reason") == {"r1": 3, "r0": 2}
    tables.write({"quarantine": rows})
    found = tables.tables.query("quarantine", "line, raw, detail", "ORDER BY line")
    assert [(row["line"], row["raw"], row["detail"]) for row in found] == [(n, str(n), None) for n in range(1, 6)]


def test_of_two_attempts_at_one_run_one_gives_way(
    way: Way, expected: dict[str, list[str]], spark: SparkSession, tmp_path: Path
) -> None:
    # Which of the two began first makes no difference to what the transaction of Delta compares.
    for first in ("earlier",) if way.spark else ("earlier", "later"):
        folder = tmp_path / first
        attempts = {name: way.opened(folder, "aaaa") for name in ("earlier", "later")}
        # Neither saw the other's rows when it opened the tables.
        for tables in attempts.values():
            tables.write(tables.stage(results(spark, TWO_TABLES)))
        loser = attempts["later" if first == "earlier" else "earlier"]
        attempts[first].finish({**ROWS["runs"], "started_at_us": 1})
        with pytest.raises(GaveWayError, match="another audit of the same traces and settings wrote run aaaa"):
            loser.finish({**ROWS["runs"], "started_at_us": 2})
        (run,) = rows_in(folder, "runs", "started_at_us")
        assert run["started_at_us"] == 1
        found = contents(folder)
        assert {name: found[name] for name in TWO_TABLES} == {name: expected[name] for name in TWO_TABLES}
        assert names_in(way, folder) == TABLES.keys()


@pytest.mark.slow_through_spark
def test_of_attempts_that_write_at_one_time_one_gets_through(
    way: Way, result: Result, expected: dict[str, list[str]], spark: SparkSession, tmp_path: Path
) -> None:
    for meeting in range(1 if way.spark else 8):
        folder = tmp_path / str(meeting)
        attempts = [way.opened(folder, "aaaa") for _ in range(2)]
        staged = [tables.stage(results(spark, result)) for tables in attempts]
        barrier = threading.Barrier(len(attempts))
        for tables in attempts:
            tables.tables = tables_that_meet(tables.tables, barrier)

        def write(
            number: int, attempts: list[RunTables] = attempts, staged: list[dict[str, TableRows]] = staged
        ) -> bool:
            try:
                attempts[number].write(staged[number])
                attempts[number].finish({**ROWS["runs"], "started_at_us": number})
            except GaveWayError:
                return False
            return True

        assert sorted(at_one_time(write, range(2))) == [False, True]
        found = contents(folder)
        assert {name: found[name] for name in result} == {name: expected[name] for name in result}
        assert len(found["runs"]) == 1
        assert names_in(way, folder) == TABLES.keys()


@pytest.mark.slow_through_spark
@pytest.mark.usefixtures("result")
def test_a_run_that_another_attempt_has_finished_meanwhile_is_replaced(
    way: Way, spark: SparkSession, tmp_path: Path
) -> None:
    slow = way.opened(tmp_path, "aaaa")
    staged = slow.stage(results(spark, TWO_TABLES))
    way.write_run(tmp_path, "aaaa", TWO_TABLES)
    slow.write(staged)
    slow.finish(ROWS["runs"])
    assert {name: len(rows) for name, rows in contents(tmp_path).items() if rows} == {
        "metrics": 1,
        "quarantine": 1,
        "runs": 1,
    }


@pytest.mark.slow_through_spark
@pytest.mark.usefixtures("result")
def test_what_a_killed_attempt_wrote_is_replaced(way: Way, spark: SparkSession, tmp_path: Path) -> None:
    killed = way.opened(tmp_path, "aaaa")
    killed.write(killed.stage(results(spark, TWO_TABLES)))
    way.write_run(tmp_path, "aaaa", TWO_TABLES)
    assert len(rows_in(tmp_path, "metrics")) == 1
    assert names_in(way, tmp_path) == TABLES.keys()


def test_what_killed_attempts_left_below_a_path_goes(spark: SparkSession, tmp_path: Path) -> None:
    """A URI does not show when something was staged."""
    way = Way(None, by_path)
    for run_key in ("aaaa", "bbbb"):
        killed = way.opened(tmp_path, run_key)
        killed.write(killed.stage(results(spark, TWO_TABLES)))
    # Long ago.
    os.utime(tmp_path / "_replay" / "bbbb" / killed.staging.attempt, (0, 0))
    # Killed while it wrote down what the replay returned.
    (tmp_path / "_replay" / "aaaa" / "half" / "result" / "_temporary").mkdir(parents=True)
    way.write_run(tmp_path, "aaaa", TWO_TABLES)
    assert {path.name for path in tmp_path.iterdir()} == TABLES.keys()
