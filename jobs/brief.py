"""Which audits are so brief that starting Spark and compiling code are most of them."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from pipeline.trace import Log, Trace

# Of JSON Lines, compressed, some 100,000 events. From about twice that on the time that is saved at the start is lost
# on the rows (docs/FIGURES.md).
BRIEF_BYTES_MAX = 4 << 20


def is_brief(traces: Sequence[Trace]) -> bool:
    """Whether traces are few bytes, and known to be: what only Spark can reach may be of any size."""
    logs = [log for trace in traces for log in trace.logs]
    return all(log.local for log in logs) and sum(map(sum, map(_sizes, logs))) <= BRIEF_BYTES_MAX


def _sizes(log: Log) -> Iterator[int]:
    path = Path(log.path)
    for file in path.rglob("*") if path.is_dir() else [path]:
        if file.is_file():
            yield file.stat().st_size
