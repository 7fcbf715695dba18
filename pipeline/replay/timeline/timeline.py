"""Passes the rows of one subscription on in the order in which events took effect.

Rows are held back until the membership changes among them are bounded on both sides. Then the changes are located
(`change_points`), and the rows are replayed in stretches of one routing each. The number of rows held back depends on
how long a broker takes for a membership change, not on the length of the trace.
"""

from bisect import bisect_right, insort
from collections.abc import Collection, Sequence
from typing import Final, Literal, NamedTuple, TypeAlias

from dispatch_audit.pipeline.assignment.ranges.observed import Behind
from dispatch_audit.pipeline.checkpointed import checkpointed
from dispatch_audit.pipeline.replay.packing.events import Events
from dispatch_audit.pipeline.replay.packing.gap import Gap
from dispatch_audit.pipeline.replay.packing.membership_rows import (
    CLOSED_BY_BROKER,
    RESTARTS,
    MembershipEvent,
    TracePoint,
)
from dispatch_audit.pipeline.replay.packing.snapshot import Snapshot
from dispatch_audit.pipeline.replay.settings.settings_row import SettingsRow
from dispatch_audit.pipeline.replay.timeline.brackets import Bracket, Side
from dispatch_audit.pipeline.replay.timeline.change_points import Evidence, behind, locate_changes
from dispatch_audit.pipeline.replay.timeline.held_rows import HeldRows
from dispatch_audit.pipeline.replay.timeline.open_changes import NEVER, OpenChanges
from dispatch_audit.pipeline.replay.timeline.presence_bounds import (
    precedence,
)
from dispatch_audit.pipeline.replay.timeline.reported_ranges import View, view_of
from dispatch_audit.pipeline.replay.timeline.stage import Stage

# How much longer than to their rows effects may take that a snapshot shows, or does not show yet.
SNAPSHOT_LAG_US = 100_000
# The longest time between the moment at which a snapshot was taken and its row. Behind it the state of that moment is
# gone, so that a snapshot whose row comes later still is compared with nothing, and shows nothing.
SNAPSHOT_LATE_US = 1_000_000


_Act: TypeAlias = Literal[
    "register_consumer",
    "begin_leaving",
    "begin_reset",
    "end_reset",
    "begin_skip",
    "begin_gap",
    "end_gap",
    "announce_settings",
    "put_settings",
    "begin_snapshot",
    "end_snapshot",
]
_LOOK: Final = "begin_snapshot"
_COMPARE: Final = "end_snapshot"


@checkpointed("step")
class _Step(NamedTuple):
    """A call of a method of `Stage` for a single row whose point is known at once."""

    at: TracePoint
    act: _Act
    about: MembershipEvent | Snapshot | Gap | SettingsRow

    @property
    def consumer(self) -> int:
        """The consumer that it is about; -1: none."""
        return self.about.consumer if isinstance(self.about, MembershipEvent) else -1


def _due(step: _Step) -> tuple[int, bool]:
    """The order of steps: at one point snapshots come last, whichever row came first."""
    return step.at.seq, step.act in (_LOOK, _COMPARE)


