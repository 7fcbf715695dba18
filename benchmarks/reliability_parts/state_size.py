"""Bytes of state that a window hands on, against what is open at its end: consumers that acknowledge nothing."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from benchmarks.generate import Shape, write_trace
from dispatch_audit.pipeline.audit import audit
from dispatch_audit.pipeline.run.request import AuditRequest
from dispatch_audit.pipeline.settings import load_settings
from dispatch_audit.pipeline.tables.target import parse_target
from dispatch_audit.pipeline.windows.window import Window

# Nearly all of the work is done long after the last publish, and the window ends there.
_WORK_MS: Final = 10**9
_ROWS_OF_A_MESSAGE: Final = 5


def state_size(spark: SparkSession, folder: Path, open_entries: Sequence[int]) -> dict[str, list[dict[str, int]]]:
    """Audits a window of one group that ends with so many open entries.

    Args:
        spark: the session.
        folder: for traces and tables; holds neither yet.
        open_entries: about how many.

    Returns:
        `states`: for each the entries that were published and not acknowledged, and the bytes of the state.

    Raises:
        LimitError: they are more than `limits.open_entries_max`.
    """
    target, states = folder / "tables", []
    for number in open_entries:
        trace = folder / f"open-{number}"
        shape = Shape(events=_ROWS_OF_A_MESSAGE * number, partitions=1, changes=0, work_ms=_WORK_MS, order="time")
        write_trace(trace, shape)
        rows = pq.read_table(trace / "events.parquet", columns=["event", "phase", "ts_us"])
        published = rows.filter(pc.field("event") == "publish")
        end_us = pc.max(published["ts_us"]).as_py() + 1
        acked = (pc.field("event") == "ack") & (pc.field("phase") == "start") & (pc.field("ts_us") < end_us)
        request = AuditRequest((str(trace),), str(target), None, load_settings(), Window(None, end_us))
        (run_key,) = audit(spark, request, lambda stage: None).run_keys
        state = parse_target(str(target)).read(spark, "state").where(sf.col("run_key") == run_key)
        (size,) = state.select(sf.length("payload").alias("bytes")).collect()
        left = published.num_rows - rows.filter(acked).num_rows
        states.append({"open_entries": left, "state_bytes": int(size["bytes"])})
    return {"states": states}
