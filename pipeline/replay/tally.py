"""Counts by key in bounded memory: exact for as many keys as there is room for, and with a known error beyond.

Misra-Gries in its mergeable form (Agarwal et al., "Mergeable Summaries", PODS 2012): when more keys are counted than
there is room for, the count of the largest one that does not fit is taken off every count, and what is left of
nothing goes. No count is then too large, and none is too small by more than what was taken off in all, which is at
most the number of observations over the room. A trace of keyless messages has a key for every entry (SEMANTICS 1.1),
so this is no rare case.

Observations are folded in by a fixed number at a time: how a trace is cut must not show.
"""

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.replay.state import Ints

ROOM: Final = 262_144
"""Keys that are counted exactly; folding costs one sort of as many rows."""


class Counts(NamedTuple):
    """Keys with their counts, ascending by group and key; columns of equal length.

    Attributes:
        group: what the keys are told apart by first, the sticky hash for instance.
        key: an integer.
        times: how often it was seen, too small by at most `Tally.error_max`.
        ledger: an entry that it was seen with: the first one since it is counted,
        entry: the other half of its position.
    """

    group: Ints
    key: Ints
    times: Ints
    ledger: Ints
    entry: Ints

    def rows(self, index: NDArray[np.intp] | NDArray[np.bool_] | slice) -> "Counts":
        """Some of them."""
        return Counts(*(column[index] for column in self))


def _together(parts: list[Counts]) -> Counts:
    return Counts(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


class Tally:
    """Counts of keys.

    Attributes:
        error_max: by how much a count may be too small; 0: all are exact.
    """

    def __init__(self, room: int = ROOM) -> None:
        """Takes how many keys are counted exactly."""
        self.error_max = 0
        self._room = room
        self._counts = Counts(*(np.empty(0, dtype=np.int64) for _ in Counts._fields))
        self._new: list[Counts] = []
        self._new_size = 0

    def add(self, group: Ints, key: Ints, ledger: Ints, entry: Ints) -> None:
        """Takes observations, in the order of the trace; columns of equal length."""
        self._new.append(Counts(group, key, np.ones(key.size, dtype=np.int64), ledger, entry))
        self._new_size += key.size
        while self._new_size >= self._room:
            seen = _together(self._new)
            self._fold(seen.rows(slice(None, self._room)))
            self._new = [seen.rows(slice(self._room, None))]
            self._new_size -= self._room

    def counts(self) -> Counts:
        """What has been counted so far."""
        if self._new_size:
            self._fold(_together(self._new))
            self._new, self._new_size = [], 0
        return self._counts

    def _fold(self, seen: Counts) -> None:
        counts = _summed(_together([self._counts, seen]))
        if counts.key.size > self._room:
            at = counts.key.size - self._room - 1
            too_many = int(np.partition(counts.times, at)[at])
            self.error_max += too_many
            counts = counts._replace(times=counts.times - too_many)
            counts = counts.rows(counts.times > 0)
        self._counts = counts


def _summed(counts: Counts) -> Counts:
    """One row a key; of equal ones the first says where it was seen, because lexsort is stable."""
    ordered = counts.rows(np.lexsort((counts.key, counts.group)))
    other = np.ones(ordered.key.size, dtype=np.bool_)
    other[1:] = (ordered.group[1:] != ordered.group[:-1]) | (ordered.key[1:] != ordered.key[:-1])
    begins = np.flatnonzero(other)
    sums = np.add.reduceat(ordered.times, begins) if begins.size else ordered.times
    return ordered.rows(begins)._replace(times=sums)
