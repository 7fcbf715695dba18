"""The plans that the benchmark measures, and the files that they read."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias, get_args

Name = Literal["audit", "row_floor", "own_floor", "spark_sql", "duckdb", "polars"]
PLANS: tuple[Name, ...] = get_args(Name)

READS_ALL: frozenset[Name] = frozenset({"audit", "row_floor", "own_floor"})
"""Plans that return the number of rows; the others return how often each rule was broken."""

READS_TRACES: frozenset[Name] = frozenset({"audit", "own_floor"})
"""Plans with the readers of the audit, which take every source and run on every engine."""

EngineName = Literal["spark", "embedded"]

ON_SPARK: frozenset[Name] = frozenset({"row_floor", "spark_sql"})
"""Plans that no other engine runs."""

Found: TypeAlias = Callable[[], Mapping[str, int]]
"""Returns the result of a run, to check that the plan did its work. Not measured."""

Run: TypeAlias = Callable[[], Found]
"""Works through a trace. Measured."""


class Engine(NamedTuple):
    """A plan whose engine runs.

    Attributes:
        prepare: makes ready for a trace, which is not measured; of the trace and of a folder that the plan may write
            to, which does not exist yet.
        shuffled_bytes: what the engine has written into exchanges since it started; None if it has none.
    """

    prepare: Callable[[Path, Path], Run]
    shuffled_bytes: Callable[[], int | None]


def log_in(trace: Path) -> Path:
    """The log of a generated trace: a folder of Parquet files or of JSON Lines, or a Delta table."""
    return next(trace.glob("events.*"), trace / "events.parquet")


def files_in(trace: Path) -> Path:
    """Its Parquet files, as a glob. A Delta table that was written once holds no others."""
    return log_in(trace) / "*.parquet"
