"""Estimates the load of an audit on a JVM of its own, which decides how much the JVM should optimise its code.

In most audits on one machine the JVM lives shortly, or only moves packed batches while Python works: optimising code
then takes longer than running it (docs/TRIED.md).
"""

from collections.abc import Iterator, Sequence
from enum import Enum, auto

from dispatch_audit.pipeline.trace import Log, Trace

# About 100,000 events of compressed JSON Lines. From about twice that on, slower code costs more than a faster start
# saves (docs/TRIED.md).
BRIEF_BYTES_MAX = 4 << 20


class Load(Enum):
    """The data that passes through the JVM."""

    BRIEF = auto()
    """Few rows."""
    CHUNKS = auto()
    """Batches that the workers have read and packed, of any size."""
    ROWS = auto()
    """Every row of the traces, or an unknown amount."""


def load_of(traces: Sequence[Trace]) -> Load:
    """Returns the load of traces by their size and kind; a source that only Spark can reach may be of any size."""
    logs = [log for trace in traces for log in trace.logs]
    if any(log.place is None for log in logs):
        return Load.ROWS
    return Load.BRIEF if sum(map(sum, map(_sizes, logs))) <= BRIEF_BYTES_MAX else Load.CHUNKS


def _sizes(log: Log) -> Iterator[int]:
    path = log.place
    assert path is not None, "the caller has looked"
    for file in path.rglob("*") if path.is_dir() else [path]:
        if file.is_file():
            yield file.stat().st_size
