"""Collects the intervals of waiting, the starved hashes and the capacity samples whenever the kernel stops.

It reads the state of the dispatcher. Its memory is bounded: it keeps the costliest intervals of each scope and cause.
"""

import heapq
from collections import Counter, defaultdict, deque
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from dispatch_audit.pipeline.entry_point import EntryPoint
from dispatch_audit.pipeline.replay.blocking.attribution import Blocked, Interval, blocked_consumer
from dispatch_audit.pipeline.replay.blocking.broker_limits import BrokerLimits, in_force_of
from dispatch_audit.pipeline.replay.blocking.capacity_samples import Sample, sample
from dispatch_audit.pipeline.replay.blocking.causes import (
    DRAINING_STUCK,
    NAMES,
    NO_PERMITS,
    UNACKED_LIMIT_CONSUMER,
    UNEXPLAINED,
)
from dispatch_audit.pipeline.replay.blocking.consumer_availability import (
    INTERVAL_OVER,
    RELEASED,
    SAMPLE,
    STALLED,
    STARVED,
)
from dispatch_audit.pipeline.replay.blocking.recently_joined import RecentlyJoined
from dispatch_audit.pipeline.replay.blocking.stalls import Situation, is_finding, stalled
from dispatch_audit.pipeline.replay.blocking.starved_hashes import (
    OwnershipMove,
    StarvedHash,
    StarvedHashes,
    moves_in_use,
)
from dispatch_audit.pipeline.replay.blocking.thresholds import Thresholds
from dispatch_audit.pipeline.replay.packing.membership_rows import TracePoint
from dispatch_audit.pipeline.replay.packing.snapshot import Snapshot
from dispatch_audit.pipeline.replay.settings.settings_in_force import SettingsInForce
from dispatch_audit.pipeline.replay.state.output import BY_ACK, BY_DISPATCH, INTERVAL, INTERVALS, STILL_OPEN, Output
from dispatch_audit.pipeline.replay.state.policy import RoutingArrays
from dispatch_audit.pipeline.replay.state.state import (
    NOBODY,
    UNKNOWN,
    State,
    common_of,
)

_moves_in_use = EntryPoint(moves_in_use)

# Causes of a consumer; the others are causes of a hash.
_CONSUMER_CAUSES = (NO_PERMITS, UNACKED_LIMIT_CONSUMER)

# The number of moves of one hash that are remembered.
_MOVES_MAX = 16

# A record of `output.INTERVAL`, by the name of the field.
_Row = Mapping[str, int]

# Behind every seq.
_NEVER = 1 << 62

# An event this shortly before a dispatch counts as the reason for it.
_BROUGHT_ABOUT_US = 1_000_000


