"""Refuses what the embedded engine cannot do, in one line and before it is tried."""

from pyspark.sql import SparkSession

from dispatch_audit.pipeline.engine.name import on_sail
from dispatch_audit.pipeline.errors import UsageError

_WAY_OUT = "use --engine spark"


def refuse_target(spark: SparkSession, target: str) -> None:
    """Refuses tables of a catalog or behind a URI of no object store, where the engine cannot write them.

    Raises:
        UsageError: the session is one of the embedded engine.
    """
    if on_sail(spark):
        raise UsageError(
            f"the embedded engine writes tables to folders and object stores, not to {target}",
            f"choose one of these or {_WAY_OUT}",
        )


def refuse_scan(spark: SparkSession, source: str) -> None:
    """Refuses a trace that workers cannot read from its files, where the engine has no reader of its own.

    Raises:
        UsageError: the session is one of the embedded engine.
    """
    if on_sail(spark):
        raise UsageError(f"the embedded engine cannot read {source}", _WAY_OUT)
