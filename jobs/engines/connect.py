"""Makes a session of Spark Connect."""

import os
import sys

from pyspark.sql import SparkSession

from dispatch_audit.jobs.engines.extras import how_to_install
from dispatch_audit.jobs.engines.java import require_java
from dispatch_audit.jobs.engines.output import output_kept_apart, why
from dispatch_audit.jobs.engines.releases import connect_package, delta_package, require_supported
from dispatch_audit.jobs.engines.settings import ALWAYS, DELTA, OWN_PROCESS, configured
from dispatch_audit.pipeline.errors import UsageError
from dispatch_audit.pipeline.spark_errors import reason_of


def over_connect(builder: SparkSession.Builder, remote: str, quiet: bool) -> SparkSession:
    """Returns a session with the server at `remote`, which has Delta, or with a new local server with Delta.

    Args:
        builder: of the session.
        remote: `sc://host:port`, or `local[2]` and the like.
        quiet: whether to hide the output of a local server.

    Raises:
        UsageError: a package or Java is missing, or the server does not answer.
    """
    settings = ALWAYS
    if remote.startswith("local"):
        require_java()
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        packages = filter(None, (delta_package(), connect_package()))
        settings = {**DELTA, **ALWAYS, **OWN_PROCESS, "spark.jars.packages": ",".join(packages)}
    # The server prints as long as it runs, and must not write to the terminal.
    with output_kept_apart(quiet) as output:
        try:
            session = configured(builder, settings).getOrCreate()
            of_server = session.version
        except ImportError as error:
            reason = reason_of(error)
            raise UsageError(f"Spark Connect lacks a package: {reason}", how_to_install("connect")) from error
        except Exception as error:
            raise UsageError(f"Spark Connect does not start: {why(output, error)}", "check SPARK_REMOTE") from error
    require_supported(of_server)
    return session
