"""The rows of one subscription in the order in which things took effect.

Rows are held back while a membership change among them is not bounded on both sides; then it is placed (`placement`)
and the rows go on in stretches of one mapping each. What is held back is bounded by how long a broker takes for a
membership change, not by the length of the trace.
"""

from collections.abc import Collection, Sequence
from typing import Final, Literal, NamedTuple, Protocol, TypeAlias

import numpy as np

from pipeline.assignment.join_orders import Precedence
from pipeline.assignment.ranges.observed import Behind
from pipeline.replay.packing.events import Code, Events, concatenated, no_events
from pipeline.replay.packing.membership_rows import CLOSED_BY_BROKER, RESTARTS, MembershipEvent, TracePoint
from pipeline.replay.packing.snapshot import Snapshot
from pipeline.replay.state.state import Ints
from pipeline.replay.timeline.brackets import WAIT_US_MAX, Bracket, Membership, Side
from pipeline.replay.timeline.change_points import Bounds, Evidence, Ordered, behind, place
from pipeline.replay.timeline.presence_bounds import (
    note_dispatches,
    note_resets,
    note_view,
    precedence,
    separated,
    shown,
)
from pipeline.replay.timeline.reported_ranges import View, view_of

# A snapshot is asked for, taken and written: its row stands behind what it shows by less than this.
SNAPSHOT_LAG_US = 100_000
_NEVER: Final = 1 << 62


# More changes at a time are not held against one snapshot.
_SEGMENT_MAX: Final = 200


class Stage(Protocol):
    """Where things take effect."""

    def register_consumer(self, row: MembershipEvent, at: TracePoint) -> None:
        """A consumer shows up; it may be sent to before its join is recorded as done."""

    def choose_selector(self, changes: Sequence[Bracket]) -> None:
        """The changes come next; the first consumer of a dispatcher decides how it hashes keys."""

    def update_assignment(
        self, changes: Sequence[Bracket], bounds: Sequence[Bounds], precedes: Precedence, behind: Behind
    ) -> Ordered:
        """Takes changes into the assignment, in an order that is possible; their places are still to be found.

        Args:
            changes: in an order that is possible.
            bounds: of each, the seqs behind and before which it took effect.
            precedes: which of them happened before which for certain.
            behind: what shows of the assignment behind all of them.
        """

    def commit_change(self, change: Bracket, at: TracePoint) -> None:
        """The change takes effect; called in the order that `settle` returned."""

    def begin_leaving(self, row: MembershipEvent, at: TracePoint) -> None:
        """From here on a consumer may be gone."""

    def begin_reset(self, row: MembershipEvent, at: TracePoint) -> None:
        """From here on everything may start anew."""

    def end_reset(self, row: MembershipEvent, at: TracePoint) -> None:
        """Here it has."""

    def begin_skip(self, row: MembershipEvent, at: TracePoint) -> None:
        """Mark-delete is moved by an administrator about here."""

    def refuse(self, row: MembershipEvent) -> None:
        """A row that the consumers known so far make impossible."""

    def hashes(self, events: Events) -> Ints:
        """The sticky hash of each row."""

    def begin_snapshot(self, snapshot: Snapshot, at: TracePoint) -> None:
        """The broker took a snapshot not before here."""

    def end_snapshot(self, snapshot: Snapshot, at: TracePoint) -> None:
        """Nor after here."""

    def replay(self, events: Events) -> None:
        """Rows under the mapping in force."""


_Act: TypeAlias = Literal[
    "register_consumer", "begin_leaving", "begin_reset", "end_reset", "begin_skip", "begin_snapshot", "end_snapshot"
]
_LOOK: Final = "begin_snapshot"
_COMPARE: Final = "end_snapshot"


class _Step(NamedTuple):
    """What a single row asks for, at a place that is known at once: the method of `Stage` that is called with it."""

    at: TracePoint
    act: _Act
    about: MembershipEvent | Snapshot

    @property
    def due(self) -> tuple[int, bool]:
        """Orders what is due: at one place snapshots last, whichever row came first."""
        return self.at.seq, self.act in (_LOOK, _COMPARE)


