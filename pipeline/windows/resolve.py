"""Resolves a window: which rows of the log it has, from which state it starts, and where the next window begins.

The tables hold the windows before it (`dispatch_audit.pipeline.windows.chain`), and one scan of the log finds its rows
(`dispatch_audit.pipeline.windows.seq_bounds`). An audit of a whole log needs none of this.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from pyspark.sql import SparkSession

from dispatch_audit.pipeline.errors import TraceError, UsageError
from dispatch_audit.pipeline.packing.packed_batch import Group
from dispatch_audit.pipeline.plan.packed_source import NOTHING, Carried
from dispatch_audit.pipeline.replay.checkpoint import STATE_VERSION
from dispatch_audit.pipeline.tables.tables import of_run
from dispatch_audit.pipeline.tables.target import Target
from dispatch_audit.pipeline.tables.way import tables_of
from dispatch_audit.pipeline.trace import Trace
from dispatch_audit.pipeline.trace.seq_range import SeqRange
from dispatch_audit.pipeline.windows.chain import Plan
from dispatch_audit.pipeline.windows.late_rows import late_rows
from dispatch_audit.pipeline.windows.seq_bounds import LogQuery, SeqBounds, find_seq_bounds
from dispatch_audit.pipeline.windows.window import iso_8601


@dataclass(frozen=True)
class ResolvedWindow:
    """A window in the order of its log.

    Attributes:
        plan: the window and the windows before it; `starts_from` is corrected by the log.
        whole: all of the log.
        trace: its rows that lie in the window.
        bounds: result of the scan of the log.
        carried: the state and the earlier rows that the window takes over.
        next_seq: lowest seq that is left to the next window; None: the log is taken to be complete.
        late: rows added to the windows before after their audit (`dispatch_audit.pipeline.windows.late_rows`).
    """

    plan: Plan
    whole: Trace
    trace: Trace
    bounds: SeqBounds
    carried: Carried
    next_seq: int | None
    late: int

    def columns(self, without_seq: int) -> Mapping[str, object]:
        """Returns the columns of `runs` about the window.

        Args:
            without_seq: number of its rows that have no readable seq.
        """
        return {
            "chain": self.plan.chain,
            "window_from_us": self.plan.window.from_us,
            "window_to_us": self.plan.window.to_us,
            "starts_from": self.plan.starts_from,
            "first_seq": self.trace.seqs.first,
            "next_seq": self.next_seq,
            "events_without_seq": without_seq,
            "events_late": self.late,
        }

    @property
    def rows_before(self) -> int:
        """Number of rows of the window before."""
        return self.plan.before[-1].rows if self.plan.before else 0

    def refuse_empty(self, rows: int) -> None:
        """Refuses an empty window, unless it continues an earlier one.

        Args:
            rows: number of rows in the window.

        Raises:
            TraceError: the window is empty and starts from no state; or it is empty only because the time of one row is
                ahead: every window until that time would be empty and clean.
        """
        if rows:
            return
        nothing = f"{self.whole.path}: no row lies in the window"
        if self.next_seq is not None and (self.bounds.last_within or 0) > self.next_seq:
            raise TraceError(
                f"{nothing}: it ends before seq {self.next_seq}, whose time is after --to, but later rows have times "
                "in the window",
                "correct the time of that row, or leave --to out",
            )
        if self.plan.starts_from != "state":
            raise TraceError(f"{nothing} ({self.plan.window.text})", "check --from and --to")


def resolved_window(spark: SparkSession, trace: Trace, plan: Plan, target: Target) -> ResolvedWindow:
    """Returns the window with the rows that it has in its log.

    Args:
        spark: the session.
        trace: all of the log.
        plan: the window.
        target: where the tables of the windows before are.

    Raises:
        UsageError: the state that the window starts from is of another version, or the log has several recorders.
        TraceError: the log cannot be read, or has no row at or after the beginning of the window.
    """
    before = plan.before
    carried = NOTHING if not before else _carried(spark, trace, plan, target)
    first = before[-1].next_seq if before else None
    # The lowest seq since 1970 is that of the first row.
    begins = (0, plan.window.from_us) if plan.starts_from == "censored" else ()
    moments = tuple(moment for moment in (*begins, plan.window.to_us) if moment is not None)
    within = None if plan.window.to_us is None else (plan.window.from_us or 0, plan.window.to_us)
    found = find_seq_bounds(spark, trace, LogQuery(moments, first, _limits(plan), within))
    if len(found.brokers) > 1:
        raise UsageError(
            f"{trace.path} has rows of the recorders {', '.join(sorted(found.brokers))}, but a window needs the seqs "
            "of one recorder",
            "audit the whole log without --from and --to, or the log of each recorder by itself",
        )
    if plan.starts_from == "censored":
        lowest, first = found.seq_of[:2]
        if first is None:
            nothing = f"no row is at or after --from ({iso_8601(plan.window.from_us or 0)})"
            raise TraceError(f"{trace.path}: {nothing}", "check that the recorder was running")
        if first == lowest:
            # No row was recorded before the window, so it starts with the log.
            plan, first = replace(plan, starts_from="beginning"), None
    next_seq = _end(found, first, plan)
    return ResolvedWindow(
        plan=plan,
        whole=trace,
        trace=replace(trace, seqs=SeqRange(first, next_seq)),
        bounds=found,
        carried=carried,
        next_seq=next_seq,
        late=late_rows(spark, trace, plan.before, _rows_now(found, plan), target),
    )


def _carried(spark: SparkSession, trace: Trace, plan: Plan, target: Target) -> Carried:
    last = plan.before[-1]
    tables = tables_of(spark, target)
    rows = tables.query("state", "topic, subscription, version", f"WHERE {of_run(last.run_key)}")
    other = {row["version"] for row in rows} - {STATE_VERSION}
    if other:
        raise UsageError(
            f"the state at {iso_8601(plan.window.from_us or 0)} has version {other.pop()}, but this version of "
            f"dispatch-audit reads {STATE_VERSION}",
            f"audit all windows again: --reaudit {iso_8601(plan.before[0].window.from_us or 0)}",
        )
    groups = tuple(sorted(Group(row["topic"], row["subscription"]) for row in rows))
    state = tables.frame("state", ("topic", "subscription", "payload"), last.run_key)
    return Carried(state, groups, replace(trace, seqs=SeqRange(plan.before[0].first_seq, last.next_seq)))


def _end(found: SeqBounds, first: int | None, plan: Plan) -> int | None:
    """Returns the lowest seq that is left to the next window; None: the log ends with this window."""
    if plan.window.to_us is None:
        return None
    end = found.seq_of[-1]
    if end is None:
        # The log ends before the window does: all rows are audited, and rows added later belong to the next window.
        end = 0 if found.last_seq is None else found.last_seq + 1
    return max(end, first or 0)


def _limits(plan: Plan) -> tuple[int, ...]:
    """Returns the first seq of each window before, and the next seq of the last one."""
    if not plan.before:
        return ()
    begins = [window.first_seq or 0 for window in plan.before]
    return (*begins, plan.before[-1].next_seq or 0)


def _rows_now(found: SeqBounds, plan: Plan) -> list[int]:
    """Returns how many rows each of the windows before has in the log now."""
    now = list(found.rows_until[: len(plan.before) + 1])
    if plan.before and plan.before[0].first_seq is None:
        # Rows below every window belong to the first.
        now[1] += now[0]
    return now[1:]
