"""Rows of `coverage`: the part of the trace on which the verdicts on a subscription rest (Q6, Q26)."""

from typing import Any

from dispatch_audit.pipeline.replay.subscription.completeness import RowsSeen, Unseen


def coverage(counted: RowsSeen, refused: int, unseen: Unseen, left_out: int) -> dict[str, Any]:
    """The row of a subscription.

    Args:
        counted: the counts of its rows.
        refused: the number of rows that the replay refused.
        unseen: what the replay could not see.
        left_out: the number of waiting intervals that were not kept.
    """
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
