"""Collects the intervals of waiting, the starved hashes and the capacity samples whenever the kernel stops.

It reads the state of the dispatcher, and writes the memory of waits (`state.waits`) only. What it keeps is bounded: the
costliest intervals of each scope and cause.
"""

import heapq
from collections import Counter, defaultdict, deque
from collections.abc import Collection, Mapping
from dataclasses import InitVar, dataclass, field
from functools import partial

import numpy as np

from dispatch_audit.pipeline.assignment import Routing
from dispatch_audit.pipeline.checkpointed import checkpointed
from dispatch_audit.pipeline.entry_point import EntryPoint
from dispatch_audit.pipeline.replay.blocking.attribution import Blocked, Interval
from dispatch_audit.pipeline.replay.blocking.capacity_samples import Sample, ack_holes, sample
from dispatch_audit.pipeline.replay.blocking.consumer_availability import STARVED, note_reported
from dispatch_audit.pipeline.replay.blocking.consumer_waits import blocked_consumer
from dispatch_audit.pipeline.replay.blocking.recently_joined import RecentlyJoined
from dispatch_audit.pipeline.replay.blocking.sendable import Ended
from dispatch_audit.pipeline.replay.blocking.stall_symptoms import Reported
from dispatch_audit.pipeline.replay.blocking.stall_watch import StallWatch
from dispatch_audit.pipeline.replay.blocking.stalls import Situation, StallKind, is_finding, kind_of
from dispatch_audit.pipeline.replay.blocking.starved_hashes import (
    OwnershipMove,
    StarvedHash,
    StarvedHashes,
    moves_in_use,
)
from dispatch_audit.pipeline.replay.blocking.thresholds import Thresholds
from dispatch_audit.pipeline.replay.blocking.unshown.limits import UNSHOWN_LOOK_AHEAD
from dispatch_audit.pipeline.replay.blocking.unshown.rate_limits import HORIZON_US, DispatchPace, RecentDispatches, Sent
from dispatch_audit.pipeline.replay.blocking.unshown.replay_levels import ReplayLevels
from dispatch_audit.pipeline.replay.packing.membership_rows import NEVER, TracePoint
from dispatch_audit.pipeline.replay.packing.snapshot import Position, Snapshot
from dispatch_audit.pipeline.replay.settings.broker_limits import LOOK_AHEAD, BrokerLimits, in_force_of
from dispatch_audit.pipeline.replay.settings.settings_in_force import DispatchRate, SettingsInForce
from dispatch_audit.pipeline.replay.state.causes import Cause
from dispatch_audit.pipeline.replay.state.memories import WAIT
from dispatch_audit.pipeline.replay.state.output import (
    BY_ACK,
    GIVES_UP,
    INTERVAL,
    INTERVAL_OVER,
    INTERVALS,
    RELEASED,
    SAMPLE,
    STALLED,
    STILL_OPEN,
    Output,
)
from dispatch_audit.pipeline.replay.state.records import NOBODY, UNKNOWN, record_of
from dispatch_audit.pipeline.replay.state.seen import Seen, SeenByBlocking
from dispatch_audit.pipeline.replay.state.state import common_of

_moves_in_use = EntryPoint(moves_in_use)

# Causes of a consumer; the others are causes of a hash.
_CONSUMER_CAUSES = (Cause.NO_PERMITS, Cause.UNACKED_LIMIT_CONSUMER)

# The number of moves of one hash that are remembered.
_MOVES_MAX = 16

_BY_ENTRY = "dispatchThrottlingOnBatchMessageEnabled"
_PAUSES = "dispatcherPauseOnAckStatePersistentEnabled"

# The values in `detail` that only a stall without a cause has.
_OF_STALLS = ("symptom", "owners_matter", "could_be_sent", "backlog_known", "joins_known", "may_pause", "unshown")

BY_TRAFFIC = "the traffic, not by a setting"
"""In `detail`: who shows a rate limit that no setting claims."""

# A record of `output.INTERVAL`, by the name of the field.
_Row = Mapping[str, int]

# The number of stalls and of changes of rate limits that are remembered: of stalls, so that a hash that was passed over
# besides is not found for their time.
_STALLS_MAX = 64


