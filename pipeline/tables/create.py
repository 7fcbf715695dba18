"""Creates the missing tables of a target and checks the existing ones.

Creating costs one commit a table, see `TableSchema.ddl`. An existing table must have the columns of this version, or be
one that `dispatch_audit.pipeline.tables.migrate` can extend: readers would misread rows of two versions side by side.
"""

import time
from pathlib import Path

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from dispatch_audit.pipeline.errors import UsageError
from dispatch_audit.pipeline.spark_errors import reason_of
from dispatch_audit.pipeline.tables.migrate import migrate
from dispatch_audit.pipeline.tables.schemas import TABLES
from dispatch_audit.pipeline.tables.table_schema import TableSchema
from dispatch_audit.pipeline.tables.target import Target
from dispatch_audit.pipeline.tables.threads import at_one_time
from dispatch_audit.pipeline.tables.write import RunTables

_WAY_OUT = "choose another --out"
# Another audit that creates a table at the same time may have made its folder, but not its first commit yet.
_WAITS_S = (0.0, 0.2, 1.0, 2.0)
# Delta makes this folder in every log; it is empty without a commit coordinator.
_OF_COORDINATORS = "_staged_commits"


def open_tables(spark: SparkSession, target: Target, run_key: str) -> RunTables:
    """Makes the tables of `target` ready for one run.

    Raises:
        UsageError: the target cannot be written, or holds something else under the name of a table.
    """
    if target.named:
        _create_schema(spark, target)
    created = at_one_time(lambda table: _open(spark, target, table), TABLES.values())
    names = frozenset(name for name, is_created in zip(TABLES, created, strict=True) if is_created)
    tables = RunTables(spark, target, run_key, names)
    tables.staging.sweep()
    return tables


def _create_schema(spark: SparkSession, target: Target) -> None:
    try:
        if not spark.catalog.databaseExists(target.location):
            spark.sql(f"CREATE SCHEMA IF NOT EXISTS {target.quoted}")
    except Exception as error:
        raise UsageError(f"cannot create the schema {target}: {reason_of(error)}", _WAY_OUT) from error


def _open(spark: SparkSession, target: Target, table: TableSchema) -> bool:
    """Makes one table ready; returns whether it was created."""
    columns, created = _columns(spark, target, table), False
    if columns is None:
        columns, created = _create(spark, target, table)
    migrate(spark, target, table, columns)
    return created


def _columns(spark: SparkSession, target: Target, table: TableSchema) -> dict[str, str] | None:
    try:
        return {field.name: field.dataType.simpleString() for field in target.read(spark, table.name).schema}
    except AnalysisException:
        return None
    except Exception as error:  # for example a Delta log that lacks a commit
        raise UsageError(f"cannot read the table {table.name} in {target}: {reason_of(error)}", _WAY_OUT) from error


def _create(spark: SparkSession, target: Target, table: TableSchema) -> tuple[dict[str, str], bool]:
    """Creates a table; returns its columns, and whether this audit created it."""
    failure, columns = _tried(spark, target, table)
    if columns is None and target.local and _swept(Path(target.location, table.name)):
        failure, columns = _tried(spark, target, table)
    if columns is not None:
        # A failure although the table is there: another audit created it at the same time.
        return columns, failure is None
    # Spark takes a folder with other files in it for an existing table.
    if failure is None or "TABLE_OR_VIEW_ALREADY_EXISTS" in str(failure):
        raise UsageError(f"{table.name} in {target} is not a Delta table", _WAY_OUT) from failure
    raise UsageError(f"cannot create tables in {target}: {reason_of(failure)}", _WAY_OUT) from failure


def _tried(spark: SparkSession, target: Target, table: TableSchema) -> tuple[Exception | None, dict[str, str] | None]:
    """Returns why a table could not be created (None: it could), and its columns after a while (None: it is absent)."""
    failure: Exception | None = None
    try:
        spark.sql(table.ddl(target.identifier(table.name)))
    except Exception as error:  # PySpark does not convert Hadoop's errors, so they have no class to catch
        failure = error
    for wait_s in _WAITS_S:
        time.sleep(wait_s)
        columns = _columns(spark, target, table)
        if columns is not None:
            return failure, columns
    return failure, None


def _swept(table: Path) -> bool:
    """Removes what an audit that was killed before its first commit left of a table.

    Returns whether the folder held nothing else. A commit that arrives meanwhile is kept: `rmdir` fails on its folder.
    """
    log = table / "_delta_log"
    try:
        left = [*log.iterdir()]
        if [*table.iterdir()] != [log] or any(path.name != _OF_COORDINATORS and path.name[0] != "." for path in left):
            return False
        for path in left:
            if path.name == _OF_COORDINATORS:
                path.rmdir()
            else:
                path.unlink()
        log.rmdir()
        table.rmdir()
    except OSError:
        return False
    return True
