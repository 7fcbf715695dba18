"""The settings of Spark that an audit needs."""

import os
from collections.abc import Mapping

from pyspark.sql import SparkSession

from dispatch_audit.pipeline.engine.worker_environment import WORKER_ENVIRONMENT

DELTA = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}
# Dependencies of the package that Spark has among its own jars, which take precedence. Ivy would fetch them too, and
# each session would copy each of them three times, and start a process for each copy to change its mode.
SPARK_HAS = {
    "spark.jars.excludes": ",".join(
        f"{group}:*"
        for group in (
            "com.fasterxml.jackson.core",
            "com.google.code.findbugs",
            "org.antlr",
            "org.apache.hadoop",
            "org.apache.logging.log4j",
            "org.apache.parquet",
            "org.roaringbitmap",
            "org.slf4j",
        )
    )
}
ALWAYS = {
    # Timestamps of a trace are UTC, and must not be converted to the time zone of the machine.
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
}
ONE_MACHINE = {
    # The default of 200 reducers is for clusters; on one machine most of these tasks would only cost time.
    "spark.sql.shuffle.partitions": str(os.cpu_count() or 1),
    # A table of a local audit has tens of files, whose list one task can rebuild; the default is 50.
    "spark.databricks.delta.snapshotPartitions": "1",
    # Listing the files in each commit costs a Spark job for every table that is created.
    "spark.databricks.delta.allFilesInCrc.enabled": "false",
    # The audit chooses the number of its tasks itself, and adaptive execution doubles the jobs of Delta's queries.
    "spark.sql.adaptive.enabled": "false",
}
OWN_PROCESS = {
    **ONE_MACHINE,
    # A job of seconds needs no web page, and its port would be open to the network.
    "spark.ui.enabled": "false",
    # It would overwrite the progress of the command line.
    "spark.ui.showConsoleProgress": "false",
    # A limit, which is used only as far as needed; the default of 1 GB is too low.
    "spark.driver.memory": "4g",
    **{f"spark.executorEnv.{name}": value for name, value in WORKER_ENVIRONMENT.items()},
}


def configured(builder: SparkSession.Builder, settings: Mapping[str, str]) -> SparkSession.Builder:
    """Returns the builder with the settings."""
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder
