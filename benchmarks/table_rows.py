"""The rows of all tables as text, to compare two audits of one trace."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final, TypeAlias

from pyspark.sql import SparkSession

from dispatch_audit.pipeline.tables.schemas import TABLES
from dispatch_audit.pipeline.tables.target import parse_target

# Of `runs`: times and the engine, which are no results.
_CIRCUMSTANCES: Final = ("started_at", "started_at_us", "ended_at", "ended_at_us", "stages", "engine")

Tables: TypeAlias = Mapping[str, list[str]]


def rows_of_tables(spark: SparkSession, target: Path) -> Tables:
    """Returns the rows of each table by its name, sorted, so that files do not matter."""
    parsed_target = parse_target(str(target))
    return {name: sorted(map(str, parsed_target.read(spark, name).drop(*_CIRCUMSTANCES).collect())) for name in TABLES}
