"""Tables of a catalog or below a URI, read and written through Spark."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, DataFrameWriterV2, SparkSession
from pyspark.sql import functions as sf

from dispatch_audit.pipeline.errors import UsageError
from dispatch_audit.pipeline.spark_errors import reason_of
from dispatch_audit.pipeline.tables.rows import TableRows
from dispatch_audit.pipeline.tables.staging import Staging
from dispatch_audit.pipeline.tables.table_schema import RUN_KEY, TableSchema
from dispatch_audit.pipeline.tables.tables import ConflictError, every_column, is_held, of_run, of_runs
from dispatch_audit.pipeline.tables.target import Target
from dispatch_audit.pipeline.tables.through_spark.spark_rows import frame_of
from dispatch_audit.pipeline.tables.through_spark.spark_staging import SparkStaging

_WAY_OUT = "choose another --out"
_NO_CONNECTOR = re.compile(r"Class \S+ not found|No FileSystem for scheme")
_ADD_CONNECTOR = "add the connector of the store to Spark (docs/WHERE_TO_RUN.md), or pass --engine embedded"
# Delta raises these in the second of two attempts at one run; attempts at different runs do not conflict.
# PySpark has no classes for them without Delta's Python package, which a cluster need not have.
_CONFLICT = re.compile(
    r"Concurrent(?:Append|DeleteDelete|DeleteRead|Transaction)Exception"
    r"|DELTA_CONCURRENT_(?:APPEND|DELETE_DELETE|DELETE_READ|TRANSACTION)"
)


@dataclass(frozen=True)
class SparkTables:
    """The tables of a target that is a schema of a catalog or a URI.

    Attributes:
        target: the schema or the URI.
        spark: the session.
    """

    target: Target
    spark: SparkSession

    def create_schema(self) -> None:
        """Creates the schema of the tables, where the target is one of a catalog."""
        if not self.target.named:
            return
        try:
            if not self.spark.catalog.databaseExists(self.target.location):
                self.spark.sql(f"CREATE SCHEMA IF NOT EXISTS {self.target.quoted}")
        except Exception as error:
            raise UsageError(f"cannot create the schema {self.target}: {reason_of(error)}", _WAY_OUT) from error

    def columns(self, table_name: str) -> dict[str, str] | None:
        """Returns the types of the columns by name; None: there is no such table."""
        try:
            schema = self.target.read(self.spark, table_name).schema
        except AnalysisException:
            return None
        except Exception as error:  # for example a Delta log that lacks a commit
            why = f"cannot read the table {table_name} in {self.target}: {reason_of(error)}"
            raise UsageError(why, _ADD_CONNECTOR if _NO_CONNECTOR.search(why) else _WAY_OUT) from error
        return {field.name: field.dataType.simpleString() for field in schema}

    def create(self, table: TableSchema) -> None:
        """Creates a table."""
        try:
            self.spark.sql(table.ddl(self.target.identifier(table.name)))
        except Exception as error:  # PySpark does not convert Hadoop's errors, so they have no class to catch
            # Spark takes a folder with other files in it for an existing table.
            if "TABLE_OR_VIEW_ALREADY_EXISTS" in str(error):
                raise FileExistsError(reason_of(error)) from error
            raise

    def add_columns(self, table: TableSchema, lacking: Sequence[str]) -> None:
        """Adds nullable columns, and the constraints that the table lacks."""
        identifier = self.target.identifier(table.name)
        # An empty append takes names, types and comments from the table's schema. Two runs that append at the same
        # time end with the same columns: Delta retries the second on the result of the first.
        none = self.spark.createDataFrame([], table.spark_schema)
        none.writeTo(identifier).option("mergeSchema", "true").append()
        properties = {row["key"].lower() for row in self.spark.sql(f"SHOW TBLPROPERTIES {identifier}").collect()}
        for name, check in table.constraints.items():
            if f"delta.constraints.{name}".lower() not in properties:
                self.spark.sql(f"ALTER TABLE {identifier} ADD CONSTRAINT {name} CHECK ({check})")

    def query(self, table_name: str, select: str, rest: str = "") -> list[dict[str, Any]]:
        """Returns the rows of a query, by name of the column."""
        found = self.spark.sql(f"SELECT {select} FROM {self.target.identifier(table_name)} {rest}")
        return [row.asDict(recursive=True) for row in found.collect()]

    def arrow(self, table: TableSchema, run_keys: Sequence[str]) -> pa.Table:
        """Returns the rows of some runs as Arrow."""
        rows = self.query(table.name, every_column(self, table.name), f"WHERE {of_runs(run_keys)}")
        written = pa.Table.from_pylist(rows, pa.schema([*table.arrow_schema, pa.field(RUN_KEY, pa.string())]))
        # Microseconds, because a timestamp that is collected has the time zone of the session.
        stored = table.stored_arrow_schema
        found = zip(table.columns, stored, strict=True)
        columns = [written[column.derived_from or column.name].cast(field.type) for column, field in found]
        return pa.table(columns, schema=stored)

    def frame(self, table_name: str, columns: Sequence[str], run_key: str) -> DataFrame:
        """Returns the rows of a run for Spark's workers."""
        return self.target.read(self.spark, table_name).where(of_run(run_key)).select(*columns)

    def append(self, table: TableSchema, rows: TableRows, run_key: str, number: int) -> None:
        """Adds rows of a run."""
        with _conflicts():
            self._writer(table, rows, run_key, number).append()

    def overwrite(self, table: TableSchema, rows: TableRows, run_key: str, number: int) -> None:
        """Replaces the rows of a run."""
        with _conflicts():
            self._writer(table, rows, run_key, number).overwrite(sf.col(RUN_KEY) == run_key)

    def write_absent(self, table: TableSchema, rows: TableRows, run_key: str, number: int) -> None:
        """Writes rows of a run that the table has none of."""
        if is_held(self, table.name, run_key):
            raise ConflictError(f"{table.name} has rows of run {run_key}")
        # Rows that come between the look and the write are replaced, so that none are there twice.
        self.overwrite(table, rows, run_key, number)

    def delete(self, table_name: str, run_key: str) -> None:
        """Deletes the rows of a run."""
        with _conflicts():
            self.spark.sql(f"DELETE FROM {self.target.identifier(table_name)} WHERE {of_run(run_key)}")

    def staging(self, run_key: str) -> Staging:
        """Returns the staging area of a new attempt at a run."""
        return SparkStaging(self.spark, self.target, run_key)

    def _writer(self, table: TableSchema, rows: TableRows, run_key: str, number: int) -> DataFrameWriterV2:
        complete = _complete(table, frame_of(self.spark, rows), run_key)
        writer = complete.writeTo(self.target.identifier(table.name))
        return writer.option("txnAppId", run_key).option("txnVersion", str(number))


@contextmanager
def _conflicts() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        if not _CONFLICT.search(str(error)):
            raise
        raise ConflictError(reason_of(error)) from error


def _complete(table: TableSchema, rows: DataFrame, run_key: str) -> DataFrame:
    """Returns the rows with all columns of the table."""

    def value(name: str, derived_from: str | None) -> Column:
        if name == RUN_KEY:
            return sf.lit(run_key)
        return sf.col(name) if derived_from is None else sf.timestamp_micros(derived_from)

    fields = zip(table.columns, table.spark_schema, strict=True)
    return rows.select(*(value(c.name, c.derived_from).cast(field.dataType).alias(c.name) for c, field in fields))
