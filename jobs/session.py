"""The Spark session: the one that is there, or a local one of our own.

The session of Databricks, or one that is active, is taken as it is. `SPARK_REMOTE` names a server of Spark
Connect, or is `local[*]` for one of our own. Under `spark-submit` the cluster is chosen but no session is made yet.
Otherwise Spark runs inside this process's machine, with Delta.
"""

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import IO

from pyspark.sql import SparkSession

from jobs.java import require_java
from jobs.load import Load
from pipeline.errors import UsageError
from pipeline.spark_errors import reason_of

_DELTA = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}
# What `configure_spark_with_delta_pip` asks for, which under spark-submit comes too late.
DELTA_PACKAGE = "io.delta:delta-spark_4.2_2.13:4.4.0"
_SETTINGS = {
    # Timestamps of a trace are UTC, and must not be shown or cut in the zone of whoever runs the audit.
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
}
_ONE_MACHINE = {
    # The default of 200 reducers serves clusters; here each is a task that a core waits for.
    "spark.sql.shuffle.partitions": str(os.cpu_count() or 1),
    # A table of a local audit has tens of files: their list needs no 50 tasks to be rebuilt.
    "spark.databricks.delta.snapshotPartitions": "1",
    # Nor is it worth while to list them with each commit too: for a table that is created that is a job of its own.
    "spark.databricks.delta.allFilesInCrc.enabled": "false",
    # There is nothing to adapt: the audit names its tasks itself, and Delta's queries would run in twice as many jobs.
    "spark.sql.adaptive.enabled": "false",
}
_LOCAL_SETTINGS = {
    **_ONE_MACHINE,
    # Nobody looks at the page of a job of seconds, and its port would be open to the network.
    "spark.ui.enabled": "false",
    # It would write over our own progress.
    "spark.ui.showConsoleProgress": "false",
    # Its default of 1 GB is a container's. It is a limit: what is not used is not taken.
    "spark.driver.memory": "4g",
}
# Of Java's own choices the collector keeps pauses short, which nobody waits for, at the price of CPU time.
_COLLECTOR = "-XX:+UseParallelGC"
# Nor is it worth while to compile what runs for seconds as if it ran for hours.
# The room for what is compiled stays that of both: in less a session of several audits compiles again and again.
_NO_SECOND_COMPILER = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"
# Under this name, so that whoever sets `spark.driver.extraJavaOptions` has the last word.
_JAVA_OPTIONS = "spark.driver.defaultJavaOptions"
_SETTINGS_OF_LOAD = {
    Load.ROWS: {_JAVA_OPTIONS: _COLLECTOR},
    Load.CHUNKS: {_JAVA_OPTIONS: f"{_COLLECTOR} {_NO_SECOND_COMPILER}"},
    Load.BRIEF: {
        _JAVA_OPTIONS: f"{_COLLECTOR} {_NO_SECOND_COMPILER}",
        # Nor to make Java of a query that sees few rows, and compile that.
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    },
}


def spark_session(app_name: str, quiet: bool = True, *, load: Load = Load.ROWS) -> SparkSession:
    """The session to audit with.

    Args:
        app_name: what the session is called where it is listed.
        quiet: whether to keep what a JVM of our own prints (warnings, downloads) from the terminal.
        load: what will pass through a JVM of our own.

    Raises:
        UsageError: Java is missing or too old, or the session does not start.
    """
    builder = SparkSession.builder.appName(app_name)
    if "DATABRICKS_RUNTIME_VERSION" in os.environ:
        # Not configured: Delta is there, and our setting for it would hide Unity Catalog.
        return builder.getOrCreate()
    if "SPARK_REMOTE" in os.environ:
        return _over_connect(builder, os.environ["SPARK_REMOTE"], quiet)
    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    if "PYSPARK_GATEWAY_PORT" in os.environ:  # set by spark-submit for the script that it runs
        try:
            session = _configured(builder, {**_DELTA, **_SETTINGS}).getOrCreate()
            session.catalog.currentDatabase()  # loads the catalog, which is Delta's
            if (session.conf.get("spark.master") or "").startswith("local"):
                for name, value in _ONE_MACHINE.items():
                    session.conf.set(name, value)
            return session
        except Exception as error:
            way_out = f"if Delta Lake is missing, call spark-submit with --packages {DELTA_PACKAGE}"
            raise UsageError(f"Spark does not start: {reason_of(error)}", way_out) from error
    # Not imported above: where a session is given, so is Delta, and its own way.
    from delta import configure_spark_with_delta_pip  # noqa: PLC0415

    require_java()
    # The workers must run the environment that this process runs, whatever `python3` is on the PATH.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    settings = {**_DELTA, **_SETTINGS, **_LOCAL_SETTINGS, **_SETTINGS_OF_LOAD[load]}
    local = _configured(builder.master("local[*]"), settings)
    with _output_kept_apart() if quiet else nullcontext() as output:
        try:
            return configure_spark_with_delta_pip(local).getOrCreate()
        except Exception as error:
            raise UsageError(f"Spark does not start: {_why(output, error)}", "--debug shows its output") from error


def _over_connect(builder: SparkSession.Builder, remote: str, quiet: bool) -> SparkSession:
    """A session with the server at `remote`, which has Delta, or with one that is started here and gets it."""
    settings = _SETTINGS
    if remote.startswith("local"):
        require_java()
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        settings = {**_DELTA, **_SETTINGS, **_LOCAL_SETTINGS, "spark.jars.packages": DELTA_PACKAGE}
    # The server prints for as long as it lives, and must not be given a terminal.
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
    """Gives whatever process is started inside a nameless file for its output, for as long as it lives.

    No setting of Spark does this: the launcher, Ivy and the JVM print before any logger is configured.
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
            return "the jars of Delta Lake are not here, and cannot be downloaded"
    return reason_of(error)
