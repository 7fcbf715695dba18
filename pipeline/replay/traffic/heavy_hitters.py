"""Counts by key in bounded memory: exact for as many keys as there is room for, and with a known error beyond.

Misra-Gries in its mergeable form (Agarwal et al., "Mergeable Summaries", PODS 2012): when more keys are counted than
there is room for, the count of the largest one that does not fit is taken off every count, and what is left of
nothing goes. No count is then too large, and none is too small by more than what was taken off in all, which is at
most the number of observations over the room. A trace of keyless messages has a key for every entry (contract 1.1),
so this is no rare case.

Observations are summed by a fixed number at a time, and the sums folded in when there are many: how a trace is cut must
not show, and what waits must be small.
"""

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.replay.state.state import Ints

ROOM: Final = 262_144
"""Keys that are counted exactly."""
_BLOCK: Final = 1 << 15
"""Observations that wait to be summed."""


class KeyCounts(NamedTuple):
    """Keys with their counts, ascending by group and key; columns of equal length.

    Attributes:
        group: what the keys are told apart by first, the sticky hash for instance.
        key: an integer.
        times: how often it was seen, too small by at most `HeavyHitters.error_max`.
        ledger: an entry that it was seen with: the first one since it is counted,
        entry: the other half of its position.
    """

    group: Ints
    key: Ints
    times: Ints
    ledger: Ints
    entry: Ints

    def rows(self, index: NDArray[np.intp] | NDArray[np.bool_] | slice) -> "KeyCounts":
        """Some of them."""
        return KeyCounts(*(column[index] for column in self))


def _together(parts: list[KeyCounts]) -> KeyCounts:
    return KeyCounts(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


class HeavyHitters:
    """Counts of keys.

    Attributes:
        error_max: by how much a count may be too small; 0: all are exact.
    """

    def __init__(self, room: int = ROOM, block: int = _BLOCK) -> None:
        """Takes how many keys are counted exactly, and how many observations are summed at one time."""
        self.error_max = 0
        self._room = room
        self._block = block
        self._counts = KeyCounts(*(np.empty(0, dtype=np.int64) for _ in KeyCounts._fields))
        self._sums: list[KeyCounts] = []
        self._new: list[KeyCounts] = []

    def add(self, group: Ints, key: Ints, ledger: Ints, entry: Ints) -> None:
        """Takes observations, in the order of the trace; columns of equal length."""
        seen = KeyCounts(group, key, np.ones(key.size, dtype=np.int64), ledger, entry)
        start = 0
        while (stop := start + self._block - _size(self._new)) <= key.size:
            self._sum(seen.rows(slice(start, stop)))
            start = stop
            # One sort for many sums.
            if _size(self._sums) >= max(self._counts.key.size, 2 * self._block):
                self._fold()
        if start < key.size:
            # What waits must not keep a part of the trace in memory of which it is a piece.
            self._new.append(KeyCounts(*(column[start:].copy() for column in seen)))

    def counts(self) -> KeyCounts:
        """What has been counted so far."""
        self._sum()
        if self._sums:
            self._fold()
        return self._counts

    def _sum(self, *last: KeyCounts) -> None:
        if self._new or last:
            self._sums.append(_summed(_together([*self._new, *last])))
            self._new = []

    def _fold(self) -> None:
        counts = _summed(_together([self._counts, *self._sums]))
        self._sums = []
        if counts.key.size > self._room:
            at = counts.key.size - self._room - 1
            too_many = int(np.partition(counts.times, at)[at])
            self.error_max += too_many
            counts = counts._replace(times=counts.times - too_many)
            counts = counts.rows(counts.times > 0)
        self._counts = counts


def _size(parts: list[KeyCounts]) -> int:
    return sum(part.key.size for part in parts)


def _summed(counts: KeyCounts) -> KeyCounts:
    """One row a key; of equal ones the first says where it was seen, because lexsort is stable."""
    ordered = counts.rows(np.lexsort((counts.key, counts.group)))
    other = np.ones(ordered.key.size, dtype=np.bool_)
    other[1:] = (ordered.group[1:] != ordered.group[:-1]) | (ordered.key[1:] != ordered.key[:-1])
    begins = np.flatnonzero(other)
    sums = np.add.reduceat(ordered.times, begins) if begins.size else ordered.times
    return ordered.rows(begins)._replace(times=sums)
