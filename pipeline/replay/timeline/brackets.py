"""Brackets of membership changes: the rows between which each took effect (TRACE_FORMAT, "Phases").

The true moment lies between the two sides. If one side is missing, the other one and the recorder skew bound it. Other
rows and changes narrow these bounds.
"""

from dataclasses import dataclass, field
from enum import Enum, auto

from dispatch_audit.pipeline.checkpointed import checkpointed
from dispatch_audit.pipeline.packing.membership_rows import (
    BEFORE_ROWS,
    CLOSED_BY_BROKER,
    MembershipEvent,
    TracePoint,
)
from dispatch_audit.pipeline.replay.timeline.change_points import Bounds
from dispatch_audit.pipeline.replay.timeline.held_rows import HeldRows

# The time after which an open bracket is never closed: the broker completes a membership change within milliseconds.
WAIT_US_MAX = 5_000_000


@checkpointed("bracket")
@dataclass(eq=False)
class Bracket:
    """One membership change and the bounds of its moment."""

    row: MembershipEvent  # its row with most details
    among: "Brackets"  # the brackets of its subscription
    start: TracePoint | None = None  # its early side, None while only the late one was seen
    end: TracePoint | None = None  # its late side, None while only the early one was seen
    join: "Bracket | None" = None  # for a leave, the join of the same consumer, which comes before it
    leave: "Bracket | None" = None  # for a join, the leave of the same consumer, once it was seen
    placed: TracePoint | None = None  # the point at which it took effect, once that is decided
    seen_after: int = -1  # the last row known to come before it, by a dispatch or a snapshot; -1: none is known
    # The first row known to come after it, by a dispatch or a snapshot; None: none is known.
    seen_before: int | None = None
    shown_by: set[int] = field(default_factory=set)  # seqs of the snapshots that were taken after it
    hidden_from: set[int] = field(default_factory=set)  # seqs of the snapshots that were taken before it

    @property
    def vague(self) -> bool:
        """Whether its only row may come before or after its moment."""
        return self.row.reason == CLOSED_BY_BROKER

    @property
    def bounds_ts_us(self) -> tuple[int, int]:
        """The times between which the change took effect, as far as its sides and the skew show."""
        skew_us = self.among.skew_us
        if self.start is None and self.end is not None:
            return self.end.ts_us - skew_us, self.end.ts_us
        assert self.start is not None
        if self.vague:
            return self.start.ts_us - skew_us, self.start.ts_us + skew_us
        return self.start.ts_us, self.end.ts_us if self.end is not None else self.start.ts_us + skew_us

    @property
    def bounds(self) -> Bounds:
        """The seqs between which the change took effect, as far as rows so far and other changes show them."""
        held = self.among.held
        if self.start is not None and not self.vague:
            after = self.start.seq
        else:
            after = held.point_before(self.bounds_ts_us[0]).seq
        before = self.end.seq if self.end is not None else held.point_before(self.bounds_ts_us[1] + 1).seq + 1
        if self.join is not None:
            # However vague its rows are, a consumer leaves after it has joined.
            after = max(after, self.join.placed.seq if self.join.placed is not None else self.join.bounds[0])
        if self.seen_before is not None:
            before = min(before, self.seen_before)
        # Changes that have taken effect stay before all later ones.
        after = max(after, self.seen_after, self.among.placed_seq)
        return after, max(before, after + 1)

    @property
    def closed_consumers(self) -> set[int]:
        """For a reset, the consumers that certainly joined before it: it closed them, unless they had left before."""
        since = self.bounds[0]
        joins = (other for other in self.among.open if other.row.kind == "join")
        return self.among.joined.union(join.row.consumer for join in joins if join.bounds[1] <= since)

    def waits_for(self, row: MembershipEvent) -> bool:
        """Whether `row` may be its late side; the answer depends on times of rows only, not on when it is asked."""
        if self.end is not None or self.start is None or self.vague:
            return False
        return row.ts_us <= self.start.ts_us + WAIT_US_MAX

    def closed(self, newest_ts_us: int) -> bool:
        """Whether no row after `newest_ts_us` can move its bounds."""
        if self.start is not None and self.end is None and not self.vague:
            return newest_ts_us > self.start.ts_us + WAIT_US_MAX
        return newest_ts_us > self.bounds_ts_us[1]


