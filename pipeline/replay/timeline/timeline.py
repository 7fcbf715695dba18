"""Passes the rows of one subscription on in the order in which events took effect.

Rows are held back until the membership changes among them are bounded on both sides. Then the changes are located
(`change_points`), and the rows are replayed in stretches of one routing each. The number of rows held back depends on
how long a broker takes for a membership change, not on the length of the trace.
"""

from bisect import bisect_right, insort
from collections.abc import Collection, Mapping, Sequence
from typing import Final, Literal, NamedTuple, TypeAlias

from dispatch_audit.pipeline.assignment.ranges.observed import Behind
from dispatch_audit.pipeline.replay.packing.events import Events
from dispatch_audit.pipeline.replay.packing.gap import Gap
from dispatch_audit.pipeline.replay.packing.membership_rows import (
    CLOSED_BY_BROKER,
    RESTARTS,
    MembershipEvent,
    TracePoint,
)
from dispatch_audit.pipeline.replay.packing.snapshot import Snapshot
from dispatch_audit.pipeline.replay.timeline.brackets import WAIT_US_MAX, Bracket, Membership, Side
from dispatch_audit.pipeline.replay.timeline.change_points import Evidence, behind, locate_changes
from dispatch_audit.pipeline.replay.timeline.held_rows import HeldRows
from dispatch_audit.pipeline.replay.timeline.presence_bounds import (
    note_dispatches,
    note_resets,
    note_view,
    passages,
    precedence,
    separated,
    shown,
)
from dispatch_audit.pipeline.replay.timeline.reported_ranges import View, view_of
from dispatch_audit.pipeline.replay.timeline.stage import Stage

# The longest time between the moment that a snapshot describes and its row.
SNAPSHOT_LAG_US = 100_000
_NEVER: Final = 1 << 62
# The largest number of changes that are ordered by one snapshot.
_SEGMENT_MAX: Final = 200
# The number of open brackets that are looked at first; few changes overlap as a rule.
_FIRST_LOOK: Final = 2


_Act: TypeAlias = Literal[
    "register_consumer",
    "begin_leaving",
    "begin_reset",
    "end_reset",
    "begin_skip",
    "begin_gap",
    "end_gap",
    "begin_snapshot",
    "end_snapshot",
]
_LOOK: Final = "begin_snapshot"
_COMPARE: Final = "end_snapshot"


class _Step(NamedTuple):
    """A call of a method of `Stage` for a single row whose point is known at once."""

    at: TracePoint
    act: _Act
    about: MembershipEvent | Snapshot | Gap

    @property
    def consumer(self) -> int:
        """The consumer that it is about; -1: none."""
        return self.about.consumer if isinstance(self.about, MembershipEvent) else -1


def _due(step: _Step) -> tuple[int, bool]:
    """The order of steps: at one point snapshots come last, whichever row came first."""
    return step.at.seq, step.act in (_LOOK, _COMPARE)


