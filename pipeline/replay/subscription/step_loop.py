"""Applies the steps of a membership to the dispatcher of one subscription, and compares snapshots with it."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np

from dispatch_audit.pipeline.checkpointed import checkpointed
from dispatch_audit.pipeline.packing.events import Code, Events, among
from dispatch_audit.pipeline.packing.gap import Gap
from dispatch_audit.pipeline.packing.hashes import rows_of_sample
from dispatch_audit.pipeline.packing.membership_rows import MembershipEvent, TracePoint
from dispatch_audit.pipeline.packing.repeated_rows import IMPOSSIBLE_TRANSITION, UNKNOWN_CONSUMER, Refused
from dispatch_audit.pipeline.packing.snapshot import Snapshot
from dispatch_audit.pipeline.replay.blocking.consumer_availability import short_until_us
from dispatch_audit.pipeline.replay.blocking.monitor import BlockingMonitor
from dispatch_audit.pipeline.replay.config import ReplayConfig
from dispatch_audit.pipeline.replay.dispatcher.claimed_limits import ContradictedLimit
from dispatch_audit.pipeline.replay.dispatcher.dispatcher import Dispatcher
from dispatch_audit.pipeline.replay.durations import SNAPSHOT_LAG_US
from dispatch_audit.pipeline.replay.evidence.settings_evidence import (
    ReportedAssignments,
    SettingsEvidence,
    may_be_other,
)
from dispatch_audit.pipeline.replay.membership import steps
from dispatch_audit.pipeline.replay.membership.membership import Membership
from dispatch_audit.pipeline.replay.settings.settings_in_force import SettingsInForce
from dispatch_audit.pipeline.replay.snapshots.comparison import Comparison
from dispatch_audit.pipeline.replay.state.records import NOBODY, Ints
from dispatch_audit.pipeline.replay.state.state import DISPATCHES, Policy, highest_position
from dispatch_audit.pipeline.replay.state.values import SETS_COUNT, SETS_DELETE, SETS_IGNORED
from dispatch_audit.pipeline.replay.subscription.cold_start import ColdStart
from dispatch_audit.pipeline.replay.subscription.snapshot_check import SnapshotCheck
from dispatch_audit.pipeline.replay.timeline.undecided_ranges import UndecidedRanges

_MEMBERSHIP: Final = among(Code.JOIN_START, Code.JOIN_END, Code.LEAVE_START, Code.LEAVE_END)
_NO_JOIN: Final = "has no join before this row"
_BATCH_INDEX_ACKS: Final = "acknowledgmentAtBatchIndexLevelEnabled"
_DELAY_TICK_MS: Final = 1000
"""The default of delayedDeliveryTickTimeMillis in every release."""


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
    reported: ReportedAssignments  # how far snapshots report the assignment that follows from the selector
    settings: SettingsEvidence  # what rows and snapshots show of settings
    # The row from which on the dispatcher may be of another kind than the profile; None: none.
    other_dispatcher_seq: int | None
    _config: ReplayConfig
    _observer: Observer | None
    _recorded_late: bool | None  # whether only the ends of dispatches are recorded; None: there was no dispatch yet
    _refused: list[Refused]
    _settings_seen: bool

    def __init__(self, config: ReplayConfig, observer: Observer | None) -> None:
        self.dispatcher = _new_dispatcher(config)
        self.membership = Membership(config)
        self.short_until_us = {}
        self.cold_start = ColdStart(config.complete_from_start, max(config.skew_us, SNAPSHOT_LAG_US))
        self.snapshots = SnapshotCheck(Comparison(config))
        self.reported = ReportedAssignments(config.profile.dispatcher == "draining")
        self.settings = SettingsEvidence()
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

    def apply(self, following: Iterable[steps.Step]) -> None:  # noqa: PLR0912, PLR0915 - one case for each kind of step
        """Applies the steps that follow, in their order; this is the only place that changes the dispatcher."""
        dispatcher = self.dispatcher
        for step in following:
            match step:
                case steps.Rows(events, hashes):
                    self._replay(events, hashes)
                case steps.RefusedChange(row):
                    self._refuse(row)
                case steps.DispatcherOpened(keeps_order, sticky, drains, holds_back, rehashed):
                    if self.other_dispatcher_seq is None and may_be_other(self.in_force, self._config.profile):
                        self.other_dispatcher_seq = self.membership.released.seq + 1
                    dispatcher.open(keeps_order, sticky, drains, holds_back)
                    if rehashed:
                        dispatcher.rehash(self.membership.owners.sticky)
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
                case steps.RestartSide(at, late=False):
                    dispatcher.begin_reset(at)
                case steps.Restarted(at):
                    dispatcher.restart(at)
                    self.cold_start.restart(at)
                    self._note_known(at)
                case steps.RestartSide(at):
                    dispatcher.end_reset(at)
                case steps.EpochBegins():
                    self._route(step)
                case steps.MarkDeleteSide(at, late):
                    dispatcher.skip(at, late)
                case steps.GapSide(at, gap, late=False):
                    self._begin_gap(gap, at)
                case steps.GapSide(at, gap):
                    self._lose_settings(gap, at)
                    self.cold_start.end_gap(gap)
                case steps.SettingsSide(at, row, late=False):
                    with dispatcher.settings_changing(at):
                        self.settings.announce(at, row, self.in_force, dispatcher)
                case steps.SettingsSide(at, row):
                    self._settings_seen = True
                    with dispatcher.settings_changing(at):
                        self.settings.put(row, self.in_force, dispatcher)
                case steps.SnapshotSide(at, snapshot, late=False):
                    self.snapshots.begin(snapshot, at, dispatcher, self.membership.owners.epochs.ranges)
                case steps.SnapshotSide(at, snapshot):
                    self._look(snapshot, at)

    def _route(self, step: steps.EpochBegins | None) -> None:
        if step is not None:
            opened = step.opened
            self.dispatcher.route(opened.promised, step.at, step.over_us, opened.served, step.over_seq)

    def _note_known(self, at: TracePoint) -> None:
        epochs = self.membership.owners.epochs
        if self.cold_start.known and epochs.known_since is None:
            epochs.known_since = at.seq

    def _refuse(self, row: MembershipEvent) -> None:
        """Refuses a row that the consumers known so far make impossible."""
        if row.kind == "join":
            self._refused.append(Refused(row.seq, IMPOSSIBLE_TRANSITION, "has already joined", row.consumer))
        elif row.seq >= self.membership.planned.joins_missing_from:
            self.cold_start.censored += 1
        else:
            self._refused.append(Refused(row.seq, UNKNOWN_CONSUMER, _NO_JOIN, row.consumer))

    def _replay(self, events: Events, hashes: Ints) -> None:
        """Replays rows under the routing in force; rows of consumers that never joined are refused, or censored."""
        if not self._config.sample.is_all:
            sampled = rows_of_sample(events, hashes, self._config.sample, known=self._recorded_late is not None)
            events, hashes = events.take(sampled), hashes[sampled]
        acted = (events.consumer >= 0) & ~_MEMBERSHIP[events.code]
        consumers = self.dispatcher.consumers.indexes(events.consumer)
        strange = acted & (consumers == NOBODY)
        if np.count_nonzero(strange):
            refused = strange & (events.part == 0) & (events.seq < self.membership.planned.joins_missing_from)
            rows = zip(events.seq[refused].tolist(), events.consumer[refused].tolist(), strict=True)
            self._refused += [Refused(seq, UNKNOWN_CONSUMER, _NO_JOIN, consumer) for seq, consumer in rows]
        if self._recorded_late is None:
            starts = events.has(Code.DISPATCH_START)
            # The decision may be missing in a gap.
            if starts or (events.has(Code.DISPATCH_END) and not self.cold_start.interrupted):
                self._recorded_late = not starts
                late_us = 0 if starts else self._config.skew_us
                self.dispatcher.policy = self.dispatcher.policy._replace(unordered_us=late_us)
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
                self.settings.contradict_limit(limit, self.in_force)
        self._route(self.membership.owners.look(events, hashes, bool(self._recorded_late)))

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
        cold_start.begin_gap(gap, at, highest)

    def _lose_settings(self, gap: Gap, at: TracePoint) -> None:
        """Notes that rows `settings` may be missing; a recorder that has written none so far may write none at all."""
        if gap.loses_settings or (gap.may_lose_settings and self._settings_seen):
            with self.dispatcher.settings_changing(at):
                self.in_force.lose()

    def _look(self, snapshot: Snapshot, at: TracePoint) -> None:
        """Compares a snapshot, which the broker took here or earlier."""
        self.settings.look(snapshot)
        membership, owners = self.membership, self.membership.owners
        begun = self.snapshots.begun[snapshot.seq]
        if begun.ranges == owners.epochs.ranges:
            # The snapshot itself may show other ranges for that moment.
            self._route(owners.learn(snapshot, at))
            self.snapshots.begun[snapshot.seq] = begun._replace(ranges=owners.epochs.ranges)
        seen = self.snapshots.end(snapshot, at, self.dispatcher, owners)
        before, now = seen.before.ranges, seen.after.ranges
        passed = before == now and self.cold_start.look(snapshot, membership.connected, now)
        # Where an administrator moves mark-delete, the broker may drop the entries below a little later (E6).
        if passed and self.snapshots.agrees(seen, self.dispatcher):
            self.cold_start.settled = True
            if self.cold_start.interrupted:
                self.dispatcher.monitor.intervals.resume(at.seq)
            else:
                self.dispatcher.monitor.disregard(at.seq)
            self.cold_start.explain(at)
        self._note_known(at)
        determined = self.cold_start.known
        if owners.routes_by_selector and (determined or not self.cold_start.interrupted):
            self.reported.note(snapshot, [before, now], determined)
        if self.cold_start.settled:
            self.snapshots.compare(seen, at, self.dispatcher, membership.one_sided)

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
        self.cold_start.forget(recent_us)
        self.settings.forget(recent_us)
        self.snapshots.forget(reported_seq, recent_us, self.dispatcher.draining)

    def take_refused(self) -> list[Refused]:
        """The rows refused since the last call."""
        taken, self._refused = self._refused, []
        return taken


def _new_dispatcher(config: ReplayConfig) -> Dispatcher:
    """A dispatcher without entries and consumers; the first consumer decides the rest of its policy."""
    delay_tick_ms = config.broker.get("delayedDeliveryTickTimeMillis")
    if not isinstance(delay_tick_ms, int) or delay_tick_ms < 0:
        delay_tick_ms = _DELAY_TICK_MS
    policy = Policy(
        skew_us=config.skew_us,
        unordered_us=0,
        mark_delete_releases=config.profile.mark_delete_releases == "any",
        keeps_order=True,
        sticky=False,
        report_min_us=config.thresholds.report_min_us,
        stall_threshold_us=config.thresholds.stall_threshold_us,
        delay_tick_us=delay_tick_ms * 1000,
    )
    # A client sends ack sets for a broker that counts them, unless the trace says that it does not.
    ack_sets = SETS_IGNORED if _BATCH_INDEX_ACKS in config.given else SETS_DELETE
    if config.broker.get(_BATCH_INDEX_ACKS) is True:
        ack_sets = SETS_COUNT
    exceptions, sampled = config.profile.exceptions, not config.sample.is_all
    monitor = BlockingMonitor(config.limits, config.thresholds, config.settings_in_force(), config.skew_us, sampled)
    return Dispatcher(policy, config.open_entries_max, monitor, ack_sets, exceptions, sampled)