class BlockingMonitor:
    """The waiting in one subscription.

    Attributes:
        samples: of the capacity, in order.
        starved: the starved hashes.
        left_out: the number of intervals that were not kept, by scope and cause.
        stalls_beyond: how many of those are unexplained stalls, so findings (`stalls.is_finding`).
        recent: the recently joined consumers (3.x and classic).
        limits: of the broker.
        in_force: the settings at the point up to which rows were replayed.
        open_until: the end of the window while its open intervals are noted and the trace goes on; else None.
    """

    def __init__(self, limits: BrokerLimits, thresholds: Thresholds, in_force: SettingsInForce) -> None:
        self.samples: list[Sample] = []
        self.starved = StarvedHashes(thresholds.intervals_max)
        self.left_out: Counter[tuple[str, str]] = Counter()
        self.stalls_beyond = 0
        self.recent = RecentlyJoined(thresholds.as_pip_282)
        self.limits = limits
        self.in_force = in_force
        self.open_until: TracePoint | None = None
        self._thresholds = thresholds
        self._blocked: defaultdict[tuple[str, str], list[tuple[int, int, Blocked]]] = defaultdict(list)
        self._noted = 0
        self._moves: dict[int, deque[OwnershipMove]] = {}
        self._reported: tuple[int, int] | None = None  # when, and the replay size that a snapshot said
        self._stall: Blocked | None = None
        self._since_seq = -1
        self._brought_about = (0, BY_ACK)

    @property
    def blocked(self) -> list[Blocked]:
        """The intervals, in the order of their beginnings."""
        kept = [interval for heap in self._blocked.values() for _, _, interval in heap]
        return sorted(kept, key=lambda b: (b.span.from_ts, b.span.from_seq, b.scope, b.cause, b.hash, b.consumer))

    def settings_changed(self) -> None:
        """Takes over the limits that may be in force from here on."""
        self.limits = in_force_of(self.limits, self.in_force)

    def forget_causes(self, causes: Collection[str]) -> None:
        """Drops the intervals of causes that were none: the broker does not have the limit."""
        for scope, cause in [kind for kind in self._blocked if kind[1] in causes]:
            del self._blocked[scope, cause]
            self.left_out.pop((scope, cause), None)
        if self._stall is not None and self._stall.cause in causes:
            self._stall = None

    def disregard(self, before_seq: int) -> None:
        """Drops everything so far, and intervals that began before this row, because rows before it are unknown."""
        self.samples.clear()
        self.starved.clear()
        self.left_out.clear()
        self.stalls_beyond = 0
        self._blocked.clear()
        self._since_seq = before_seq

    def suspend(self) -> None:
        """Notes no interval from here on: rows are missing that would show why entries wait."""
        self._since_seq = _NEVER
        self._stall = None

    def resume(self, seq: int) -> None:
        """Notes intervals again that begin at this row or later; keeps those from before `suspend`."""
        self._since_seq = seq

    def forget(self, reported_seq: int) -> None:
        """Drops intervals that ended up to the row `reported_seq`, and all samples but the last."""
        # The next row of `capacity` begins at the last sample.
        self.samples = self.samples[-1:]
        self.left_out.clear()
        self.stalls_beyond = 0
        for kind, heap in self._blocked.items():
            self._blocked[kind] = [ranked for ranked in heap if ranked[2].span.to_seq > reported_seq]
            heapq.heapify(self._blocked[kind])
        self.starved.forget(reported_seq)

    def stopped(self, state: State, out: Output, mapping: RoutingArrays, at: TracePoint) -> None:
        """Notes why the kernel has stopped in front of the row `at`, and clears the reason."""
        common = common_of(state)
        reason, common["stop_reason"] = int(common["stop_reason"]), 0
        if reason == SAMPLE:
            self._sample(state, at)
        elif reason == STALLED:
            self._end_stall(state, mapping, at)
        elif reason == RELEASED:
            self.members_change(state, mapping, at, BY_ACK)
            self._note_all(self.recent.release(state, mapping, at, BY_ACK))
        elif reason == INTERVAL_OVER:
            self.take_intervals(state, out, mapping)

    def take_intervals(self, state: State, out: Output, mapping: RoutingArrays) -> None:
        """Takes the intervals that the kernel has reported, and empties its output of them."""
        if not out.filled[INTERVALS]:
            return
        common_of(state)["stop_reason"] = 0
        # As plain numbers: one by one the fields of records cost several times as much.
        for values in out.intervals.view(np.ndarray)[: out.filled[INTERVALS]].tolist():
            row: _Row = dict(zip(INTERVAL.names or (), values, strict=True))
            interval = Interval(*(row[name] for name in Interval._fields))
            if row["cause"] == STARVED:
                self._starved(row, interval)
            elif row["cause"] in _CONSUMER_CAUSES and row["hash"] == UNKNOWN:
                self._available(state, mapping, row, interval)
            else:
                self._note(_hash_wait(row, interval))
        out.filled[INTERVALS] = 0

    def members_change(self, state: State, mapping: RoutingArrays, at: TracePoint, ended_by: int) -> None:
        """Remembers the cause of a stall; call before consumers join, leave or become available and hide it."""
        # However short the wait is: it may become a stall a little later.
        interval = self._idle_interval(state, at, ended_by, 1)
        found = None if interval is None else stalled(state, mapping, interval, self._situation(interval))
        if found is not None and found.cause != NAMES[UNEXPLAINED]:
            self._stall = found
        self._brought_about = (at.ts_us, ended_by)

    def ownership_moved(self, state: State, before: RoutingArrays, after: RoutingArrays, at: TracePoint) -> None:
        """Remembers the moves of hashes with pending or waiting entries when another routing comes into force."""
        in_use, *moved = np.empty((5, len(state.hashes)), dtype=np.int64)
        used, moves_now = _moves_in_use(state.hashes, before, after, in_use, *moved)
        if not used:
            self._moves.clear()
            return
        for gone in self._moves.keys() - set(in_use[:used].tolist()):
            del self._moves[gone]
        # As plain numbers: one by one the elements of arrays cost several times as much.
        for sticky_hash, old, new, held in zip(*(column[:moves_now].tolist() for column in moved), strict=True):
            moves = self._moves.get(sticky_hash)
            if moves is None:
                moves = self._moves[sticky_hash] = deque(maxlen=_MOVES_MAX)
            moves.append(OwnershipMove(at, old, new, held))

    def leave(self, state: State, mapping: RoutingArrays, consumer: int, at: TracePoint) -> None:
        """Notes the waits of recently joined consumers that end with a leave; call before the leave."""
        self._note_all(self.recent.leave(state, mapping, consumer, at))

    def closed(self, state: State, mapping: RoutingArrays, at: TracePoint, ended_by: int) -> None:
        """Notes what is open; call before the end of the trace or a reset."""
        interval = self._idle_interval(state, at, ended_by, self._thresholds.stall_threshold_us)
        if interval is not None:
            self._note_stall(state, mapping, interval)
        self._note_all(self.recent.close(state, mapping, at, ended_by))

    def reported(self, state: State, snapshot: Snapshot) -> None:
        """Takes the size of the replay queue from a snapshot."""
        if snapshot.in_replay is not None:
            self._reported = (snapshot.ts_us, snapshot.in_replay)
            self.samples.append(sample(state, snapshot.ts_us, self.limits, snapshot.in_replay))
            state.common[0].next_sample_ts = snapshot.ts_us + self._thresholds.sample_us

    def _sample(self, state: State, at: TracePoint) -> None:
        # The first stop comes before the first row, when the state is empty.
        common = common_of(state)
        if common["next_sample_ts"] > 0 and self._since_seq != _NEVER:
            self.samples.append(sample(state, at.ts_us, self.limits, None))
        common["next_sample_ts"] = at.ts_us + self._thresholds.sample_us

    def _idle_interval(self, state: State, at: TracePoint, ended_by: int, report_min_us: int) -> Interval | None:
        """The time since the last dispatch while entries waited; None if it is shorter than `report_min_us`."""
        common = common_of(state)
        since_us = int(max(common["last_dispatch_ts"], common["waiting_since_ts"]))
        if common["waiting"] == 0 or at.ts_us - since_us < report_min_us:
            return None
        since_seq = (
            common["last_dispatch_seq"]
            if common["last_dispatch_ts"] >= common["waiting_since_ts"]
            else common["waiting_since_seq"]
        )
        return Interval(int(since_seq), since_us, at.seq, at.ts_us, ended_by)

    def _open_stall(self, interval: Interval) -> Blocked | None:
        """The stall that `members_change` remembered, if it is the beginning of this interval."""
        if self._stall is None or self._stall.span.from_ts != interval.from_ts:
            return None
        # A cause that ended longer ago does not explain why nothing was sent since.
        return self._stall if interval.to_ts - self._stall.span.to_ts < self._thresholds.stall_threshold_us else None

    def _end_stall(self, state: State, mapping: RoutingArrays, at: TracePoint) -> None:
        when_us, ended_by = self._brought_about
        lately = at.ts_us - when_us < _BROUGHT_ABOUT_US
        interval = self._idle_interval(state, at, ended_by if lately else BY_ACK, self._thresholds.stall_threshold_us)
        if interval is not None:
            self._note_stall(state, mapping, interval, lately)

    def _note_stall(self, state: State, mapping: RoutingArrays, interval: Interval, lately: bool = True) -> None:
        found = self._open_stall(interval) or stalled(state, mapping, interval, self._situation(interval))
        self._stall = None
        if found is not None:
            # A stall with these causes waits for no acknowledgement, so none ends it.
            if not lately and found.cause in (NAMES[UNEXPLAINED], NAMES[DRAINING_STUCK]):
                interval = interval._replace(ended_by=BY_DISPATCH)
            self._note(found._replace(span=interval))

    def _situation(self, interval: Interval) -> Situation:
        reported_us, size = self._reported or (0, None)
        within = size if reported_us >= interval.from_ts else None
        return Situation(self.limits, within, *self.recent.first, self._thresholds.stall_threshold_us)

    def _available(self, state: State, mapping: RoutingArrays, row: _Row, interval: Interval) -> None:
        """Notes the interval of a consumer that is available again; it may have caused a stall until now."""
        consumer: Any = state.consumers.view(np.ndarray)[row["consumer"]]
        now, consumer["cause"] = int(consumer["cause"]), row["cause"]
        self.members_change(state, mapping, TracePoint(interval.to_seq, interval.to_ts), interval.ended_by)
        consumer["cause"] = now
        self._note_all(blocked_consumer(state, mapping, row["consumer"], NAMES[row["cause"]], interval))

    def _starved(self, row: _Row, interval: Interval) -> None:
        if row["consumer"] == NOBODY or interval.from_seq < self._since_seq or self._is_found_later(interval):
            return
        head, passed = (row["ledger"], row["entry"]), (row["passed_ledger"], row["passed_entry"])
        if (
            row["passed_ts"] >= interval.from_ts + row["unavailable_us"] + self._thresholds.stall_threshold_us
            and passed > head
        ):
            moves = tuple(self._moves.get(row["hash"], ()))
            origin = (row["passed_ts"], row["drained_from"], row["registered"], moves)
            self.starved.add(StarvedHash(row["hash"], row["consumer"], interval, row["waiting"], head, passed, *origin))

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
        heap = self._blocked[interval.scope, interval.cause]
        # The number keeps intervals of equal cost in order, so that the heap never compares intervals.
        self._noted += 1
        ranked = (interval.waited_us, -self._noted, interval)
        if len(heap) < self._thresholds.intervals_max:
            heapq.heappush(heap, ranked)
        else:
            left_out = heapq.heappushpop(heap, ranked)[2]
            self.left_out[left_out.scope, left_out.cause] += 1
            self.stalls_beyond += is_finding(left_out) and not self._is_found_later(left_out.span)


def _hash_wait(row: _Row, interval: Interval) -> Blocked:
    """The waiting interval of a hash, from the kernel's report."""
    head = ((row["ledger"], row["entry"]),)
    nothing: dict[str, object] = {}
    waited = row["waiting"], row["waited_us"]
    cause = NAMES[row["cause"]]
    return Blocked("hash", cause, row["hash"], row["consumer"], NOBODY, interval, *waited, head, nothing)
