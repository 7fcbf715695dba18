"""Rows of the trace that the replay could not use, each with the reason."""

from collections.abc import Iterable

from dispatch_audit.pipeline.replay.packing.refused import Refused
from dispatch_audit.pipeline.replay.recorders.recorders import Recorders
from dispatch_audit.pipeline.replay.verdicts.naming import Columns, columns_of


def refused(found: Iterable[Refused], recorders: Recorders) -> Columns:
    """A row for each row of the trace that was refused; consumers have the recorders' own numbers."""
    return columns_of([{"seq": row.seq, "reason": row.reason, "detail": _detail(row, recorders)} for row in found])


def _detail(row: Refused, recorders: Recorders) -> str:
    if row.consumer is None:
        return row.detail
    return f"consumer {recorders.spoken_consumer(row.consumer)} {row.detail}"
