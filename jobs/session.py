"""Returns the Spark session: an existing one, or a new local one.

The session of Databricks, or an active one, is used as it is. `SPARK_REMOTE` names a server of Spark Connect, or is
`local[*]` to start one. Under `spark-submit` the cluster is chosen, but the session is made here. Otherwise Spark runs
on this machine, with Delta.
"""

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import IO

from pyspark.sql import SparkSession

from dispatch_audit.jobs.java import require_java
from dispatch_audit.jobs.load import Load
from dispatch_audit.pipeline.errors import UsageError
from dispatch_audit.pipeline.spark_errors import reason_of

_DELTA = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}
# The package that `configure_spark_with_delta_pip` adds; under spark-submit that would be too late.
DELTA_PACKAGE = "io.delta:delta-spark_4.2_2.13:4.4.0"
_SETTINGS = {
    # Timestamps of a trace are UTC, and must not be converted to the time zone of the machine.
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
}
_ONE_MACHINE = {
    # The default of 200 reducers is for clusters; on one machine most of these tasks would only cost time.
    "spark.sql.shuffle.partitions": str(os.cpu_count() or 1),
    # A table of a local audit has tens of files, whose list one task can rebuild; the default is 50.
    "spark.databricks.delta.snapshotPartitions": "1",
    # Listing the files in each commit costs a Spark job for every table that is created.
    "spark.databricks.delta.allFilesInCrc.enabled": "false",
    # The audit chooses the number of its tasks itself, and adaptive execution doubles the jobs of Delta's queries.
    "spark.sql.adaptive.enabled": "false",
}
_LOCAL_SETTINGS = {
    **_ONE_MACHINE,
    # A job of seconds needs no web page, and its port would be open to the network.
    "spark.ui.enabled": "false",
    # It would overwrite the progress of the command line.
    "spark.ui.showConsoleProgress": "false",
    # A limit, which is used only as far as needed; the default of 1 GB is too low.
    "spark.driver.memory": "4g",
}
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


def spark_session(app_name: str, quiet: bool = True, *, load: Load = Load.ROWS) -> SparkSession:
    """Returns the session for an audit.

    Args:
        app_name: name of the session in Spark's lists.
        quiet: whether to hide the output of a JVM that is started here (warnings, downloads).
        load: the data that will pass through a JVM that is started here.

    Raises:
        UsageError: Java is missing or too old, or the session does not start.
    """
    builder = SparkSession.builder.appName(app_name)
    if "DATABRICKS_RUNTIME_VERSION" in os.environ:
        # Not configured: Databricks has Delta, and the setting for Delta would hide Unity Catalog.
        return builder.getOrCreate()
    if "SPARK_REMOTE" in os.environ:
        return _over_connect(builder, os.environ["SPARK_REMOTE"], quiet)
    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    if "PYSPARK_GATEWAY_PORT" in os.environ:  # spark-submit sets it for its script
        try:
            session = _configured(builder, {**_DELTA, **_SETTINGS}).getOrCreate()
            session.catalog.currentDatabase()  # loads Delta's catalog, which fails here if Delta is missing
            if (session.conf.get("spark.master") or "").startswith("local"):
                for name, value in _ONE_MACHINE.items():
                    session.conf.set(name, value)
            return session
        except Exception as error:
            way_out = f"if Delta Lake is missing, call spark-submit with --packages {DELTA_PACKAGE}"
            raise UsageError(f"Spark does not start: {reason_of(error)}", way_out) from error
    # Imported here, because an existing session brings its own Delta.
    from delta import configure_spark_with_delta_pip  # noqa: PLC0415

    require_java()
    # The workers must use the Python environment of this process, not the `python3` on the PATH.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    settings = {**_DELTA, **_SETTINGS, **_LOCAL_SETTINGS, **_SETTINGS_OF_LOAD[load]}
    local = _configured(builder.master("local[*]"), settings)
    with _output_kept_apart() if quiet else nullcontext() as output:
        try:
            return configure_spark_with_delta_pip(local).getOrCreate()
        except Exception as error:
            raise UsageError(f"Spark does not start: {_why(output, error)}", "--debug shows its output") from error


def _over_connect(builder: SparkSession.Builder, remote: str, quiet: bool) -> SparkSession:
    """Returns a session with the server at `remote`, which has Delta, or with a new local server with Delta."""
    settings = _SETTINGS
    if remote.startswith("local"):
        require_java()
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        settings = {**_DELTA, **_SETTINGS, **_LOCAL_SETTINGS, "spark.jars.packages": DELTA_PACKAGE}
    # The server prints as long as it runs, and must not write to the terminal.
    with _output_kept_apart() if quiet else nullcontext() as output:
        try:
            return _configured(builder, settings).getOrCreate()
        except ImportError as error:
            way_out = "pip install 'pulsar-dispatch-audit[connect]'"
            raise UsageError(f"Spark Connect lacks a package: {reason_of(error)}", way_out) from error
        except Exception as error:
            raise UsageError(f"Spark Connect does not start: {_why(output, error)}", "check SPARK_REMOTE") from error


def _configured(builder: SparkSession.Builder, settings: dict[str, str]) -> SparkSession.Builder:
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder


@contextmanager
def _output_kept_apart() -> Iterator[IO[bytes]]:
    """Redirects the output of processes that its body starts to a temporary file, as long as they run.

    Spark has no setting for this: the launcher, Ivy and the JVM print before any logger is configured.
    """
    with tempfile.TemporaryFile() as output:
        kept = {stream: os.dup(stream) for stream in (1, 2)}
        for stream in kept:
            os.dup2(output.fileno(), stream)
        try:
            yield output
        finally:
            for stream, original in kept.items():
                os.dup2(original, stream)
                os.close(original)


def _why(output: IO[bytes] | None, error: Exception) -> str:
    if output is not None:
        output.seek(0)
        if b"unresolved dependency" in output.read().lower():
            return "the jars of Delta Lake are missing and cannot be downloaded"
    return reason_of(error)
