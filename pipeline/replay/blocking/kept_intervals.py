"""Keeps the costliest intervals of waiting of each scope and cause, and counts the others."""

import heapq
from collections import Counter, defaultdict
from collections.abc import Collection, Hashable, Iterable
from dataclasses import dataclass, field

from dispatch_audit.pipeline.checkpointed import checkpointed
from dispatch_audit.pipeline.packing.membership_rows import NEVER, TracePoint
from dispatch_audit.pipeline.replay.blocking.attribution import Blocked, Interval, StallKind
from dispatch_audit.pipeline.replay.state.output import By


@checkpointed("kept_intervals")
@dataclass(eq=False, slots=True)
class KeptIntervals:
    """The intervals of one subscription.

    Attributes:
        left_out: the number of intervals that were not kept, by scope and cause.
        findings_beyond: the standstills of which none is kept, by the facts that decide their verdict.
        open_until: the end of the window while its open intervals are noted and the trace goes on; else None.
    """

    _kept_max: int
    left_out: Counter[tuple[str, str]] = field(default_factory=Counter)
    findings_beyond: Counter[StallKind] = field(default_factory=Counter)
    open_until: TracePoint | None = None
    _heaps: defaultdict[tuple[str, str], list[tuple[int, int, Blocked]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    _beyond_last: Hashable = None  # the standstill that was counted last
    _noted: int = 0
    _since_seq: int = -1

    def all(self) -> list[Blocked]:
        """The kept intervals, in no order."""
        return [interval for heap in self._heaps.values() for _, _, interval in heap]

    @property
    def suspended(self) -> bool:
        """Whether no interval is noted now."""
        return self._since_seq == NEVER

    def suspend(self) -> None:
        """Notes no interval from here on: rows are missing that would show why entries wait."""
        self._since_seq = NEVER

    def resume(self, seq: int) -> None:
        """Notes intervals again that begin at this row or later; keeps those from before `suspend`."""
        self._since_seq = seq

    def disregard(self, before_seq: int) -> None:
        """Drops everything so far, and intervals that began before this row, because rows before it are unknown."""
        self.left_out.clear()
        self.findings_beyond.clear()
        self._heaps.clear()
        self._since_seq = before_seq

    def forget(self, reported_seq: int) -> None:
        """Drops intervals up to the row `reported_seq`, and the counts."""
        self.left_out.clear()
        self.findings_beyond.clear()
        for kind, heap in self._heaps.items():
            self._heaps[kind] = [ranked for ranked in heap if ranked[2].span.to_seq > reported_seq]
            heapq.heapify(self._heaps[kind])

    def forget_causes(self, causes: Collection[str]) -> None:
        """Drops the intervals of causes that cannot be: the broker does not have the limit."""
        for kind in [kind for kind in self._heaps if kind[1] in causes]:
            del self._heaps[kind]
            self.left_out.pop(kind, None)

    def is_known(self, span: Interval) -> bool:
        """Whether no row is missing since the beginning of an interval."""
        return span.from_seq >= self._since_seq

    def is_found_later(self, span: Interval) -> bool:
        """Whether an interval is open at the end of a window; the one in which it ends, or the last one, finds it."""
        return self.open_until is not None and span.ended_by == By.OPEN

    def note(self, intervals: Iterable[Blocked]) -> None:
        """Keeps intervals of which no row is missing; at the end of a window the next one may continue them."""
        for interval in intervals:
            if not self.is_known(interval.span):
                continue
            if self.open_until is None:
                self.keep(interval)
            else:
                # A hash has one interval as long as its cause stays the same.
                until = self.open_until
                span = interval.span._replace(to_seq=until.seq, to_ts=until.ts_us, ended_by=By.OPEN)
                self.keep(interval._replace(span=span))

    def keep(self, interval: Blocked) -> None:
        """Keeps an interval if it is one of the costliest of its cause and scope."""
        heap = self._heaps[interval.scope, interval.cause]
        # The number keeps intervals of equal cost in order, so that the heap never compares intervals.
        self._noted += 1
        ranked = (interval.waited_us, -self._noted, interval)
        if len(heap) < self._kept_max:
            heapq.heappush(heap, ranked)
            return
        left_out = heapq.heappushpop(heap, ranked)[2]
        self.left_out[left_out.scope, left_out.cause] += not left_out.is_passed_over
        if left_out.is_finding and not self.is_found_later(left_out.span):
            standstill = left_out.standstill
            if standstill != self._beyond_last and all(kept.standstill != standstill for _, _, kept in heap):
                self.findings_beyond[left_out.kind] += 1
                self._beyond_last = standstill
