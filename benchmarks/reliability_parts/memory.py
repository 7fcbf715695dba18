"""Memory of a worker against the length of a group: traces of one partition, which one task replays.

What decides should be how much is open, not how long the group is. Each audit runs in a fresh process, after one that
has filled numba's cache: compiling takes more memory than replaying.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.generate import Shape
from benchmarks.runs import run_once
from benchmarks.traces import require_trace, rows_in

_WARM_UP = Shape(events=20_000, partitions=1, order="time")


def group_memory(folder: Path, events: Sequence[int]) -> dict[str, list[dict[str, Any]]]:
    """Audits one group of each length.

    Args:
        folder: for the traces; those that it holds already are used.
        events: about how many rows a group has, in the order of time as logs have them; everything else is equal.

    Returns:
        `groups`: for each the rows, and the most resident memory (RSS, megabytes of 10^6 bytes) that one process of
        Python other than the driver had, looked at every 50 milliseconds.

    Raises:
        DispatchAuditError: a trace could not be generated, or an audit failed.
    """
    warm_up = folder / "warm-up"
    require_trace(warm_up, _WARM_UP, "parquet")
    run_once("audit", warm_up, warm_up)
    groups = []
    for number in events:
        trace = folder / f"group-{number}"
        require_trace(trace, Shape(events=number, partitions=1, order="time"), "parquet")
        run = run_once("audit", warm_up, trace)
        groups.append({"events": rows_in(trace), "peak_worker_mb": round(run.used.peak_worker_mb)})
    return {"groups": groups}