class Timeline:
    """Holds rows back until the changes among them have found their places, then drives a `Stage`."""

    def __init__(self, stage: Stage, skew_us: int, undecided_rows_max: int) -> None:
        """Takes where things take effect, the recorder skew, and for how many rows an open order waits for evidence."""
        self._stage = stage
        self._undecided_rows_max = undecided_rows_max
        self._views: list[View] = []
        self._placed_seq = -1  # behind which row the last change took effect
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

    def push(self, events: Events, rows: Sequence[MembershipEvent], snapshots: Sequence[Snapshot]) -> None:
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
            places = [max(held_back, TracePoint(min(seq, snapshot.seq), snapshot.ts_us)) for seq, _ in steps]
            self._steps += [_Step(place, act, snapshot) for place, (_, act) in zip(places, steps, strict=True)]
            self._views.append(view_of(snapshot, *places))
        self._settle(final=False)

    def finish(self) -> None:
        """No row follows: what is missing will not come."""
        self._settle(final=True)

    def _note(self, row: MembershipEvent) -> None:
        if row.kind == "reset" and row.reason not in RESTARTS:
            self._steps.append(_Step(TracePoint(row.seq, row.ts_us), "begin_skip", row))
            return
        side = self._membership.add(row)
        here = TracePoint(row.seq, row.ts_us)
        if side is Side.REFUSED:
            self._stage.refuse(row)
        elif side is Side.FIRST:
            # With the early side missing it may have begun as much earlier as the recorder lags.
            vague = row.late or row.reason == CLOSED_BY_BROKER
            since = self._at(row.ts_us - self._skew_us) if vague else here
            if row.kind == "join":
                # The hooks run on different threads: it may be sent to before even its join is recorded.
                self._steps.append(_Step(self._at(row.ts_us - self._skew_us), "register_consumer", row))
            elif row.kind == "leave":
                self._steps.append(_Step(since, "begin_leaving", row))
            else:
                self._steps.append(_Step(since, "begin_reset", row))
        if row.kind == "reset" and row.late and side is not Side.REPEATED:
            self._steps.append(_Step(here, "end_reset", row))

    def _at(self, ts_us: int) -> TracePoint:
        """Behind the last held row that is older than `ts_us`."""
        at = int(np.searchsorted(self._clock, ts_us, side="left")) - 1
        if at < 0:
            return TracePoint(int(self._held.seq[0]) - 1, ts_us)
        return TracePoint(int(self._held.seq[at]), int(self._held.ts_us[at]))

    def _settle(self, final: bool) -> None:
        if self._held.seq.size == 0:
            return
        newest_seq = int(self._held.seq[-1])
        newest_us = int(self._clock[-1])
        # A row that comes later may tell of up to so much earlier.
        certain_us = newest_us - self._held_us
        while self._membership.open:
            cluster = self._first_cluster()
            if not final and not all(b.closed(certain_us, self._skew_us) for b in cluster):
                break
            self._narrow(cluster)
            if len(cluster) > 1:
                cluster = self._first_cluster()
            view = self._view_behind(cluster) if len(cluster) > 1 else None
            if view is not None:
                cluster = self._shown_by(view, cluster)
            elif len(cluster) > 1 and not final and not self._waited(cluster, certain_us):
                break
            self._place(cluster, view)
        if final:
            self._advance(newest_seq)
            return
        until = self._at(certain_us).seq
        if self._membership.open:
            # A snapshot that was taken behind the row that opens a bracket may show the change.
            until = min(until, *(self._bounds(b)[0] - 1 for b in self._membership.open))
        self._advance(until)

    def _waited(self, cluster: Sequence[Bracket], certain_us: int) -> bool:
        """Whether no snapshot will say any more in which order changes happened that overlap."""
        last_us = max(b.bounds_ts_us(self._skew_us)[1] for b in cluster)
        return certain_us > last_us + WAIT_US_MAX and self._rows_behind(cluster) > self._undecided_rows_max

    def _rows_behind(self, cluster: Sequence[Bracket]) -> int:
        first = min(self._bounds(b)[0] for b in cluster)
        return self._held.seq.size - int(np.searchsorted(self._held.seq, first, side="right"))

    def _narrow(self, cluster: Sequence[Bracket]) -> None:
        """Bounds changes by the dispatches and snapshots among them."""
        after, before = min(self._bounds(b)[0] for b in cluster), max(self._bounds(b)[1] for b in cluster)
        note_resets(cluster, self._bounds)
        note_dispatches(cluster, self._decisions(after, before), self._bounds)
        for view in self._views:
            if after <= view.until.seq and view.since.seq < before:
                note_view(cluster, view, self._bounds)

    def _view_behind(self, cluster: Sequence[Bracket]) -> View | None:
        """The first snapshot that shows the ranges behind all of the changes."""
        before = max(self._bounds(b)[1] for b in cluster)
        first = int(np.searchsorted(self._held.seq, min(self._bounds(b)[0] for b in cluster), side="right"))
        last = min(first + self._undecided_rows_max, self._held.seq.size - 1)
        for view in self._views:
            if view.reported is not None and before <= view.until.seq + 1 and view.snapshot <= self._held.seq[last]:
                happened = [shown(view, b, self._bounds) for b in self._membership.open]
                if None not in happened and sum(map(bool, happened)) <= _SEGMENT_MAX:
                    return view
        return None

    def _shown_by(self, view: View, cluster: list[Bracket]) -> list[Bracket]:
        """The changes that happened before a snapshot, in an order to begin with; the first are those of a cluster."""
        others = [b for b in self._membership.open if b not in cluster and shown(view, b, self._bounds)]
        note_view([*cluster, *others], view, self._bounds)
        if others:
            self._narrow(others)
        return self._in_order([*cluster, *others])

    def _bounds(self, bracket: Bracket) -> tuple[int, int]:
        """The seqs behind and before which the change took effect."""
        first_us, last_us = bracket.bounds_ts_us(self._skew_us)
        after = bracket.start.seq if bracket.start is not None and not bracket.vague else self._at(first_us).seq
        before = bracket.end.seq if bracket.end is not None else self._at(last_us + 1).seq + 1
        if bracket.join is not None:
            # However vague its rows are, nobody leaves before having joined.
            joined = bracket.join.placed
            after = max(after, joined.seq if joined is not None else self._bounds(bracket.join)[0])
        if bracket.seen_before is not None:
            before = min(before, bracket.seen_before)
        # What took effect before has done so for good.
        after = max(after, bracket.seen_after, self._placed_seq)
        return after, max(before, after + 1)

    def _first_cluster(self) -> list[Bracket]:
        """The earliest changes whose brackets overlap, in the order in which they are taken to have happened."""
        bounds = {id(b): self._bounds(b) for b in self._membership.open}
        by_start = sorted(self._membership.open, key=lambda b: (*bounds[id(b)], b.bounds_ts_us(self._skew_us)[0]))
        cluster: list[Bracket] = []
        until, until_us = -1, 0
        for bracket in by_start:
            after, before = bounds[id(bracket)]
            since_us, before_us = bracket.bounds_ts_us(self._skew_us)
            # Where no row lies between the two, only time shows that one is over before the other begins.
            alone = (bracket.vague or bracket.start is None) and since_us > until_us
            if cluster and (after >= until or alone or all(separated(other, bracket) for other in cluster)):
                break
            cluster.append(bracket)
            until, until_us = max(until, before), max(until_us, before_us)
        return self._in_order(cluster)

    def _in_order(self, changes: Sequence[Bracket]) -> list[Bracket]:
        """The changes in an order that their bounds allow, and the likeliest one: a change is recorded when it is done.

        Clients subscribe long before the broker lets them in, and in another order.
        """

        def ends(bracket: Bracket) -> tuple[int, int]:
            # A restart is over when its consumers are gone and before new ones come; a stay begins before it ends.
            return self._bounds(bracket)[1], ("reset", "join", "leave").index(bracket.row.kind)

        return sorted(changes, key=ends)

    def _place(self, cluster: list[Bracket], view: View | None) -> None:
        # The row that opens the bracket stays: its time counts.
        self._advance(min(self._bounds(b)[0] for b in cluster) - 1)
        over = max(self._bounds(b)[1] for b in cluster)
        self._membership.open = [b for b in self._membership.open if b not in cluster]
        bounds, known = [self._bounds(b) for b in cluster], precedence(cluster, self._bounds)
        self._stage.choose_selector(cluster)
        ordered = self._stage.update_assignment(cluster, bounds, known, self._behind(over, view))
        # The row that closes the bracket stays in as well.
        rows = self._held.rows(0, int(np.searchsorted(self._held.seq, over, side="right")))
        in_order = [bounds[number] for number in ordered.order]
        cuts = place(in_order, rows.seq, rows.ts_us, self._decisions(-1, over + 1), ordered.routings)
        for done, (number, at) in enumerate(zip(ordered.order, cuts, strict=True)):
            bracket = cluster[number]
            # A snapshot that shows a later change was taken behind this one too.
            self._advance(at.seq, set().union(*(cluster[later].shown_by for later in ordered.order[done:])))
            bracket.placed = at
            self._placed_seq = at.seq
            self._stage.commit_change(bracket, at)

    def _behind(self, over: int, view: View | None) -> Behind:
        """What shows of the assignment behind changes that are over by the row `over`."""
        following = min((self._bounds(b)[0] for b in self._membership.open), default=_NEVER)
        reported = None if view is None else view.reported
        return behind(reported, lambda: self._decisions(over - 1, following), self._recorded_late)

    def _decisions(self, after: int, before: int) -> Evidence:
        """The dispatches between two held rows."""
        first = int(np.searchsorted(self._held.seq, after, side="right"))
        last = int(np.searchsorted(self._held.seq, before, side="left"))
        return Evidence.of(self._held.rows(first, max(first, last)), self._stage.hashes, self._recorded_late)

    def _advance(self, seq: int, shown_by: Collection[int] = ()) -> None:
        """Lets everything up to and including the row `seq` take effect.

        Args:
            seq: of that row.
            shown_by: snapshots, by their rows, that were taken there and then, but behind what follows.
        """

        def is_due(step: _Step) -> bool:
            later = step.at.seq == seq and isinstance(step.about, Snapshot) and step.about.seq in shown_by
            return step.at.seq <= seq and not later

        due = sorted(filter(is_due, self._steps), key=lambda step: step.due)
        self._steps = [step for step in self._steps if not is_due(step)]
        self._views = [view for view in self._views if view.until.seq > seq]
        for step in due:
            self._release(step.at.seq)
            getattr(self._stage, step.act)(step.about, step.at)
        self._release(seq)

    def _release(self, seq: int) -> None:
        count = int(np.searchsorted(self._held.seq, seq, side="right"))
        if count > self._done:
            self._stage.replay(self._held.rows(self._done, count))
            # The last of them stays: the row before a bracket says when it begins.
            self._held = self._held.rows(count - 1, self._held.seq.size)
            self._clock = self._clock[count - 1 :]
            self._done = 1
