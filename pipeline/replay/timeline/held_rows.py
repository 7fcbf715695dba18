"""Holds the rows of one subscription back until the membership changes among them are located.

A row is released when it takes effect, and taken to be replayed. Rows are released more often than taken, because
replaying a stretch of rows has a cost of its own, however few they are.
"""

from collections.abc import Callable

import numpy as np

from dispatch_audit.pipeline.checkpointed import checkpointed
from dispatch_audit.pipeline.packing.events import Code, Column, Events, concatenated, no_events
from dispatch_audit.pipeline.packing.membership_rows import BEFORE_ROWS, TracePoint
from dispatch_audit.pipeline.replay.state.records import Ints
from dispatch_audit.pipeline.replay.timeline.change_points import Evidence


@checkpointed("held_rows")
class HeldRows:
    """The rows that have not taken effect, and the last one that has: the beginning of a bracket has its time."""

    __slots__ = ("_clock", "_decisions", "_hashes", "_released", "_rows", "_taken", "recorded_late")

    def __init__(self) -> None:
        self.recorded_late = True  # only ends of dispatches are recorded, as far as the rows so far show
        self._rows: Events = no_events()
        self._clock: Ints = self._rows.ts_us  # their ts_us, made ascending
        self._released = 0
        self._taken = 0
        self._hashes: Ints = np.empty(0, dtype=np.int64)
        self._decisions: Evidence | None = None

    def push(self, events: Events, hashes: Ints) -> None:
        """Adds the next rows in the order of seq, with the sticky hash of each, -1 where it has none."""
        self._rows = concatenated([self._rows, events]) if self._rows.seq.size else events
        self._hashes = np.concatenate((self._hashes, hashes))
        self._clock = np.maximum.accumulate(self._rows.ts_us)
        # The start of a dispatch comes before its end, so this is known in time.
        self.recorded_late = self.recorded_late and not events.has(Code.DISPATCH_START)
        self._decisions = None

    def drop_taken(self) -> None:
        """Drops the rows that were taken, but for the last one; call when all that were released are taken."""
        first = self._first
        self._rows, self._clock = self._rows.rows(first, self._rows.seq.size), self._clock[first:]
        self._hashes, self._decisions = self._hashes[first:], None
        self._released = self._taken = self._released - first

    def rehash(self, hashes_of: Callable[[Events], Ints]) -> None:
        """Gives the rows the hashes of another selector, which the function returns."""
        self._hashes, self._decisions = hashes_of(self._rows), None

    @property
    def _first(self) -> int:
        """The index of the first row that is held; rows in front of it were not dropped yet."""
        return max(self._released - 1, 0)

    @property
    def released(self) -> TracePoint:
        """The last row that has taken effect; its seq is -1 if none has."""
        at = self._released - 1
        return TracePoint(int(self._rows.seq[at]), int(self._rows.ts_us[at])) if self._released else BEFORE_ROWS

    @property
    def newest(self) -> TracePoint | None:
        """The last row, at the latest time of all rows; None: no row is held."""
        return TracePoint(int(self._rows.seq[-1]), int(self._clock[-1])) if self._rows.seq.size else None

    def point_before(self, ts_us: int) -> TracePoint:
        """The point after the last row that is older than `ts_us`."""
        at = int(self._clock.searchsorted(ts_us)) - 1
        first = self._first
        if at < first:
            return TracePoint(int(self._rows.seq[first]) - 1, ts_us)
        return TracePoint(int(self._rows.seq[at]), int(self._rows.ts_us[at]))

    def are_after(self, seq: int, ts_us: int) -> bool:
        """Whether rows after the row `seq` are older than `ts_us`."""
        at = int(self._clock.searchsorted(ts_us)) - 1
        return at >= 0 and int(self._rows.seq[at]) > seq

    def ts_us_after(self, seq: int, otherwise: int) -> int:
        """The time of the first held row after the row `seq`; `otherwise` if there is none."""
        at = int(self._rows.seq.searchsorted(seq, "right"))
        return int(self._clock[at]) if at < self._rows.seq.size else otherwise

    def count_after(self, seq: int) -> int:
        """The number of rows after the row `seq`."""
        return self._rows.seq.size - self._index_after(seq)

    def seq_after(self, seq: int, rows: int) -> int:
        """The last seq up to which a limited number of rows stand after the row `seq`."""
        return int(self._rows.seq[min(self._index_after(seq) + rows, self._rows.seq.size - 1)])

    def _index_after(self, seq: int) -> int:
        return max(int(self._rows.seq.searchsorted(seq, "right")), self._first)

    def up_to(self, seq: int) -> tuple[Column, Column]:
        """The seqs and times of the rows up to and including the row `seq`."""
        rows = slice(self._first, int(self._rows.seq.searchsorted(seq, "right")))
        return self._rows.seq[rows], self._rows.ts_us[rows]

    def decisions(self, after: int, before: int) -> Evidence:
        """The dispatches between two rows."""
        if self._decisions is None:
            self._decisions = Evidence.of(self._rows, self._hashes, self.recorded_late)
        # Of the rows that took effect only the last one is still held.
        first_seq = int(self._rows.seq[self._first])
        return self._decisions.between(max(after, first_seq - 1), before)

    def release(self, seq: int) -> None:
        """Lets all rows up to and including the row `seq` take effect."""
        self._released = max(self._released, int(self._rows.seq.searchsorted(seq, "right")))

    def released_name(self, consumer: int) -> bool:
        """Whether a row that was released and not taken names a consumer."""
        return bool((self._rows.consumer[self._taken : self._released] == consumer).any())

    def take(self) -> tuple[Events, Ints] | None:
        """The rows that were released and not taken, and their hashes; None: there are none."""
        start, stop = self._taken, self._released
        if start == stop:
            return None
        self._taken = stop
        # The kernel fills in missing hashes, and those here must stay as the rows have them.
        return self._rows.rows(start, stop), self._hashes[start:stop].copy()
