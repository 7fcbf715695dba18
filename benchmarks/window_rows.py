"""Compares what several runs report together with what one run reports: windows of a log against all of it at once.

An interval that is open at the end of a window is reported again by the next one, so open rows count in the last window
only. Findings, samples of the limits and refused rows are put together, and counts are added up. Columns about the
window itself, such as shares of its traffic, are left out; so are batches of several keys, because each run reports
only the first ones, and facts that tell how it stands at the end of a run.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

from dispatch_audit.pipeline.contract.rules import FACTS_AT_THE_END
from dispatch_audit.pipeline.contract.severity import COUNT_COLUMNS
from dispatch_audit.pipeline.tables.table_schema import RUN_KEY
from dispatch_audit.pipeline.tables.tables import of_runs
from dispatch_audit.pipeline.tables.target import parse_target
from dispatch_audit.pipeline.tables.way import tables_of

Row: TypeAlias = Mapping[str, Any]
Reported: TypeAlias = dict[str, Counter[str]]
"""The folded rows of each table as text, by its name."""

_GROUP: Final = ("topic", "subscription")
_UNION: Final = ("violations", "capacity", "quarantine")
_INTERVALS: Final = ("draining", "blocking", "assignments")
# The columns that identify a row, and those that are added up.
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


def reported_by(target: str, run_keys: Sequence[str]) -> Reported:
    """Returns the folded tables.

    Args:
        target: the folder that the tables are below.
        run_keys: runs of one log that follow each other, the first window first.
    """
    tables = tables_of(None, parse_target(target))

    def rows_of(table: str) -> Sequence[Row]:
        return tables.query(table, "*", f"WHERE {of_runs(run_keys)}")

    reported = {table: Counter(_text(row) for row in rows_of(table) if not _is_first_of_many(row)) for table in _UNION}
    for table in _INTERVALS:
        rows = rows_of(table)
        reported[table] = Counter(
            _text(row) for row in rows if row["to_seq"] is not None or row[RUN_KEY] == run_keys[-1]
        )
    for table, (by, counted) in _COUNTED.items():
        sums: defaultdict[tuple[Any, ...], Counter[str]] = defaultdict(Counter)
        for row in rows_of(table):
            if "rule" in row and row["rule"] in FACTS_AT_THE_END:
                continue
            sums[tuple(row[name] for name in by)].update({name: row[name] for name in counted})
        reported[table] = Counter(f"{key}: {sorted((+sums[key]).items())}" for key in sums if +sums[key])
    return reported


def differences(some: Reported, others: Reported) -> dict[str, tuple[list[str], list[str]]]:
    """Returns by table the rows that only one side has; tables that agree are left out."""
    found = {table: (sorted(some[table] - others[table]), sorted(others[table] - some[table])) for table in some}
    return {table: rows for table, rows in found.items() if any(rows)}


def _is_first_of_many(row: Row) -> bool:
    return "rule" in row and row["rule"] in ("mixed_key_batch", *FACTS_AT_THE_END)


def _text(row: Row) -> str:
    """A row without its run; sums of fractions to the microsecond, because they may be added up in any order."""
    values = ((name, round(value, 6) if isinstance(value, float) else value) for name, value in row.items())
    return str([(name, value) for name, value in values if name != RUN_KEY and value is not None])
