"""Sums up the rows of one run: the severities found, and the share of the trace that was judged."""

import pyarrow.compute as pc
from pyspark.sql import DataFrame

from dispatch_audit.pipeline.contract.severity import COUNT_COLUMNS, Severity


def severities_in(metrics: DataFrame | None) -> list[Severity]:
    """Returns the severities with at least one finding."""
    if metrics is None:
        return []
    totals = _totals(metrics, *COUNT_COLUMNS)
    return [severity for total, severity in zip(totals, COUNT_COLUMNS.values(), strict=True) if total]


def completeness_of(coverage: DataFrame | None, rows: int, refused: int) -> float:
    """Returns the share of the rows read that could carry a verdict; each partition weighs as much as it has rows.

    Args:
        coverage: rows of that table; None: there are none.
        rows: number of rows read.
        refused: number of these that were refused before the replay.
    """
    # A window without rows is complete.
    readable = (rows - refused) / rows if rows else 1.0
    if coverage is None:
        return readable
    judged, replayed = _totals(coverage, "rows_judged", "rows")
    return readable * judged / replayed if replayed else readable


def _totals(rows: DataFrame, *columns: str) -> list[int]:
    """Returns the sums of columns of a small frame; adding them up here costs less than an exchange."""
    table = rows.select(*columns).toArrow()
    return [pc.sum(table[name]).as_py() or 0 for name in columns]
