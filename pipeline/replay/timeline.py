"""The rows of one subscription in the order in which things took effect.

Rows are held back while a membership change among them is not bounded on both sides; then it is placed (`placement`)
and the rows go on in stretches of one mapping each. What is held back is bounded by how long a broker takes for a
membership change, not by the length of the trace.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from pipeline.assignment import Routing
from pipeline.replay.events import Events, concatenated, no_events
from pipeline.replay.membership import RESTARTS, WAIT_US_MAX, Bracket, Membership, Place, Row, Side
from pipeline.replay.order import likeliest_order
from pipeline.replay.placement import Evidence, place
from pipeline.replay.state import Ints


class Stage(Protocol):
    """Where things take effect."""

    @property
    def routing(self) -> Routing:
        """The mapping that the last `apply` left."""

    def announce(self, row: Row) -> None:
        """A consumer shows up; it may be sent to before its join is recorded as done."""

    def foresee(self, changes: Sequence[Bracket]) -> list[Routing]:
        """The mapping now and after each of the changes, none of which takes effect."""

    def apply(self, change: Bracket) -> None:
        """Takes a change into the assignment; its place is still to be found."""

    def enact(self, change: Bracket, at: Place) -> None:
        """The change takes effect; called in the order of `apply`."""

    def begin_leaving(self, row: Row, at: Place) -> None:
        """From here on a consumer may be gone."""

    def begin_reset(self, row: Row, at: Place) -> None:
        """From here on everything may start anew."""

    def end_reset(self, row: Row, at: Place) -> None:
        """Here it has."""

    def doubt(self, row: Row, at: Place) -> None:
        """Mark-delete is moved by an administrator about here."""

    def refuse(self, row: Row) -> None:
        """A row that the consumers known so far make impossible."""

    def hashes(self, events: Events) -> Ints:
        """The sticky hash of each row."""

    def replay(self, events: Events) -> None:
        """Rows under the mapping in force."""


class _Step(NamedTuple):
    """What a single row asks for, at a place that is known at once."""

    at: Place
    row: Row
    act: Callable[[Row, Place], None]


class Timeline:
    """Holds rows back until the changes among them have found their places, then drives a `Stage`."""

    def __init__(self, stage: Stage, skew_us: int) -> None:
        self._stage = stage
        self._skew_us = skew_us
        self._membership = Membership()
        self._held: Events = no_events()
        self._clock: Ints = self._held.ts_us  # ts_us of the held rows, made ascending
        self._steps: list[_Step] = []

    def push(self, events: Events, rows: Sequence[Row]) -> None:
        """Takes the next rows in the order of seq.

        Args:
            events: all of them.
            rows: what only joins, leaves and resets among them carry.
        """
        self._held = concatenated([self._held, events])
        self._clock = np.maximum.accumulate(self._held.ts_us)
        for row in rows:
            self._note(row)
        self._settle(final=False)

    def finish(self) -> None:
        """No row follows: what is missing will not come."""
        self._settle(final=True)

    def _note(self, row: Row) -> None:
        stage = self._stage
        if row.kind == "reset" and row.reason not in RESTARTS:
            self._steps.append(_Step(Place(row.seq, row.ts_us), row, stage.doubt))
            return
        side = self._membership.add(row)
        here = Place(row.seq, row.ts_us)
        if side is Side.REFUSED:
            stage.refuse(row)
        elif side is Side.FIRST:
            # With the early side missing it may have begun as much earlier as the recorder lags.
            since = self._at(row.ts_us - self._skew_us) if row.late else here
            if row.kind == "join":
                stage.announce(row)
            elif row.kind == "leave":
                self._steps.append(_Step(since, row, stage.begin_leaving))
            else:
                self._steps.append(_Step(since, row, stage.begin_reset))
        if row.kind == "reset" and row.late and side is not Side.REPEATED:
            self._steps.append(_Step(here, row, stage.end_reset))

    def _at(self, ts_us: int) -> Place:
        """Behind the last held row that is older than `ts_us`."""
        at = int(np.searchsorted(self._clock, ts_us, side="left")) - 1
        if at < 0:
            return Place(int(self._held.seq[0]) - 1, ts_us)
        return Place(int(self._held.seq[at]), int(self._held.ts_us[at]))

    def _settle(self, final: bool) -> None:
        if self._held.seq.size == 0:
            return
        newest_us = int(self._clock[-1])
        while self._membership.open:
            cluster = self._first_cluster()
            if not final and not self._complete(cluster, newest_us):
                break
            self._place(cluster)
        if final:
            self._advance(int(self._held.seq[-1]))
            return
        # A row that comes later may tell of up to one skew earlier.
        until = self._at(newest_us - self._skew_us).seq
        if self._membership.open:
            until = min(until, *(self._bounds(b)[0] for b in self._membership.open))
        self._advance(until)

    def _complete(self, cluster: list[Bracket], newest_us: int) -> bool:
        """Whether nothing that is still to come can say more about the changes."""
        if not all(b.closed(newest_us, self._skew_us) for b in cluster):
            return False
        # In which order changes happened that overlap shows in what follows them, if at all.
        over_us = max(b.bounds_ts_us(self._skew_us)[1] for b in cluster)
        return len(cluster) == 1 or newest_us > over_us + WAIT_US_MAX or len(cluster) < len(self._membership.open)

    def _bounds(self, bracket: Bracket) -> tuple[int, int]:
        """The seqs behind and before which the change took effect."""
        first_us, last_us = bracket.bounds_ts_us(self._skew_us)
        one_sided = bracket.row.reason == "closed_by_broker" or bracket.start is None
        after = self._at(first_us).seq if one_sided or bracket.start is None else bracket.start.seq
        if bracket.end is not None:
            return after, bracket.end.seq
        return after, self._at(last_us + 1).seq + 1

    def _first_cluster(self) -> list[Bracket]:
        """The earliest changes whose brackets overlap, in the order in which they are taken to have happened."""
        bounds = {id(b): self._bounds(b) for b in self._membership.open}

        def begins(bracket: Bracket) -> tuple[int, bool]:
            # A restart is over when its consumers are gone and before new ones come.
            restart = bracket.row.kind == "reset"
            return bounds[id(bracket)][1 if restart else 0], not restart

        by_start = sorted(self._membership.open, key=lambda b: bounds[id(b)][0])
        cluster: list[Bracket] = []
        until = -1
        for bracket in by_start:
            after, before = bounds[id(bracket)]
            if cluster and after >= until:
                break
            cluster.append(bracket)
            until = max(until, before)
        return sorted(cluster, key=begins)

    def _place(self, cluster: list[Bracket]) -> None:
        stage = self._stage
        self._membership.open = [b for b in self._membership.open if b not in cluster]
        # The row that opens the bracket stays: its time counts.
        self._advance(min(self._bounds(b)[0] for b in cluster) - 1)
        rows = self._held.rows(0, int(np.searchsorted(self._held.seq, self._evident_until(cluster))))
        evidence = Evidence.of(rows, stage.hashes)
        routings = [stage.routing]
        if len(cluster) > 1:
            cluster = likeliest_order(cluster, self._bounds, evidence, stage.foresee)
        for bracket in cluster:
            stage.apply(bracket)
            routings.append(stage.routing)
        cuts = place([self._bounds(b) for b in cluster], rows.seq, rows.ts_us, evidence, routings)
        for bracket, at in zip(cluster, cuts, strict=True):
            self._advance(at.seq)
            stage.enact(bracket, at)

    def _evident_until(self, cluster: list[Bracket]) -> int:
        """Before which row dispatches tell of these changes: until the next one, or the end of the brackets."""
        over = max(self._bounds(b)[1] for b in cluster)
        if len(cluster) == 1:
            return over
        last = int(self._held.seq[-1]) + 1 if self._held.seq.size else over
        return max(over, min((self._bounds(b)[0] for b in self._membership.open), default=last))

    def _advance(self, seq: int) -> None:
        """Lets everything up to and including the row `seq` take effect."""
        due = sorted((step for step in self._steps if step.at.seq <= seq), key=lambda step: step.at.seq)
        self._steps = [step for step in self._steps if step.at.seq > seq]
        for step in due:
            self._release(step.at.seq)
            step.act(step.row, step.at)
        self._release(seq)

    def _release(self, seq: int) -> None:
        count = int(np.searchsorted(self._held.seq, seq, side="right"))
        if count:
            self._stage.replay(self._held.rows(0, count))
            self._held = self._held.rows(count, self._held.seq.size)
            self._clock = self._clock[count:]
