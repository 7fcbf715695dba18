"""Chooses between the two ways of reading and writing the tables of a target."""

from pyspark.sql import SparkSession

from dispatch_audit.pipeline.engine.name import on_sail
from dispatch_audit.pipeline.tables.delta_rs.delta_rs_tables import DeltaRsTables
from dispatch_audit.pipeline.tables.tables import Tables
from dispatch_audit.pipeline.tables.target import Target


def tables_of(spark: SparkSession | None, target: Target) -> Tables:
    """Returns the tables of a target.

    Args:
        spark: the session; None is enough for tables below a local path, and to read those in an object store.
        target: where the tables are.
    """
    # Spark's workers have a way of their own to a store, and not always the options of this process.
    if target.local or (target.store is not None and (spark is None or on_sail(spark))):
        return DeltaRsTables(target, spark)
    # Imported here, because it imports Delta on Spark, which takes a second.
    from dispatch_audit.pipeline.tables.through_spark.spark_tables import SparkTables  # noqa: PLC0415

    assert spark is not None, "only Spark finds tables of a catalog and of other URIs"
    return SparkTables(target, spark)
