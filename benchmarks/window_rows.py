"""Compares what several runs report together with what one run reports: windows of a log against all of it at once.

What is open at the end of a window is told once more by the next one, so of all but the last only what ended counts.
Findings, looks at the limits and refused rows are put together, and counts are added up. What describes a window
itself, such as shares of its traffic, is left out; so are batches of several keys, of which each run shows the first.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as sf

from dispatch_audit.pipeline.contract.severity import COUNT_COLUMNS
from dispatch_audit.pipeline.tables.table_schema import RUN_KEY
from dispatch_audit.pipeline.tables.target import parse_target

Told: TypeAlias = dict[str, Counter[str]]
"""By name of the table its folded rows as text."""

_GROUP: Final = ("topic", "subscription")
_UNION: Final = ("violations", "capacity", "quarantine")
_INTERVALS: Final = ("draining", "blocking", "assignments")
# By what rows are told apart, and what of them is added up.
_COUNTED: Final[Mapping[str, tuple[Sequence[str], Sequence[str]]]] = {
    "runs": ((), ("events_in", "events_audited", "events_quarantined")),
    "metrics": ((*_GROUP, "rule"), ("checked", *COUNT_COLUMNS)),
    "consumers": ((*_GROUP, "consumer", "consumer_name"), ("dispatched", "acked", "drainingHashesClearedTotal")),
    "hot_keys": ((*_GROUP, "sticky_hash", "key"), ("dispatched",)),
    "coverage": (_GROUP, ("rows", "rows_refused", "rows_censored", "dispatches_undecided", "dispatches_without_key")),
    "producers": (
        (*_GROUP, "producer_name"),
        ("entries", "messages", "batches", "mixed_batches", "keyless_entries", "chunked_entries"),
    ),
}


def told_by(spark: SparkSession, target: str, run_keys: Sequence[str]) -> Told:
    """The folded tables.

    Args:
        spark: the session.
        target: where the tables are.
        run_keys: runs of one log that follow each other, the first window first.
    """
    place = parse_target(target)

    def rows_of(table: str) -> list[Row]:
        return place.read(spark, table).where(sf.col(RUN_KEY).isin(*run_keys)).collect()

    told = {table: Counter(_text(row) for row in rows_of(table) if not _is_first_of_many(row)) for table in _UNION}
    for table in _INTERVALS:
        rows = rows_of(table)
        told[table] = Counter(_text(row) for row in rows if row["to_seq"] is not None or row[RUN_KEY] == run_keys[-1])
    for table, (by, counted) in _COUNTED.items():
        sums: defaultdict[tuple[Any, ...], Counter[str]] = defaultdict(Counter)
        for row in rows_of(table):
            sums[tuple(row[name] for name in by)].update({name: row[name] for name in counted})
        told[table] = Counter(f"{key}: {sorted((+sums[key]).items())}" for key in sums if +sums[key])
    return told


def differences(some: Told, others: Told) -> dict[str, tuple[list[str], list[str]]]:
    """By table the rows that only the one has and those that only the other has; nothing where they agree."""
    found = {table: (sorted(some[table] - others[table]), sorted(others[table] - some[table])) for table in some}
    return {table: rows for table, rows in found.items() if any(rows)}


def _is_first_of_many(row: Row) -> bool:
    return "rule" in row and row["rule"] == "mixed_key_batch"


def _text(row: Row) -> str:
    """A row without its run; sums of fractions to the microsecond, because the order of adding up is not told."""
    values = ((name, round(value, 6) if isinstance(value, float) else value) for name, value in row.asDict().items())
    return str([(name, value) for name, value in values if name != RUN_KEY and value is not None])