@checkpointed("timeline")
class Timeline:
    """Holds rows back until the changes among them are located, then drives a `Stage`."""

    __slots__ = ("_changes", "_early", "_held", "_held_us", "_skew_us", "_stage", "_steps")

    def __init__(self, stage: Stage, skew_us: int, undecided_rows_max: int) -> None:
        """Takes the stage to drive, the recorder skew, and the number of rows that an open order waits for evidence."""
        self._stage = stage
        self._skew_us = skew_us
        self._held_us = max(skew_us, SNAPSHOT_LATE_US)
        self._held = HeldRows()
        self._changes = OpenChanges(self._held, skew_us, undecided_rows_max)
        self._steps: list[_Step] = []  # in the order in which they are due
        self._early: list[MembershipEvent] = []  # leaves of consumers whose joins may come within the skew

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
        settings: Sequence[SettingsRow] = (),
    ) -> None:
        """Takes the next rows in the order of seq.

        Args:
            events: all rows.
            rows: the details of the joins, leaves and resets among them.
            snapshots: the details of the snapshots among them.
            gaps: the gaps that begin among them or in front of them.
            settings: the rows `settings` among them or in front of them.
        """
        self._held.push(events)
        for gap in gaps:
            self._plan(_Step(TracePoint(gap.seq, gap.ts_us), "begin_gap", gap))
            self._plan(_Step(TracePoint(gap.until_seq, gap.ts_us), "end_gap", gap))
        for said in settings:
            if said.seq_begin < said.seq and self._held.newest is not None:
                # Rows that came so shortly before are still held; findings of older ones are looked at again.
                held_back = self._held.point_before(said.ts_us - self._held_us)
                begin = max(held_back, TracePoint(said.seq_begin, said.ts_us))
                self._plan(_Step(min(begin, TracePoint(said.seq, said.ts_us)), "announce_settings", said))
            self._plan(_Step(TracePoint(said.seq, said.ts_us), "put_settings", said))
        for row in rows:
            self._note(row)
        for snapshot in snapshots:
            self._take(snapshot)
        self._settle(final=False)

    def finish(self) -> None:
        """Releases all rows at the end of the trace; missing sides will not come."""
        self._settle(final=True)

    def _take(self, snapshot: Snapshot) -> None:
        """Plans the comparison of a snapshot with the moments between which it was taken."""
        # Rows that came so shortly before are still held, however the trace is cut.
        if self._held.are_behind(snapshot.seq_begin, snapshot.ts_us - self._held_us):
            return
        taken_us = min(snapshot.ts_us, self._held.ts_us_behind(snapshot.seq_end, snapshot.ts_us))
        since, until = (TracePoint(min(seq, snapshot.seq), taken_us) for seq in (snapshot.seq_begin, snapshot.seq_end))
        self._plan(_Step(since, _LOOK, snapshot))
        self._plan(_Step(until, _COMPARE, snapshot))
        self._changes.views.append(view_of(snapshot, since, until))

    def _note(self, row: MembershipEvent) -> None:
        if row.kind == "reset" and row.reason not in RESTARTS:
            self._plan(_Step(TracePoint(row.seq, row.ts_us), "begin_skip", row))
            return
        side = self._changes.add(row)
        if side is Side.EARLY:
            self._early.append(row)
            return
        here = TracePoint(row.seq, row.ts_us)
        if side is Side.REFUSED:
            self._stage.refuse(row)
        elif side is Side.FIRST:
            # If the early side is missing, the change may have begun earlier by up to the recorder skew.
            vague = row.late or row.reason == CLOSED_BY_BROKER
            since = self._held.point_before(row.ts_us - self._skew_us) if vague else here
            if row.kind == "join":
                # The hooks run on different threads: the consumer may be sent to before its join is recorded.
                registered = self._held.point_before(row.ts_us - self._skew_us)
                self._plan(_Step(registered, "register_consumer", row))
                self._note_early(row, registered)
            elif row.kind == "leave":
                self._plan(_Step(since, "begin_leaving", row))
            else:
                self._plan(_Step(since, "begin_reset", row))
        if row.kind == "reset" and row.late and side is not Side.REPEATED:
            self._plan(_Step(here, "end_reset", row))

    def _note_early(self, join: MembershipEvent, registered: TracePoint) -> None:
        """Notes leaves of a consumer that were recorded before its join: it was there for less than the skew."""
        earlier = [row for row in self._early if row.consumer == join.consumer]
        self._early = [row for row in self._early if row.consumer != join.consumer]
        for row in earlier:
            if row.ts_us < join.ts_us - self._skew_us:
                self._stage.refuse(row)
            elif self._changes.add(row) is Side.FIRST:
                self._plan(_Step(registered, "begin_leaving", row))

    def _refuse_early(self, before_us: int) -> None:
        """Refuses the leaves from before a time whose joins have not come."""
        for row in (row for row in self._early if row.ts_us < before_us):
            self._stage.refuse(row)
        self._early = [row for row in self._early if row.ts_us >= before_us]

    def _plan(self, step: _Step) -> None:
        insort(self._steps, step, key=_due)

    def _settle(self, final: bool) -> None:
        newest = self._held.newest
        if newest is None:
            return
        # Later rows may concern events of up to so much earlier.
        certain_us = newest.ts_us - self._held_us
        self._refuse_early(NEVER if final else certain_us)
        floors = self._changes.floors()
        while (ready := self._changes.ready(final, certain_us, floors, self._stage.hashes)) is not None:
            self._place(*ready)
        # A gap may begin, or end, behind the last row that is there.
        self._advance(NEVER if final else self._settled_seq(certain_us))
        self._replay()
        self._held.drop_taken()

    def _settled_seq(self, certain_us: int) -> int:
        """The row up to which nothing changes any more, given the time up to which later rows change nothing."""
        until = self._held.point_before(certain_us).seq
        # A snapshot that was taken after the row that opens a bracket may show the change.
        return min(until, self._changes.first_seq - 1)

    def _place(self, cluster: list[Bracket], view: View | None) -> None:
        # The row that opens the bracket stays, because its time is needed.
        bounds = [self._changes.bounds(b) for b in cluster]
        self._advance(min(after for after, _ in bounds) - 1)
        self._changes.remove(cluster)
        bounds = [self._changes.bounds(b) for b in cluster]
        over = max(before for _, before in bounds)
        known = precedence(cluster, self._changes.bounds, self._there_behind(cluster, over, view))
        if self._stage.depends_on_earlier_rows():
            self._replay()
        if self._stage.choose_selector(cluster):
            self._held.forget_hashes()
        brief = self._changes.passages(cluster)
        ordered = self._stage.update_assignment(cluster, bounds, known, self._behind(over, view), brief)
        in_order = [bounds[number] for number in ordered.order]
        # The row that closes the bracket stays in as well.
        located = locate_changes(in_order, *self._held.up_to(over), self._decisions(-1, over + 1), ordered.routings)
        # The rows are dropped as they take effect.
        given_up = [self._held.given_up(at.seq, over_seq) for at, over_seq in located]
        for done, (number, (at, _)) in enumerate(zip(ordered.order, located, strict=True)):
            bracket = cluster[number]
            # A snapshot that shows a later change was taken after this one too.
            self._advance(at.seq, set().union(*(cluster[later].shown_by for later in ordered.order[done:])))
            self._changes.place(bracket, at)
            self._replay()
            self._stage.commit_change(bracket, at, given_up[done])

    def _there_behind(self, cluster: Sequence[Bracket], over: int, view: View | None) -> Collection[int]:
        """Consumers that are certainly connected after changes that are over by the row `over`."""
        there = set(() if view is None else view.listed)
        if any(b.row.kind == "reset" for b in cluster):
            sent = self._decisions(over - 1, NEVER)
            # A dispatch that was recorded after a restart may have been decided before it.
            there.update(() if sent.recorded_late else sent.consumers.tolist())
        return there

    def _behind(self, over: int, view: View | None) -> Behind:
        """The observations of the assignment after changes that are over by the row `over`."""

        def decisions() -> Evidence:
            return self._decisions(over - 1, self._changes.first_seq)

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
        self._changes.views = [
            view for view in self._changes.views if view.until.seq > seq or view.snapshot in shown_by
        ]
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
