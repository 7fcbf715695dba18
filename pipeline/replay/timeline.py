"""The rows of one subscription in the order in which things took effect.

Rows are held back while a membership change among them is not bounded on both sides; then it is placed (`placement`)
and the rows go on in stretches of one mapping each. What is held back is bounded by how long a broker takes for a
membership change, not by the length of the trace.
"""

from collections.abc import Sequence
from typing import Final, Literal, NamedTuple, Protocol, TypeAlias

import numpy as np

from pipeline.assignment import Routing
from pipeline.replay.events import Code, Events, concatenated, no_events
from pipeline.replay.membership import CLOSED_BY_BROKER, RESTARTS, WAIT_US_MAX, Bracket, Membership, Place, Row, Side
from pipeline.replay.order import likeliest_order
from pipeline.replay.placement import Evidence, place
from pipeline.replay.snapshot import Snapshot
from pipeline.replay.state import Ints

# A snapshot is asked for, taken and written: its row stands behind what it shows by less than this.
SNAPSHOT_LAG_US = 100_000


class Stage(Protocol):
    """Where things take effect."""

    @property
    def routing(self) -> Routing:
        """The mapping that the last `apply` left."""

    def announce(self, row: Row, at: Place) -> None:
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

    def look(self, snapshot: Snapshot, at: Place) -> None:
        """The broker took a snapshot not before here."""

    def compare(self, snapshot: Snapshot, at: Place) -> None:
        """Nor after here."""

    def replay(self, events: Events) -> None:
        """Rows under the mapping in force."""


_Act: TypeAlias = Literal["announce", "begin_leaving", "begin_reset", "end_reset", "doubt", "look", "compare"]
_LOOK: Final = "look"
_COMPARE: Final = "compare"


class _Step(NamedTuple):
    """What a single row asks for, at a place that is known at once: the method of `Stage` that is called with it."""

    at: Place
    act: _Act
    about: Row | Snapshot

    @property
    def due(self) -> tuple[int, bool]:
        """Orders what is due: at one place snapshots last, whichever row came first."""
        return self.at.seq, self.act in (_LOOK, _COMPARE)


