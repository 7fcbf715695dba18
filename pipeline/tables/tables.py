"""The interface to the tables of a target; it has two implementations.

Tables below a local path are read and written by delta-rs, without a JVM; tables of a catalog or below a URI through
Spark. Both follow the protocol of Delta, so that each reads and continues what the other wrote.
"""

from collections.abc import Sequence
from typing import Any, Protocol

import pyarrow as pa
from pyspark.sql import DataFrame

from dispatch_audit.pipeline.tables.rows import TableRows
from dispatch_audit.pipeline.tables.schemas import TABLES
from dispatch_audit.pipeline.tables.staging import Staging
from dispatch_audit.pipeline.tables.table_schema import RUN_KEY, TableSchema
from dispatch_audit.pipeline.tables.target import Target


class ConflictError(Exception):
    """A write was refused, because another attempt at the same run wrote to the table at the same time."""


class Tables(Protocol):
    """The tables of a target, read and written in one way.

    Every write is a transaction of its run with a number: one whose number is not above that of the last one of the
    run is left out.
    """

    @property
    def target(self) -> Target:
        """Where the tables are."""

    def create_schema(self) -> None:
        """Creates the schema of the tables, where the target is one of a catalog."""

    def columns(self, table_name: str) -> dict[str, str] | None:
        """Returns the types of the columns by name, as Spark's `DataType.simpleString` writes them.

        None: there is no such table.

        Raises:
            UsageError: the table cannot be read.
        """

    def create(self, table: TableSchema) -> None:
        """Creates a table by one commit.

        Raises:
            FileExistsError: something that is no table is in its place.
            Exception: it cannot be created, or another audit created it at the same time.
        """

    def add_columns(self, table: TableSchema, lacking: Sequence[str]) -> None:
        """Adds nullable columns, and the constraints that the table lacks."""

    def query(self, table_name: str, select: str, rest: str = "") -> list[dict[str, Any]]:
        """Returns the rows of `SELECT {select} FROM the table {rest}`, by name of the column.

        The SQL must mean the same to Spark and to DataFusion: name the place of NULL in an order, and do not name
        columns with capitals.
        """

    def arrow(self, table: TableSchema, run_keys: Sequence[str]) -> pa.Table:
        """Returns the rows of some runs as Arrow, of `table.stored_arrow_schema`; columns that it lacks are null.

        Raises:
            UsageError: the table cannot be read.
        """

    def frame(self, table_name: str, columns: Sequence[str], run_key: str) -> DataFrame:
        """Returns the rows of a run for Spark's workers."""

    def append(self, table: TableSchema, rows: TableRows, run_key: str, number: int) -> None:
        """Adds rows of a run. Raises ConflictError."""

    def overwrite(self, table: TableSchema, rows: TableRows, run_key: str, number: int) -> None:
        """Replaces the rows of a run. Raises ConflictError."""

    def write_absent(self, table: TableSchema, rows: TableRows, run_key: str, number: int) -> None:
        """Writes rows of a run that the table has none of. Raises ConflictError, also if it has some."""

    def delete(self, table_name: str, run_key: str) -> None:
        """Deletes the rows of a run. Raises ConflictError."""

    def staging(self, run_key: str) -> Staging:
        """Returns the staging area of a new attempt at a run."""


def every_column(tables: Tables, table_name: str) -> str:
    """Returns the columns of a table for `query`, but for its timestamps; those that an older table lacks are NULL."""
    held = tables.columns(table_name) or {}
    wanted = TABLES[table_name].without_timestamps.split(", ")
    return ", ".join(name if name in held else f"NULL AS {name}" for name in wanted)


def of_run(run_key: str) -> str:
    """Returns the condition for the rows of a run, in SQL."""
    return f"{RUN_KEY} = '{run_key}'"


def of_runs(run_keys: Sequence[str]) -> str:
    """Returns the condition for the rows of some runs, in SQL."""
    return f"{RUN_KEY} IN ({', '.join(map(repr, run_keys))})" if run_keys else "FALSE"


def is_held(tables: Tables, table_name: str, run_key: str) -> bool:
    """Whether a table has rows of a run."""
    return bool(tables.query(table_name, RUN_KEY, f"WHERE {of_run(run_key)} LIMIT 1"))
