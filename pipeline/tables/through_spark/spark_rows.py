"""Rows for one table that are too many for the driver, and stay in Spark."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from dispatch_audit.pipeline.engine.releases.arrow_frames import arrow_table, frame_of_table
from dispatch_audit.pipeline.tables.rows import ArrowRows, TableRows, Values, replaced
from dispatch_audit.pipeline.tables.table_schema import TableSchema


@dataclass(frozen=True)
class SparkRows:
    """Rows as a frame of Spark.

    Attributes:
        table: the table that they are for.
        frame: the columns of `table.written_spark_schema`, in their order.
    """

    table: TableSchema
    frame: DataFrame

    def select(self, *columns: str) -> pa.Table:
        """Returns columns of all rows."""
        fields = [self.table.arrow_schema.field(name) for name in columns]
        return arrow_table(self.frame.select(*columns), pa.schema(fields))

    def counts(self, column: str) -> dict[Any, int]:
        """Returns the number of rows by the value of a column."""
        return {row[column]: row["count"] for row in self.frame.groupBy(column).count().collect()}

    def with_column(self, name: str, values: Values) -> "SparkRows":
        """Returns the rows with other values in one column, which workers compute."""

        # Spark sends a nested function by value, so that workers need no installation of this package to run it.
        def replace(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            return (replaced(batch, name, values) for batch in batches)

        return SparkRows(self.table, self.frame.mapInArrow(replace, self.table.written_spark_schema))


def frame_of(spark: SparkSession, rows: TableRows) -> DataFrame:
    """Returns rows as a frame of Spark."""
    if isinstance(rows, SparkRows):
        return rows.frame
    assert isinstance(rows, ArrowRows)
    table = rows.select(*rows.table.arrow_schema.names)
    # One file: Spark would write one for each of its cores.
    return frame_of_table(spark, table, rows.table.written_spark_schema).coalesce(1)
