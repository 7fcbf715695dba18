"""Chooses the engine of an audit from what the environment offers."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from importlib.util import find_spec
from typing import Literal

from pyspark.sql import SparkSession

from dispatch_audit.jobs.engines.extras import how_to_install
from dispatch_audit.jobs.engines.java import has_java
from dispatch_audit.pipeline.engine.name import on_sail
from dispatch_audit.pipeline.errors import UsageError

EngineOption = Literal["auto", "spark", "embedded"]

_ELSEWHERE = "leave --engine out, or run it elsewhere"


class Engine(Enum):
    """Where the session of an audit comes from."""

    DATABRICKS = auto()
    """The session of Databricks."""
    CONNECT = auto()
    """A server of Spark Connect, which `SPARK_REMOTE` names."""
    ACTIVE = auto()
    """The session that is active in this process."""
    SUBMITTED = auto()
    """The cluster that spark-submit chose."""
    LOCAL_SPARK = auto()
    """Apache Spark on this machine, which needs Java."""
    EMBEDDED = auto()
    """Sail in this process, which needs no Java."""


@dataclass(frozen=True)
class Environment:
    """What decides on the engine.

    Attributes:
        databricks: whether this is a cluster of Databricks.
        remote: whether `SPARK_REMOTE` names a server.
        submitted: whether spark-submit runs this process.
        active: the kind of the active session; None: there is none.
        sail: whether the embedded engine is installed.
        java: finds out whether there is a Java that Spark can run on; it takes a moment, so it is asked last.
    """

    databricks: bool = False
    remote: bool = False
    submitted: bool = False
    active: Literal["spark", "embedded"] | None = None
    sail: bool = False
    java: Callable[[], bool] = has_java


def environment() -> Environment:
    """Returns the environment of this process."""
    session = SparkSession.getActiveSession()
    return Environment(
        databricks="DATABRICKS_RUNTIME_VERSION" in os.environ,
        remote="SPARK_REMOTE" in os.environ,
        submitted="PYSPARK_GATEWAY_PORT" in os.environ,  # spark-submit sets it for its script
        active=None if session is None else "embedded" if on_sail(session) else "spark",
        sail=find_spec("pysail") is not None,
    )


def chosen(option: EngineOption, found: Environment, *, embeddable: bool) -> Engine:
    """Returns the engine to take.

    Args:
        option: `auto`: what is there, else the embedded engine for files, and Spark for anything else
            if there is a Java; `spark`: the same without the embedded engine; `embedded`: that one.
        found: the environment.
        embeddable: whether the embedded engine can do it: there are files to read and places for tables, no catalog,
            and no Delta table to read.

    Raises:
        UsageError: the environment has another engine than the one asked for, or the embedded one is not installed.
    """
    there = _there(found)
    if option == "embedded":
        if there is Engine.ACTIVE and found.active == "embedded":
            return there
        if there in (Engine.DATABRICKS, Engine.SUBMITTED, Engine.ACTIVE):
            raise UsageError("the embedded engine does not start where another engine runs", _ELSEWHERE)
        if not found.sail:
            raise UsageError("the embedded engine is not installed", how_to_install("embedded"))
        return Engine.EMBEDDED
    if there is Engine.ACTIVE and found.active == "embedded" and option == "spark":
        raise UsageError("Spark does not start where the embedded engine runs", _ELSEWHERE)
    if there is not None:
        return there
    return (
        Engine.EMBEDDED if option == "auto" and found.sail and (embeddable or not found.java()) else Engine.LOCAL_SPARK
    )


def why(choice: Engine, found: Environment, *, embeddable: bool) -> str | None:
    """Returns why `auto` took an engine of this machine; None: it took the one that the environment brings.

    Args:
        choice: the engine.
        found: the environment.
        embeddable: as in `chosen`.
    """
    if choice is Engine.EMBEDDED:
        reason = "it reaches all files" if embeddable else "there is no Java"
        return f"on the embedded engine, because {reason}; --engine spark takes Apache Spark"
    if choice is Engine.LOCAL_SPARK and found.sail:
        return "on Apache Spark, because the embedded engine has no catalog, and reads no Delta logs"
    if choice is Engine.LOCAL_SPARK:
        return "on Apache Spark, because the embedded engine is not installed"
    return None


def _there(found: Environment) -> Engine | None:
    """Returns the engine that the environment brings; None: it brings none."""
    if found.databricks:
        return Engine.DATABRICKS
    if found.active == "embedded":
        return Engine.ACTIVE
    if found.remote:
        return Engine.CONNECT
    if found.active is not None:
        return Engine.ACTIVE
    return Engine.SUBMITTED if found.submitted else None
