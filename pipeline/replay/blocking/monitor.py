"""Collects the intervals of waiting, the starved hashes and the capacity samples whenever the kernel stops.

It reads the state of the dispatcher, and writes the memory of waits (`state.waits`) only. What it keeps is bounded: the
costliest intervals of each scope and cause.
"""

from collections.abc import Collection, Mapping
from dataclasses import InitVar, dataclass, field
from typing import Final

import numpy as np

from dispatch_audit.pipeline.checkpointed import checkpointed
from dispatch_audit.pipeline.packing.membership_rows import TracePoint
from dispatch_audit.pipeline.packing.snapshot import Position, Snapshot
from dispatch_audit.pipeline.replay.blocking.attribution import Blocked, Interval
from dispatch_audit.pipeline.replay.blocking.capacity_samples import Sample, sample
from dispatch_audit.pipeline.replay.blocking.consumer_availability import (
    blocked_consumer,
    may_be_unwritable,
    note_reported,
)
from dispatch_audit.pipeline.replay.blocking.kept_intervals import KeptIntervals
from dispatch_audit.pipeline.replay.blocking.passed_over import STARVED, OwnershipMoves
from dispatch_audit.pipeline.replay.blocking.recently_joined import RecentlyJoined
from dispatch_audit.pipeline.replay.blocking.stalls.doubts import is_certain, is_unknown
from dispatch_audit.pipeline.replay.blocking.stalls.reported import Reports
from dispatch_audit.pipeline.replay.blocking.stalls.situation import Situation
from dispatch_audit.pipeline.replay.blocking.stalls.unsettled import UnsettledStalls
from dispatch_audit.pipeline.replay.blocking.stalls.watch import StallWatch
from dispatch_audit.pipeline.replay.settings.broker_limits import BrokerLimits, Thresholds, in_force_of
from dispatch_audit.pipeline.replay.settings.settings_in_force import UNACKED_PER_CONSUMER, SettingsInForce
from dispatch_audit.pipeline.replay.state.memories import WAIT
from dispatch_audit.pipeline.replay.state.output import (
    GIVES_UP,
    INTERVAL_OVER,
    INTERVALS,
    PASSES,
    RELEASED,
    SAMPLE,
    STALLED,
    By,
    KernelInterval,
    Output,
)
from dispatch_audit.pipeline.replay.state.records import NOBODY, UNKNOWN, plain, record_of
from dispatch_audit.pipeline.replay.state.state import Seen, SeenByBlocking, common_of
from dispatch_audit.pipeline.replay.state.values import BY_SNAPSHOTS, Cause

# Causes of a consumer; the others are causes of a hash.
_CONSUMER_CAUSES: Final = (Cause.NO_PERMITS, Cause.UNACKED_LIMIT_CONSUMER)

_PAUSES: Final = "dispatcherPauseOnAckStatePersistentEnabled"


