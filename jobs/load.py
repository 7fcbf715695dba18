"""What an audit asks of a JVM of its own, which decides how well that had better compile its code.

Of most audits on one machine the JVM is short-lived, or moves little but packed chunks while Python works: to compile
code well then takes longer than it ever runs (docs/FIGURES.md).
"""

from collections.abc import Iterator, Sequence
from enum import Enum, auto
from pathlib import Path

from pipeline.trace import Log, Trace

# Of JSON Lines, compressed, some 100,000 events. From about twice that on the time that is saved at the start is lost
# on the rows (docs/FIGURES.md).
BRIEF_BYTES_MAX = 4 << 20


class Load(Enum):
    """What passes through the JVM."""

    BRIEF = auto()
    """Few rows."""
    CHUNKS = auto()
    """What workers have read and packed, of any size."""
    ROWS = auto()
    """Every row of the traces, or nobody knows."""


def load_of(traces: Sequence[Trace]) -> Load:
    """What traces of this size and kind ask for; what only Spark can reach may be of any size."""
    logs = [log for trace in traces for log in trace.logs]
    if all(log.local for log in logs) and sum(map(sum, map(_sizes, logs))) <= BRIEF_BYTES_MAX:
        return Load.BRIEF
    return Load.CHUNKS if all(log.local and log.kind in ("parquet", "delta") for log in logs) else Load.ROWS


def _sizes(log: Log) -> Iterator[int]:
    path = Path(log.path)
    for file in path.rglob("*") if path.is_dir() else [path]:
        if file.is_file():
            yield file.stat().st_size
