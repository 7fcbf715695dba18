"""Counts rows where the workers write them."""

from collections.abc import Callable

from pyspark.sql import DataFrame

from dispatch_audit.pipeline.engine.name import on_sail
from dispatch_audit.pipeline.engine.releases.row_counts import rows_written


def written_by_workers(frame: DataFrame, write: Callable[[DataFrame], None]) -> int | None:
    """Writes a frame by `write`; returns the number of rows that the workers wrote.

    None: they write to the disk of the driver, because the engine is a part of its process; Sail counts no rows.
    """
    if on_sail(frame.sparkSession):
        write(frame)
        return None
    return rows_written(frame, write)
