"""The steps of a subscription: what `Membership` hands to the replay, and those of single rows, which are planned.

They are in the order in which events took effect. Each is data, by which the replay changes the dispatcher
(`subscription/step_loop.py`). `HashOwners` in turn learns from rows and snapshots the owners that are open.

A join, leave or reset takes effect somewhere in its bracket, which `OpenChanges` narrows. Of it only the points are
planned here from which on a consumer may be connected, or gone.
"""

from bisect import bisect_right, insort
from collections.abc import Collection
from typing import NamedTuple, TypeAlias

from dispatch_audit.pipeline.checkpointed import checkpointed
from dispatch_audit.pipeline.packing.events import Events
from dispatch_audit.pipeline.packing.gap import Gap
from dispatch_audit.pipeline.packing.membership_rows import (
    CLOSED_BY_BROKER,
    NEVER,
    RESTARTS,
    MembershipEvent,
    TracePoint,
)
from dispatch_audit.pipeline.packing.rows_aside import SettingsRow
from dispatch_audit.pipeline.packing.snapshot import Snapshot
from dispatch_audit.pipeline.replay.durations import SNAPSHOT_LATE_US
from dispatch_audit.pipeline.replay.membership.history import OpenedEpoch, unseen_join
from dispatch_audit.pipeline.replay.state.records import Ints
from dispatch_audit.pipeline.replay.timeline.brackets import Side
from dispatch_audit.pipeline.replay.timeline.held_rows import HeldRows
from dispatch_audit.pipeline.replay.timeline.open_changes import OpenChanges
from dispatch_audit.pipeline.replay.timeline.snapshot_views import view_of


class Rows(NamedTuple):
    """Rows under one routing, with the sticky hash of each, -1 where it has none."""

    events: Events
    hashes: Ints


class RefusedChange(NamedTuple):
    """A join or leave that the consumers known so far make impossible."""

    row: MembershipEvent


class DispatcherOpened(NamedTuple):
    """The first consumer of a dispatcher has decided how it works (contract 2, E16)."""

    keeps_order: bool  # whether the subscription promises order
    sticky: bool  # whether consumers declare their ranges
    drains: bool  # whether moved hashes drain (contract 3.1)
    holds_back: bool  # whether recently joined consumers get no new entries (contract 6.1)
    rehashed: bool  # whether keys have other hashes than before


@checkpointed("registered")
class Registered(NamedTuple):
    """A consumer may be sent to from here on, before the end of its join is recorded."""

    at: TracePoint
    row: MembershipEvent


class ConsumerJoined(NamedTuple):
    """A join took effect."""

    at: TracePoint
    consumer: int


@checkpointed("leaving")
class Leaving(NamedTuple):
    """A consumer may be gone from here on."""

    at: TracePoint
    consumer: int


class ConsumerLeft(NamedTuple):
    """A leave took effect, or a restart closed the consumer."""

    at: TracePoint
    consumer: int


@checkpointed("restart_side")
class RestartSide(NamedTuple):
    """A seek, unload or transfer may take effect from here on; or, late, it has."""

    at: TracePoint
    late: bool


class Restarted(NamedTuple):
    """A seek, unload or transfer took effect; a `ConsumerLeft` of each connected consumer follows."""

    at: TracePoint


class EpochBegins(NamedTuple):
    """Another assignment is in force, or the present one is corrected."""

    opened: OpenedEpoch  # the epoch, and what it promises and serves
    at: TracePoint  # the point from which on it is in force
    over_us: int  # the time by which it certainly was, in microseconds; rows may be far apart
    over_seq: int = -1  # the row in front of which it certainly was; -1: at once


@checkpointed("mark_delete_side")
class MarkDeleteSide(NamedTuple):
    """An administrator moves mark-delete here or later (E6); or, late, has moved it."""

    at: TracePoint
    late: bool


@checkpointed("gap_side")
class GapSide(NamedTuple):
    """Rows are missing from here on; or, late, all that follow are there again, unless another gap goes on."""

    at: TracePoint
    gap: Gap
    late: bool


@checkpointed("settings_side")
class SettingsSide(NamedTuple):
    """The values of a row may be in force from here on; or, late, they are."""

    at: TracePoint
    row: SettingsRow
    late: bool


@checkpointed("snapshot_side")
class SnapshotSide(NamedTuple):
    """The broker took a snapshot here or later; or, late, here or earlier."""

    at: TracePoint
    snapshot: Snapshot
    late: bool


Planned: TypeAlias = Registered | Leaving | RestartSide | MarkDeleteSide | GapSide | SettingsSide | SnapshotSide
"""The steps of single rows, whose points are known as soon as the row is."""

Step: TypeAlias = (
    Planned | Rows | RefusedChange | DispatcherOpened | ConsumerJoined | ConsumerLeft | Restarted | EpochBegins
)


def _due(step: Planned) -> tuple[int, bool]:
    """The order of steps: at one point snapshots come last, whichever row was first."""
    return step.at.seq, isinstance(step, SnapshotSide)


