"""Watches the dispatcher: whenever the core stops to be looked at, it notes who waited for whom, and how much.

It only reads the state. What it keeps is bounded: of each cause the intervals that cost most.
"""

import heapq
from collections import Counter, defaultdict, deque
from typing import Any

import numpy as np

from pipeline.replay.blocking.attribution import Blocked, Interval, blocked_consumer
from pipeline.replay.blocking.broker_limits import BrokerLimits
from pipeline.replay.blocking.capacity_samples import Sample, sample
from pipeline.replay.blocking.causes import DRAINING_STUCK, NAMES, NO_PERMITS, UNACKED_LIMIT_CONSUMER, UNEXPLAINED
from pipeline.replay.blocking.consumer_availability import (
    INTERVAL_OVER,
    RELEASED,
    SAMPLE,
    STALLED,
    STARVED,
)
from pipeline.replay.blocking.recently_joined import RecentlyJoined
from pipeline.replay.blocking.stalls import Situation, is_finding, stalled
from pipeline.replay.blocking.starved_hashes import OwnershipMove, StarvedHash, StarvedHashes
from pipeline.replay.blocking.thresholds import Thresholds
from pipeline.replay.packing.membership_rows import TracePoint
from pipeline.replay.packing.snapshot import Snapshot
from pipeline.replay.state.output import BY_ACK, BY_DISPATCH, INTERVALS, STILL_OPEN, Output
from pipeline.replay.state.policy import RoutingArrays, owners_of
from pipeline.replay.state.state import (
    NOBODY,
    UNKNOWN,
    State,
)

# Causes of a consumer; the others are those of a hash.
_OF_CONSUMERS = (NO_PERMITS, UNACKED_LIMIT_CONSUMER)

# Moves of one hash that are remembered.
_MOVES_MAX = 16

# What happened this shortly before a dispatch has brought it about.
_BROUGHT_ABOUT_US = 1_000_000


