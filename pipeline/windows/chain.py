"""The windows of a log that were audited one after the other, as `runs` remembers them.

A chain are the runs of one question that continue each other: each starts from the state at which the one before it
ended. A window may have been audited more than once; what was audited last counts.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from pipeline.errors import UsageError
from pipeline.tables.target import Target
from pipeline.windows.window import Window, told

StartsFrom = Literal["beginning", "state", "censored"]
"""The beginning of the log, the state of the window before, or neither: then what was before is not known."""


class Past(NamedTuple):
    """A window that was audited; a row of `runs`, of which the attributes have their names but for `rows`.

    Attributes:
        rows: counted in it, those without a seq not.
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
    """Which window to audit, and after which ones.

    Attributes:
        chain: `pipeline.run.run_key.chain_of`.
        window: as the tables will know it: it begins where the one before ended.
        starts_from: what from, by what `runs` says; `resolve` looks whether the log has anything before it.
        before: the windows that lead up to it, the oldest first; none if it does not start from a state.
        others: run keys of the other windows of the chain, earlier or later.
    """

    chain: str
    window: Window
    starts_from: StartsFrom
    before: tuple[Past, ...]
    others: tuple[str, ...]

    @property
    def complete_from_start(self) -> bool:
        """Whether the chain begins where the log does."""
        return (self.before[0].starts_from if self.before else self.starts_from) != "censored"


def history(spark: SparkSession, target: Target, chain: str) -> list[Past]:
    """The windows of a chain that were audited, in no order."""
    try:
        rows = target.read(spark, "runs").where(sf.col("chain") == chain).collect()
    except AnalysisException:
        return []  # No table yet, or one of before there were windows.
    return [
        Past(
            run_key=row["run_key"],
            window=Window(row["window_from_us"], row["window_to_us"]),
            starts_from=row["starts_from"],
            first_seq=row["first_seq"],
            next_seq=row["next_seq"],
            rows=row["events_in"] - row["events_without_seq"],
            started_at_us=row["started_at_us"],
        )
        for row in rows
    ]


def continued(past: Sequence[Past], asked: Window) -> Window:
    """The window that is asked for: without a beginning it begins at the newest state that ends before its end."""
    if asked.from_us is not None or asked.to_us is None:
        return asked
    ends = [one.window.to_us for one in past if one.window.to_us is not None and one.window.to_us < asked.to_us]
    return Window(max(ends, default=None), asked.to_us)


def planned(chain: str, past: Sequence[Past], window: Window) -> Plan:
    """What the audit of a window starts from.

    Args:
        chain: whose windows these are.
        past: of `history`.
        window: one without a beginning begins where the log does.
    """
    before = () if window.from_us is None else path_to(past, window.from_us)
    starts_from: StartsFrom = "state" if before else "beginning" if window.from_us is None else "censored"
    return Plan(chain, window, starts_from, before, _others(past, window))


def windows_since(past: Sequence[Past], moment_us: int) -> list[Window]:
    """The windows of a chain from the one on that holds a moment, the oldest first.

    Raises:
        UsageError: none holds it.
    """
    windows = [one.window for one in _path_to_the_end(past)]
    found = [window for window in windows if window.to_us is None or moment_us < window.to_us]
    begins = None if not windows or windows[0].from_us is None else windows[0].from_us
    if not found or (begins is not None and moment_us < begins):
        ends = f"; they reach until {told(windows[-1].to_us)}" if windows and windows[-1].to_us is not None else ""
        raise UsageError(f"no window that was audited holds {told(moment_us)}{ends}", "audit it with --to first")
    return found


def path_to(past: Sequence[Past], end_us: int | None) -> tuple[Past, ...]:
    """The windows that lead up to a moment, the oldest first; none if no window ends there."""
    path: list[Past] = []
    at: int | None = end_us
    while ending := [one for one in past if one.window.to_us == at]:
        path.append(max(ending, key=lambda one: one.started_at_us))
        at = path[-1].window.from_us
        if path[-1].starts_from != "state":
            break
    return tuple(reversed(path))


def _path_to_the_end(past: Sequence[Past]) -> tuple[Past, ...]:
    """The windows until the end of the log, or until the last end if more was audited since the log was closed."""
    last_us = max((one.window.to_us for one in past if one.window.to_us is not None), default=-1)
    closed = any(one.window.to_us is None and (one.window.from_us or 0) >= last_us for one in past)
    return path_to(past, None if closed or last_us < 0 else last_us)


def _others(past: Sequence[Past], window: Window) -> tuple[str, ...]:
    return tuple(one.run_key for one in _path_to_the_end(past) if not _overlap(one.window, window))


def _overlap(one: Window, other: Window) -> bool:
    """Whether two windows have a moment in common."""

    def begins_before_end(first: Window, second: Window) -> bool:
        return first.from_us is None or second.to_us is None or first.from_us < second.to_us

    return begins_before_end(one, other) and begins_before_end(other, one)
