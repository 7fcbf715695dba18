import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from table_rows import ROWS, columns

from dispatch_audit.pipeline.errors import DispatchAuditError, GaveWayError, UsageError
from dispatch_audit.pipeline.tables.create import open_tables
from dispatch_audit.pipeline.tables.payload import RESULT_SCHEMA, encode, record_batch
from dispatch_audit.pipeline.tables.schemas import TABLES
from dispatch_audit.pipeline.tables.target import Target, parse_target
from dispatch_audit.pipeline.tables.threads import at_one_time
from dispatch_audit.pipeline.tables.write import RunTables

pytestmark = pytest.mark.spark

WITHOUT_RUNS = {name: [row] for name, row in ROWS.items() if name != "runs"}


TWO_TABLES = {name: [ROWS[name]] for name in ("metrics", "quarantine")}


def results(spark: SparkSession, rows: Mapping[str, list[dict[str, Any]]]) -> DataFrame:
    payloads = [(name, encode(name, columns(*of_table))) for name, of_table in rows.items()]
    return spark.createDataFrame(payloads, RESULT_SCHEMA)


def write_run(
    spark: SparkSession, target: Target, run_key: str, rows: Mapping[str, list[dict[str, Any]]] = WITHOUT_RUNS
) -> None:
    tables = open_tables(spark, target, run_key)
    tables.write(tables.stage(results(spark, rows)))
    tables.finish(ROWS["runs"])


def write_row(tables: RunTables, table: str, row: dict[str, Any]) -> None:
    if table == "runs":
        tables.finish(row)
    else:
        rows = pa.Table.from_batches([record_batch(table, columns(row))])
        tables.write({table: tables.spark.createDataFrame(rows)})


def contents(spark: SparkSession, target: Target) -> dict[str, list[str]]:
    return {name: sorted(str(row) for row in target.read(spark, name).collect()) for name in TABLES}


def commits(target: Target, table: str) -> int:
    return len(list(Path(target.location, table, "_delta_log").glob("*.json")))


