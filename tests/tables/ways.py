"""The two ways of reading and writing tables, for tests that hold for both."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, SparkSession
from table_rows import ROWS, columns

from dispatch_audit.pipeline.tables.create import open_tables
from dispatch_audit.pipeline.tables.payload import RESULT_SCHEMA, encode, record_batch
from dispatch_audit.pipeline.tables.rows import TableRows, held_rows
from dispatch_audit.pipeline.tables.schemas import TABLES
from dispatch_audit.pipeline.tables.tables import Tables
from dispatch_audit.pipeline.tables.target import Target, parse_target
from dispatch_audit.pipeline.tables.way import tables_of
from dispatch_audit.pipeline.tables.write import RunTables

WITHOUT_RUNS = {name: [row] for name, row in ROWS.items() if name != "runs"}
TWO_TABLES = {name: [ROWS[name]] for name in ("metrics", "quarantine")}


class Way(NamedTuple):
    """One way: how it names a folder, and the session that it needs."""

    spark: SparkSession | None
    named: Callable[[Path], str]

    def target(self, folder: Path) -> Target:
        return parse_target(self.named(folder))

    def tables(self, folder: Path) -> Tables:
        return tables_of(self.spark, self.target(folder))

    def opened(self, folder: Path, run_key: str) -> RunTables:
        return open_tables(self.spark, self.target(folder), run_key)

    def write_run(self, folder: Path, run_key: str, rows: Mapping[str, list[dict[str, Any]]]) -> None:
        tables = self.opened(folder, run_key)
        tables.write(held(rows))
        tables.finish(ROWS["runs"])


def rows_in(folder: Path, table: str, select: str = "*") -> list[dict[str, Any]]:
    """The rows of a table, read by delta-rs: through Spark it takes longer and gives the same (test_both_ways.py)."""
    return tables_of(None, parse_target(by_path(folder))).query(table, select)


def contents(folder: Path) -> dict[str, list[str]]:
    """The rows of all tables, in order."""
    return {name: sorted(map(str, rows_in(folder, name))) for name in TABLES}


@contextmanager
def few_tables(way: Way, *more: str) -> Iterator[None]:
    """Leaves through Spark the two tables, `runs` and some more: each takes a second or two at every step there.

    For tests of what holds of every table; those of all tables stand in test_write.py and test_both_ways.py.
    """
    every = dict(TABLES)
    if way.spark:
        for name in every.keys() - {*TWO_TABLES, "runs", *more}:
            del TABLES[name]
    try:
        yield
    finally:
        # In the old order.
        TABLES.clear()
        TABLES.update(every)


def by_path(folder: Path) -> str:
    return str(folder)


def by_uri(folder: Path) -> str:
    return f"file://{folder}"


def held(rows: Mapping[str, list[dict[str, Any]]]) -> dict[str, TableRows]:
    """Rows by name of the table, as the audit hands them to the tables."""
    return {name: held_rows(TABLES[name], [record_batch(name, columns(*of_table))]) for name, of_table in rows.items()}


def results(spark: SparkSession, rows: Mapping[str, list[dict[str, Any]]]) -> DataFrame:
    """The same rows as the replay returns them."""
    payloads = [(name, encode(name, columns(*of_table))) for name, of_table in rows.items()]
    return spark.createDataFrame(payloads, RESULT_SCHEMA)


def commits(folder: Path, table: str) -> int:
    return len(list((folder / table / "_delta_log").glob("*.json")))
