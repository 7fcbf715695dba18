"""Brackets of membership changes: the rows between which each took effect (TRACE_FORMAT, "Phases").

The true moment lies between the two sides; with one missing, the other one and the recorder skew bound it.
"""

from dataclasses import dataclass, field
from enum import Enum, auto

from pipeline.replay.packing.membership_rows import CLOSED_BY_BROKER, MembershipEvent, TracePoint

# A bracket that is not closed by then never will be: the broker settles a membership change within milliseconds.
WAIT_US_MAX = 5_000_000


@dataclass(eq=False)
class Bracket:
    """One membership change and what bounds its moment.

    Attributes:
        row: the row that said most about it.
        start: its early side, None while only the late one was seen.
        end: its late side, None while only the early one was seen.
        join: of a leave, the join of the same consumer, which comes before it.
        leave: of a join, the leave of the same consumer, once it was seen.
        placed: where it took effect, once that has been decided.
        seen_after: a row that was recorded before it, as a dispatch or a snapshot shows; -1: none is known.
        seen_before: the first row that was recorded behind it, as they show; None: none is known.
        shown_by: seqs of the snapshots that were taken behind it.
        hidden_from: seqs of the snapshots that were taken before it.
    """

    row: MembershipEvent
    start: TracePoint | None = None
    end: TracePoint | None = None
    join: "Bracket | None" = None
    leave: "Bracket | None" = None
    placed: TracePoint | None = None
    seen_after: int = -1
    seen_before: int | None = None
    shown_by: set[int] = field(default_factory=set)
    hidden_from: set[int] = field(default_factory=set)

    @property
    def vague(self) -> bool:
        """Whether its only row may stand before as well as behind its moment."""
        return self.row.reason == CLOSED_BY_BROKER

    def bounds_ts_us(self, skew_us: int) -> tuple[int, int]:
        """Between which times the change took effect, where a side is missing."""
        if self.start is None and self.end is not None:
            return self.end.ts_us - skew_us, self.end.ts_us
        assert self.start is not None
        if self.row.reason == CLOSED_BY_BROKER:
            return self.start.ts_us - skew_us, self.start.ts_us + skew_us
        return self.start.ts_us, self.end.ts_us if self.end is not None else self.start.ts_us + skew_us

    def waits_for(self, row: MembershipEvent) -> bool:
        """Whether a late side may close it that comes with `row`, which must not depend on who looks when."""
        if self.end is not None or self.start is None or self.row.reason == CLOSED_BY_BROKER:
            return False
        return row.ts_us <= self.start.ts_us + WAIT_US_MAX

    def closed(self, newest_ts_us: int, skew_us: int) -> bool:
        """Whether nothing that comes after `newest_ts_us` can move its bounds."""
        if self.start is not None and self.end is None and self.row.reason != CLOSED_BY_BROKER:
            return newest_ts_us > self.start.ts_us + WAIT_US_MAX
        return newest_ts_us > self.bounds_ts_us(skew_us)[1]


class Side(Enum):
    """What a row turned out to be."""

    FIRST = auto()  # of a change: a bracket is open now
    SECOND = auto()  # of a change whose bracket it closes
    REPEATED = auto()  # says nothing new
    REFUSED = auto()  # the consumers known so far make it impossible


class Membership:
    """Pairs the sides of membership changes as their rows arrive.

    Attributes:
        open: brackets in the order of their first row, until the caller takes them away.
    """

    def __init__(self) -> None:
        self.open: list[Bracket] = []
        self._joins: dict[int, Bracket] = {}
        self._left: set[int] = set()
        self._resetting = False

    def add(self, row: MembershipEvent) -> Side:
        """Takes the next row in the order of seq."""
        if row.kind == "join" and row.consumer < 0:
            return Side.REPEATED  # the broker refused it: no consumer came of it
        if row.late and self._began(row):
            self._finish(row)
            return Side.SECOND
        if row.kind == "leave" and row.consumer in self._left:
            return Side.REPEATED  # closed by the broker first, then with its connection: it left once
        if row.kind == "join" and row.consumer in self._joins:
            return Side.REFUSED
        if row.kind == "leave" and row.consumer not in self._joins:
            return Side.REFUSED
        self._begin(row)
        return Side.FIRST

    def _began(self, row: MembershipEvent) -> bool:
        if row.kind == "reset":
            return self._resetting
        if row.kind == "join":
            # With both sides there it would be a second consumer of one number.
            return row.consumer in self._joins and self._joins[row.consumer].end is None
        return row.consumer in self._left

    def _begin(self, row: MembershipEvent) -> None:
        place = TracePoint(row.seq, row.ts_us)
        bracket = Bracket(row, end=place) if row.late else Bracket(row, start=place)
        self.open.append(bracket)
        if row.kind == "join":
            self._joins[row.consumer] = bracket
            # Clients come back before the reset is reported done: the dispatcher they join is the new one.
            for other in self.open:
                if other.row.kind == "reset" and other.waits_for(row):
                    other.end = place
        elif row.kind == "leave":
            bracket.join = self._joins[row.consumer]
            bracket.join.leave = bracket
            self._left.add(row.consumer)
        else:
            self._resetting = not row.late

    def _finish(self, row: MembershipEvent) -> None:
        if row.kind == "reset":
            self._resetting = False
        for bracket in reversed(self.open):
            if bracket.row.kind == row.kind and bracket.row.consumer == row.consumer and bracket.waits_for(row):
                bracket.end = TracePoint(row.seq, row.ts_us)
                # Why a consumer left is known when it is gone.
                bracket.row = bracket.row._replace(reason=row.reason or bracket.row.reason)
                return
