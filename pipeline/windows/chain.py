"""The audited windows of a log, as the table `runs` has them.

The runs of one trace, profile and settings that continue each other form a chain: each starts from the state that the
one before left. A window may have been audited more than once; the last audit counts.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from pyspark.sql import SparkSession

from dispatch_audit.pipeline.errors import UsageError
from dispatch_audit.pipeline.tables.tables import Tables
from dispatch_audit.pipeline.tables.target import Target
from dispatch_audit.pipeline.tables.way import tables_of
from dispatch_audit.pipeline.windows.window import Window, iso_8601

StartsFrom = Literal["beginning", "state", "censored"]
"""The beginning of the log, the state of the window before, or neither (then what was open before is not known)."""


class PastWindow(NamedTuple):
    """An audited window: a row of `runs`; all attributes but `rows` are named after its columns.

    Attributes:
        rows: rows of the window that have a seq.
    """

    run_key: str
    window: Window
    starts_from: StartsFrom
    first_seq: int | None
    next_seq: int | None
    rows: int
    started_at_us: int


@dataclass(frozen=True)
class Plan:
    """The window to audit, and the windows before it.

    Attributes:
        chain: of the window, as `dispatch_audit.pipeline.run.run_key.chain_of` returns it.
        window: as the tables will have it: it begins where the one before ended.
        starts_from: by the rows of `runs`; `resolve` changes it if the log has no row before the window.
        before: the windows that lead up to it, the oldest first; none if it does not start from a state.
        others: run keys of the other windows of the chain, earlier or later.
    """

    chain: str
    window: Window
    starts_from: StartsFrom
    before: tuple[PastWindow, ...]
    others: tuple[str, ...]

    @property
    def complete_from_start(self) -> bool:
        """Whether the chain begins with the log."""
        return (self.before[0].starts_from if self.before else self.starts_from) != "censored"


def history(spark: SparkSession, target: Target, chain: str) -> list[PastWindow]:
    """Returns the audited windows of a chain, in no order."""
    return history_in(tables_of(spark, target), chain)


def history_in(tables: Tables, chain: str) -> list[PastWindow]:
    """Returns the audited windows of a chain in some tables, in no order."""
    if "chain" not in (tables.columns("runs") or {}):
        return []  # there is no table yet, or it is older than windows
    return [
        PastWindow(
            run_key=row["run_key"],
            window=Window(row["window_from_us"], row["window_to_us"]),
            starts_from=row["starts_from"],
            first_seq=row["first_seq"],
            next_seq=row["next_seq"],
            rows=row["events_in"] - row["events_without_seq"],
            started_at_us=row["started_at_us"],
        )
        for row in tables.query("runs", "*", f"WHERE chain = '{chain}'")
    ]


def continued(past: Sequence[PastWindow], requested: Window) -> Window:
    """Returns the requested window; without a beginning, it begins at the newest state before its end."""
    if requested.from_us is not None or requested.to_us is None:
        return requested
    ends = [run.window.to_us for run in past if run.window.to_us is not None and run.window.to_us < requested.to_us]
    return Window(max(ends, default=None), requested.to_us)


def planned(chain: str, past: Sequence[PastWindow], window: Window) -> Plan:
    """Returns the plan for the audit of a window.

    Args:
        chain: of the windows.
        past: as `history` returns them.
        window: without a beginning, it begins with the log.
    """
    before = () if window.from_us is None else path_to(past, window.from_us)
    starts_from: StartsFrom = "state" if before else "beginning" if window.from_us is None else "censored"
    return Plan(chain, window, starts_from, before, _others(past, window))


def windows_since(past: Sequence[PastWindow], moment_us: int) -> list[Window]:
    """Returns the window of a chain that holds a moment and all later ones, the oldest first.

    Raises:
        UsageError: no window holds it.
    """
    windows = [run.window for run in _path_to_the_end(past)]
    found = [window for window in windows if window.to_us is None or moment_us < window.to_us]
    begins = windows[0].from_us if windows else None
    if not found or (begins is not None and moment_us < begins):
        last_us = windows[-1].to_us if windows else None
        end = "" if last_us is None else f"; the last one ends at {iso_8601(last_us)}"
        raise UsageError(f"no audited window holds {iso_8601(moment_us)}{end}", "audit it with --to first")
    return found


def path_to(past: Sequence[PastWindow], end_us: int | None) -> tuple[PastWindow, ...]:
    """Returns the windows that lead up to a moment, the oldest first; none if no window ends there."""
    path: list[PastWindow] = []
    at_us: int | None = end_us
    while ending := [run for run in past if run.window.to_us == at_us]:
        path.append(max(ending, key=lambda run: run.started_at_us))
        at_us = path[-1].window.from_us
        if path[-1].starts_from != "state":
            break
    return tuple(reversed(path))


def _path_to_the_end(past: Sequence[PastWindow]) -> tuple[PastWindow, ...]:
    """Returns the windows up to the end of the log, or to the latest end if later windows end before that."""
    last_us = max((run.window.to_us for run in past if run.window.to_us is not None), default=-1)
    closed = any(run.window.to_us is None and (run.window.from_us or 0) >= last_us for run in past)
    return path_to(past, None if closed or last_us < 0 else last_us)


def _others(past: Sequence[PastWindow], window: Window) -> tuple[str, ...]:
    return tuple(run.run_key for run in _path_to_the_end(past) if not _overlap(run.window, window))


def _overlap(left: Window, right: Window) -> bool:
    """Whether two windows have a moment in common."""

    def begins_before_end(first: Window, second: Window) -> bool:
        return first.from_us is None or second.to_us is None or first.from_us < second.to_us

    return begins_before_end(left, right) and begins_before_end(right, left)
