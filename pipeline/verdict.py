"""What the rows of one run come to: which severities there are, and on how much of the trace they rest."""

from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from pipeline.tables.severity import Severity

# Counts of `metrics`, and what each weighs.
_WEIGHTS: Mapping[str, Severity] = {
    "violations": "violation",
    "known_bug": "known_bug",
    "not_provable": "not_provable",
    "permitted": "permitted",
    "info": "info",
}


def severities_in(metrics: DataFrame | None) -> list[Severity]:
    """Which severities there is anything of."""
    if metrics is None:
        return []
    totals = metrics.agg(*(sf.sum(name).alias(name) for name in _WEIGHTS)).collect()[0]
    return [severity for name, severity in _WEIGHTS.items() if totals[name]]


def completeness_of(partitions: DataFrame | None, rows: int, refused: int) -> float:
    """The share of what was read that could carry a verdict; each partition weighs as much as it has rows.

    Args:
        partitions: rows of that table; None: there are none.
        rows: read.
        refused: how many of them were refused before the replay.
    """
    # Of a window without rows nothing was missed.
    readable = (rows - refused) / rows if rows else 1.0
    if partitions is None:
        return readable
    judged, replayed = partitions.agg(sf.sum("rows_judged"), sf.sum("rows")).collect()[0]
    return float(readable * judged / replayed) if replayed else readable
