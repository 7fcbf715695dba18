"""Rows of `coverage`: the part of the trace that the verdicts on a subscription are based on (Q6, Q26)."""

from dispatch_audit.pipeline.replay.subscription.completeness import RowsSeen, Seen, judged_rows
from dispatch_audit.pipeline.replay.verdicts.naming import Rows


def coverage(topic: str, subscription: str, counted: RowsSeen, refused: int, seen: Seen, left_out: int) -> Rows:
    """The one row of a subscription.

    Args:
        topic: the topic partition.
        subscription: its subscription.
        counted: the counts of its rows.
        refused: the number of rows that the replay refused.
        seen: what the replay could not see.
        left_out: the number of waiting intervals that were not kept.
    """
    judged, recorded = judged_rows(counted.rows, refused, seen), counted.rows + counted.dropped
    return [
        {
            "topic": topic,
            "subscription": subscription,
            "completeness": judged / recorded if recorded else 1.0,
            "rows": counted.rows,
            "rows_judged": judged,
            "rows_refused": refused,
            "rows_censored": seen.censored,
            "gaps": counted.gaps,
            "rows_dropped": counted.dropped,
            "rows_censored_by_gaps": seen.censored_by_gaps,
            "first_gap_ts_us": counted.first_gap_us,
            "dispatches_undecided": seen.undecided,
            "dispatches_without_key": seen.unkeyed,
            "dispatches_without_end": seen.without_end,
            "entries_without_publish": seen.without_publish,
            "censored_never_dispatched": seen.never_dispatched,
            "censored_never_acknowledged": seen.never_acknowledged,
            "consumers_by_snapshot_only": seen.unjoined,
            "clock_steps_back": counted.clock_steps,
            "seq_missing": counted.seq_missing,
            "intervals_left_out": left_out,
        }
    ]


def with_completeness(metrics: Rows, of_group: Rows) -> Rows:
    """The rows of `metrics`, each with the completeness of its subscription."""
    return [{**row, "completeness": partition["completeness"]} for partition in of_group for row in metrics]
