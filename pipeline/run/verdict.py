"""Sums up the rows of one run: the severities found, and the share of the trace that was judged."""

from typing import NamedTuple

import pyarrow.compute as pc

from dispatch_audit.pipeline.contract.answers import Order, Progress, worst_order, worst_progress
from dispatch_audit.pipeline.contract.severity import COUNT_COLUMNS, Severity
from dispatch_audit.pipeline.tables.rows import TableRows


class Answers(NamedTuple):
    """The two answers on a run, the worst of its subscriptions; the fields are columns of `runs`."""

    order_verdict: Order
    progress: Progress
    held_up_seconds: float


def answers_in(coverage: TableRows | None) -> Answers:
    """Returns the answers on a run.

    Args:
        coverage: rows of that table; None: there are none.
    """
    if coverage is None:
        return Answers("nothing_sent", "nothing_sent", 0.0)
    columns = coverage.select(*Answers._fields)
    order, progress, seconds = (columns[name].to_pylist() for name in Answers._fields)
    return Answers(worst_order(order), worst_progress(progress), max(seconds, default=0.0))


def severities_in(metrics: TableRows | None) -> list[Severity]:
    """Returns the severities with at least one finding."""
    if metrics is None:
        return []
    totals = _totals(metrics, *COUNT_COLUMNS)
    return [severity for total, severity in zip(totals, COUNT_COLUMNS.values(), strict=True) if total]


def completeness_of(coverage: TableRows | None, rows: int, refused: int) -> float:
    """Returns the share of the rows that could carry a verdict; each partition weighs as much as it has rows.

    Rows that a recorder dropped count as rows without a verdict.

    Args:
        coverage: rows of that table; None: there are none.
        rows: number of rows read.
        refused: number of these that were refused before the replay.
    """
    # A window without rows is complete.
    readable = (rows - refused) / rows if rows else 1.0
    if coverage is None:
        return readable
    judged, replayed, dropped = _totals(coverage, "rows_judged", "rows", "rows_dropped")
    return readable * judged / (replayed + dropped) if replayed else readable


def _totals(rows: TableRows, *columns: str) -> list[int]:
    """Returns the sums of columns of few rows."""
    table = rows.select(*columns)
    return [pc.sum(table[name]).as_py() or 0 for name in columns]