class Side(Enum):
    """The role of a row in its membership change."""

    FIRST = auto()  # it opens a bracket
    SECOND = auto()  # it closes a bracket
    REPEATED = auto()  # it repeats what is known
    EARLY = auto()  # a leave of a consumer whose join is not known yet
    REFUSED = auto()  # the consumers known so far make it impossible


@checkpointed("brackets")
@dataclass(eq=False, slots=True)
class Brackets:
    """The brackets of one subscription: pairs the sides of its membership changes as their rows arrive."""

    held: HeldRows  # the rows that are held
    skew_us: int  # the recorder skew
    # Brackets in the order of their first row, until the caller removes them.
    open: list[Bracket] = field(default_factory=list)
    # The row after which the last change took effect; all that are open take effect later; -1: none has.
    placed_seq: int = -1
    _joins: dict[int, Bracket] = field(default_factory=dict)
    _left: set[int] = field(default_factory=set)
    _resetting: bool = False
    # Consumers that began to leave before a row showed that they had joined.
    _without_join: set[int] = field(default_factory=set)

    def add(self, row: MembershipEvent) -> Side:
        """Takes the next row in the order of seq; returns its role."""
        join = self._joins.get(row.consumer)
        if row.kind == "join" and join is not None and join.placed == BEFORE_ROWS and join.leave is None:
            del self._joins[row.consumer]  # a snapshot showed it before its row
        if row.late and self._began(row):
            self._finish(row)
            return Side.SECOND
        if row.kind == "leave" and row.consumer in self._left:
            return Side.REPEATED  # the broker closed it, and then its connection: it left once
        if row.kind == "join" and row.consumer in self._joins:
            return Side.REFUSED
        if row.kind == "leave" and row.consumer not in self._joins:
            self._without_join.add(row.consumer)
            return Side.EARLY
        self._begin(row)
        return Side.FIRST

    def presume(self, row: MembershipEvent) -> None:
        """Takes as joined a consumer that a snapshot lists and that is not `named`, where joins may be missing."""
        self._joins[row.consumer] = Bracket(row, self, placed=BEFORE_ROWS)

    def named(self, consumer: int) -> bool:
        """Whether a row, or an earlier snapshot, has named a consumer."""
        return consumer in self._joins or consumer in self._without_join

    @property
    def joined(self) -> set[int]:
        """The consumers whose join has taken effect and whose leave has not; some were closed by a restart."""
        joins = self._joins.items()
        return {n for n, join in joins if join.placed and not (join.leave and join.leave.placed)}

    def _began(self, row: MembershipEvent) -> bool:
        if row.kind == "reset":
            return self._resetting
        if row.kind == "join":
            # If both sides are known, it would be a second consumer with one number.
            return row.consumer in self._joins and self._joins[row.consumer].end is None
        return row.consumer in self._left

    def _begin(self, row: MembershipEvent) -> None:
        at = TracePoint(row.seq, row.ts_us)
        bracket = Bracket(row, self, end=at) if row.late else Bracket(row, self, start=at)
        self.open.append(bracket)
        if row.kind == "join":
            # Clients may return before the end of the reset is recorded, but they join the new dispatcher. One that was
            # not connected before may ask to join while the reset has not closed any consumer yet.
            there = {join.row.name for number, join in self._joins.items() if number not in self._left}
            returns = row.late or row.name in there
            self._joins[row.consumer] = bracket
            began_us, _ = bracket.bounds_ts_us
            for other in self.open:
                if other.row.kind == "reset" and returns and other.waits_for(row) and other.bounds_ts_us[0] <= began_us:
                    other.end = at
        elif row.kind == "leave":
            bracket.join = self._joins[row.consumer]
            bracket.join.leave = bracket
            joined = bracket.join.end
            if joined is not None and at.seq < joined.seq:
                # Only the ends of both were recorded, the later one first.
                bracket.join.seen_before = at.seq
            self._left.add(row.consumer)
        else:
            self._resetting = not row.late

    def _finish(self, row: MembershipEvent) -> None:
        if row.kind == "reset":
            self._resetting = False
        for bracket in reversed(self.open):
            if bracket.row.kind == row.kind and bracket.row.consumer == row.consumer and bracket.waits_for(row):
                bracket.end = TracePoint(row.seq, row.ts_us)
                if row.reason:
                    # The reason of a leave is known at its late side.
                    bracket.row = bracket.row._replace(reason=row.reason)
                return