@checkpointed("blocking_monitor")
@dataclass(eq=False, slots=True)
class BlockingMonitor:
    """The waiting in one subscription.

    Attributes:
        samples: of the capacity, in order.
        starved: the starved hashes.
        left_out: the number of intervals that were not kept, by scope and cause.
        stalls_beyond: those of them that are findings (`stalls.is_finding`), by the facts that decide their verdict.
        recent: the recently joined consumers (3.x and classic).
        limits: of the broker.
        in_force: the settings at the point up to which rows were replayed.
        open_until: the end of the window while its open intervals are noted and the trace goes on; else None.
    """

    limits: BrokerLimits
    _thresholds: Thresholds
    in_force: SettingsInForce
    skew_us: InitVar[int]
    samples: list[Sample] = field(default_factory=list)
    starved: StarvedHashes = field(init=False)
    left_out: Counter[tuple[str, str]] = field(default_factory=Counter)
    stalls_beyond: Counter[StallKind] = field(default_factory=Counter)
    recent: RecentlyJoined = field(init=False)
    open_until: TracePoint | None = None
    _blocked: defaultdict[tuple[str, str], list[tuple[int, int, Blocked]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    _noted: int = 0
    _moves: dict[int, deque[OwnershipMove]] = field(default_factory=dict)
    _watch: StallWatch = field(init=False)
    _last_stalls: deque[Interval] = field(default_factory=lambda: deque(maxlen=_STALLS_MAX))
    # Stalls that dispatches after them may show to be pauses of a rate limit.
    _unsettled: list[Blocked] = field(default_factory=list)
    _pace: DispatchPace = field(default_factory=DispatchPace)
    # As it was during the waits that are open: those that a row of settings ends had the switch of before.
    _pauses: bool = field(init=False)
    _levels: ReplayLevels = field(default_factory=ReplayLevels)
    _recent_dispatches: RecentDispatches = field(default_factory=RecentDispatches)
    _rates: tuple[DispatchRate, ...] = ()
    _rates_of: int = -1
    _rates_by_time: deque[tuple[int, tuple[DispatchRate, ...]]] = field(
        default_factory=lambda: deque(maxlen=_STALLS_MAX)
    )
    _since_seq: int = -1

    def __post_init__(self, skew_us: int) -> None:
        self.starved = StarvedHashes(self._thresholds.intervals_max)
        self.recent = RecentlyJoined(self._thresholds.as_pip_282)
        self._watch = StallWatch(self._thresholds.stall_threshold_us, skew_us)
        self._pauses = self.in_force.is_on(_PAUSES)

    @property
    def blocked(self) -> list[Blocked]:
        """The intervals, in the order of their beginnings."""
        kept = [interval for heap in self._blocked.values() for _, _, interval in heap] + self._unsettled
        return sorted(kept, key=lambda b: (b.span.from_ts, b.span.from_seq, b.scope, b.cause, b.hash, b.consumer))

    def settings_changed(self) -> None:
        """Takes over the limits that may be in force from here on."""
        self.limits = in_force_of(self.limits, self.in_force)
        self._pauses = self.in_force.is_on(_PAUSES)

    def forget_causes(self, causes: Collection[str]) -> None:
        """Drops the intervals of causes that were none: the broker does not have the limit."""
        for scope, cause in [kind for kind in self._blocked if kind[1] in causes]:
            del self._blocked[scope, cause]
            self.left_out.pop((scope, cause), None)
        self._watch.forget_causes(causes)

    def disregard(self, before_seq: int) -> None:
        """Drops everything so far, and intervals that began before this row, because rows before it are unknown."""
        self.samples.clear()
        self.starved.clear()
        self.left_out.clear()
        self.stalls_beyond.clear()
        self._blocked.clear()
        self._unsettled.clear()
        self._since_seq = before_seq

    def suspend(self) -> None:
        """Notes no interval from here on: rows are missing that would show why entries wait."""
        self._since_seq = NEVER
        self._watch.suspend()
        self._pace.interrupted()
        self._recent_dispatches.forget()

    def resume(self, seq: int) -> None:
        """Notes intervals again that begin at this row or later; keeps those from before `suspend`."""
        self._since_seq = seq

    def forget(self, reported_seq: int, recent_us: int) -> None:
        """Drops intervals up to the row `reported_seq`, paces of before `recent_us`, and all samples but the last."""
        # The next row of `capacity` begins at the last sample.
        self.samples = self.samples[-1:]
        self.left_out.clear()
        self.stalls_beyond.clear()
        for kind, heap in self._blocked.items():
            self._blocked[kind] = [ranked for ranked in heap if ranked[2].span.to_seq > reported_seq]
            heapq.heapify(self._blocked[kind])
        self._unsettled = [stall for stall in self._unsettled if stall.span.to_seq > reported_seq]
        self._pace.forget(recent_us)
        self.starved.forget(reported_seq)

    def stopped(self, state: SeenByBlocking, out: Output, at: TracePoint, named: Position) -> None:
        """Notes why the kernel has stopped in front of the row `at`, which names an entry, and clears the reason."""
        reason, out.stop[0] = int(out.stop[0]), 0
        if reason == SAMPLE:
            self._sample(state, at)
        elif reason == STALLED:
            self._note_stalls(self._watch.dispatched(state, at, named, partial(self._situation, state, None)))
        elif reason == GIVES_UP:
            self._watch.before_release(state, at, partial(self._situation, state, None))
        elif reason == RELEASED:
            self.members_change(state, at, BY_ACK)
            self._note_all(self.recent.release(state, at, BY_ACK))
        elif reason == INTERVAL_OVER:
            self.take_intervals(state, out)

    def take_intervals(self, state: SeenByBlocking, out: Output) -> None:
        """Takes the intervals that the kernel has reported, and empties its output of them."""
        if not out.filled[INTERVALS]:
            return
        out.stop[0] = 0
        # As plain numbers: one by one the fields of records cost several times as much.
        for values in out.intervals.view(np.ndarray)[: out.filled[INTERVALS]].tolist():
            row: _Row = dict(zip(INTERVAL.names or (), values, strict=True))
            interval = Interval(*(row[name] for name in Interval._fields))
            if row["cause"] == STARVED:
                self._starved(state, row, interval)
            elif row["cause"] in _CONSUMER_CAUSES and row["hash"] == UNKNOWN:
                self._available(state, row, interval)
            else:
                self._note(_hash_wait(row, interval))
        out.filled[INTERVALS] = 0

    def members_change(self, state: SeenByBlocking, at: TracePoint, ended_by: int) -> None:
        """Looks why nothing is sent; call before consumers join, leave or become available and hide it."""
        self._note_stalls(self._watch.before_change(state, at, ended_by, partial(self._situation, state, None)))

    def idle_over(self, state: SeenByBlocking, at: TracePoint, ended_by: int) -> None:
        """Notes a stall that ends without a dispatch; call before its end changes the state.

        The leave of the last consumer, a reset, a gap, the end of the trace, and the join of the first consumer end it.
        """
        self._note_stalls(self._watch.over(state, at, ended_by, partial(self._situation, state, None)))

    def first_joins(self, at: TracePoint) -> None:
        """Notes that a consumer joins while none is connected: the read position was rewound."""
        self._watch.rewound(at.ts_us)

    def ownership_moved(self, state: Seen, before: Routing, at: TracePoint) -> None:
        """Remembers the moves of hashes with pending or waiting entries, after another routing came into force."""
        in_use = np.empty(len(state.hashes), dtype=np.int64)
        moved = np.empty((4, in_use.size), dtype=np.int64)
        used, moves_now = _moves_in_use(state, before, in_use, moved)
        if not used:
            self._moves.clear()
            return
        for gone in self._moves.keys() - set(in_use[:used].tolist()):
            del self._moves[gone]
        # As plain numbers: one by one the elements of arrays cost several times as much.
        for sticky_hash, old, new, held in zip(*moved[:, :moves_now].tolist(), strict=True):
            moves = self._moves.get(sticky_hash)
            if moves is None:
                moves = self._moves[sticky_hash] = deque(maxlen=_MOVES_MAX)
            moves.append(OwnershipMove(at, old, new, held))

    def leave(self, state: SeenByBlocking, consumer: int, at: TracePoint) -> None:
        """Notes the waits of recently joined consumers that end with a leave; call before the leave."""
        self._note_all(self.recent.leave(state, consumer, at))

    def closed(self, state: SeenByBlocking, at: TracePoint, ended_by: int) -> None:
        """Notes the open waits of recently joined consumers; call before the end of the trace or a reset."""
        self._note_all(self.recent.close(state, at, ended_by))

    def reported(self, state: SeenByBlocking, snapshot: Snapshot, consumers: Mapping[int, int]) -> None:
        """Takes what a snapshot says of the broker's state; `consumers` has their indexes by their numbers."""
        self._watch.reported(snapshot, consumers, int(common_of(state)["blocks_at"]))
        of_known = (c for c in snapshot.consumers if c.consumer in consumers)
        unacked = {consumers[c.consumer]: c.unacked for c in of_known if c.unacked is not None}
        note_reported(state, unacked, TracePoint(snapshot.seq, snapshot.ts_us))
        self._count_holes(state, snapshot.ts_us)
        if snapshot.in_replay is not None:
            self.samples.append(sample(state, snapshot.ts_us, self.limits, snapshot.in_replay))
            record_of(state.waits.common, WAIT)["next_sample_ts"] = snapshot.ts_us + self._thresholds.sample_us

    def _sample(self, state: SeenByBlocking, at: TracePoint) -> None:
        # The first stop comes before the first row, when the state is empty.
        waits = record_of(state.waits.common, WAIT)
        self._count_holes(state, at.ts_us)
        if waits["next_sample_ts"] > 0 and self._since_seq != NEVER:
            self.samples.append(sample(state, at.ts_us, self.limits, None))
        waits["next_sample_ts"] = at.ts_us + self._thresholds.sample_us

    def _count_holes(self, state: SeenByBlocking, ts_us: int) -> None:
        if self._pauses_at > 0:
            self._watch.counted(ts_us, ack_holes(state))

    def _situation(
        self, state: SeenByBlocking, ended: Ended | None, interval: Interval, reported: Reported, sent: Position | None
    ) -> Situation:
        of_joins = self.recent.held_back, self.recent.out_of_order(state)
        of_rows = self._look_ahead_is_said(), self.in_force.says_rates()
        about = interval, reported, sent, self._thresholds.stall_threshold_us
        return Situation(*about, self.limits, *of_joins, self._pauses_at, *of_rows, ended)

    @property
    def _pauses_at(self) -> int:
        return self.limits.ack_holes if self._pauses else 0

    def _note_stalls(self, parts: list[Blocked]) -> None:
        for part in parts:
            self._note_stall(part)

    def _note_stall(self, found: Blocked) -> None:
        self._settle(found.span.to_ts - HORIZON_US)
        limit = None
        if is_finding(found):
            if kind_of(found).provable:
                self._last_stalls.append(found.span)
            by_entry = self.in_force.is_on(_BY_ENTRY)
            limit = self._recent_dispatches.explaining(found.span, self._rates_at(found.span.from_ts), by_entry)
        if limit is not None:
            self._note(_limited(found, limit))
        elif is_finding(found):
            self._levels.note(found)
            if self.open_until is not None:
                self._note(self._doubted(found))
            elif found.span.from_seq >= self._since_seq:
                self._unsettled.append(found)
        else:
            self._note(found)

    def dispatched(self, sent: Sent) -> None:
        """Takes the dispatches of the next rows; there may be none."""
        if sent.ts_us.size:
            self._pace.note(sent)
            rates = self._limits_of_rate()
            if not self._rates_by_time or self._rates_by_time[-1][1] != rates:
                self._rates_by_time.append((int(sent.ts_us[0]), rates))
            if rates:
                self._recent_dispatches.note(sent)

    def settle(self) -> None:
        """Notes all stalls; call at the end of the trace or of a window."""
        self._settle(None)

    def _settle(self, until_us: int | None) -> None:
        """Notes the stalls that ended by a time: later dispatches say nothing about them."""
        while self._unsettled and (until_us is None or self._unsettled[0].span.to_ts <= until_us):
            self._keep(self._doubted(self._unsettled.pop(0)))

    def _doubted(self, found: Blocked) -> Blocked:
        """A stall with what other stalls and the pace of dispatches say of it."""
        if not self._look_ahead_is_said() and self._levels.is_usual(found):
            found = found._replace(detail={**found.detail, "unshown": UNSHOWN_LOOK_AHEAD})
        paced = None if self.in_force.rules_out_rates() else self._pace.during(found.span)
        if paced is None:
            return found
        if not paced.certain:
            return found._replace(detail={**found.detail, "paced": paced.messages})
        return _limited(found, {"shown_by": BY_TRAFFIC, "messages": paced.messages})

    def _look_ahead_is_said(self) -> bool:
        """Whether rows say both limits of look-ahead."""
        return all(self.in_force.of(name).said_by_row for name in LOOK_AHEAD)

    def _rates_at(self, ts_us: int) -> tuple[DispatchRate, ...]:
        """The limits that the last dispatch up to a time was charged to: one put in force later has no debt yet."""
        return next((rates for since_us, rates in reversed(self._rates_by_time) if since_us <= ts_us), ())

    def _limits_of_rate(self) -> tuple[DispatchRate, ...]:
        if self._rates_of != self.in_force.changed:
            self._rates, self._rates_of = self.in_force.rates(), self.in_force.changed
        return self._rates

    def _available(self, state: SeenByBlocking, row: _Row, interval: Interval) -> None:
        """Notes the interval of a consumer that is available again; it may have caused a stall until now."""
        at, ended = TracePoint(interval.to_seq, interval.to_ts), Ended(row["consumer"], row["cause"])
        situation_of = partial(self._situation, state, ended)
        self._note_stalls(self._watch.before_change(state, at, interval.ended_by, situation_of))
        reported = self._watch.reported_since_rewound
        self._note_all(blocked_consumer(state, row["consumer"], Cause(row["cause"]).word, interval, reported))

    def _starved(self, state: SeenByBlocking, row: _Row, interval: Interval) -> None:
        by_others = row["passed_by"] != row["consumer"]
        if by_others and self.recent.applies:
            # Consumers of the older dispatcher that hold others back are not known for certain (6.1).
            return
        if row["consumer"] == NOBODY or interval.from_seq < self._since_seq or self._is_found_later(interval):
            return
        head, passed = (row["ledger"], row["entry"]), (row["passed_ledger"], row["passed_entry"])
        passed_over_us = row["passed_ts"] - interval.from_ts - row["unavailable_us"]
        if by_others:
            # Snapshots may show that it had no permits although rows grant some.
            without_us = self._watch.without_permits_us(row["consumer"])
            # For one that is blocked the broker does not read, although it may send it something (4.2, 4.8).
            without_us = max(without_us, row["blocked_until_ts"])
            passed_over_us = min(passed_over_us, row["passed_ts"] - without_us)
        # What it was held back from as recently joined passes nothing over until it is released (6.1).
        passed_over_us = min(passed_over_us, row["passed_ts"] - self.recent.held_until_us(row["consumer"]))
        passed_over_us -= self._stalled_us(interval.from_ts, row["passed_ts"])
        if passed_over_us >= self._thresholds.stall_threshold_us and passed > head:
            moves = tuple(self._moves.get(row["hash"], ()))
            origin = (row["passed_ts"], row["passed_by"], row["drained_from"], row["registered"], moves)
            self.starved.add(StarvedHash(row["hash"], row["consumer"], interval, row["waiting"], head, passed, *origin))

    def _stalled_us(self, from_us: int, to_us: int) -> int:
        """How long nothing was sent to anybody between two times, as far as that is a finding of its own."""
        return sum(max(0, min(stall.to_ts, to_us) - max(stall.from_ts, from_us)) for stall in self._last_stalls)

    def _is_found_later(self, interval: Interval) -> bool:
        """Whether an interval is open at the end of a window; the window in which it ends, or the last, finds it."""
        return self.open_until is not None and interval.ended_by == STILL_OPEN

    def _note_all(self, intervals: list[Blocked]) -> None:
        for interval in intervals:
            self._note(interval)

    def _note(self, interval: Blocked) -> None:
        if interval.span.from_seq < self._since_seq:
            return
        if self.open_until is not None:
            # The next window may continue it: a hash has one interval as long as its cause stays the same.
            open_at = self.open_until
            bounds = interval.span._replace(to_seq=open_at.seq, to_ts=open_at.ts_us, ended_by=STILL_OPEN)
            interval = interval._replace(span=bounds)
        self._keep(interval)

    def _keep(self, interval: Blocked) -> None:
        """Keeps an interval if it is one of the costliest of its cause and scope."""
        heap = self._blocked[interval.scope, interval.cause]
        # The number keeps intervals of equal cost in order, so that the heap never compares intervals.
        self._noted += 1
        ranked = (interval.waited_us, -self._noted, interval)
        if len(heap) < self._thresholds.intervals_max:
            heapq.heappush(heap, ranked)
        else:
            left_out = heapq.heappushpop(heap, ranked)[2]
            self.left_out[left_out.scope, left_out.cause] += 1
            if is_finding(left_out) and not self._is_found_later(left_out.span):
                self.stalls_beyond[kind_of(left_out)] += 1


def _limited(stall: Blocked, limit: dict[str, object]) -> Blocked:
    """The stall as the pause of a rate limit."""
    kept = {name: value for name, value in stall.detail.items() if name not in _OF_STALLS}
    return stall._replace(cause=Cause.DISPATCH_RATE_LIMIT.word, blocking=NOBODY, detail={**kept, **limit})


def _hash_wait(row: _Row, interval: Interval) -> Blocked:
    """The waiting interval of a hash, from the kernel's report."""
    head = ((row["ledger"], row["entry"]),)
    nothing: dict[str, object] = {}
    waited = row["waiting"], row["waited_us"]
    cause = Cause(row["cause"]).word
    return Blocked("hash", cause, row["hash"], row["consumer"], NOBODY, interval, *waited, head, nothing)
