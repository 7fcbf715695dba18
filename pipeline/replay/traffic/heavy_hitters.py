"""Counts by key in bounded memory: exact up to a number of keys, with a known error beyond.

Misra-Gries in its mergeable form (Agarwal et al., "Mergeable Summaries", PODS 2012): when there are more keys than
room, the count of the largest key that does not fit is subtracted from every count, and keys without a rest are
dropped. So no count is too large, and none is too small by more than the sum of what was subtracted, which is at most
the number of observations divided by the room. This is not rare: a trace of keyless messages has a key for every entry
(contract 1.1).

Observations are summed in blocks of a fixed size, and the sums are merged when there are many. So the result does not
depend on how a trace is cut, and few observations wait.
"""

from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dispatch_audit.pipeline.checkpointed import checkpointed
from dispatch_audit.pipeline.replay.state.index.pair_index import sums_of_pairs
from dispatch_audit.pipeline.replay.state.records import Ints

ROOM: Final = 262_144
"""The number of keys that are counted exactly."""
_BLOCK: Final = 1 << 15
"""The number of observations that are summed at a time."""


@checkpointed("key_counts")
class KeyCounts(NamedTuple):
    """Keys with their counts; columns of equal length."""

    group: Ints  # the first part of the key, the sticky hash for instance
    key: Ints  # the second part
    times: Ints  # the count, too small by at most `HeavyHitters.error_max`
    ledger: Ints  # the ledger of the first entry that was counted for the key
    entry: Ints  # the entry id of that entry

    def rows(self, index: NDArray[np.intp] | NDArray[np.bool_] | slice) -> "KeyCounts":
        """The rows that the index selects."""
        return KeyCounts(*(column[index] for column in self))


def _together(parts: list[KeyCounts]) -> KeyCounts:
    return KeyCounts(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


@checkpointed("heavy_hitters")
@dataclass(eq=False, slots=True)
class HeavyHitters:
    """Counts of keys."""

    _room: int = ROOM
    _block: int = _BLOCK
    error_max: int = 0  # the largest error by which a count is too small; 0: all are exact
    _counts: KeyCounts = field(default_factory=lambda: KeyCounts(*np.empty((5, 0), dtype=np.int64)))
    _sums: list[KeyCounts] = field(default_factory=list)
    _new: list[KeyCounts] = field(default_factory=list)
    _waiting: int = 0  # the observations in `_new`, which may be many small parts

    def add(self, group: Ints, key: Ints, ledger: Ints, entry: Ints) -> None:
        """Takes observations, in the order of the trace; columns of equal length, which must not change afterwards."""
        seen = KeyCounts(group, key, np.ones(key.size, dtype=np.int64), ledger, entry)
        start = 0
        while (stop := start + self._block - self._waiting) <= key.size:
            self._sum(seen.rows(slice(start, stop)))
            start = stop
            # One sort for many sums.
            if _size(self._sums) >= max(self._counts.key.size, 2 * self._block):
                self._fold()
        if start < key.size:
            # A copy of a part, because a slice would keep the whole in memory.
            self._new.append(KeyCounts(*(column[start:].copy() for column in seen)) if start else seen)
            self._waiting += key.size - start

    def counts(self) -> KeyCounts:
        """The counts so far, ascending by group and key."""
        self._sum()
        if self._sums:
            self._fold()
        return self._counts

    def _sum(self, *last: KeyCounts) -> None:
        if self._new or last:
            self._sums.append(_summed(_together([*self._new, *last])))
            self._new, self._waiting = [], 0

    def _fold(self) -> None:
        counts = _summed(_together([self._counts, *self._sums]))
        counts = counts.rows(np.lexsort((counts.key, counts.group)))
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
    """One row for each key, in the order of their first rows, with the entry of that row."""
    firsts, times = sums_of_pairs(counts.group, counts.key, counts.times)
    return counts.rows(firsts)._replace(times=times)
