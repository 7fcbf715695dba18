"""Makes the session of Apache Spark: on this machine, or on the cluster that spark-submit chose."""

import os
import sys

from pyspark.sql import SparkSession

from dispatch_audit.jobs.engines.class_archive import class_archive_options
from dispatch_audit.jobs.engines.java import require_java
from dispatch_audit.jobs.engines.load import Load
from dispatch_audit.jobs.engines.output import output_kept_apart, why
from dispatch_audit.jobs.engines.releases import delta_package, require_fitting_delta, spark_jars
from dispatch_audit.jobs.engines.settings import (
    ALWAYS,
    DELTA,
    ONE_MACHINE,
    OWN_PROCESS,
    SPARK_HAS,
    configured,
)
from dispatch_audit.pipeline.errors import UsageError
from dispatch_audit.pipeline.spark_errors import reason_of

# Java's default collector saves pauses, which do not matter here, and costs more CPU time.
_COLLECTOR = "-XX:+UseParallelGC"
# Code that runs for seconds is not worth the second compiler. The code cache keeps the size for both compilers: with a
# smaller one a session of several audits compiles code again and again.
_NO_SECOND_COMPILER = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"
# The name for defaults, so that a user's `spark.driver.extraJavaOptions` still applies.
_JAVA_OPTIONS = "spark.driver.defaultJavaOptions"
_SETTINGS_OF_LOAD = {
    Load.ROWS: {_JAVA_OPTIONS: _COLLECTOR},
    Load.CHUNKS: {_JAVA_OPTIONS: f"{_COLLECTOR} {_NO_SECOND_COMPILER}"},
    Load.BRIEF: {
        _JAVA_OPTIONS: f"{_COLLECTOR} {_NO_SECOND_COMPILER}",
        # Generating and compiling Java for a query of few rows takes longer than interpreting it.
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    },
}


def local_spark(builder: SparkSession.Builder, quiet: bool, load: Load, delta: bool) -> SparkSession:
    """Returns a session on this machine.

    Args:
        builder: of the session.
        quiet: whether to hide the output of the JVM (warnings, downloads).
        load: the data that will pass through the JVM.
        delta: whether Spark reads or writes Delta tables; if not, it downloads nothing.

    Raises:
        UsageError: PySpark is its client only, Java is missing or too old, or the session does not start.
    """
    if spark_jars() is None:
        raise UsageError(
            "Spark does not start from pyspark-client, which is a client only",
            "install pyspark in its place, or use --engine embedded",
        )
    java_version = require_java()
    # The workers must use the Python environment of this process, not the `python3` on the PATH.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    settings = {**ALWAYS, **OWN_PROCESS, **_SETTINGS_OF_LOAD[load]}
    settings[_JAVA_OPTIONS] += f" {class_archive_options(java_version)}"
    local = configured(builder.master("local[*]"), settings)
    if delta:
        local = configured(local, {**DELTA, **SPARK_HAS, "spark.jars.packages": delta_package()})
    with output_kept_apart(quiet) as output:
        try:
            return local.getOrCreate()
        except Exception as error:
            raise UsageError(f"Spark does not start: {why(output, error)}", "--debug shows its output") from error


def submitted(builder: SparkSession.Builder) -> SparkSession:
    """Returns the session on the cluster that spark-submit chose.

    Raises:
        UsageError: the session does not start, has no Delta Lake, or one that does not fit.
    """
    require_fitting_delta(_given_jars())
    try:
        session = configured(builder, {**DELTA, **ALWAYS}).getOrCreate()
        session.catalog.currentDatabase()  # loads Delta's catalog, which fails here if Delta is missing
        if (session.conf.get("spark.master") or "").startswith("local"):
            for name, value in ONE_MACHINE.items():
                session.conf.set(name, value)
        return session
    except Exception as error:
        way_out = f"if Delta Lake is missing, call spark-submit with --packages {delta_package()}"
        raise UsageError(f"Spark does not start: {reason_of(error)}", way_out) from error


def _given_jars() -> list[str]:
    """Returns the jars that spark-submit was given or found, and those of the installation."""
    # Imported here, because pyspark-client lacks them, with which nothing is submitted.
    from pyspark import SparkConf, SparkContext  # noqa: PLC0415

    # The JVM of spark-submit runs already; it has them as a property.
    SparkContext._ensure_initialized()
    given = (SparkConf().get("spark.jars") or "").split(",")
    installed = spark_jars()
    return [*given, *(map(str, installed.glob("delta-*.jar")) if installed else ())]
