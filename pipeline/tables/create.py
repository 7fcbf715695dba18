"""How the tables of a target come to be: created where missing, checked where there.

Creating costs a commit each and nothing more, see `TableSchema.ddl`. A table that is there must have the
columns of this version, or be one that `pipeline.tables.migrate` can grow: rows of two makes side by side would be read
wrong.
"""

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from pipeline.errors import UsageError
from pipeline.tables.migrate import migrate
from pipeline.tables.schemas import TABLES
from pipeline.tables.spark_errors import reason_of
from pipeline.tables.table_schema import RUN_KEY, TableSchema
from pipeline.tables.target import Target
from pipeline.tables.threads import at_one_time
from pipeline.tables.write import RunTables

_WAY_OUT = "choose another --out"


def open_tables(spark: SparkSession, target: Target, run_key: str) -> RunTables:
    """Makes the tables of `target` ready for one run, and looks for rows that it wrote before.

    Raises:
        UsageError: the target cannot be written, or holds something else under the name of a table.
    """
    if target.named:
        _create_schema(spark, target)
    held = at_one_time(lambda table: _open(spark, target, table, run_key), TABLES.values())
    names = frozenset(name for name, is_held in zip(TABLES, held, strict=True) if is_held)
    return RunTables(spark, target, run_key, names)


def _create_schema(spark: SparkSession, target: Target) -> None:
    try:
        if not spark.catalog.databaseExists(target.location):
            spark.sql(f"CREATE SCHEMA IF NOT EXISTS {target.quoted}")
    except Exception as error:
        raise UsageError(f"cannot create the schema {target}: {reason_of(error)}", _WAY_OUT) from error


def _open(spark: SparkSession, target: Target, table: TableSchema, run_key: str) -> bool:
    """Makes one table ready; returns whether it holds rows of the run."""
    columns = _columns(spark, target, table)
    if columns is None:
        _create(spark, target, table)
        return False
    migrate(spark, target, table, columns)
    return not target.read(spark, table.name).where(sf.col(RUN_KEY) == run_key).isEmpty()


def _columns(spark: SparkSession, target: Target, table: TableSchema) -> dict[str, str] | None:
    try:
        return {field.name: field.dataType.simpleString() for field in target.read(spark, table.name).schema}
    except AnalysisException:
        return None


def _create(spark: SparkSession, target: Target, table: TableSchema) -> None:
    try:
        spark.sql(table.ddl(target.identifier(table.name)))
    except Exception as error:  # Hadoop's come through unconverted, and have no class of their own in Python
        raise UsageError(f"cannot create tables in {target}: {reason_of(error)}", _WAY_OUT) from error
    # Spark takes a folder with foreign files in it for the table, and creates nothing.
    if _columns(spark, target, table) is None:
        raise UsageError(f"{target} holds {table.name}, which is no Delta table", _WAY_OUT)
