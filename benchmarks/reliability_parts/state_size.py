"""Bytes of state that a window hands on, against what is open at its end: consumers that acknowledge nothing."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.generate import Shape, write_trace
from benchmarks.reliability_parts.audited import Means
from dispatch_audit.pipeline.settings import load_settings
from dispatch_audit.pipeline.tables.tables import of_run
from dispatch_audit.pipeline.tables.target import parse_target
from dispatch_audit.pipeline.tables.way import tables_of
from dispatch_audit.pipeline.windows.window import Window

# Nearly all of the work is done long after the last publish, and the window ends there.
_WORK_MS: Final = 10**9
_ROWS_OF_A_MESSAGE: Final = 5
# A sample of the limits looks at each open entry, and the trace lasts for months.
_SAMPLE_INTERVAL_S: Final = 10**6
# Nearly all hashes of 4.x have keys: the core walks through the pending entries of a hash, and brokers keep these few.
_KEYS: Final = 200_000


def state_size(means: Means, folder: Path, open_entries: Sequence[int]) -> dict[str, list[dict[str, int]]]:
    """Audits a window of one group that ends with so many open entries, and the next window, in which work is done.

    Args:
        means: of the audits.
        folder: for traces and tables; holds neither yet.
        open_entries: about how many.

    Returns:
        `states`: for each the entries that were published and not acknowledged, the bytes of the state, and how many
        rows both windows together lost: rows in that are not audited, and rows audited twice.

    Raises:
        LimitError: they are more than `limits.open_entries_max`.
    """
    settings = load_settings()
    rare = settings.capacity.model_copy(update={"sample_interval_s": _SAMPLE_INTERVAL_S})
    settings = settings.model_copy(update={"capacity": rare})
    states = []
    for number in open_entries:
        trace, target = folder / f"open-{number}", folder / f"tables-{number}"
        shape = Shape(
            events=_ROWS_OF_A_MESSAGE * number, partitions=1, keys=_KEYS, changes=0, work_ms=_WORK_MS, order="time"
        )
        written = write_trace(trace, shape)
        rows = pq.read_table(trace / "events.parquet", columns=["event", "phase", "ts_us"])
        published = rows.filter(pc.field("event") == "publish")
        end_us = pc.max(published["ts_us"]).as_py() + 1
        acked = (pc.field("event") == "ack") & (pc.field("phase") == "start") & (pc.field("ts_us") < end_us)
        left = published.num_rows - rows.filter(acked).num_rows
        windows = (Window(None, end_us), Window(end_us, None))
        run_keys = [means.audited(trace, target, settings, window) for window in windows]
        tables = tables_of(None, parse_target(str(target)))
        (state,) = tables.query("state", "payload", f"WHERE {of_run(run_keys[0])}")
        audited = sum(row["events_audited"] for row in tables.query("runs", "events_audited"))
        states.append({"open_entries": left, "state_bytes": len(state["payload"]), "lost": abs(written - audited)})
    return {"states": states}
