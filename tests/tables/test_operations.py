"""The SQL of docs/OPERATIONS.md on the tables that audits write: it runs, and does what it says.

Statements that differ in nothing but the table run on a few tables: each takes a second or two through Spark.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from pyspark.sql import DataFrame, SparkSession
from table_rows import ROWS, columns
from ways import Way, by_uri, few_tables

from dispatch_audit.pipeline.tables.create import open_tables
from dispatch_audit.pipeline.tables.payload import RESULT_SCHEMA, encode
from dispatch_audit.pipeline.tables.schemas import TABLES
from dispatch_audit.pipeline.tables.target import Target, parse_target

pytestmark = pytest.mark.spark

# Of each that the questions name, and one that holds rows of one run only.
TABLES_ASKED = ("violations", "blocking", "state")
EVERY = list(TABLES)
DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "OPERATIONS.md"
SCHEMA = "main.audits"
RUN_KEY, OTHER, KILLED = "7ffa4866f3916b7d", "0123456789abcdef", "fedcba9876543210"
_CHEAP_VACUUM = {
    # It lists a table's files by as many tasks as this, 10,000 by default.
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",
    # It writes down its begin and its end, a commit each.
    "spark.databricks.delta.vacuum.logging.enabled": "false",
}


def statements() -> list[str]:
    blocks = re.findall(r"```sql\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    return [statement.strip() for block in blocks for statement in block.split(";") if statement.strip()]


@pytest.fixture(scope="module")
def target(spark: SparkSession) -> Iterator[Target]:
    """Two runs, and what a killed one leaves behind, in a schema of a catalog."""
    for name, value in _CHEAP_VACUUM.items():
        spark.conf.set(name, value)
    # A name of its own: several processes of the tests share the folder of the warehouse.
    schema = f"operations_{uuid4().hex}"
    target = parse_target(f"spark_catalog.{schema}")
    with few_tables(Way(spark, by_uri), *TABLES_ASKED):
        written = {RUN_KEY: TABLES.keys() - {"runs"}, OTHER: {"metrics", "violations"}, KILLED: {"metrics"}}
        for run_key, names in written.items():
            payloads = [(name, encode(name, columns(ROWS[name]))) for name in names]
            tables = open_tables(spark, target, run_key)
            if run_key == RUN_KEY:
                # What an audit of a window stages besides.
                tables.keep(spark.range(1), "without_seq")
            tables.write(tables.stage(spark.createDataFrame(payloads, RESULT_SCHEMA)))
            if run_key == KILLED:
                tables.discard()
            else:
                tables.finish(ROWS["runs"])
        yield target
    spark.sql(f"DROP SCHEMA {schema} CASCADE")
    for name in _CHEAP_VACUUM:
        spark.conf.unset(name)


def asked(spark: SparkSession, target: Target, statement: str) -> DataFrame:
    return spark.sql(statement.replace(SCHEMA, target.location))


def of_tables(begin: str) -> list[str]:
    """Those on tables that are there, of the statements with that beginning; they differ in nothing but the table."""
    found = [statement for statement in statements() if statement.startswith(begin)]
    named = [table for statement in found for table in re.findall(rf"{SCHEMA}\.(\w+)", statement)]
    assert named == EVERY
    assert found == [found[0].replace(f".{named[0]}", f".{table}") for table in named]
    return [statement for statement, table in zip(found, named, strict=True) if table in TABLES]


def keys(spark: SparkSession, target: Target, table: str) -> list[str]:
    return sorted(row["run_key"] for row in target.read(spark, table).select("run_key").collect())


def test_the_questions_are_answered(spark: SparkSession, target: Target) -> None:
    windows, stages, broken, left_over, old = (s for s in statements() if s.startswith("SELECT"))
    # These runs are of no chain.
    assert asked(spark, target, windows).collect() == []
    assert {(row["stage"], row["rows"]) for row in asked(spark, target, stages).collect()} == {("replay", 100)}
    assert sorted(row["run_key"] for row in asked(spark, target, broken).collect()) == [OTHER, RUN_KEY]
    assert [row["run_key"] for row in asked(spark, target, left_over).collect()] == [KILLED]
    # The rows of the tests ended in 1970.
    assert {row["run_key"] for row in asked(spark, target, old).collect()} == {RUN_KEY, OTHER}


def test_nothing_that_runs_staged_is_left(spark: SparkSession, target: Target) -> None:
    there = spark.sql(f"SHOW TABLES IN {target.quoted}").collect()
    assert {row["tableName"] for row in there} == TABLES.keys()


def test_of_all_windows_of_a_log_open_intervals_count_in_the_newest(spark: SparkSession) -> None:
    windows = next(statement for statement in statements() if "chain" in statement)
    runs = [("first", None, 10), ("second", 10, 20), ("last", 20, None)]
    intervals = [(key, ends) for key, _, _ in runs for ends in (None, 7)]
    of_chain = [(RUN_KEY, *run) for run in runs]
    spark.createDataFrame(
        of_chain, "chain STRING, run_key STRING, window_from_us LONG, window_to_us LONG"
    ).createOrReplaceTempView("runs")
    spark.createDataFrame(intervals, "run_key STRING, to_seq LONG").createOrReplaceTempView("blocking")
    try:
        reported = spark.sql(windows.replace(f"{SCHEMA}.", "")).collect()
    finally:
        for view in ("runs", "blocking"):
            spark.catalog.dropTempView(view)
    closed = [("first", 7), ("last", 7), ("second", 7)]
    assert sorted((row["run_key"], row["to_seq"]) for row in reported if row["to_seq"] is not None) == closed
    assert [row["run_key"] for row in reported if row["to_seq"] is None] == ["last"]


@pytest.mark.slow
def test_a_run_is_deleted_and_no_other(spark: SparkSession, target: Target) -> None:
    for statement in of_tables("DELETE"):
        asked(spark, target, statement)
    left = {"runs": [OTHER], "metrics": [OTHER, KILLED], "violations": [OTHER]}
    assert {name: keys(spark, target, name) for name in TABLES} == {name: left.get(name, []) for name in TABLES}
    # What is left reads on after every table was vacuumed, and what was deleted just now can still be read.
    for statement in of_tables("VACUUM"):
        asked(spark, target, statement)
    assert keys(spark, target, "metrics") == [OTHER, KILLED]
    before = spark.sql(f"SELECT run_key FROM {target.identifier('metrics')} VERSION AS OF 1").collect()
    assert [row["run_key"] for row in before] == [RUN_KEY]
