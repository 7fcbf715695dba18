"""The replay that a timeline drives: what rows, membership changes, gaps and snapshots do to a subscription."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from dispatch_audit.pipeline.assignment.join_orders import Precedence
from dispatch_audit.pipeline.assignment.possibly_empty import may_be_empty
from dispatch_audit.pipeline.assignment.ranges.membership_change import Change
from dispatch_audit.pipeline.assignment.ranges.observed import NO_DISPATCHES, Behind
from dispatch_audit.pipeline.checkpointed import checkpointed
from dispatch_audit.pipeline.replay.evidence.compared_settings import ComparedSettings
from dispatch_audit.pipeline.replay.evidence.limit_evidence import LimitEvidence
from dispatch_audit.pipeline.replay.evidence.reported_assignments import ReportedAssignments
from dispatch_audit.pipeline.replay.packing.events import Code, Events, among
from dispatch_audit.pipeline.replay.packing.gap import Gap
from dispatch_audit.pipeline.replay.packing.membership_rows import MembershipEvent, TracePoint
from dispatch_audit.pipeline.replay.packing.refused import IMPOSSIBLE_TRANSITION, UNKNOWN_CONSUMER, Refused
from dispatch_audit.pipeline.replay.packing.snapshot import Snapshot
from dispatch_audit.pipeline.replay.settings.settings_in_force import SettingsInForce
from dispatch_audit.pipeline.replay.settings.settings_row import SettingsRow
from dispatch_audit.pipeline.replay.state.state import DISPATCHES, NOBODY, Ints
from dispatch_audit.pipeline.replay.subscription.cold_start import ColdStart
from dispatch_audit.pipeline.replay.subscription.config import ReplayConfig
from dispatch_audit.pipeline.replay.subscription.epoch_history import OpenedEpoch
from dispatch_audit.pipeline.replay.subscription.hash_owners import HashOwners
from dispatch_audit.pipeline.replay.subscription.missing_rows import MissingRows
from dispatch_audit.pipeline.replay.subscription.new_dispatcher import new_dispatcher
from dispatch_audit.pipeline.replay.subscription.result import Stay
from dispatch_audit.pipeline.replay.subscription.snapshot_check import SnapshotCheck
from dispatch_audit.pipeline.replay.timeline.brackets import Bracket
from dispatch_audit.pipeline.replay.timeline.change_points import Bounds, Evidence, Ordered
from dispatch_audit.pipeline.replay.timeline.given_up import NOTHING_GIVEN_UP, GivenUp
from dispatch_audit.pipeline.replay.timeline.one_sided_recording import OneSidedRecording
from dispatch_audit.pipeline.replay.timeline.reported_ranges import view_of
from dispatch_audit.pipeline.replay.timeline.timeline import SNAPSHOT_LAG_US

_MEMBERSHIP: Final = among(Code.JOIN_START, Code.JOIN_END, Code.LEAVE_START, Code.LEAVE_END)
_STARTS: Final = among(Code.DISPATCH_START)
_ENDS: Final = among(Code.DISPATCH_END)


@checkpointed("replay_stage")
class ReplayStage:
    """The `Stage` of one subscription: its consumers, the owners of its hashes and its dispatcher together.

    Attributes:
        dispatcher: the entries and what became of them.
        owners: who owns which hash.
        stays: the time for which each consumer was connected, by the trace's number.
        cold_start: which rows may be judged.
        snapshots: the comparison with the broker's snapshots.
        missing: the gaps.
        one_sided: the sides of rows that the recorder does not write.
        settings: the settings that rows and snapshots were compared with.
        reported: how far snapshots report the assignment that follows from the selector.
        limits: the limits of unacknowledged messages among them.
    """

    __slots__ = (
        "_certain_us",
        "_config",
        "_perhaps_empty",
        "_recorded_late",
        "_refused",
        "_settings_seen",
        "cold_start",
        "dispatcher",
        "limits",
        "missing",
        "one_sided",
        "owners",
        "reported",
        "settings",
        "snapshots",
        "stays",
    )

    def __init__(self, config: ReplayConfig) -> None:
        """Starts in front of the first row."""
        self.dispatcher = new_dispatcher(config)
        self.owners = HashOwners(config)
        self.stays: dict[int, Stay] = {}
        self.cold_start = ColdStart(config.complete_from_start, max(config.skew_us, SNAPSHOT_LAG_US))
        self.snapshots = SnapshotCheck(self.dispatcher, lazy_return=config.profile.draining_return == "lazy")
        self.missing = MissingRows(config.complete_from_start)
        self.one_sided = OneSidedRecording()
        self.settings = ComparedSettings()
        self.reported = ReportedAssignments(drains=config.profile.dispatcher == "draining")
        self.limits = LimitEvidence()
        self._config = config
        self._recorded_late: bool | None = None
        # From this time on, a dispatch of which only the end is recorded was decided under the assignment in force.
        self._certain_us = 0
        self._perhaps_empty = False  # whether nobody may be connected among the changes that take effect
        self._refused: list[Refused] = []
        self._settings_seen = False

    @property
    def in_force(self) -> SettingsInForce:
        """The settings at the point up to which rows were replayed."""
        return self.dispatcher.monitor.in_force

    def finish(self) -> None:
        """Runs once at the end of the trace, before the dispatcher closes what is open."""

    def forget(self, reported_seq: int, recent_us: int, now_us: int) -> None:
        """Drops what was reported, except what later verdicts may need.

        Args:
            reported_seq: the last row up to which everything was reported.
            recent_us: what is newer is kept.
            now_us: the time of the last row.
        """
        self.owners.forget(now_us)
        self.dispatcher.forget(reported_seq, recent_us)
        self.cold_start.censored = self.cold_start.censored_by_gaps = 0
        self.missing.forget(recent_us)
        self.limits.forget(recent_us)
        self.settings.forget()
        self.snapshots.forget(reported_seq, recent_us, self.dispatcher.draining)

    def take_refused(self) -> list[Refused]:
        """The rows refused since the last call."""
        taken, self._refused = self._refused, []
        return taken

    def register_consumer(self, row: MembershipEvent, at: TracePoint) -> None:
        """Adds a consumer, which may be sent to before the end of its join is recorded."""
        self.stays[row.consumer] = Stay(row)
        self.dispatcher.register_consumer(row.consumer)

    def depends_on_earlier_rows(self) -> bool:
        """Whether all rows before must be replayed before changes enter the assignment and consumers are added.

        The first consumer decides the selector and the policy, and rows may show owners that are open. The wait of a
        recently joined consumer ends in front of the next row, or with the last one of a stretch.
        """
        return not self.owners.has_consumers or bool(self.owners.doubts) or self.dispatcher.holds_back

    def choose_selector(self, changes: Sequence[Bracket]) -> bool:
        """Chooses the selector for the changes that come next; the first consumer of a dispatcher decides it.

        Returns:
            Whether rows have other hashes now.
        """
        first_join = next((change.row for change in changes if change.row.kind == "join"), None)
        return first_join is not None and not self.owners.has_consumers and self._suit_selector(first_join)

    def _suit_selector(self, row: MembershipEvent) -> bool:
        """Sets the selector and the policy that the first consumer of a dispatcher decides (contract 2, E16)."""
        draining = self._config.profile.dispatcher == "draining"
        self.dispatcher.open(
            keeps_order=not row.out_of_order,
            sticky=row.sticky,
            drains=draining and not row.sticky and not row.out_of_order,
            holds_back=not draining and not row.out_of_order,
        )
        if not self.owners.choose_selector(row.sticky):
            return False
        self.dispatcher.rehash(self.owners.sticky)
        return True

    def update_assignment(
        self,
        changes: Sequence[Bracket],
        bounds: Sequence[Bounds],
        precedes: Precedence,
        behind: Behind,
        passages: Sequence[tuple[int, int]],
    ) -> Ordered:
        """Adds changes to the assignment, and returns them in a possible order; their points are located later."""
        entered = [_change(bracket) for bracket in changes]
        self.one_sided.note_changes(changes, bounds)
        self._perhaps_empty = len(changes) > 1 and may_be_empty(self._connected(), entered, precedes)
        seqs = [bracket.row.seq for bracket in changes]
        return self.owners.enter(entered, seqs, bounds, precedes, behind, passages)

    def commit_change(self, change: Bracket, at: TracePoint, given_up: GivenUp) -> None:
        """Applies a change; the broker too changes the assignment first (contract 3.5, 3.6)."""
        row, dispatcher = change.row, self.dispatcher
        # The point has the time of the row in front of the change, which may be long before it.
        at = _not_before(at, change.bounds_ts_us(self._config.skew_us)[0])
        if self._perhaps_empty:
            dispatcher.note_counts_lost()
        if row.kind == "join":
            self.stays[row.consumer].joined = at
            dispatcher.connect(row.consumer, at)
            self.snapshots.cleared.begin(dispatcher.consumers.of[row.consumer], at)
        elif row.kind == "leave":
            self._leave(row.consumer, at, row.reason)
            self.stays[row.consumer].perhaps_last = self._perhaps_empty
        else:
            dispatcher.restart(at)
            for number in self._connected():
                self._leave(number, at, row.reason)
            self.cold_start.restart()
            self._note_known(at)
        over_us = max(at.ts_us, change.bounds_ts_us(self._config.skew_us)[1])
        self._certain_us = max(self._certain_us, over_us + self._config.skew_us)
        self._route(self.owners.epochs.begin(at), at, over_us, given_up)

    def _route(
        self, epoch: OpenedEpoch | None, at: TracePoint, over_us: int, given_up: GivenUp = NOTHING_GIVEN_UP
    ) -> None:
        if epoch is not None:
            self.dispatcher.route(epoch.promised, at, over_us, epoch.served, given_up)

    def _connected(self) -> set[int]:
        return {number for number, stay in self.stays.items() if stay.joined is not None and stay.left is None}

    def _note_known(self, at: TracePoint) -> None:
        if self.cold_start.known and self.owners.epochs.known_since is None:
            self.owners.epochs.known_since = at.seq

    def _leave(self, number: int, at: TracePoint, reason: str) -> None:
        stay = self.stays[number]
        if stay.left is None:
            stay.left, stay.leave_reason = at, reason
            stay.short_until_us = self.dispatcher.short_until_us(number, at)
            self.dispatcher.disconnect(number, at)

    def begin_leaving(self, row: MembershipEvent, at: TracePoint) -> None:
        """Notes that a consumer may be gone from here on."""
        self.dispatcher.begin_leaving(row.consumer)

    def begin_reset(self, row: MembershipEvent, at: TracePoint) -> None:
        """Notes that a reset may take effect from here on."""
        self.dispatcher.begin_reset(_not_before(at, row.ts_us - self._config.skew_us))

    def end_reset(self, row: MembershipEvent, at: TracePoint) -> None:
        """Notes that the reset has taken effect."""
        self.dispatcher.end_reset(at)

    def begin_skip(self, row: MembershipEvent, at: TracePoint) -> None:
        """Notes that an administrator moves mark-delete at about this row."""
        self.dispatcher.begin_skip(at)

    def refuse(self, row: MembershipEvent) -> None:
        """Refuses a row that the consumers known so far make impossible."""
        if row.kind == "join":
            detail = f"consumer {row.consumer} has already joined"
            self._refused.append(Refused(row.seq, IMPOSSIBLE_TRANSITION, detail))
        elif self.cold_start.refuses_leave(row.seq >= self.missing.joins_missing_from):
            self._refuse_unknown(row.seq, row.consumer)

    def _refuse_unknown(self, seq: int, consumer: int) -> None:
        detail = f"consumer {consumer} has no join before this row"
        self._refused.append(Refused(seq, UNKNOWN_CONSUMER, detail))

    def hashes(self, events: Events) -> Ints:
        """The sticky hash of each row, -1 where it has no key."""
        return self.owners.hashes(events)

    def replay(self, events: Events, hashes: Ints) -> None:
        """Replays rows under the routing in force; rows of consumers that never joined are refused, or censored."""
        acted = (events.consumer >= 0) & ~_MEMBERSHIP[events.code]
        consumers = self.dispatcher.consumers.indexes(events.consumer)
        strange = acted & (consumers == NOBODY)
        if strange.any():
            for at in np.flatnonzero(strange & (events.part == 0) & (events.seq < self.missing.joins_missing_from)):
                self._refuse_unknown(int(events.seq[at]), int(events.consumer[at]))
        self._recognise(events)
        self.one_sided.note_traffic(events)
        admitted = self.cold_start.admitted(events, strange)
        if not admitted.all():
            events, hashes, consumers = events.take(admitted), hashes[admitted], consumers[admitted]
        self._dispatch(events, hashes, consumers)
        if self.owners.doubts and events.seq.size:
            self._look_at_owners(events, hashes)

    def _dispatch(self, events: Events, hashes: Ints, consumers: Ints) -> None:
        self.dispatcher.replay(events, hashes, consumers)
        for found in self.dispatcher.take_contradicted():
            if not self.one_sided.of_traffic:
                self.settings.contradict(self.limits.contradicted(found, self.in_force))

    def _look_at_owners(self, events: Events, hashes: Ints) -> None:
        late, at = bool(self._recorded_late), TracePoint(int(events.seq[-1]), int(events.ts_us[-1]))
        sent = (_ENDS if late else _STARTS)[events.code]
        sent &= hashes >= 0
        self.owners.count_undecided(events.seq[sent], hashes[sent])
        if late:
            sent &= events.ts_us > self._certain_us
        seen = Evidence(events.seq[sent], hashes[sent], events.consumer[sent], late)
        self._route(self.owners.look(seen, at), at, at.ts_us)

    def _recognise(self, events: Events) -> None:
        """Notes, at the first dispatch, whether the recorder writes decisions to dispatch or only their ends."""
        if self._recorded_late is None:
            starts = bool(_STARTS[events.code].any())
            # The decision may be missing in a gap.
            if starts or (bool(_ENDS[events.code].any()) and not self.cold_start.interrupted):
                self._recorded_late = not starts
                late_us = 0 if starts else self._config.skew_us
                self.dispatcher.policy = self.dispatcher.policy._replace(unordered_us=late_us)

    def disown(self, because: str) -> None:
        """Leaves open who owned any hash, for a reason as a clause: the selector is not the broker's."""
        self.owners.disown(because, int(self.dispatcher.checked[DISPATCHES]))
        self.snapshots.comparison.doubt(because)

    def begin_gap(self, gap: Gap, at: TracePoint) -> None:
        """Ends what is open, and judges nothing that rows of the gap may explain."""
        cold_start, dispatcher = self.cold_start, self.dispatcher
        was_judged = cold_start.settled or cold_start.interrupted
        highest = dispatcher.highest_position
        dispatcher.interrupt(at)
        self.snapshots.cleared.interrupt()
        if not was_judged:
            dispatcher.monitor.disregard(at.seq)
            dispatcher.monitor.suspend()
        if gap.loses_members:
            # A snapshot or a reset shows the consumers again.
            self.owners.interrupt()
        self._lose_settings(gap, at)
        cold_start.begin_gap(highest, gap.loses_members)
        self.missing.begin(gap, at)

    def end_gap(self, gap: Gap, at: TracePoint) -> None:
        """Notes that all rows are there again, unless another gap goes on."""
        self._lose_settings(gap, at)
        if self.missing.is_last(gap):
            self.cold_start.end_gap(gap.until_seq)

    def announce_settings(self, row: SettingsRow, at: TracePoint) -> None:
        """Notes that the values of a row may be in force from here on."""
        self.in_force.announce(row)
        self.dispatcher.settings_changed(at)

    def put_settings(self, row: SettingsRow, at: TracePoint) -> None:
        """Puts the values of a row in force."""
        self._settings_seen = True
        self.limits.put(row, self.in_force, self.dispatcher)
        self.dispatcher.settings_changed(at)

    def _lose_settings(self, gap: Gap, at: TracePoint) -> None:
        """Notes that rows `settings` may be missing; a recorder that has written none so far may write none at all."""
        if gap.loses_settings or (gap.may_lose_settings and self._settings_seen):
            self.in_force.lose()
            self.dispatcher.settings_changed(at)

    def begin_snapshot(self, snapshot: Snapshot, at: TracePoint) -> None:
        """Notes that the broker took a snapshot here or later."""
        self.snapshots.begin(snapshot, at, self.dispatcher, self.owners.epochs.ranges)

    def end_snapshot(self, snapshot: Snapshot, at: TracePoint) -> None:
        """Compares a snapshot, which the broker took here or earlier."""
        self.limits.look(snapshot)
        epochs, doubts = self.owners.epochs, self.owners.doubts
        unchanged = self.snapshots.began_with(snapshot) == epochs.ranges and not epochs.waiting
        reported = view_of(snapshot, at, at).reported() if self.owners.are_open and unchanged else None
        if reported is not None:
            self._route(self.owners.learn(Behind(reported, NO_DISPATCHES), at), at, at.ts_us)
            self.snapshots.assume(snapshot, epochs.ranges)
        moments = self.snapshots.end(snapshot, at, self.dispatcher, epochs.ranges)
        before, after = moments
        interrupted = self.cold_start.interrupted and not self.cold_start.settled
        agrees = not interrupted or self.snapshots.agrees(snapshot, moments, self.dispatcher, doubts)
        if before.ranges == after.ranges and self.cold_start.look(snapshot, self._connected(), after.ranges, agrees):
            if interrupted:
                self.dispatcher.monitor.resume(at.seq)
            else:
                self.dispatcher.monitor.disregard(at.seq)
            self.missing.settle(at)
        self._note_known(at)
        determined = self.cold_start.known
        if self.owners.routes_by_selector and (determined or not self.cold_start.interrupted):
            self.reported.note(snapshot, [moment.ranges for moment in moments], determined)
        if self.cold_start.settled:
            self.snapshots.compare(snapshot, moments, at, self.dispatcher, doubts, self.one_sided)


def _not_before(at: TracePoint, ts_us: int) -> TracePoint:
    """The point, at a time that is not before `ts_us`."""
    return at._replace(ts_us=max(at.ts_us, ts_us))


def _change(bracket: Bracket) -> Change:
    row = bracket.row
    # Only the rows of a join must contain the name and the declared ranges of a consumer.
    joined = row if bracket.join is None else bracket.join.row
    return Change(row.kind, row.consumer, joined.name, joined.ranges)
