"""Chooses between the two ways of reading and writing the tables of a target."""

from pyspark.sql import SparkSession

from dispatch_audit.pipeline.tables.delta_rs.local_tables import LocalTables
from dispatch_audit.pipeline.tables.tables import Tables
from dispatch_audit.pipeline.tables.target import Target


def tables_of(spark: SparkSession | None, target: Target) -> Tables:
    """Returns the tables of a target.

    Args:
        spark: the session; None is enough to read and write tables below a local path.
        target: where the tables are.
    """
    if target.local:
        return LocalTables(target, spark)
    # Imported here, because it imports Delta on Spark, which takes a second and which a local path does not need.
    from dispatch_audit.pipeline.tables.through_spark.spark_tables import SparkTables  # noqa: PLC0415

    assert spark is not None, "only tables below a local path are read without Spark"
    return SparkTables(target, spark)
