"""Writes a converted trace to Delta tables of a catalog or below a URI, through Spark."""

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from dispatch_audit.pipeline.convert.request import Converted
from dispatch_audit.pipeline.errors import UsageError
from dispatch_audit.pipeline.spark_errors import reason_of
from dispatch_audit.pipeline.tables.through_spark.spark_tables import SparkTables
from dispatch_audit.pipeline.trace.schema import EVENT_SCHEMA
from dispatch_audit.pipeline.trace.sources import Trace
from dispatch_audit.pipeline.trace.workers.good_columns import good_columns


def refuse_existing(spark: SparkSession, converted: Converted, *, replace: bool) -> None:
    """Refuses a target that has a table; creates the schema of a catalog.

    Raises:
        UsageError: a table is there, or the schema cannot be created.
    """
    tables = SparkTables(converted.target, spark)
    tables.create_schema()
    for name in (converted.events, converted.quarantine):
        if not replace and tables.columns(name) is not None:
            raise UsageError(f"{converted.target} has a table {name}", "choose another --to, or pass --replace")


def write_log(spark: SparkSession, trace: Trace, converted: Converted) -> tuple[int, int]:
    """Writes the good rows of a trace by one commit; returns the numbers of topics and rows."""
    _write(good_columns(spark, trace, EVENT_SCHEMA.names), converted, converted.events, "topic")
    written = converted.target.read(spark, converted.events)
    counted = written.agg(sf.count_distinct("topic").alias("topics"), sf.count(sf.lit(1)).alias("rows")).first()
    assert counted is not None, "an aggregation without groups has a row"
    return counted["topics"], counted["rows"]


def empty_log(spark: SparkSession, converted: Converted) -> None:
    """Deletes the rows of a log that is not whole; an audit refuses a trace without rows."""
    spark.sql(f"DELETE FROM {converted.target.identifier(converted.events)}")


def write_quarantine(refused: DataFrame, converted: Converted) -> int:
    """Writes the refused rows of a trace; returns their number."""
    _write(refused, converted, converted.quarantine)
    return converted.target.read(refused.sparkSession, converted.quarantine).count()


def _write(rows: DataFrame, converted: Converted, name: str, partition: str | None = None) -> None:
    """Makes a table, or replaces it, and adds the rows by one commit.

    By two statements, because Spark 3.5.7 refuses to replace a table of Delta Lake 3.3.2 by the rows of a query.
    """
    table = converted.target.identifier(name)
    columns = ", ".join(f"`{field.name}` {field.dataType.simpleString()}" for field in rows.schema)
    partitioned = f" PARTITIONED BY (`{partition}`)" if partition else ""
    try:
        rows.sparkSession.sql(f"CREATE OR REPLACE TABLE {table} ({columns}) USING delta{partitioned}")
        rows.writeTo(table).append()
    except Exception as error:
        raise UsageError(f"cannot write the table {name} in {converted.target}: {reason_of(error)}") from error