@pytest.fixture(scope="module")
def written(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Target:
    """One run in a target of its own, for the tests that only read."""
    target = parse_target(str(tmp_path_factory.mktemp("it's a `target`")))
    write_run(spark, target, "aaaa")
    return target


def test_what_the_replay_encodes_is_what_the_tables_hold(spark: SparkSession, written: Target) -> None:
    for name, expected in ROWS.items():
        (row,) = [row.asDict(recursive=True) for row in written.read(spark, name).collect()]
        assert row["run_key"] == "aaaa"
        assert {column: row[column] for column in expected} == expected
        left_out = TABLES[name].arrow_schema.names - expected.keys()
        assert {column: row[column] for column in left_out} == dict.fromkeys(left_out)


def test_timestamps_repeat_their_microseconds(spark: SparkSession, written: Target) -> None:
    (row,) = written.read(spark, "violations").selectExpr("unix_micros(ts) AS us").collect()
    assert row["us"] == ROWS["violations"]["ts_us"]
    (row,) = written.read(spark, "consumers").select("left_at").collect()
    assert row["left_at"] is None


def test_tables_say_what_they_hold(spark: SparkSession, written: Target) -> None:
    for name, table in TABLES.items():
        assert written.read(spark, name).schema == table.spark_schema  # names, types, nullability and comments
        described = spark.sql(f"DESCRIBE DETAIL {written.identifier(name)}").collect()[0]
        assert described["description"] == table.comment
        assert described["partitionColumns"] == ["run_key"]


def test_nothing_staged_is_left(spark: SparkSession, written: Target) -> None:
    assert {path.name for path in Path(written.location).iterdir()} == TABLES.keys()


def test_a_second_run_replaces_its_own_rows_and_no_other(spark: SparkSession, tmp_path: Path) -> None:
    target = parse_target(str(tmp_path))
    for run_key in ("aaaa", "bbbb"):
        write_run(spark, target, run_key, TWO_TABLES)
    before = contents(spark, target)
    write_run(spark, target, "bbbb", TWO_TABLES)
    assert contents(spark, target) == before

    write_run(spark, target, "bbbb", {"metrics": [{**ROWS["metrics"], "rule": "ownership"}]})
    after = contents(spark, target)
    for name in (*TWO_TABLES, "runs"):
        first, second = before[name]
        kept_by_name = {"metrics": [second.replace("single_holder", "ownership")], "quarantine": []}
        assert after[name] == [first, *kept_by_name.get(name, [second])]


def test_a_table_without_rows_costs_no_commit(spark: SparkSession, tmp_path: Path) -> None:
    target = parse_target(str(tmp_path))
    write_run(spark, target, "aaaa", {})
    assert {name: commits(target, name) for name in TABLES} == {**dict.fromkeys(TABLES, 1), "runs": 2}


def test_a_run_that_breaks_off_has_not_happened(spark: SparkSession, tmp_path: Path) -> None:
    target = parse_target(str(tmp_path))
    write_run(spark, target, "aaaa", {})
    tables = open_tables(spark, target, "aaaa")
    tables.write({})
    assert target.read(spark, "runs").isEmpty()


@pytest.mark.parametrize("first", ["earlier", "later"])
def test_of_two_attempts_at_one_run_one_gives_way(
    spark: SparkSession, written: Target, tmp_path: Path, first: str
) -> None:
    target = parse_target(str(tmp_path))
    attempts = {name: open_tables(spark, target, "aaaa") for name in ("earlier", "later")}
    # Neither saw the other's rows when it opened the tables.
    for tables in attempts.values():
        tables.write(tables.stage(results(spark, TWO_TABLES)))
    loser = attempts["later" if first == "earlier" else "earlier"]
    attempts[first].finish({**ROWS["runs"], "started_at_us": 1})
    with pytest.raises(GaveWayError, match="another audit of the same traces and settings wrote run aaaa"):
        loser.finish({**ROWS["runs"], "started_at_us": 2})
    (run,) = target.read(spark, "runs").collect()
    assert run["started_at_us"] == 1
    expected = contents(spark, written)
    assert {name: contents(spark, target)[name] for name in TWO_TABLES} == {name: expected[name] for name in TWO_TABLES}
    assert {path.name for path in tmp_path.iterdir()} == TABLES.keys()


def test_of_attempts_that_write_at_one_time_one_gets_through(
    spark: SparkSession, written: Target, tmp_path: Path
) -> None:
    expected = contents(spark, written)
    for meeting in range(2):
        target = parse_target(str(tmp_path / str(meeting)))
        attempts = [open_tables(spark, target, "aaaa") for _ in range(2)]
        staged = [tables.stage(results(spark, WITHOUT_RUNS)) for tables in attempts]
        barrier = threading.Barrier(len(attempts))

        def write(
            number: int,
            attempts: list[RunTables] = attempts,
            staged: list[dict[str, DataFrame]] = staged,
            barrier: threading.Barrier = barrier,
        ) -> bool:
            barrier.wait()
            try:
                attempts[number].write(staged[number])
                attempts[number].finish({**ROWS["runs"], "started_at_us": number})
            except GaveWayError:
                return False
            return True

        assert sorted(at_one_time(write, range(2))) == [False, True]
        found = contents(spark, target)
        assert {name: found[name] for name in WITHOUT_RUNS} == {name: expected[name] for name in WITHOUT_RUNS}
        assert len(found["runs"]) == 1
        assert {path.name for path in (tmp_path / str(meeting)).iterdir()} == TABLES.keys()


def test_a_run_that_another_attempt_has_finished_meanwhile_is_replaced(spark: SparkSession, tmp_path: Path) -> None:
    target = parse_target(str(tmp_path / "out"))
    slow = open_tables(spark, target, "aaaa")
    staged = slow.stage(results(spark, TWO_TABLES))
    write_run(spark, target, "aaaa", TWO_TABLES)
    slow.write(staged)
    slow.finish(ROWS["runs"])
    assert {name: len(rows) for name, rows in contents(spark, target).items() if rows} == {
        "metrics": 1,
        "quarantine": 1,
        "runs": 1,
    }


def test_what_comes_after_a_later_attempt_is_left_out(spark: SparkSession, tmp_path: Path) -> None:
    target = parse_target(str(tmp_path))
    earlier, later = (open_tables(spark, target, "aaaa") for _ in range(2))
    frames = earlier.stage(results(spark, TWO_TABLES))
    earlier.write({})
    later.write(later.stage(results(spark, TWO_TABLES)))
    # What a slow thread of the earlier attempt would do now.
    earlier._replace(TABLES["metrics"], frames["metrics"])
    assert target.read(spark, "metrics").count() == 1


def test_what_a_killed_attempt_left_behind_goes(spark: SparkSession, tmp_path: Path) -> None:
    target = parse_target(str(tmp_path))
    for run_key in ("aaaa", "bbbb"):
        killed = open_tables(spark, target, run_key)
        killed.write(killed.stage(results(spark, TWO_TABLES)))
    os.utime(tmp_path / "_replay" / "bbbb" / killed.staging.attempt, (0, 0))
    # Killed while it wrote down what the replay returned.
    (tmp_path / "_replay" / "aaaa" / "half" / "_temporary").mkdir(parents=True)
    write_run(spark, target, "aaaa", TWO_TABLES)
    assert {path.name for path in tmp_path.iterdir()} == TABLES.keys()
    assert target.read(spark, "metrics").where("run_key = 'aaaa'").count() == 1


def test_audits_that_create_the_tables_at_one_time_all_land(spark: SparkSession, tmp_path: Path) -> None:
    target = parse_target(str(tmp_path))
    keys = ["aaaa", "bbbb", "cccc"]
    at_one_time(lambda run_key: write_run(spark, target, run_key, TWO_TABLES), keys)
    for name in (*TWO_TABLES, "runs"):
        assert sorted(row["run_key"] for row in target.read(spark, name).collect()) == keys


def test_columns_that_a_table_lacks_are_refused(spark: SparkSession, written: Target) -> None:
    tables = open_tables(spark, written, "cccc")
    with pytest.raises(DispatchAuditError, match="quarantine has no column colour"):
        tables.write({"quarantine": spark.sql("SELECT 'x' AS reason, 'f' AS file, 'red' AS colour")})


@pytest.mark.parametrize(
    ("table", "change"),
    [
        ("violations", {"severity": "bad"}),
        ("violations", {"severity": "permitted"}),
        ("violations", {"severity": "known_bug"}),
        ("violations", {"evidence": []}),
        ("blocking", {"to_seq": 9}),
        ("blocking", {"scope": "key"}),
        ("assignments", {"range_end": -1}),
        ("assignments", {"last_epoch": 2}),
        ("draining", {"entries_at_start": 0}),
        ("consumers", {"hash_share": 1.5}),
        ("metrics", {"info": -1}),
        ("hot_keys", {"dispatched_share": 1.5}),
        ("coverage", {"rows_judged": 101}),
        ("producers", {"mixed_batches": 11}),
        ("quarantine", {"line": 0}),
        ("state", {"payload": b""}),
        ("runs", {"events_audited": 98}),
        ("runs", {"starts_from": "somewhere"}),
    ],
    ids=str,
)
def test_constraints_refuse_rows_that_cannot_be(
    spark: SparkSession, written: Target, table: str, change: dict[str, Any]
) -> None:
    tables = RunTables(spark, written, "dddd", created=frozenset(TABLES))
    row = {**ROWS[table], **change}
    # Depending on where Delta notices, the error arrives converted or as the bridge to the JVM has it.
    with pytest.raises(Exception, match="CHECK constraint"):
        write_row(tables, table, row)


def test_null_is_refused_where_a_value_must_be(spark: SparkSession, written: Target) -> None:
    tables = RunTables(spark, written, "dddd", created=frozenset(TABLES))
    with pytest.raises(Exception, match="NOT NULL constraint violated for column: file"):
        tables.write({"quarantine": spark.sql("SELECT 'x' AS reason")})


def test_tables_stand_in_a_schema_of_the_catalog(spark: SparkSession) -> None:
    target = parse_target("spark_catalog.nightly")
    try:
        write_run(spark, target, "aaaa", TWO_TABLES)
        assert spark.table("nightly.metrics").count() == 1
        assert {table.name for table in spark.catalog.listTables("nightly")} == TABLES.keys()
    finally:
        spark.sql("DROP SCHEMA IF EXISTS nightly CASCADE")


def test_a_target_that_cannot_be_written_is_a_usage_error(spark: SparkSession) -> None:
    with pytest.raises(UsageError, match=r"cannot create tables in /proc/audit: .*; choose another --out"):
        open_tables(spark, parse_target("/proc/audit"), "aaaa")


def test_a_catalog_that_is_not_there_is_a_usage_error(spark: SparkSession) -> None:
    with pytest.raises(UsageError, match=r"cannot create the schema nowhere\.audit: .*; choose another --out"):
        open_tables(spark, parse_target("nowhere.audit"), "aaaa")


def test_a_table_of_another_make_is_a_usage_error(spark: SparkSession, tmp_path: Path) -> None:
    spark.sql(f"CREATE TABLE delta.`{tmp_path}/metrics` (run_key STRING, rule BIGINT) USING DELTA")
    with pytest.raises(UsageError, match=r"a table metrics of another version .* differs in checked, .*rule"):
        open_tables(spark, parse_target(str(tmp_path)), "aaaa")
