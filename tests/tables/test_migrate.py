"""Tables that an older version of the audit left: what is grown, what is kept, what is refused."""

from pathlib import Path

import pytest
from table_rows import ROWS
from ways import Way, commits, held

from dispatch_audit.pipeline.errors import UsageError
from dispatch_audit.pipeline.tables.migrate import migrate
from dispatch_audit.pipeline.tables.rows import held_rows
from dispatch_audit.pipeline.tables.schemas import TABLES
from dispatch_audit.pipeline.tables.table_schema import Column, TableSchema
from dispatch_audit.pipeline.tables.tables import Tables

# Columns that a row may leave out, one of them the timestamp of the other.
YOUNG = ("returned_ts", "returned_ts_us")


def left_by_an_older_version(
    way: Way, folder: Path, table: TableSchema, lacking: tuple[str, ...], added: tuple[Column, ...] = ()
) -> TableSchema:
    """Creates a table without some columns and without the constraints that name them; returns its schema."""
    columns = tuple(column for column in table.columns if column.name not in lacking)
    checks = {name: check for name, check in table.constraints.items() if not any(word in check for word in lacking)}
    older = TableSchema(table.name, table.comment, columns + added, checks)
    way.tables(folder).create(older)
    return older


def migrated(tables: Tables, table: str) -> None:
    found = tables.columns(table)
    assert found is not None
    migrate(tables, TABLES[table], found)


def test_a_table_without_columns_that_may_be_absent_is_grown_and_keeps_its_rows(way: Way, tmp_path: Path) -> None:
    older = left_by_an_older_version(way, tmp_path, TABLES["draining"], YOUNG)
    batch = held({"draining": [ROWS["draining"]]})["draining"].select(*older.arrow_schema.names).to_batches()
    tables = way.tables(tmp_path)
    tables.append(older, held_rows(older, batch), "aaaa", 1)
    (before,) = tables.query("draining", "*")

    way.opened(tmp_path, "aaaa")

    names = [field.name for field in TABLES["draining"].spark_schema]
    assert tables.columns("draining") == {
        field.name: field.dataType.simpleString() for field in TABLES["draining"].spark_schema
    }
    (after,) = tables.query("draining", "*")
    assert {name: after[name] for name in before} == before
    assert {name for name in names if name not in before} == set(YOUNG)
    assert {after[name] for name in YOUNG} == {None}


def test_a_grown_table_holds_this_versions_constraints(way: Way, tmp_path: Path) -> None:
    left_by_an_older_version(way, tmp_path, TABLES["quarantine"], ("line",))
    tables = way.tables(tmp_path)
    migrated(tables, "quarantine")
    rows = held({"quarantine": [{**ROWS["quarantine"], "line": 0}]})
    with pytest.raises(Exception, match="CHECK constraint"):
        tables.append(TABLES["quarantine"], rows["quarantine"], "aaaa", 1)


def test_a_table_of_this_version_is_left_alone(way: Way, tmp_path: Path) -> None:
    left_by_an_older_version(way, tmp_path, TABLES["quarantine"], ())
    migrated(way.tables(tmp_path), "quarantine")
    assert commits(tmp_path, "quarantine") == 1


@pytest.mark.parametrize(
    ("lacking", "added", "named"),
    [
        (("reason",), (), "reason"),  # every row must have it
        (("raw",), (Column("raw", "bigint", "", nullable=True),), "raw"),  # another type
        (("raw",), (Column("colour", "string", "", nullable=True),), "colour"),  # of a younger version, or another make
    ],
)
def test_whatever_else_differs_is_refused_and_nothing_is_changed(
    way: Way, tmp_path: Path, lacking: tuple[str, ...], added: tuple[Column, ...], named: str
) -> None:
    left_by_an_older_version(way, tmp_path, TABLES["quarantine"], lacking, added)
    before = commits(tmp_path, "quarantine")
    with pytest.raises(UsageError, match=rf"a table quarantine of another version .* differs in {named}; choose"):
        migrated(way.tables(tmp_path), "quarantine")
    assert commits(tmp_path, "quarantine") == before
