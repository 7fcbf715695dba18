"""Rows of `coverage`: the part of the trace on which verdicts rest (Q6, Q26); and the rows that were refused."""

from collections.abc import Iterable
from typing import Any

from dispatch_audit.pipeline.replay.packing.repeated_rows import Refused
from dispatch_audit.pipeline.replay.recorders.recorders import Recorders
from dispatch_audit.pipeline.replay.subscription.completeness import RowsSeen, Unseen
from dispatch_audit.pipeline.replay.verdicts.naming import Columns, columns_of


def coverage(counted: RowsSeen, refused: int, unseen: Unseen, left_out: int) -> dict[str, Any]:
    """The row of a subscription: `refused` rows were not used, and `left_out` intervals of waiting were not kept."""
    unjudged = refused + unseen.rows_censored + unseen.dispatches_undecided + unseen.dispatches_without_key
    judged = max(counted.rows - unjudged, 0)
    recorded = counted.rows + counted.dropped
    return {
        "completeness": judged / recorded if recorded else 1.0,
        "rows": counted.rows,
        "rows_judged": judged,
        "rows_refused": refused,
        **unseen._asdict(),
        "gaps": counted.gaps,
        "rows_dropped": counted.dropped,
        "first_gap_ts_us": counted.first_gap_us,
        "clock_steps_back": counted.clock_steps,
        "seq_missing": counted.seq_missing,
        "intervals_left_out": left_out,
    }


def refused(found: Iterable[Refused], recorders: Recorders) -> Columns:
    """A row for each row of the trace that was refused; consumers have the recorders' own numbers."""
    return columns_of([{"seq": row.seq, "reason": row.reason, "detail": _detail(row, recorders)} for row in found])


def _detail(row: Refused, recorders: Recorders) -> str:
    if row.consumer is None:
        return row.detail
    return f"consumer {recorders.spoken_consumer(row.consumer)} {row.detail}"
