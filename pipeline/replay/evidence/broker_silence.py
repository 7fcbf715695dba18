"""Times in which the broker wrote nothing about a subscription, not even the snapshots that were due.

A recorder takes snapshots by a timer, whatever the dispatcher does. Where one was due and no row of any kind was
written, of a publish no more than of a dispatch, the broker may have stood still as a whole: a garbage collection, a
paused or starved machine, a disk that did not answer. Then nothing follows about its dispatcher.
"""

from typing import Final

import numpy as np

from dispatch_audit.pipeline.checkpointed import checkpointed
from dispatch_audit.pipeline.replay.state.state import Ints

# Snapshots are also taken after joins, leaves and resets, and an earlier silence may lie between two: the third longest
# of so many distances is that of the timer.
_DISTANCES: Final = 9
_OF_TIMER: Final = -3
# Of the distance between two snapshots: a timer that is later than that was held up.
_LATE: Final = 1.25
# No stall needs more of them.
_KEPT_MAX: Final = 256


@checkpointed("broker_silence")
class BrokerSilence:
    """The silences so far, the last 256 of them."""

    __slots__ = ("_last_us", "_silences", "_snapshots")

    def __init__(self) -> None:
        """Starts in front of the first row."""
        self._last_us: int | None = None
        self._snapshots: list[int] = []
        self._silences: list[tuple[int, int]] = []

    def note(self, ts_us: Ints, snapshots: list[int]) -> None:
        """Takes the next rows.

        Args:
            ts_us: their times in microseconds, in the order of seq; at least one.
            snapshots: the times of the snapshots among them.
        """
        since = np.maximum.accumulate(np.append(ts_us[0] if self._last_us is None else self._last_us, ts_us))
        taken = [*self._snapshots, *snapshots]
        self._last_us, self._snapshots = int(since[-1]), taken[-_DISTANCES - 1 :]
        if len(taken) <= _DISTANCES:
            return
        distances = np.lib.stride_tricks.sliding_window_view(np.diff(taken), _DISTANCES)
        due = np.sort(distances, axis=1)[:, _OF_TIMER] * _LATE
        apart = np.diff(since)
        for at in np.flatnonzero(apart > due.min()):
            # The timer as it was before the silence.
            known = np.searchsorted(taken, since[at], side="right") - _DISTANCES - 1
            if known >= 0 and apart[at] > due[known]:
                self._silences.append((int(since[at]), int(since[at + 1])))
        del self._silences[:-_KEPT_MAX]

    def within(self, from_us: int, to_us: int) -> int:
        """How long the broker wrote nothing between two times, in microseconds."""
        return sum(max(min(end, to_us) - max(begin, from_us), 0) for begin, end in self._silences)
