"""The rows of all tables as text, to hold what two audits of one trace left against each other."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final, TypeAlias

from pyspark.sql import SparkSession

from dispatch_audit.pipeline.tables.schemas import TABLES
from dispatch_audit.pipeline.tables.target import parse_target

# Of `runs`; they say when, and not what.
_CLOCKS: Final = ("started_at", "started_at_us", "ended_at", "ended_at_us", "stages")

Tables: TypeAlias = Mapping[str, list[str]]


def rows_of_tables(spark: SparkSession, target: Path) -> Tables:
    """By name of the table its rows, in an order that does not depend on files; `runs` without its clocks."""
    place = parse_target(str(target))
    return {name: sorted(map(str, place.read(spark, name).drop(*_CLOCKS).collect())) for name in TABLES}