@checkpointed("planned_steps")
class PlannedSteps:
    """The steps that are not due yet, in the order in which they will be."""

    __slots__ = ("_changes", "_early", "_held", "_refused", "_skew_us", "_steps", "held_us", "joins_missing_from")

    def __init__(self, held: HeldRows, changes: OpenChanges, skew_us: int, complete_from_start: bool) -> None:
        self.held_us = max(skew_us, SNAPSHOT_LATE_US)  # for how long rows are held back at least, in microseconds
        self._held = held
        self._changes = changes
        self._skew_us = skew_us
        self._steps: list[Planned] = []
        self._early: list[MembershipEvent] = []  # leaves of consumers whose joins may come within the skew
        self._refused: list[MembershipEvent] = []
        self.joins_missing_from = NEVER if complete_from_start else -1  # from this row on joins may be missing

    def take(self, seq: int, shown_by: Collection[int]) -> list[Planned]:
        """Removes and returns the steps that are due up to and including the row `seq`.

        Those of snapshots that were taken at this row, but after a change that follows (`shown_by`), stay planned.
        """
        if not self._steps or self._steps[0].at.seq > seq:
            return []
        count = bisect_right(self._steps, (seq, True), key=_due)
        due: list[Planned] = []
        later: list[Planned] = []
        for step in self._steps[:count]:
            looks = isinstance(step, SnapshotSide) and step.snapshot.seq in shown_by
            (later if looks and step.at.seq == seq else due).append(step)
        self._steps[:count] = later
        return due

    def take_refused(self, certain_us: int) -> list[MembershipEvent]:
        """The rows that the known consumers make impossible; the join of a leave before `certain_us` cannot follow."""
        refused = [*self._refused, *(row for row in self._early if row.ts_us < certain_us)]
        self._refused, self._early = [], [row for row in self._early if row.ts_us >= certain_us]
        return refused

    def add_gap(self, gap: Gap) -> None:
        """Plans both ends of a gap."""
        if gap.loses_members:
            self.joins_missing_from = min(self.joins_missing_from, gap.seq)
        self._add(GapSide(TracePoint(gap.seq, gap.ts_us), gap, late=False))
        self._add(GapSide(TracePoint(gap.until_seq, gap.ts_us), gap, late=True))

    def _add(self, step: Planned) -> None:
        insort(self._steps, step, key=_due)

    def add_settings(self, row: SettingsRow) -> None:
        """Plans when the values of a row come into force."""
        here = TracePoint(row.seq, row.ts_us)
        if row.seq_begin < row.seq and self._held.newest is not None:
            # Rows of the last `held_us` are still held; findings of older ones are looked at again.
            held_back = self._held.point_before(row.ts_us - self.held_us)
            begin = max(held_back, TracePoint(row.seq_begin, self._held.ts_us_after(row.seq_begin, row.ts_us)))
            self._add(SettingsSide(min(begin, here), row, late=False))
        self._add(SettingsSide(here, row, late=True))

    def add_snapshot(self, snapshot: Snapshot) -> None:
        """Plans the comparison of a snapshot with the moments between which it was taken."""
        # Only rows of the last `held_us` are certainly held, however the trace is cut.
        if self._held.are_after(snapshot.seq_begin, snapshot.ts_us - self.held_us):
            return
        taken_us = min(snapshot.ts_us, self._held.ts_us_after(snapshot.seq_end, snapshot.ts_us))
        since, until = (TracePoint(min(seq, snapshot.seq), taken_us) for seq in (snapshot.seq_begin, snapshot.seq_end))
        self._add(SnapshotSide(since, snapshot, late=False))
        self._add(SnapshotSide(until, snapshot, late=True))
        self._changes.views.append(view_of(snapshot, since, until))
        if snapshot.seq > self.joins_missing_from:
            brackets = self._changes.brackets
            for consumer in snapshot.consumers:
                if not brackets.named(consumer.consumer):
                    brackets.presume(unseen_join(snapshot, consumer))

    def add_change(self, row: MembershipEvent) -> None:
        """Takes the next join, leave or reset."""
        here = TracePoint(row.seq, row.ts_us)
        if row.kind == "reset" and row.reason not in RESTARTS:
            self._add(MarkDeleteSide(here, row.late))
            return
        side = self._changes.brackets.add(row)
        if side is Side.EARLY:
            self._early.append(row)
            return
        if side is Side.REFUSED:
            self._refused.append(row)
        elif side is Side.FIRST:
            # If the early side is missing, the change may have begun earlier by up to the recorder skew.
            vague = row.late or row.reason == CLOSED_BY_BROKER
            since = self._held.point_before(row.ts_us - self._skew_us) if vague else here
            if row.kind == "join":
                self._register(row)
            elif row.kind == "leave":
                self._add(Leaving(since, row.consumer))
            else:
                self._add(RestartSide(since.not_before(row.ts_us - self._skew_us), late=False))
        if row.kind == "reset" and row.late and side is not Side.REPEATED:
            self._add(RestartSide(here, late=True))

    def _register(self, join: MembershipEvent) -> None:
        """Plans the beginning of a join, and of a leave of the same consumer that was recorded before it."""
        # The hooks run on different threads: the consumer may be sent to before its join is recorded.
        registered = self._held.point_before(join.ts_us - self._skew_us)
        self._add(Registered(registered, join))
        earlier = [row for row in self._early if row.consumer == join.consumer]
        self._early = [row for row in self._early if row.consumer != join.consumer]
        for row in earlier:
            if row.ts_us < join.ts_us - self._skew_us:
                self._refused.append(row)
            elif self._changes.brackets.add(row) is Side.FIRST:
                self._add(Leaving(registered, row.consumer))