@checkpointed("blocking_monitor")
@dataclass(eq=False, slots=True)
class BlockingMonitor:
    """The waiting in one subscription.

    Attributes:
        limits: the limits of the broker.
        in_force: the settings at the point up to which rows were replayed.
        samples: the samples of the capacity, in order.
        intervals: the kept intervals, without the stalls that are not settled.
        stalls: the stalls that later dispatches may explain.
        moves: the moves of hashes that are in use.
        recent: the recently joined consumers (3.x and classic).
        reports: what snapshots say.
    """

    limits: BrokerLimits
    _thresholds: Thresholds
    in_force: SettingsInForce
    skew_us: InitVar[int]
    _sampled: bool = False  # rows have some of the hashes only
    samples: list[Sample] = field(default_factory=list)
    intervals: KeptIntervals = field(init=False)
    stalls: UnsettledStalls = field(init=False)
    moves: OwnershipMoves = field(default_factory=OwnershipMoves)
    recent: RecentlyJoined = field(init=False)
    reports: Reports = field(default_factory=Reports)
    _watch: StallWatch = field(init=False)
    # The switch during the open waits: those that a row of settings ends are judged by its value before the row.
    _pauses: bool = field(init=False)

    def __post_init__(self, skew_us: int) -> None:
        self.intervals = KeptIntervals(self._thresholds.intervals_max)
        self.stalls = UnsettledStalls(self.in_force, self.intervals)
        self.recent = RecentlyJoined(self.intervals, self._thresholds.as_pip_282)
        self._watch = StallWatch(self._thresholds.stall_threshold_us, skew_us)
        self._pauses = self.in_force.is_on(_PAUSES)

    @property
    def passed_over(self) -> list[Blocked]:
        """The hashes that could be served and were not."""
        return [wait for wait in self.intervals.all() if wait.is_passed_over]

    @property
    def blocked(self) -> list[Blocked]:
        """The intervals, in the order of their beginnings; of a sample those of hashes."""
        kept = [wait for wait in self.intervals.all() if not wait.is_passed_over] + self.stalls.waiting
        if self._sampled:
            # What a consumer or all of them wait for depends on entries of other hashes.
            kept = [interval for interval in kept if interval.scope == "hash"]
        return sorted(kept, key=lambda b: (b.span.from_ts, b.span.from_seq, b.scope, b.cause, b.hash, b.consumer))

    def settings_changed(self) -> None:
        """Takes over the limits that may be in force from here on."""
        self.limits = in_force_of(self.limits, self.in_force)
        self._pauses = self.in_force.is_on(_PAUSES)

    def forget_causes(self, causes: Collection[str]) -> None:
        """Drops the intervals of causes that cannot be: the broker does not have the limit."""
        self.intervals.forget_causes(causes)
        self._watch.forget_causes(causes)

    def disregard(self, before_seq: int) -> None:
        """Drops everything so far, and intervals that began before this row, because rows before it are unknown."""
        self.samples.clear()
        self.stalls.waiting.clear()
        self.intervals.disregard(before_seq)

    def suspend(self) -> None:
        """Notes no interval from here on: rows are missing that would show why entries wait."""
        self.intervals.suspend()
        self._watch.suspend()
        self.stalls.interrupted()

    def forget(self, reported_seq: int, recent_us: int) -> None:
        """Drops what ended up to the row `reported_seq`, paces of before `recent_us`, and all samples but the last."""
        # The next row of `capacity` begins at the last sample.
        self.samples = self.samples[-1:]
        self.intervals.forget(reported_seq)
        self.stalls.forget(reported_seq, recent_us)

    def stopped(self, state: SeenByBlocking, out: Output, at: TracePoint, named: Position) -> None:
        """Notes why the kernel has stopped in front of the row `at`, which names an entry, and clears the reason."""
        reason, out.stop[0] = int(out.stop[0]), 0
        if reason == SAMPLE:
            self._sample(state, at)
        elif reason == STALLED:
            self.stalls.note(self._watch.dispatched(self._situation(state), at, named))
        elif reason == GIVES_UP:
            self.stalls.note(self._watch.before_release(self._situation(state), at))
        elif reason == PASSES:
            # It passed them after the snapshot before at the earliest.
            shown = TracePoint(at.seq, int(common_of(state)["shown_ts"]))
            self.members_change(state, shown, By.MARK_DELETE)
        elif reason == RELEASED:
            self.members_change(state, at, By.ACK)
            self.recent.release(state, at)
        elif reason == INTERVAL_OVER:
            self.take_intervals(state, out)

    def take_intervals(self, state: SeenByBlocking, out: Output) -> None:
        """Takes the intervals that the kernel has reported, and empties its output of them."""
        if not out.filled[INTERVALS]:
            return
        out.stop[0] = 0
        for row in plain(out.intervals.view(np.ndarray)[: out.filled[INTERVALS]], KernelInterval):
            interval = Interval(row.from_seq, row.from_ts, row.to_seq, row.to_ts, row.ended_by)
            if row.cause == STARVED:
                self._starved(state, row, interval)
            elif row.cause in _CONSUMER_CAUSES and row.hash == UNKNOWN:
                self._available(state, row, interval)
            else:
                self.intervals.note([_hash_wait(row, interval)])
        out.filled[INTERVALS] = 0

    def members_change(self, state: SeenByBlocking, at: TracePoint, ended_by: int) -> None:
        """Looks why nothing is sent; call before consumers join, leave or become available and hide it."""
        self.stalls.note(self._watch.before_change(self._situation(state), at, ended_by))

    def idle_over(self, state: SeenByBlocking, at: TracePoint, ended_by: int) -> None:
        """Notes a stall that ends without a dispatch; call before its end changes the state.

        The leave of the last consumer, a reset, a gap, the end of the trace, and the join of the first consumer end it.
        """
        self.stalls.note(self._watch.over(self._situation(state), at, ended_by))

    def reported(self, state: SeenByBlocking, snapshot: Snapshot, consumers: Mapping[int, int]) -> None:
        """Takes what a snapshot says of the broker's state; `consumers` has their indexes by their numbers."""
        self.reports.take(snapshot, consumers, int(common_of(state)["blocks_at"]))
        of_known = (c for c in snapshot.consumers if c.consumer in consumers)
        unacked = {consumers[c.consumer]: c.unacked for c in of_known if c.unacked is not None}
        note_reported(state, unacked, self.reports.last.short, TracePoint(snapshot.seq, snapshot.ts_us))
        if snapshot.in_replay is not None and not self._sampled:
            self.samples.append(sample(state, snapshot.ts_us, self.limits, snapshot.in_replay))
            record_of(state.waits.common, WAIT)["next_sample_ts"] = snapshot.ts_us + self._thresholds.sample_us

    def _sample(self, state: SeenByBlocking, at: TracePoint) -> None:
        # The first stop comes before the first row, when the state is empty.
        waits = record_of(state.waits.common, WAIT)
        if waits["next_sample_ts"] > 0 and not (self.intervals.suspended or self._sampled):
            self.samples.append(sample(state, at.ts_us, self.limits, None))
        waits["next_sample_ts"] = at.ts_us + self._thresholds.sample_us

    def _situation(self, state: SeenByBlocking) -> Situation:
        """What is true at this point, for a time in which nothing was sent and that ends here."""
        pauses_at = self.limits.ack_holes if self._pauses else 0
        threshold_us, said = self._thresholds.stall_threshold_us, self.reports.last
        return Situation(state, said, self.recent, threshold_us, self.limits, pauses_at, self.in_force)

    def _available(self, state: SeenByBlocking, row: KernelInterval, interval: Interval) -> None:
        """Notes the interval of a consumer that is available again; it may have caused a stall until now."""
        self.members_change(state, TracePoint(interval.to_seq, interval.to_ts), interval.ended_by)
        reported = self.reports.since_rewound
        self.intervals.note(blocked_consumer(state, row.consumer, Cause(row.cause).word, interval, reported))

    def _starved(self, state: SeenByBlocking, row: KernelInterval, interval: Interval) -> None:
        by_others = row.passed_by != row.consumer
        if (
            row.consumer == NOBODY
            # Consumers of the older dispatcher that hold others back are not known for certain (6.1).
            or (by_others and (self.recent.applies or self._is_unwritable(state, row.consumer, interval)))
            or not self.intervals.is_known(interval)
            or self.intervals.is_found_later(interval)
        ):
            return
        head, passed = (row.ledger, row.entry), (row.passed_ledger, row.passed_entry)
        # Until a recently joined consumer is released, what it is held back from is not passed over (6.1).
        released_us = self.recent.held_until_us(row.consumer)
        could_be_sent_us = [interval.from_ts + row.unavailable_us, released_us, row.takes_since_ts]
        if by_others or common_of(state)["permits_known_by"] == BY_SNAPSHOTS:
            # Snapshots may show that it had no permits although rows grant some, or no row says how many it got since.
            could_be_sent_us.append(self.reports.without_permits_us(row.consumer))
        if by_others or state.consumers[row.consumer].uncounted > 0:
            # The broker does not read for a blocked consumer, although it may send it something (4.2, 4.8). If it
            # counts more than rows show (F10, E6), it may have blocked it at other times.
            could_be_sent_us.append(row.blocked_until_ts)
        nobody_us = self.stalls.nobody_passed_us(interval.from_ts, row.passed_ts)
        passed_over_us = row.passed_ts - max(could_be_sent_us) - nobody_us
        if passed_over_us >= self._thresholds.stall_threshold_us and passed > head:
            limit, in_force = UNACKED_PER_CONSUMER, self.in_force
            # What waits for others may be in front of it in replay.
            symptom = "head_of_replay" if common_of(state)["waiting"] > row.waiting else ""
            open_limit = [limit] if row.holds and not is_certain(state, in_force, limit) else []
            detail = {
                "passed": passed,
                "passed_ts": row.passed_ts,
                "passed_by": row.passed_by,
                "registered": row.registered,
                "moves": self.moves.of(row.hash),
                "rests_on": open_limit,
                "unknown": open_limit if is_unknown(state, in_force, limit) else [],
                "symptom": "counted_as_draining_again" if row.registered > 1 else symptom,
                # Later entries were sent, so that sending went on and permits were there.
                "went_on": True,
                "with_permits": 1,
                "doubt": "",
                "oldest_since_seq": UNKNOWN,
            }
            drained = row.drained_from != NOBODY and not self.recent.applies
            cause = Cause.DRAINING_STUCK if drained else Cause.UNEXPLAINED
            cost = row.waiting, row.waiting * (interval.to_ts - interval.from_ts), (head,)
            wait = Blocked("hash", cause.word, row.hash, row.consumer, row.drained_from, interval, *cost, detail)
            self.intervals.keep(wait)

    def _is_unwritable(self, state: Seen, consumer: int, interval: Interval) -> bool:
        """Whether the broker may have sent a consumer nothing because its connection took nothing."""
        return self.limits.unwritable_takes_nothing and bool(may_be_unwritable(state, interval.from_seq)[consumer])


def _hash_wait(row: KernelInterval, interval: Interval) -> Blocked:
    """The waiting interval of a hash, from the kernel's report."""
    waited = row.waiting, row.waited_us, ((row.ledger, row.entry),)
    return Blocked("hash", Cause(row.cause).word, row.hash, row.consumer, NOBODY, interval, *waited, {})