class Timeline:
    """Holds rows back until the changes among them have found their places, then drives a `Stage`."""

    def __init__(self, stage: Stage, skew_us: int) -> None:
        self._stage = stage
        self._skew_us = skew_us
        self._held_us = max(skew_us, SNAPSHOT_LAG_US)
        self._membership = Membership()
        self._held: Events = no_events()
        self._clock: Ints = self._held.ts_us  # ts_us of the held rows, made ascending
        self._done = 0  # how many of the held rows have taken effect
        self._steps: list[_Step] = []
        self._recorded_late = True  # until the decision of a dispatch is seen: only ends are recorded

    @property
    def released_seq(self) -> int:
        """Up to which row all have taken effect; -1: not one has."""
        return int(self._held.seq[self._done - 1]) if self._done else -1

    def push(self, events: Events, rows: Sequence[Row], snapshots: Sequence[Snapshot]) -> None:
        """Takes the next rows in the order of seq.

        Args:
            events: all of them.
            rows: what only joins, leaves and resets among them carry.
            snapshots: what only snapshots among them carry.
        """
        self._held = concatenated([self._held, events])
        self._clock = np.maximum.accumulate(self._held.ts_us)
        # An end has its start before it, so this is known when it matters.
        self._recorded_late = self._recorded_late and not bool((events.code == Code.DISPATCH_START).any())
        for row in rows:
            self._note(row)
        for snapshot in snapshots:
            # However the rows are cut, those that came so shortly before are still held.
            held_back = self._at(snapshot.ts_us - self._held_us)
            steps: list[tuple[int, _Act]] = [(snapshot.seq_begin, _LOOK), (snapshot.seq_end, _COMPARE)]
            for seq, act in steps:
                place = max(held_back, Place(min(seq, snapshot.seq), snapshot.ts_us))
                self._steps.append(_Step(place, act, snapshot))
        self._settle(final=False)

    def finish(self) -> None:
        """No row follows: what is missing will not come."""
        self._settle(final=True)

    def _note(self, row: Row) -> None:
        if row.kind == "reset" and row.reason not in RESTARTS:
            self._steps.append(_Step(Place(row.seq, row.ts_us), "doubt", row))
            return
        side = self._membership.add(row)
        here = Place(row.seq, row.ts_us)
        if side is Side.REFUSED:
            self._stage.refuse(row)
        elif side is Side.FIRST:
            # With the early side missing it may have begun as much earlier as the recorder lags.
            vague = row.late or row.reason == CLOSED_BY_BROKER
            since = self._at(row.ts_us - self._skew_us) if vague else here
            if row.kind == "join":
                # The hooks run on different threads: it may be sent to before even its join is recorded.
                self._steps.append(_Step(self._at(row.ts_us - self._skew_us), "announce", row))
            elif row.kind == "leave":
                self._steps.append(_Step(since, "begin_leaving", row))
            else:
                self._steps.append(_Step(since, "begin_reset", row))
        if row.kind == "reset" and row.late and side is not Side.REPEATED:
            self._steps.append(_Step(here, "end_reset", row))

    def _at(self, ts_us: int) -> Place:
        """Behind the last held row that is older than `ts_us`."""
        at = int(np.searchsorted(self._clock, ts_us, side="left")) - 1
        if at < 0:
            return Place(int(self._held.seq[0]) - 1, ts_us)
        return Place(int(self._held.seq[at]), int(self._held.ts_us[at]))

    def _settle(self, final: bool) -> None:
        if self._held.seq.size == 0:
            return
        newest_seq = int(self._held.seq[-1])
        newest_us = int(self._clock[-1])
        # A row that comes later may tell of up to so much earlier.
        certain_us = newest_us - self._held_us
        while self._membership.open:
            cluster = self._first_cluster()
            if not final and not self._complete(cluster, certain_us):
                break
            self._place(cluster)
        if final:
            self._advance(newest_seq)
            return
        until = self._at(certain_us).seq
        if self._membership.open:
            until = min(until, *(self._bounds(b)[0] for b in self._membership.open))
        self._advance(until)

    def _complete(self, cluster: list[Bracket], certain_us: int) -> bool:
        """Whether nothing that is still to come can say more about the changes."""
        if not all(b.closed(certain_us, self._skew_us) for b in cluster):
            return False
        # In which order changes happened that overlap shows in what follows them, if at all.
        followed = any(b.row.ts_us <= certain_us for b in self._membership.open if b not in cluster)
        return len(cluster) == 1 or followed or certain_us > self._followed_until_us(cluster)

    def _followed_until_us(self, cluster: list[Bracket]) -> int:
        return max(b.bounds_ts_us(self._skew_us)[1] for b in cluster) + WAIT_US_MAX

    def _bounds(self, bracket: Bracket) -> tuple[int, int]:
        """The seqs behind and before which the change took effect."""
        first_us, last_us = bracket.bounds_ts_us(self._skew_us)
        after = bracket.start.seq if bracket.start is not None and not bracket.vague else self._at(first_us).seq
        before = bracket.end.seq if bracket.end is not None else self._at(last_us + 1).seq + 1
        if bracket.join is not None:
            # However vague its rows are, nobody leaves before having joined.
            joined = bracket.join.placed
            after = max(after, joined.seq if joined is not None else self._bounds(bracket.join)[0])
        return after, max(before, after + 1)

    def _first_cluster(self) -> list[Bracket]:
        """The earliest changes whose brackets overlap, in the order in which they are taken to have happened."""
        bounds = {id(b): self._bounds(b) for b in self._membership.open}

        def begins(bracket: Bracket) -> tuple[int, int]:
            # A restart is over when its consumers are gone and before new ones come; a stay begins before it ends.
            kind = bracket.row.kind
            return bounds[id(bracket)][1 if kind == "reset" else 0], ("reset", "join", "leave").index(kind)

        by_start = sorted(self._membership.open, key=lambda b: (bounds[id(b)][0], b.bounds_ts_us(self._skew_us)[0]))
        cluster: list[Bracket] = []
        until, until_us = -1, 0
        for bracket in by_start:
            after, before = bounds[id(bracket)]
            since_us, before_us = bracket.bounds_ts_us(self._skew_us)
            # Where no row lies between the two, only time shows that one is over before the other begins.
            if cluster and (after >= until or ((bracket.vague or bracket.start is None) and since_us > until_us)):
                break
            cluster.append(bracket)
            until, until_us = max(until, before), max(until_us, before_us)
        return sorted(cluster, key=begins)

    def _place(self, cluster: list[Bracket]) -> None:
        stage = self._stage
        self._membership.open = [b for b in self._membership.open if b not in cluster]
        # The row that opens the bracket stays: its time counts.
        self._advance(min(self._bounds(b)[0] for b in cluster) - 1)
        # The row that closes it stays in as well.
        until = self._evident_until(cluster)
        rows = self._held.rows(0, int(np.searchsorted(self._held.seq, until, side="right")))
        evidence = Evidence.of(rows, stage.hashes, self._recorded_late)
        routings = [stage.routing]
        if len(cluster) > 1:
            cluster = likeliest_order(cluster, self._bounds, evidence, stage.foresee)
            for bracket in cluster:
                bracket.ordered = sum(b.row.kind == "join" for b in cluster) < 2
        for bracket in cluster:
            stage.apply(bracket)
            routings.append(stage.routing)
        cuts = place([self._bounds(b) for b in cluster], rows.seq, rows.ts_us, evidence, routings)
        for bracket, at in zip(cluster, cuts, strict=True):
            self._advance(at.seq)
            bracket.placed = at
            stage.enact(bracket, at)

    def _evident_until(self, cluster: list[Bracket]) -> int:
        """Before which row dispatches tell of these changes: until the next one, or the end of the brackets."""
        over = max(self._bounds(b)[1] for b in cluster)
        if len(cluster) == 1:
            return over
        last = self._at(self._followed_until_us(cluster) + 1).seq + 1
        return max(over, min([last, *(self._bounds(b)[0] for b in self._membership.open)]))

    def _advance(self, seq: int) -> None:
        """Lets everything up to and including the row `seq` take effect."""
        due = sorted((s for s in self._steps if s.at.seq <= seq), key=lambda step: step.due)
        self._steps = [step for step in self._steps if step.at.seq > seq]
        for step in due:
            self._release(step.at.seq)
            getattr(self._stage, step.act)(step.about, step.at)
        self._release(seq)

    def _release(self, seq: int) -> None:
        count = int(np.searchsorted(self._held.seq, seq, side="right"))
        if count > self._done:
            self._stage.replay(self._held.rows(self._done, count))
            # The last of them stays: the row before a bracket tells when it begins.
            self._held = self._held.rows(count - 1, self._held.seq.size)
            self._clock = self._clock[count - 1 :]
            self._done = 1
