"""What the rows of one run come to: which severities there are, and on how much of the trace they rest."""

import pyarrow.compute as pc
from pyspark.sql import DataFrame

from pipeline.contract.severity import COUNT_COLUMNS, Severity


def severities_in(metrics: DataFrame | None) -> list[Severity]:
    """Which severities there is anything of."""
    if metrics is None:
        return []
    totals = _totals(metrics, *COUNT_COLUMNS)
    return [severity for total, severity in zip(totals, COUNT_COLUMNS.values(), strict=True) if total]


def completeness_of(coverage: DataFrame | None, rows: int, refused: int) -> float:
    """The share of what was read that could carry a verdict; each partition weighs as much as it has rows.

    Args:
        coverage: rows of that table; None: there are none.
        rows: read.
        refused: how many of them were refused before the replay.
    """
    # Of a window without rows nothing was missed.
    readable = (rows - refused) / rows if rows else 1.0
    if coverage is None:
        return readable
    judged, replayed = _totals(coverage, "rows_judged", "rows")
    return readable * judged / replayed if replayed else readable


def _totals(rows: DataFrame, *columns: str) -> list[int]:
    """Sums of columns. Of few rows, added up here: an exchange would cost more."""
    table = rows.select(*columns).toArrow()
    return [pc.sum(table[name]).as_py() or 0 for name in columns]
