"""Tables that an older version of the audit left: what is grown, what is kept, what is refused."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from dispatch_audit.pipeline.errors import UsageError
from dispatch_audit.pipeline.tables.create import open_tables
from dispatch_audit.pipeline.tables.migrate import migrate
from dispatch_audit.pipeline.tables.schemas import TABLES
from dispatch_audit.pipeline.tables.table_schema import TableSchema
from dispatch_audit.pipeline.tables.target import Target, parse_target

pytestmark = pytest.mark.spark

# Columns that a row may leave out, one of them the timestamp of the other.
YOUNG = ("returned_ts", "returned_ts_us")


def left_by_an_older_version(
    spark: SparkSession, folder: Path, table: TableSchema, lacking: tuple[str, ...]
) -> tuple[Target, list[str]]:
    """A table of one row without some columns and without the constraints that name them; its columns."""
    columns = tuple(column for column in table.columns if column.name not in lacking)
    checks = {name: check for name, check in table.constraints.items() if not any(word in check for word in lacking)}
    older = TableSchema(table.name, table.comment, columns, checks)
    target = parse_target(str(folder))
    spark.sql(older.ddl(target.identifier(table.name)))
    return target, [column.name for column in columns]


def migrated(spark: SparkSession, target: Target, table: str) -> None:
    found = {field.name: field.dataType.simpleString() for field in target.read(spark, table).schema}
    migrate(spark, target, TABLES[table], found)


def commits(target: Target, table: str) -> int:
    return len(list(Path(target.location, table, "_delta_log").glob("*.json")))


def test_a_table_without_columns_that_may_be_absent_is_grown_and_keeps_its_rows(
    spark: SparkSession, tmp_path: Path
) -> None:
    draining = TABLES["draining"]
    target, columns = left_by_an_older_version(spark, tmp_path, draining, YOUNG)
    values = {"bigint": "1", "string": "'x'", "boolean": "true", "timestamp": "TIMESTAMP '2026-01-01'"}
    row = ", ".join(f"{values[c.type]} AS {c.name}" for c in draining.columns if c.name in columns)
    spark.sql(f"SELECT {row}").writeTo(target.identifier("draining")).append()
    before = target.read(spark, "draining").collect()

    open_tables(spark, target, "aaaa")

    grown = target.read(spark, "draining")
    assert {field.name: field for field in grown.schema} == {field.name: field for field in draining.spark_schema}
    assert grown.select(*columns).collect() == before
    assert grown.where(" OR ".join(f"{name} IS NOT NULL" for name in YOUNG)).isEmpty()


def test_a_grown_table_holds_this_versions_constraints(spark: SparkSession, tmp_path: Path) -> None:
    (name,) = (name for name, check in TABLES["quarantine"].constraints.items() if "line" in check)
    target, _ = left_by_an_older_version(spark, tmp_path, TABLES["quarantine"], ("line",))
    migrated(spark, target, "quarantine")
    properties = spark.sql(f"SHOW TBLPROPERTIES {target.identifier('quarantine')}").collect()
    assert f"delta.constraints.{name}" in {row["key"] for row in properties}


def test_a_table_of_this_version_is_left_alone(spark: SparkSession, tmp_path: Path) -> None:
    target, _ = left_by_an_older_version(spark, tmp_path, TABLES["quarantine"], ())
    migrated(spark, target, "quarantine")
    assert commits(target, "quarantine") == 1


@pytest.mark.parametrize(
    ("lacking", "added", "named"),
    [
        (("reason",), "", "reason"),  # every row must have it
        (("raw",), ", raw BIGINT", "raw"),  # another type
        (("raw",), ", colour STRING", "colour"),  # of a younger version, or of somebody else
    ],
)
def test_whatever_else_differs_is_refused_and_nothing_is_changed(
    spark: SparkSession, tmp_path: Path, lacking: tuple[str, ...], added: str, named: str
) -> None:
    target, _ = left_by_an_older_version(spark, tmp_path, TABLES["quarantine"], lacking)
    if added:
        spark.sql(f"ALTER TABLE {target.identifier('quarantine')} ADD COLUMNS ({added.removeprefix(', ')})")
    before = commits(target, "quarantine")
    with pytest.raises(UsageError, match=rf"a table quarantine of another version .* differs in {named}; choose"):
        migrated(spark, target, "quarantine")
    assert commits(target, "quarantine") == before
