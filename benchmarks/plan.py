"""What the benchmark measures: a plan, which there are, and where they find their rows."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias, get_args

Name = Literal["audit", "row_floor", "own_floor", "spark_sql", "duckdb", "polars"]
PLANS: tuple[Name, ...] = get_args(Name)

READS_ALL: frozenset[Name] = frozenset({"audit", "row_floor", "own_floor"})
"""Plans that tell how many rows they saw; the others tell how often each rule was broken."""

Found: TypeAlias = Callable[[], Mapping[str, int]]
"""Tells what a run came to, so that a plan that did not do its work shows. Not measured."""

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
    """The log of a generated trace: a folder of Parquet files, or a Delta table."""
    delta = trace / "events.delta"
    return delta if delta.exists() else trace / "events.parquet"


def files_in(trace: Path) -> Path:
    """Its Parquet files, as a glob. A Delta table that was written once holds no others."""
    return log_in(trace) / "*.parquet"
