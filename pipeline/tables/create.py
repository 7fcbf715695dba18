"""How the tables of a target come to be: created where missing, checked where there.

Creating costs a commit each and nothing more, see `TableSchema.ddl`. A table that is there must have the
columns of this version, or be one that `pipeline.tables.migrate` can grow: rows of two makes side by side would be read
wrong.
"""

import time
from pathlib import Path

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from pipeline.errors import UsageError
from pipeline.spark_errors import reason_of
from pipeline.tables.migrate import migrate
from pipeline.tables.schemas import TABLES
from pipeline.tables.table_schema import TableSchema
from pipeline.tables.target import Target
from pipeline.tables.threads import at_one_time
from pipeline.tables.write import RunTables

_WAY_OUT = "choose another --out"
# Another audit that creates a table at the same time may have made its folder and not yet its first commit.
_WAITS_S = (0.0, 0.2, 1.0, 2.0)
# A folder in each log, empty without a commit coordinator.
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
    """Makes one table ready; returns whether it was not there."""
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
    except Exception as error:  # a log of Delta with a commit missing, for one
        raise UsageError(f"cannot read the table {table.name} in {target}: {reason_of(error)}", _WAY_OUT) from error


def _create(spark: SparkSession, target: Target, table: TableSchema) -> tuple[dict[str, str], bool]:
    """Creates a table; returns its columns, and whether it was this statement that created it."""
    failure, columns = _tried(spark, target, table)
    if columns is None and target.local and _swept(Path(target.location, table.name)):
        failure, columns = _tried(spark, target, table)
    if columns is not None:
        # There was an error and there is the table: another audit created it at the same time.
        return columns, failure is None
    # Spark takes a folder with foreign files in it for a table that exists.
    if failure is None or "TABLE_OR_VIEW_ALREADY_EXISTS" in str(failure):
        raise UsageError(f"{target} holds {table.name}, which is no Delta table", _WAY_OUT) from failure
    raise UsageError(f"cannot create tables in {target}: {reason_of(failure)}", _WAY_OUT) from failure


def _tried(spark: SparkSession, target: Target, table: TableSchema) -> tuple[Exception | None, dict[str, str] | None]:
    """Why a table could not be created, and the columns that it has after a while; None: it could, it is not there."""
    failure: Exception | None = None
    try:
        spark.sql(table.ddl(target.identifier(table.name)))
    except Exception as error:  # Hadoop's come through unconverted, and have no class of their own in Python
        failure = error
    for wait_s in _WAITS_S:
        time.sleep(wait_s)
        columns = _columns(spark, target, table)
        if columns is not None:
            return failure, columns
    return failure, None


def _swept(table: Path) -> bool:
    """Removes what an audit left that was killed before its first commit to a table; whether that is all there was.

    A commit that comes after all is not removed: its folder is not empty then.
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
