"""Makes a session on the embedded engine: Sail, a server of Spark Connect in this process, without Java."""

import atexit
import os

from pyspark.sql import SparkSession

from dispatch_audit.jobs.engines.extras import how_to_install
from dispatch_audit.jobs.engines.load import Load
from dispatch_audit.jobs.engines.settings import ALWAYS, configured
from dispatch_audit.pipeline.engine.functions import WORKERS, Workers
from dispatch_audit.pipeline.engine.worker_pool import start_worker
from dispatch_audit.pipeline.errors import UsageError
from dispatch_audit.pipeline.spark_errors import reason_of

# Sail reads its settings from the environment when the server starts, and its allocator when the package is loaded.
_SERVER = {
    # Sail forgets a session that is idle for 15 minutes; a notebook may be idle for a night.
    "SAIL_SPARK__SESSION_TIMEOUT_SECS": str(30 * 24 * 3600),
    # Otherwise the allocator asks for huge pages and gives them back again, and for a trace that is larger than those
    # before it the kernel clears gigabytes of memory (docs/TRIED.md).
    "MIMALLOC_ALLOW_THP": "0",
}
_QUIET = {"RUST_LOG": "off"}


def embedded(builder: SparkSession.Builder, quiet: bool, load: Load) -> SparkSession:
    """Returns a session with a new server in this process, on a free port of the loopback address.

    Args:
        builder: of the session.
        quiet: whether to hide the log of the server.
        load: a brief one runs in this process, a larger one in processes of its own.

    Raises:
        UsageError: a package is missing, or the server does not start.
    """
    workers: Workers = "threads" if load is Load.BRIEF else "processes"
    if workers == "processes":
        start_worker()
    for name, value in {**_SERVER, **(_QUIET if quiet else {})}.items():
        os.environ.setdefault(name, value)
    settings = {**ALWAYS, "spark.sql.shuffle.partitions": str(os.cpu_count() or 1), WORKERS: workers}
    try:
        # Imported here, because the package is installed only with the extra `embedded`.
        from pysail.spark import SparkConnectServer  # noqa: PLC0415

        server = SparkConnectServer("127.0.0.1", 0)
        server.start(background=True)
        # Registered before the client's exit handler, which therefore runs first and still finds the server.
        atexit.register(server.stop)
        host, port = server.listening_address or ("", 0)
        session = configured(builder.remote(f"sc://{host}:{port}"), settings).getOrCreate()
    except ImportError as error:
        reason = reason_of(error)
        raise UsageError(f"the embedded engine lacks a package: {reason}", how_to_install("embedded")) from error
    except Exception as error:
        raise UsageError(f"the embedded engine does not start: {reason_of(error)}", "use --engine spark") from error
    return session