class BlockingMonitor:
    """What was seen of one subscription.

    Attributes:
        samples: of the capacity, in order.
        starved: hashes that were passed over.
        left_out: by scope and cause, how many intervals were not kept.
        stalls_beyond: how many of those are stalls that nothing explains, so findings (`stall.is_finding`).
        recent: the recently joined consumers (3.x and classic).
        limits: of the broker.
        open_until: where a window ends, when that is why intervals are noted; the trace goes on.
    """

    def __init__(self, limits: BrokerLimits, thresholds: Thresholds) -> None:
        self.samples: list[Sample] = []
        self.starved = StarvedHashes(thresholds.intervals_max)
        self.left_out: Counter[tuple[str, str]] = Counter()
        self.stalls_beyond = 0
        self.recent = RecentlyJoined(thresholds.as_pip_282)
        self.limits = limits
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
        """The intervals, in the order in which they began."""
        kept = [interval for heap in self._blocked.values() for _, _, interval in heap]
        return sorted(kept, key=lambda b: (b.span.from_ts, b.span.from_seq, b.scope, b.cause, b.hash, b.consumer))

    def disregard(self, before_seq: int) -> None:
        """What was seen until here did not rest on everything that happened; nor does what began before."""
        self.samples.clear()
        self.starved.clear()
        self.left_out.clear()
        self.stalls_beyond = 0
        self._blocked.clear()
        self._since_seq = before_seq

    def forget(self, told_seq: int) -> None:
        """What was over behind the row `told_seq` was told, and every sample."""
        # The last look is the beginning of what is told next.
        self.samples = self.samples[-1:]
        self.left_out.clear()
        self.stalls_beyond = 0
        for kind, heap in self._blocked.items():
            self._blocked[kind] = [ranked for ranked in heap if ranked[2].span.to_seq > told_seq]
            heapq.heapify(self._blocked[kind])
        self.starved.forget(told_seq)

    def paused(self, state: State, out: Output, mapping: RoutingArrays, at: TracePoint) -> None:
        """The core has stopped in front of the row `at`."""
        reason, state.common[0].stop_reason = int(state.common[0].stop_reason), 0
        if reason == SAMPLE:
            self._sample(state, at)
        elif reason == STALLED:
            self._end_stall(state, mapping, at)
        elif reason == RELEASED:
            self.interrupted(state, mapping, at, BY_ACK)
            self._note_all(self.recent.release(state, mapping, at, BY_ACK))
        elif reason == INTERVAL_OVER:
            self.hindered(state, out, mapping)

    def hindered(self, state: State, out: Output, mapping: RoutingArrays) -> None:
        """Takes in the intervals that the core has reported."""
        for row in out.intervals[: out.filled[INTERVALS]]:
            span = Interval(*(int(row[name]) for name in Interval._fields))
            if row.cause == STARVED:
                self._starved(row, span)
            elif row.cause in _OF_CONSUMERS and row.hash == UNKNOWN:
                self._available(state, mapping, row, span)
            else:
                self._note(_delayed(row, span))
        out.filled[INTERVALS] = 0
        state.common[0].stop_reason = 0

    def interrupted(self, state: State, mapping: RoutingArrays, at: TracePoint, ended_by: int) -> None:
        """Consumers are about to come or go: only now the state shows who is to blame for a stall."""
        # However short: it is to blame for what is a stall a little later.
        span = self._idle_interval(state, at, ended_by, 1)
        found = None if span is None else stalled(state, mapping, span, self._situation(span))
        if found is not None and found.cause != NAMES[UNEXPLAINED]:
            self._stall = found
        self._brought_about = (at.ts_us, ended_by)

    def moved(self, state: State, before: RoutingArrays, after: RoutingArrays, at: TracePoint) -> None:
        """Another mapping is in force; how hashes that are held or awaited moved is remembered until they are not."""
        hashes: Any = state.hashes
        used = np.flatnonzero((hashes.hash != UNKNOWN) & ((hashes.held > 0) | (hashes.waiting > 0)))
        sticky = hashes.hash[used]
        then, now = owners_of(before, sticky), owners_of(after, sticky)
        known = set(sticky.tolist())
        self._moves = {h: moves for h, moves in self._moves.items() if h in known}
        for i in np.flatnonzero((then != now) & (then != NOBODY)):
            moves = self._moves.setdefault(int(sticky[i]), deque(maxlen=_MOVES_MAX))
            moves.append(OwnershipMove(at, int(then[i]), int(now[i]), int(hashes.held[used[i]])))

    def leave(self, state: State, mapping: RoutingArrays, place: int, at: TracePoint) -> None:
        """A consumer is about to leave that may have been held back."""
        self._note_all(self.recent.leave(state, mapping, place, at))

    def closed(self, state: State, mapping: RoutingArrays, at: TracePoint, ended_by: int) -> None:
        """The trace ends, or everything starts anew."""
        span = self._idle_interval(state, at, ended_by, self._thresholds.stall_threshold_us)
        if span is not None:
            self._note_stall(state, mapping, span)
        self._note_all(self.recent.close(state, mapping, at, ended_by))

    def reported(self, state: State, snapshot: Snapshot) -> None:
        """A snapshot said how large the replay queue was."""
        if snapshot.in_replay is not None:
            self._reported = (snapshot.ts_us, snapshot.in_replay)
            self.samples.append(sample(state, snapshot.ts_us, self.limits, snapshot.in_replay))
            state.common[0].next_sample_ts = snapshot.ts_us + self._thresholds.sample_us

    def _sample(self, state: State, at: TracePoint) -> None:
        # Before the first row there is nothing to see.
        if state.common[0].next_sample_ts > 0:
            self.samples.append(sample(state, at.ts_us, self.limits, None))
        state.common[0].next_sample_ts = at.ts_us + self._thresholds.sample_us

    def _idle_interval(self, state: State, at: TracePoint, ended_by: int, report_min_us: int) -> Interval | None:
        """Since when nothing was sent although something waits, if that is so long ago."""
        common = state.common
        since_us = int(max(common[0].last_dispatch_ts, common[0].waiting_since_ts))
        if common[0].waiting == 0 or at.ts_us - since_us < report_min_us:
            return None
        since_seq = (
            common[0].last_dispatch_seq
            if common[0].last_dispatch_ts >= common[0].waiting_since_ts
            else common[0].waiting_since_seq
        )
        return Interval(int(since_seq), since_us, at.seq, at.ts_us, ended_by)

    def _open_stall(self, span: Interval) -> Blocked | None:
        """What kept it going until a moment before, if something did."""
        if self._stall is None or self._stall.span.from_ts != span.from_ts:
            return None
        # What was over so long ago does not keep anything from being sent since.
        return self._stall if span.to_ts - self._stall.span.to_ts < self._thresholds.stall_threshold_us else None

    def _end_stall(self, state: State, mapping: RoutingArrays, at: TracePoint) -> None:
        when_us, ended_by = self._brought_about
        lately = at.ts_us - when_us < _BROUGHT_ABOUT_US
        span = self._idle_interval(state, at, ended_by if lately else BY_ACK, self._thresholds.stall_threshold_us)
        if span is not None:
            self._note_stall(state, mapping, span, lately)

    def _note_stall(self, state: State, mapping: RoutingArrays, span: Interval, lately: bool = True) -> None:
        found = self._open_stall(span) or stalled(state, mapping, span, self._situation(span))
        self._stall = None
        if found is not None:
            # No acknowledgement ends what hung on none.
            if not lately and found.cause in (NAMES[UNEXPLAINED], NAMES[DRAINING_STUCK]):
                span = span._replace(ended_by=BY_DISPATCH)
            self._note(found._replace(span=span))

    def _situation(self, span: Interval) -> Situation:
        said_us, size = self._reported or (0, None)
        within = size if said_us >= span.from_ts else None
        return Situation(self.limits, within, *self.recent.first, self._thresholds.stall_threshold_us)

    def _available(self, state: State, mapping: RoutingArrays, row: Any, span: Interval) -> None:
        """A consumer can be sent something again; until now it may have been to blame for a stall."""
        now = int(state.consumers[row.consumer].cause)
        state.consumers[row.consumer].cause = row.cause
        self.interrupted(state, mapping, TracePoint(span.to_seq, span.to_ts), span.ended_by)
        state.consumers[row.consumer].cause = now
        self._note_all(blocked_consumer(state, mapping, int(row.consumer), NAMES[row.cause], span))

    def _starved(self, row: Any, span: Interval) -> None:
        if row.consumer == NOBODY or span.from_seq < self._since_seq or self._is_found_later(span):
            return
        head, passed = (int(row.ledger), int(row.entry)), (int(row.passed_ledger), int(row.passed_entry))
        if (
            row.passed_ts >= span.from_ts + int(row.unavailable_us) + self._thresholds.stall_threshold_us
            and passed > head
        ):
            moves = tuple(self._moves.get(int(row.hash), ()))
            origin = (int(row.passed_ts), int(row.drained_from), int(row.registered), moves)
            self.starved.add(
                StarvedHash(int(row.hash), int(row.consumer), span, int(row.waiting), head, passed, *origin)
            )

    def _is_found_later(self, span: Interval) -> bool:
        """Whether something is open where a window ends: it is found when it is over, or the log is."""
        return self.open_until is not None and span.ended_by == STILL_OPEN

    def _note_all(self, intervals: list[Blocked]) -> None:
        for interval in intervals:
            self._note(interval)

    def _note(self, interval: Blocked) -> None:
        if interval.span.from_seq < self._since_seq:
            return
        if self.open_until is not None:
            # It may go on: what a hash waits for is one interval as long as it stays the same.
            span = interval.span._replace(to_seq=self.open_until.seq, to_ts=self.open_until.ts_us, ended_by=STILL_OPEN)
            interval = interval._replace(span=span)
        heap = self._blocked[interval.scope, interval.cause]
        # The number keeps equal costs in order, and intervals from being compared.
        self._noted += 1
        ranked = (interval.waited_us, -self._noted, interval)
        if len(heap) < self._thresholds.intervals_max:
            heapq.heappush(heap, ranked)
        else:
            left_out = heapq.heappushpop(heap, ranked)[2]
            self.left_out[left_out.scope, left_out.cause] += 1
            self.stalls_beyond += is_finding(left_out) and not self._is_found_later(left_out.span)


def _delayed(row: Any, span: Interval) -> Blocked:
    """What a hash waited for, as the core summed it up."""
    head = ((int(row.ledger), int(row.entry)),)
    nothing: dict[str, object] = {}
    cause, owner = NAMES[int(row.cause)], int(row.consumer)
    waited = int(row.waiting), int(row.waited_us)
    return Blocked("hash", cause, int(row.hash), owner, NOBODY, span, *waited, head, nothing)
