"""Returns the session of an audit: an existing one, or a new one on the engine that is asked for or found."""

import logging
import os
import sys

import typer
from pyspark.sql import SparkSession

from dispatch_audit.jobs.engines.choice import Engine, EngineOption, chosen, environment, why
from dispatch_audit.jobs.engines.connect import over_connect
from dispatch_audit.jobs.engines.embedded import embedded
from dispatch_audit.jobs.engines.load import Load
from dispatch_audit.jobs.engines.releases import pyspark_version, require_supported
from dispatch_audit.jobs.engines.spark import local_spark, submitted
from dispatch_audit.jobs.stderr import NAME

_log = logging.getLogger(__name__)


def spark_session(
    app_name: str,
    quiet: bool = True,
    *,
    load: Load = Load.ROWS,
    engine: EngineOption = "auto",
    delta: bool = True,
    embeddable: bool = False,
) -> SparkSession:
    """Returns the session for an audit.

    Args:
        app_name: name of the session in Spark's lists.
        quiet: whether to hide the output of an engine that is started here (warnings, downloads).
        load: the data that will pass through an engine that is started here.
        engine: the engine to take.
        delta: whether Delta tables are read or written through the session; a local Spark then downloads the jars of
            Delta Lake the first time.
        embeddable: whether `auto` may take the embedded engine, as `chosen` has it.

    Raises:
        UsageError: the engine is not installed, or the session does not start.
    """
    require_supported(pyspark_version())
    _forget_inherited_connect_mode()
    builder = SparkSession.builder.appName(app_name)
    found = environment()
    choice = chosen(engine, found, embeddable=embeddable)
    if engine == "auto":
        _say(why(choice, found, embeddable=embeddable))
    if choice is Engine.CONNECT:
        return over_connect(builder, os.environ["SPARK_REMOTE"], quiet)
    if choice is Engine.SUBMITTED:
        return submitted(builder)
    if choice is Engine.EMBEDDED:
        return embedded(builder, quiet, load)
    if choice is Engine.LOCAL_SPARK:
        return local_spark(builder, quiet, load, delta)
    # Not configured: an active session has the settings of the program that made it. The builder does not find one on
    # the embedded engine: it asks for the address of a server.
    if choice is Engine.ACTIVE and (active := SparkSession.getActiveSession()):
        return active
    # Not configured either: Databricks has Delta, and the setting for Delta would hide Unity Catalog.
    return builder.getOrCreate()


def _forget_inherited_connect_mode() -> None:
    """Removes the mark that PySpark leaves in the environment of a process whose session is one of Spark Connect.

    A child inherits it, such as a command that a test starts after `audit_trace` ran on the embedded engine. PySpark
    would then ask for the address of a server.
    """
    own = "pyspark.sql.connect.session" in sys.modules
    if not own and "SPARK_REMOTE" not in os.environ and "DATABRICKS_RUNTIME_VERSION" not in os.environ:
        os.environ.pop("SPARK_CONNECT_MODE_ENABLED", None)


def _say(why_chosen: str | None) -> None:
    """Logs why an engine was chosen, and shows it on a terminal."""
    if why_chosen is None:
        return
    _log.info(why_chosen)
    if sys.stderr.isatty():
        typer.echo(f"{NAME}: {why_chosen}", err=True)
