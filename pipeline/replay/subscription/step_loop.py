"""Applies the steps of a membership to the dispatcher of one subscription, and compares snapshots with it."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np

from dispatch_audit.pipeline.checkpointed import checkpointed
from dispatch_audit.pipeline.replay.blocking.consumer_availability import short_until_us
from dispatch_audit.pipeline.replay.config import ReplayConfig
from dispatch_audit.pipeline.replay.dispatcher.claimed_limits import ContradictedLimit
from dispatch_audit.pipeline.replay.dispatcher.dispatcher import Dispatcher
from dispatch_audit.pipeline.replay.durations import SNAPSHOT_LAG_US
from dispatch_audit.pipeline.replay.evidence.reported_assignments import ReportedAssignments
from dispatch_audit.pipeline.replay.evidence.settings_evidence import ComparedSettings, SettingsEvidence, may_be_other
from dispatch_audit.pipeline.replay.membership import steps
from dispatch_audit.pipeline.replay.membership.membership import Membership
from dispatch_audit.pipeline.replay.packing.events import Code, Events, among
from dispatch_audit.pipeline.replay.packing.gap import Gap
from dispatch_audit.pipeline.replay.packing.hashes import rows_of_sample
from dispatch_audit.pipeline.replay.packing.membership_rows import MembershipEvent, TracePoint
from dispatch_audit.pipeline.replay.packing.repeated_rows import IMPOSSIBLE_TRANSITION, UNKNOWN_CONSUMER, Refused
from dispatch_audit.pipeline.replay.packing.snapshot import Snapshot
from dispatch_audit.pipeline.replay.settings.settings_in_force import SettingsInForce
from dispatch_audit.pipeline.replay.settings.settings_row import SettingsRow
from dispatch_audit.pipeline.replay.snapshots.comparison import Comparison
from dispatch_audit.pipeline.replay.state.records import NOBODY, Ints
from dispatch_audit.pipeline.replay.state.state import DISPATCHES, highest_position
from dispatch_audit.pipeline.replay.subscription.cold_start import ColdStart, MissingRows
from dispatch_audit.pipeline.replay.subscription.new_dispatcher import new_dispatcher
from dispatch_audit.pipeline.replay.subscription.snapshot_check import SnapshotCheck
from dispatch_audit.pipeline.replay.timeline.undecided_ranges import UndecidedRanges

_MEMBERSHIP: Final = among(Code.JOIN_START, Code.JOIN_END, Code.LEAVE_START, Code.LEAVE_END)


class Observer(Protocol):
    """Looks at the dispatcher between two rows, and changes nothing. A replay with one has no checkpoint."""

    def replay(self, dispatcher: Dispatcher, events: Events, hashes: Ints, consumers: Ints) -> list[ContradictedLimit]:
        """Calls `dispatcher.replay` on the rows, cut where the observer looks, and returns the results together."""

    def finish(self, dispatcher: Dispatcher, doubts: UndecidedRanges) -> None:
        """Takes a last look, before the dispatcher closes what is open, and takes the hashes whose owners are open."""


@checkpointed("step_loop")
@dataclass(eq=False, slots=True, init=False)
class StepLoop:
    """The replay of one subscription: the steps of its membership, applied to its dispatcher one after the other."""

    dispatcher: Dispatcher  # the entries and their state
    membership: Membership  # who was connected, and who owned which hash; the steps come from it
    short_until_us: dict[int, int]  # when each consumer that left had no permits, or was at its limit, last
    cold_start: ColdStart  # which rows may be judged
    snapshots: SnapshotCheck  # the comparison with the broker's snapshots
    missing: MissingRows  # what is missing of the rows
    settings: ComparedSettings  # the settings that rows and snapshots were compared with
    reported: ReportedAssignments  # how far snapshots report the assignment that follows from the selector
    limits: SettingsEvidence  # the evidence on limits of unacknowledged messages, and on delayed delivery
    # The row from which on the dispatcher may be of another kind than the profile; None: none.
    other_dispatcher_seq: int | None
    _config: ReplayConfig
    _observer: Observer | None
    _recorded_late: bool | None
    _refused: list[Refused]
    _settings_seen: bool

    def __init__(self, config: ReplayConfig, observer: Observer | None) -> None:
        self.dispatcher = new_dispatcher(config)
        self.membership = Membership(config)
        self.short_until_us = {}
        self.cold_start = ColdStart(config.complete_from_start, max(config.skew_us, SNAPSHOT_LAG_US))
        profile = config.profile
        self.snapshots = SnapshotCheck(Comparison(config))
        self.missing = MissingRows(config.complete_from_start)
        self.settings = ComparedSettings()
        self.reported = ReportedAssignments(profile.dispatcher == "draining")
        self.limits = SettingsEvidence()
        self.other_dispatcher_seq = None
        self._config = config
        self._observer = observer
        self._recorded_late = None
        self._refused = []
        self._settings_seen = False

    @property
    def in_force(self) -> SettingsInForce:
        """The settings at the point up to which rows were replayed."""
        return self.dispatcher.monitor.in_force

    def apply(self, following: Iterable[steps.Step]) -> None:  # noqa: PLR0912 - one case for each kind of step
        """Applies the steps that follow, in their order; this is the only place that changes the dispatcher."""
        dispatcher = self.dispatcher
        for step in following:
            match step:
                case steps.Rows(events, hashes):
                    self._replay(events, hashes)
                case steps.RefusedChange(row):
                    self._refuse(row)
                case steps.DispatcherOpened():
                    self._open(step)
                case steps.Registered(_, row):
                    dispatcher.register_consumer(row.consumer)
                case steps.ConsumerJoined(at, consumer):
                    dispatcher.connect(consumer, at)
                case steps.Leaving(_, consumer):
                    dispatcher.begin_leaving(consumer)
                case steps.ConsumerLeft(at, consumer):
                    index = dispatcher.consumers.of[consumer]
                    self.short_until_us[consumer] = short_until_us(dispatcher.seen, index, at.ts_us)
                    dispatcher.disconnect(consumer, at)
                case steps.RestartBegins(at):
                    dispatcher.begin_reset(at)
                case steps.Restarted(at):
                    dispatcher.restart(at)
                    self.cold_start.restart()
                    if self.cold_start.known:
                        self.missing.settle(at)  # no earlier entry is pending in the new dispatcher
                    self._note_known(at)
                case steps.RestartOver(at):
                    dispatcher.end_reset(at)
                case steps.EpochBegins():
                    self._route(step)
                case steps.MarkDeleteMoves(at, over):
                    dispatcher.skip(at, over)
                case steps.GapBegins(at, gap):
                    self._begin_gap(gap, at)
                case steps.GapEnds(at, gap):
                    self._lose_settings(gap, at)
                    self.cold_start.end_gap(gap)
                case steps.SettingsAnnounced(at, row):
                    with dispatcher.settings_changing(at):
                        self.in_force.announce(row)
                case steps.SettingsBegin(at, row):
                    self._put_settings(row, at)
                case steps.SnapshotBegins(at, snapshot):
                    self.snapshots.begin(snapshot, at, dispatcher, self.membership.owners.epochs.ranges)
                case steps.SnapshotEnds(at, snapshot):
                    self._look(snapshot, at)

    def _open(self, step: steps.DispatcherOpened) -> None:
        if self.other_dispatcher_seq is None and may_be_other(self.in_force, self._config.profile):
            self.other_dispatcher_seq = self.membership.released.seq + 1
        self.dispatcher.open(step.keeps_order, step.sticky, step.drains, step.holds_back)
        if step.rehashed:
            self.dispatcher.rehash(self.membership.owners.sticky)

    def _route(self, step: steps.EpochBegins | None) -> None:
        if step is not None:
            opened = step.opened
            self.dispatcher.route(opened.promised, step.at, step.over_us, opened.served, step.over_seq)

    def _note_known(self, at: TracePoint) -> None:
        if self.cold_start.known:
            self.membership.owners.note_known(at)

    def _refuse(self, row: MembershipEvent) -> None:
        """Refuses a row that the consumers known so far make impossible."""
        if row.kind == "join":
            self._refused.append(Refused(row.seq, IMPOSSIBLE_TRANSITION, "has already joined", row.consumer))
        elif row.seq >= self.membership.joins_missing_from:
            self.cold_start.censored += 1
        else:
            self._refuse_unknown(row.seq, row.consumer)

    def _refuse_unknown(self, seq: int, consumer: int) -> None:
        self._refused.append(Refused(seq, UNKNOWN_CONSUMER, "has no join before this row", consumer))

    def _replay(self, events: Events, hashes: Ints) -> None:
        """Replays rows under the routing in force; rows of consumers that never joined are refused, or censored."""
        if not self._config.sample.is_all:
            sampled = rows_of_sample(events, hashes, self._config.sample, known=self._recorded_late is not None)
            events, hashes = events.take(sampled), hashes[sampled]
        acted = (events.consumer >= 0) & ~_MEMBERSHIP[events.code]
        consumers = self.dispatcher.consumers.indexes(events.consumer)
        strange = acted & (consumers == NOBODY)
        if np.count_nonzero(strange):
            for at in np.flatnonzero(strange & (events.part == 0) & (events.seq < self.membership.joins_missing_from)):
                self._refuse_unknown(int(events.seq[at]), int(events.consumer[at]))
        self._recognise(events)
        self.membership.one_sided.note_traffic(events)
        admitted = self.cold_start.admitted(events, strange)
        if np.count_nonzero(admitted) < admitted.size:
            events, hashes, consumers = events.take(admitted), hashes[admitted], consumers[admitted]
        if self._observer is None:
            contradicted = self.dispatcher.replay(events, hashes, consumers)
        else:
            contradicted = self._observer.replay(self.dispatcher, events, hashes, consumers)
        if self._config.sample.is_all and not self.membership.one_sided.of_traffic:
            for limit in contradicted:
                self.settings.contradict(self.limits.contradicted(limit, self.in_force))
        self._route(self.membership.owners.look(events, hashes, bool(self._recorded_late)))

    def _recognise(self, events: Events) -> None:
        """Notes, at the first dispatch, whether the recorder writes decisions to dispatch or only their ends."""
        if self._recorded_late is None:
            starts = events.has(Code.DISPATCH_START)
            # The decision may be missing in a gap.
            if starts or (events.has(Code.DISPATCH_END) and not self.cold_start.interrupted):
                self._recorded_late = not starts
                late_us = 0 if starts else self._config.skew_us
                self.dispatcher.policy = self.dispatcher.policy._replace(unordered_us=late_us)

    def _begin_gap(self, gap: Gap, at: TracePoint) -> None:
        """Ends what is open, and judges nothing that rows of the gap may explain."""
        cold_start, dispatcher = self.cold_start, self.dispatcher
        was_judged = cold_start.settled or cold_start.interrupted
        highest = highest_position(dispatcher.seen)
        dispatcher.interrupt(at)
        if not was_judged:
            dispatcher.monitor.disregard(at.seq)
            dispatcher.monitor.suspend()
        self._lose_settings(gap, at)
        cold_start.begin_gap(gap, highest)
        self.missing.begin(gap, at)

    def _put_settings(self, row: SettingsRow, at: TracePoint) -> None:
        """Puts the values of a row in force."""
        self._settings_seen = True
        with self.dispatcher.settings_changing(at):
            rates = self.in_force.claimed_rates()
            self.limits.put(row, self.in_force, self.dispatcher)
            if self.in_force.claimed_rates() != rates and self.in_force.rates():
                self.dispatcher.monitor.stalls.rates_said(row.seq_begin, row.seq)

    def _lose_settings(self, gap: Gap, at: TracePoint) -> None:
        """Notes that rows `settings` may be missing; a recorder that has written none so far may write none at all."""
        if gap.loses_settings or (gap.may_lose_settings and self._settings_seen):
            with self.dispatcher.settings_changing(at):
                self.in_force.lose()

    def _look(self, snapshot: Snapshot, at: TracePoint) -> None:
        """Compares a snapshot, which the broker took here or earlier."""
        self.limits.look(snapshot)
        membership, owners = self.membership, self.membership.owners
        if self.snapshots.began_with(snapshot) == owners.epochs.ranges:
            self._route(owners.learn(snapshot, at))
            self.snapshots.assume(snapshot, owners.epochs.ranges)
        seen = self.snapshots.end(snapshot, at, self.dispatcher, owners)
        before, now = seen.before.ranges, seen.after.ranges
        passed = before == now and self.cold_start.look(snapshot, membership.connected, now)
        # Where an administrator moves mark-delete, the broker may drop the entries below a little later (E6).
        if passed and self.snapshots.agrees(seen, self.dispatcher):
            self._settle(at)
        self._note_known(at)
        determined = self.cold_start.known
        if owners.routes_by_selector and (determined or not self.cold_start.interrupted):
            self.reported.note(snapshot, [before, now], determined)
        if self.cold_start.settled:
            self.snapshots.compare(seen, at, self.dispatcher, membership.one_sided)

    def _settle(self, at: TracePoint) -> None:
        """Notes that the rows that are there explain everything that the broker does from here on."""
        self.cold_start.settled = True
        if self.cold_start.interrupted:
            self.dispatcher.monitor.intervals.resume(at.seq)
        else:
            self.dispatcher.monitor.disregard(at.seq)
        self.missing.settle(at)

    def disown(self, because: str) -> None:
        """Leaves open who owned any hash, for a reason as a clause: the selector is not the broker's."""
        self.membership.owners.disown(because, int(self.dispatcher.checked[DISPATCHES]))
        self.snapshots.comparison.doubt(because)

    def finish(self) -> None:
        """Lets the observer look once more before the dispatcher closes what is open."""
        if self._observer is not None:
            self._observer.finish(self.dispatcher, self.membership.owners.doubts)

    def forget(self, reported_seq: int, recent_us: int, now_us: int) -> None:
        """Drops what was reported up to a row and is not newer than `recent_us`; the last row came at `now_us`."""
        self.membership.owners.forget(now_us)
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
