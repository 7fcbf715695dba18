"""Creates the missing tables of a target and checks the existing ones.

Creating costs one commit a table. An existing table must have the columns of this version, or be one that
`dispatch_audit.pipeline.tables.migrate` can extend: readers would misread rows of two versions side by side.
"""

import time

from pyspark.sql import SparkSession

from dispatch_audit.pipeline.errors import UsageError
from dispatch_audit.pipeline.spark_errors import reason_of
from dispatch_audit.pipeline.tables.migrate import migrate
from dispatch_audit.pipeline.tables.schemas import TABLES
from dispatch_audit.pipeline.tables.table_schema import TableSchema
from dispatch_audit.pipeline.tables.tables import Tables
from dispatch_audit.pipeline.tables.target import Target
from dispatch_audit.pipeline.tables.threads import at_one_time
from dispatch_audit.pipeline.tables.way import tables_of
from dispatch_audit.pipeline.tables.write import RunTables

_WAY_OUT = "choose another --out"
_NO_TABLE = f"{_WAY_OUT}, or remove what an audit that was killed there left behind"
# Another audit that creates a table at the same time may have made its folder, but not its first commit yet.
_WAITS_S = (0.0, 0.2, 1.0, 2.0)


def open_tables(spark: SparkSession | None, target: Target, run_key: str) -> RunTables:
    """Makes the tables of `target` ready for one run.

    Args:
        spark: the session; a local path needs none.
        target: where the tables are.
        run_key: the run.

    Raises:
        UsageError: the target cannot be written, or holds something else under the name of a table.
    """
    tables = tables_of(spark, target)
    tables.create_schema()
    created = at_one_time(lambda table: made_ready(tables, table), TABLES.values())
    names = frozenset(name for name, is_created in zip(TABLES, created, strict=True) if is_created)
    opened = RunTables(tables, run_key, names)
    opened.staging.sweep()
    return opened


def made_ready(tables: Tables, table: TableSchema) -> bool:
    """Makes one table ready; returns whether it was created.

    Raises:
        UsageError: the target cannot be written, or holds something else under the name of the table.
    """
    columns, created = tables.columns(table.name), False
    if columns is None:
        columns, created = _create(tables, table)
    migrate(tables, table, columns)
    return created


def _create(tables: Tables, table: TableSchema) -> tuple[dict[str, str], bool]:
    """Creates a table; returns its columns, and whether this audit created it."""
    failure: Exception | None = None
    try:
        tables.create(table)
    except Exception as error:  # each way has its own errors, and Hadoop's have no class
        failure = error
    for wait_s in _WAITS_S:
        time.sleep(wait_s)
        columns = tables.columns(table.name)
        if columns is not None:
            # A failure although the table is there: another audit created it at the same time.
            return columns, failure is None
    if failure is None or isinstance(failure, FileExistsError):
        raise UsageError(f"{table.name} in {tables.target} is not a Delta table", _NO_TABLE) from failure
    raise UsageError(f"cannot create tables in {tables.target}: {reason_of(failure)}", _WAY_OUT) from failure
