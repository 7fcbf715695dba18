"""What times of rows show of the broker and the recorder: when nothing was written, and whether the clock went back.

A recorder takes snapshots by a timer, whatever the dispatcher does. Where one was due and no row of any kind was
written, the broker may have stood still as a whole: a garbage collection, a paused or starved machine, a disk that did
not answer. Then nothing follows about its dispatcher. Snapshots after joins, leaves and resets are never due; a
recorder may take no others.

Rows of one recorder are numbered in the order in which they were written. A thread may take the time of its row a
moment before others take theirs: in 83 recordings no row was more than 0.2 s behind the latest before it.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from dispatch_audit.pipeline.checkpointed import checkpointed
from dispatch_audit.pipeline.packing.membership_rows import MembershipEvent
from dispatch_audit.pipeline.packing.snapshot import StatsRow
from dispatch_audit.pipeline.replay.durations import CLOCK_BACK_US
from dispatch_audit.pipeline.replay.state.records import Ints

# A distance is too short after a snapshot of a change, and too long over a silence: the third longest of so many is the
# period of the timer.
_DISTANCES: Final = 9
_OF_TIMER: Final = -3
# Times the period: a timer that is later was held up.
_LATE: Final = 1.25
# Times the period: if the median of the distances is shorter, no timer took the snapshots.
_REGULAR: Final = 0.6
# No stall needs more silences.
_KEPT_MAX: Final = 256


@checkpointed("broker_silence")
@dataclass(eq=False, slots=True)
class BrokerSilence:
    """The last `_KEPT_MAX` silences so far."""

    _last_us: int | None = None
    # Seq and time of the last snapshot; whether the members may have changed since.
    _snapshot: tuple[int, int] | None = None
    _changed: bool = False
    # The times of snapshots by the timer, and their distances from the snapshots before them.
    _times: list[int] = field(default_factory=list)
    _distances: list[int] = field(default_factory=list)
    _silences: list[tuple[int, int]] = field(default_factory=list)

    def note(self, ts_us: Ints, snapshots: Sequence[StatsRow], changes: Sequence[MembershipEvent]) -> None:
        """Takes the next rows by seq: their times, at least one, and the snapshots and changes among them."""
        since = np.maximum.accumulate(np.append(ts_us[0] if self._last_us is None else self._last_us, ts_us))
        self._last_us = int(since[-1])
        self._note_timer(snapshots, [change.seq for change in changes])
        if len(self._distances) >= _DISTANCES:
            apart = np.diff(since)
            for at in np.flatnonzero(apart > min(self._distances) * _LATE):
                # The timer as it was before the silence.
                known = bisect_right(self._times, since[at])
                due = _period_us(self._distances[max(known - _DISTANCES, 0) : known])
                if due is not None and apart[at] > due * _LATE:
                    self._silences.append((int(since[at]), int(since[at + 1])))
        del self._silences[:-_KEPT_MAX], self._times[:-_DISTANCES], self._distances[:-_DISTANCES]

    def _note_timer(self, snapshots: Sequence[StatsRow], changes: Sequence[int]) -> None:
        """Takes the snapshots that no change of members has brought about."""
        for snapshot in snapshots:
            before, self._snapshot = self._snapshot, (snapshot.seq, snapshot.ts_us)
            if before is not None:
                until = bisect_left(changes, snapshot.seq)
                self._changed = self._changed or bisect_left(changes, before[0]) < until
                if not self._changed:
                    self._times.append(snapshot.ts_us)
                    self._distances.append(snapshot.ts_us - before[1])
            self._changed = False
        if changes and self._snapshot is not None and changes[-1] > self._snapshot[0]:
            self._changed = True

    def within(self, from_us: int, to_us: int) -> list[tuple[int, int]]:
        """When the broker wrote nothing between two times, in microseconds."""
        return [
            (max(begin, from_us), min(end, to_us))
            for begin, end in self._silences
            if min(end, to_us) > max(begin, from_us)
        ]


def _period_us(distances: Sequence[int]) -> int | None:
    """The period of the timer that shows in distances between snapshots; None: there are few, or they are irregular."""
    if len(distances) < _DISTANCES:
        return None
    ordered = sorted(distances)
    period, median = ordered[_OF_TIMER], ordered[_DISTANCES // 2]
    return period if median >= period * _REGULAR else None


@checkpointed("clock")
@dataclass(eq=False, slots=True)
class Clock:
    """The latest time so far, and where rows were earlier than that."""

    # The first row that is `CLOCK_BACK_US` or more behind a row before it; None: there is none.
    back_from_seq: int | None = None
    back_us: int = 0  # how far rows were behind at most, from there on
    _latest_us: int = 0

    def note(self, seq: Ints, ts_us: Ints) -> None:
        """Takes the next rows in the order of seq, at least one; times are microseconds."""
        latest = np.maximum.accumulate(np.append(self._latest_us, ts_us))[1:]
        behind = latest - ts_us
        self._latest_us = int(latest[-1])
        back = np.flatnonzero(behind >= CLOCK_BACK_US)
        if back.size:
            self.back_from_seq = int(seq[back[0]]) if self.back_from_seq is None else self.back_from_seq
            self.back_us = max(self.back_us, int(behind.max()))

    def doubt(self, seq: int) -> str:
        """Why times do not show what was up to a row, as a clause; empty: they do."""
        if self.back_from_seq is None or seq < self.back_from_seq:
            return ""
        return f"the clock of the recorder went back, by up to {self.back_us / 1e6:.3f} s, so times say nothing of it"
