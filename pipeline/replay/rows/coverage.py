"""Rows of `coverage`: the part of the trace that the verdicts on a subscription are based on (Q6, Q26)."""

from typing import Any

from dispatch_audit.pipeline.replay.subscription.completeness import RowsSeen, Unseen


def coverage(counted: RowsSeen, refused: int, unseen: Unseen, left_out: int) -> dict[str, Any]:
    """The one row of a subscription.

    Args:
        counted: the counts of its rows.
        refused: the number of rows that the replay refused.
        unseen: what the replay could not see.
        left_out: the number of waiting intervals that were not kept.
    """
    judged = max(counted.rows - refused - unseen.censored - unseen.undecided - unseen.unkeyed, 0)
    recorded = counted.rows + counted.dropped
    return {
        "completeness": judged / recorded if recorded else 1.0,
        "rows": counted.rows,
        "rows_judged": judged,
        "rows_refused": refused,
        "rows_censored": unseen.censored,
        "gaps": counted.gaps,
        "rows_dropped": counted.dropped,
        "rows_censored_by_gaps": unseen.censored_by_gaps,
        "first_gap_ts_us": counted.first_gap_us,
        "dispatches_undecided": unseen.undecided,
        "dispatches_without_key": unseen.unkeyed,
        "dispatches_without_end": unseen.without_end,
        "entries_without_publish": unseen.without_publish,
        "censored_never_dispatched": unseen.never_dispatched,
        "censored_never_acknowledged": unseen.never_acknowledged,
        "consumers_by_snapshot_only": unseen.unjoined,
        "clock_steps_back": counted.clock_steps,
        "seq_missing": counted.seq_missing,
        "intervals_left_out": left_out,
    }
