"""What one audit covers: which rows of the log, what it starts from, and what it hands on.

Of a whole log that is everything and nothing; of a window it is worked out here, from what the tables remember of the
windows before (`pipeline.windows.chain`) and from one look at the log (`pipeline.windows.seq_bounds`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from pipeline.errors import TraceError, UsageError
from pipeline.replay.packed_source import NOTHING, Carried
from pipeline.replay.packing.packed_batch import Group
from pipeline.replay.subscription.checkpoint import STATE_VERSION
from pipeline.tables.table_schema import RUN_KEY
from pipeline.tables.target import Target
from pipeline.trace import Trace
from pipeline.trace.seq_range import SeqRange
from pipeline.windows.chain import Plan
from pipeline.windows.late_rows import late_rows
from pipeline.windows.seq_bounds import LogQuery, SeqBounds, find_seq_bounds
from pipeline.windows.window import told


@dataclass(frozen=True)
class ResolvedWindow:
    """A window in the order of its log.

    Attributes:
        plan: what was asked, which windows lead up to it, and what it starts from as the log shows.
        whole: all of the log.
        trace: its rows that lie in the window.
        cuts: what the look at the log found.
        carried: what the window takes over.
        next_seq: from which seq on rows are left to the next window; None: the log is taken to be complete.
        late: rows of the windows before that were not there when those were audited (`pipeline.windows.late_rows`).
    """

    plan: Plan
    whole: Trace
    trace: Trace
    cuts: SeqBounds
    carried: Carried
    next_seq: int | None
    late: int

    def columns(self, without_seq: int) -> Mapping[str, object]:
        """What `runs` says of the window, of which so many rows have no readable seq."""
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
        """Rows of the window before."""
        return self.plan.before[-1].rows if self.plan.before else 0

    def refuse_nothing(self, rows: int) -> None:
        """A window may be empty if the log has begun before it.

        Raises:
            TraceError: there is nothing in the window, and nothing was before it, or there would be something but for a
                row whose clock was ahead: every window until that time would be empty, and clean.
        """
        if rows:
            return
        nothing = f"{self.whole.path}: no row lies in the window"
        if self.next_seq is not None and (self.cuts.last_within or 0) > self.next_seq:
            raise TraceError(
                f"{nothing}: it ends before seq {self.next_seq}, whose time lies behind it; rows of its time follow",
                "correct the clock of that row, or leave --to out",
            )
        if self.plan.starts_from != "state":
            raise TraceError(f"{nothing} ({self.plan.window.spoken})", "check --from and --to")


def resolved_window(spark: SparkSession, trace: Trace, plan: Plan, target: Target) -> ResolvedWindow:
    """Finds the rows of a window.

    Args:
        spark: the session.
        trace: all of the log.
        plan: which window.
        target: where the tables of the windows before are.

    Raises:
        UsageError: the state that the window starts from is of another version, or the log has several recorders.
        TraceError: the log cannot be read, or has no row at or behind the beginning of the window.
    """
    before = plan.before
    carried = NOTHING if not before else _carried(spark, trace, plan, target)
    first = before[-1].next_seq if before else None
    # Since 1970 means: the first row of all.
    begins = (0, plan.window.from_us) if plan.starts_from == "censored" else ()
    moments = tuple(moment for moment in (*begins, plan.window.to_us) if moment is not None)
    within = None if plan.window.to_us is None else (plan.window.from_us or 0, plan.window.to_us)
    found = find_seq_bounds(spark, trace, LogQuery(moments, first, _places(plan), within))
    if len(found.brokers) > 1:
        raise UsageError(
            f"{trace.path} has rows of the recorders {', '.join(sorted(found.brokers))}, and a window ends at one seq",
            "audit the whole log without --from and --to, or the log of each recorder by itself",
        )
    if plan.starts_from == "censored":
        lowest, first = found.seq_of[:2]
        if first is None:
            nothing = f"no row lies at or behind --from ({told(plan.window.from_us or 0)})"
            raise TraceError(f"{trace.path}: {nothing}", "check that the recorder was running")
        if first == lowest:
            # Nothing was recorded before it: this is where the log begins, and nothing of it is unknown.
            plan, first = replace(plan, starts_from="beginning"), None
    next_seq = _end(found, first, plan)
    return ResolvedWindow(
        plan=plan,
        whole=trace,
        trace=replace(trace, seqs=SeqRange(first, next_seq)),
        cuts=found,
        carried=carried,
        next_seq=next_seq,
        late=late_rows(spark, trace, plan.before, _rows_now(found, plan), target),
    )


def _carried(spark: SparkSession, trace: Trace, plan: Plan, target: Target) -> Carried:
    last = plan.before[-1]
    state = target.read(spark, "state").where(sf.col(RUN_KEY) == last.run_key)
    held = state.select("topic", "subscription", "version").collect()
    other = {row["version"] for row in held} - {STATE_VERSION}
    if other:
        raise UsageError(
            f"the state of {told(plan.window.from_us or 0)} is of version {other.pop()}, and this is {STATE_VERSION}",
            f"audit from the beginning: --reaudit {told(plan.before[0].window.from_us or 0)}",
        )
    groups = tuple(sorted(Group(row["topic"], row["subscription"]) for row in held))
    return Carried(state, groups, replace(trace, seqs=SeqRange(plan.before[0].first_seq, last.next_seq)))


def _end(found: SeqBounds, first: int | None, plan: Plan) -> int | None:
    """From which seq on rows are left to the next window."""
    if plan.window.to_us is None:
        return None
    end = found.seq_of[-1]
    if end is None:
        # The log does not reach the end of the window: all of it is audited, and what comes to it is of the next one.
        end = 0 if found.last_seq is None else found.last_seq + 1
    return max(end, first or 0)


def _places(plan: Plan) -> tuple[int, ...]:
    """Where the windows before begin, and where the last one ends."""
    if not plan.before:
        return ()
    begins = [one.first_seq or 0 for one in plan.before]
    return (*begins, plan.before[-1].next_seq or 0)


def _rows_now(found: SeqBounds, plan: Plan) -> list[int]:
    """How many rows each of the windows before has in the log as it is."""
    now = list(found.rows_until[: len(plan.before) + 1])
    if plan.before and plan.before[0].first_seq is None:
        # What lies below every window lies in the first.
        now[1] += now[0]
    return now[1:]