class Timeline:
    """Holds rows back until the changes among them are located, then drives a `Stage`."""

    def __init__(self, stage: Stage, skew_us: int, undecided_rows_max: int) -> None:
        """Takes the stage to drive, the recorder skew, and the number of rows that an open order waits for evidence."""
        self._stage = stage
        self._undecided_rows_max = undecided_rows_max
        self._views: list[View] = []
        self._placed_seq = -1  # the row after which the last change took effect
        self._skew_us = skew_us
        self._held_us = max(skew_us, SNAPSHOT_LAG_US)
        self._membership = Membership()
        self._held = HeldRows()
        self._steps: list[_Step] = []  # in the order in which they are due

    @property
    def released_seq(self) -> int:
        """The last row that has taken effect; -1: none has."""
        return self._held.released_seq

    def push(
        self,
        events: Events,
        rows: Sequence[MembershipEvent],
        snapshots: Sequence[Snapshot],
        gaps: Sequence[Gap] = (),
    ) -> None:
        """Takes the next rows in the order of seq.

        Args:
            events: all rows.
            rows: the details of the joins, leaves and resets among them.
            snapshots: the details of the snapshots among them.
            gaps: the gaps that begin among them or in front of them.
        """
        self._held.push(events)
        for gap in gaps:
            self._plan(_Step(TracePoint(gap.seq, gap.ts_us), "begin_gap", gap))
            self._plan(_Step(TracePoint(gap.until_seq, gap.ts_us), "end_gap", gap))
        for row in rows:
            self._note(row)
        for snapshot in snapshots:
            # Rows that came so shortly before are still held, however the trace is cut.
            held_back = self._held.point_before(snapshot.ts_us - self._held_us)
            steps: list[tuple[int, _Act]] = [(snapshot.seq_begin, _LOOK), (snapshot.seq_end, _COMPARE)]
            points = [max(held_back, TracePoint(min(seq, snapshot.seq), snapshot.ts_us)) for seq, _ in steps]
            for point, (_, act) in zip(points, steps, strict=True):
                self._plan(_Step(point, act, snapshot))
            self._views.append(view_of(snapshot, *points))
        self._settle(final=False)

    def finish(self) -> None:
        """Releases all rows at the end of the trace; missing sides will not come."""
        self._settle(final=True)

    def _note(self, row: MembershipEvent) -> None:
        if row.kind == "reset" and row.reason not in RESTARTS:
            self._plan(_Step(TracePoint(row.seq, row.ts_us), "begin_skip", row))
            return
        side = self._membership.add(row, self._skew_us)
        here = TracePoint(row.seq, row.ts_us)
        if side is Side.REFUSED:
            self._stage.refuse(row)
        elif side is Side.FIRST:
            # If the early side is missing, the change may have begun earlier by up to the recorder skew.
            vague = row.late or row.reason == CLOSED_BY_BROKER
            since = self._held.point_before(row.ts_us - self._skew_us) if vague else here
            if row.kind == "join":
                # The hooks run on different threads: the consumer may be sent to before its join is recorded.
                self._plan(_Step(self._held.point_before(row.ts_us - self._skew_us), "register_consumer", row))
            elif row.kind == "leave":
                self._plan(_Step(since, "begin_leaving", row))
            else:
                self._plan(_Step(since, "begin_reset", row))
        if row.kind == "reset" and row.late and side is not Side.REPEATED:
            self._plan(_Step(here, "end_reset", row))

    def _plan(self, step: _Step) -> None:
        insort(self._steps, step, key=_due)

    def _settle(self, final: bool) -> None:
        newest = self._held.newest
        if newest is None:
            return
        # Later rows may concern events of up to so much earlier.
        certain_us = newest.ts_us - self._held_us
        floors = self._floors()
        while self._membership.open:
            cluster = self._first_cluster(floors)
            if not final and not all(b.closed(certain_us, self._skew_us) for b in cluster):
                break
            self._narrow(cluster)
            if len(cluster) > 1:
                cluster = self._first_cluster(floors)
            view = self._view_behind(cluster) if len(cluster) > 1 else None
            if view is not None:
                cluster = self._shown_by(view, cluster)
            elif len(cluster) > 1 and not final and not self._waited(cluster, certain_us):
                break
            self._place(cluster, view)
        # A gap may begin, or end, behind the last row that is there.
        self._advance(_NEVER if final else self._settled_seq(certain_us))
        self._replay()
        self._held.drop_taken()

    def _settled_seq(self, certain_us: int) -> int:
        """The row up to which nothing changes any more, given the time up to which later rows change nothing."""
        until = self._held.point_before(certain_us).seq
        # A snapshot that was taken after the row that opens a bracket may show the change.
        return min([until, *(self._bounds(b)[0] - 1 for b in self._membership.open)])

    def _waited(self, cluster: Sequence[Bracket], certain_us: int) -> bool:
        """Whether overlapping changes have waited long enough for a snapshot that shows their order."""
        last_us = max(b.bounds_ts_us(self._skew_us)[1] for b in cluster)
        first = min(self._bounds(b)[0] for b in cluster)
        return certain_us > last_us + WAIT_US_MAX and self._held.count_behind(first) > self._undecided_rows_max

    def _narrow(self, cluster: Sequence[Bracket]) -> None:
        """Narrows the bounds of changes by the dispatches and snapshots among them."""
        bounds = [self._bounds(b) for b in cluster]
        after, before = min(after for after, _ in bounds), max(before for _, before in bounds)
        decisions = self._decisions(after, before)
        if decisions.seq.size:
            note_dispatches(cluster, decisions, self._bounds, self._closed_by)
        views = [view for view in self._views if after <= view.until.seq and view.since.seq < before]
        for view in views:
            note_view(cluster, view, self._bounds, self._closed_by)
        # Who is seen behind a restart was not closed by it; which leaves it caused decides what snapshots show.
        if note_resets(cluster, self._bounds):
            for view in views:
                note_view(cluster, view, self._bounds, self._closed_by)

    def _view_behind(self, cluster: Sequence[Bracket]) -> View | None:
        """The first snapshot that shows the ranges after all of the changes."""
        before = max(self._bounds(b)[1] for b in cluster)
        last_seq = self._held.seq_behind(min(self._bounds(b)[0] for b in cluster), self._undecided_rows_max)
        for view in self._views:
            if view.ranges is not None and before <= view.until.seq + 1 and view.snapshot <= last_seq:
                happened = [shown(view, b, self._bounds, self._closed_by) for b in self._membership.open]
                if None not in happened and sum(map(bool, happened)) <= _SEGMENT_MAX:
                    return view
        return None

    def _shown_by(self, view: View, cluster: list[Bracket]) -> list[Bracket]:
        """The changes of a cluster and all others that happened before a snapshot, in a possible order."""
        others = [
            b for b in self._membership.open if b not in cluster and shown(view, b, self._bounds, self._closed_by)
        ]
        note_view([*cluster, *others], view, self._bounds, self._closed_by)
        if others:
            self._narrow(others)
        return self._in_order([*cluster, *others])

    def _bounds(self, bracket: Bracket) -> tuple[int, int]:
        """The seqs between which the change took effect."""
        if bracket.start is not None and not bracket.vague:
            after = bracket.start.seq
        else:
            after = self._held.point_before(bracket.bounds_ts_us(self._skew_us)[0]).seq
        if bracket.end is not None:
            before = bracket.end.seq
        else:
            before = self._held.point_before(bracket.bounds_ts_us(self._skew_us)[1] + 1).seq + 1
        if bracket.join is not None:
            # However vague its rows are, a consumer leaves after it has joined.
            joined = bracket.join.placed
            after = max(after, joined.seq if joined is not None else self._bounds(bracket.join)[0])
        if bracket.seen_before is not None:
            before = min(before, bracket.seen_before)
        # Changes that have taken effect stay before all later ones.
        after = max(after, bracket.seen_after, self._placed_seq)
        return after, max(before, after + 1)

    def _closed_by(self, reset: Bracket) -> set[int]:
        """The consumers that joined certainly before a reset: it closed them all, unless they had gone before."""
        since = self._bounds(reset)[0]
        joins = (b for b in self._membership.open if b.row.kind == "join")
        return self._membership.joined.union(b.row.consumer for b in joins if self._bounds(b)[1] <= since)

    def _floors(self) -> Mapping[int, int]:
        """For each open bracket, by its identity, a row before which neither it nor a bracket opened later begins.

        While brackets are narrowed and placed, each can only begin later, so this holds until rows are added.
        """
        floors: dict[int, int] = {}
        lowest = _NEVER
        for bracket in reversed(self._membership.open):
            lowest = min(lowest, self._bounds(bracket)[0])
            floors[id(bracket)] = lowest
        return floors

    def _first_cluster(self, floors: Mapping[int, int]) -> list[Bracket]:
        """The earliest changes whose brackets overlap, in the likeliest order; `floors` are those of `_floors`."""
        opened, looked_at = self._membership.open, _FIRST_LOOK
        while True:
            cluster, until = self._cluster_among(opened[:looked_at])
            if looked_at >= len(opened) or floors[id(opened[looked_at])] >= until:
                return self._in_order(cluster)
            looked_at *= 2

    def _cluster_among(self, changes: Sequence[Bracket]) -> tuple[list[Bracket], int]:
        """The earliest of these changes whose brackets overlap, and the row by which all of them have happened."""
        bounds = {id(b): self._bounds(b) for b in changes}
        by_start = sorted(changes, key=lambda b: (*bounds[id(b)], b.bounds_ts_us(self._skew_us)[0]))
        cluster: list[Bracket] = []
        until, until_us = -1, 0
        for bracket in by_start:
            after, before = bounds[id(bracket)]
            since_us, before_us = bracket.bounds_ts_us(self._skew_us)
            # If no row lies between two changes, only their times show that one ended before the other began.
            alone = (bracket.vague or bracket.start is None) and since_us > until_us
            if cluster and (after >= until or alone or all(separated(other, bracket) for other in cluster)):
                break
            cluster.append(bracket)
            until, until_us = max(until, before), max(until_us, before_us)
        return cluster, until

    def _in_order(self, changes: Sequence[Bracket]) -> list[Bracket]:
        """The changes in the likeliest order that their bounds allow, the order of their ends.

        The early sides show less: clients subscribe long before the broker admits them, and in another order. Who is
        not known to have left joined behind a restart rather than before it.
        """
        if len(changes) < 2:
            return [*changes]
        staying = [self._bounds(b)[1] for b in changes if b.row.kind == "join" and b.leave is None]

        def ends(bracket: Bracket) -> tuple[int, int]:
            after, before = self._bounds(bracket)
            if bracket.row.kind == "reset":
                before = min([before, *(joined for joined in staying if joined > after)])
            # At one row: a restart ends after its consumers are gone and before new ones join; joins precede leaves.
            return before, ("reset", "join", "leave").index(bracket.row.kind)

        return sorted(changes, key=ends)

    def _place(self, cluster: list[Bracket], view: View | None) -> None:
        # The row that opens the bracket stays, because its time is needed.
        self._advance(min(self._bounds(b)[0] for b in cluster) - 1)
        for bracket in cluster:
            # Of many that are open it is among the first.
            self._membership.open.remove(bracket)
        bounds = [self._bounds(b) for b in cluster]
        over = max(before for _, before in bounds)
        known = precedence(cluster, self._bounds, self._there_behind(cluster, over, view))
        if self._stage.depends_on_earlier_rows():
            self._replay()
        if self._stage.choose_selector(cluster):
            self._held.forget_hashes()
        brief = passages(cluster, self._views, self._bounds, self._closed_by)
        ordered = self._stage.update_assignment(cluster, bounds, known, self._behind(over, view), brief)
        in_order = [bounds[number] for number in ordered.order]
        # The row that closes the bracket stays in as well.
        points = locate_changes(in_order, *self._held.up_to(over), self._decisions(-1, over + 1), ordered.routings)
        for done, (number, at) in enumerate(zip(ordered.order, points, strict=True)):
            bracket = cluster[number]
            # A snapshot that shows a later change was taken after this one too.
            self._advance(at.seq, set().union(*(cluster[later].shown_by for later in ordered.order[done:])))
            bracket.placed = at
            self._placed_seq = at.seq
            self._replay()
            self._stage.commit_change(bracket, at)

    def _there_behind(self, cluster: Sequence[Bracket], over: int, view: View | None) -> Collection[int]:
        """Consumers that are certainly connected after changes that are over by the row `over`."""
        there = set(() if view is None else view.listed)
        if any(b.row.kind == "reset" for b in cluster):
            sent = self._decisions(over - 1, _NEVER)
            # A dispatch that was recorded after a restart may have been decided before it.
            there.update(() if sent.recorded_late else sent.consumers.tolist())
        return there

    def _behind(self, over: int, view: View | None) -> Behind:
        """The observations of the assignment after changes that are over by the row `over`."""

        def decisions() -> Evidence:
            following = min((self._bounds(b)[0] for b in self._membership.open), default=_NEVER)
            return self._decisions(over - 1, following)

        return behind(None if view is None else view.reported(), decisions, self._held.recorded_late)

    def _decisions(self, after: int, before: int) -> Evidence:
        """The dispatches between two held rows."""
        return self._held.decisions(after, before, self._stage.hashes)

    def _advance(self, seq: int, shown_by: Collection[int] = ()) -> None:
        """Lets all rows and steps up to and including the row `seq` take effect.

        Args:
            seq: the seq of the row.
            shown_by: the rows of snapshots that were taken at this row, but after the change that follows.
        """
        count = bisect_right(self._steps, (seq, True), key=_due)
        due: list[_Step] = []
        later: list[_Step] = []
        for step in self._steps[:count]:
            is_later = step.at.seq == seq and isinstance(step.about, Snapshot) and step.about.seq in shown_by
            (later if is_later else due).append(step)
        self._steps[:count] = later
        # What was taken after a change at this row may show another one at this row.
        self._views = [view for view in self._views if view.until.seq > seq or view.snapshot in shown_by]
        for step in due:
            self._held.release(step.at.seq)
            if (
                step.act != "register_consumer"
                or self._held.released_name(step.consumer)
                or self._stage.depends_on_earlier_rows()
            ):
                self._replay()
            getattr(self._stage, step.act)(step.about, step.at)
        self._held.release(seq)

    def _replay(self) -> None:
        """Replays the rows that have taken effect; call before anything changes that they depend on."""
        rows = self._held.take(self._stage.hashes)
        if rows is not None:
            self._stage.replay(*rows)
