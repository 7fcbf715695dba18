"""Counts dispatches by key and hash, and the most pending entries of a hash at one time (Q18).

It counts decisions to dispatch, with redeliveries, as `Consumer.dispatched` does. A dispatch without a key has the key
of its entry if an earlier row names it; the others are counted as `unkeyed`.

Keys are counted in bounded memory: exactly up to a number of keys, with a known error beyond. Misra-Gries in its
mergeable form (Agarwal et al., "Mergeable Summaries", PODS 2012): when there are more keys than room, the count of the
largest key that does not fit is subtracted from every count, and keys without a rest are dropped. So no count is too
large, and none is too small by more than the sum of what was subtracted, which is at most the number of observations
divided by the room. This is not rare: a trace of keyless messages has a key for every entry (contract 1.1).

Observations are summed when there are as many of them as keys. So the result does not depend on how a trace is cut.
"""

from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dispatch_audit.pipeline.checkpointed import checkpointed
from dispatch_audit.pipeline.packing.events import Code, Events, among
from dispatch_audit.pipeline.replay.state.index import sums_of_pairs
from dispatch_audit.pipeline.replay.state.records import UNKNOWN, Ints
from dispatch_audit.pipeline.replay.state.state import State

ROOM: Final = 262_144
"""The number of keys that are counted exactly."""
_BLOCK: Final = 1 << 16
"""The least number of observations that are summed at a time."""


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


@checkpointed("heavy_hitters")
@dataclass(eq=False, slots=True)
class HeavyHitters:
    """Counts of keys."""

    _room: int = ROOM
    _block: int = _BLOCK
    error_max: int = 0  # the largest error by which a count is too small; 0: all are exact
    _counts: KeyCounts = field(default_factory=lambda: KeyCounts(*np.empty((5, 0), dtype=np.int64)))
    _new: list[KeyCounts] = field(default_factory=list)
    _waiting: int = 0  # the observations in `_new`, which may be many small parts

    def add(self, group: Ints, key: Ints, ledger: Ints, entry: Ints) -> None:
        """Takes observations, in the order of the trace; columns of equal length, which must not change afterwards."""
        seen = KeyCounts(group, key, np.ones(key.size, dtype=np.int64), ledger, entry)
        start = 0
        while (stop := start + max(self._counts.key.size, self._block) - self._waiting) <= key.size:
            self._new.append(seen.rows(slice(start, stop)))
            self._fold()
            start = stop
        if start < key.size:
            # A copy of a part, because a slice would keep the whole in memory.
            self._new.append(KeyCounts(*(column[start:].copy() for column in seen)) if start else seen)
            self._waiting += key.size - start

    def counts(self) -> KeyCounts:
        """The counts so far, ascending by group and key."""
        if self._new:
            self._fold()
        return self._counts

    def _fold(self) -> None:
        columns = zip(self._counts, *self._new, strict=True)
        counts = KeyCounts(*(np.concatenate(parts) for parts in columns))
        firsts, times = sums_of_pairs(counts.group, counts.key, counts.times)
        counts = counts.rows(firsts)._replace(times=times)
        counts = counts.rows(np.lexsort((counts.key, counts.group)))
        if counts.key.size > self._room:
            at = counts.key.size - self._room - 1
            too_many = int(np.partition(counts.times, at)[at])
            self.error_max += too_many
            counts = counts._replace(times=counts.times - too_many)
            counts = counts.rows(counts.times > 0)
        self._counts, self._new, self._waiting = counts, [], 0


_SORTED_MIN: Final = 1 << 14
_STARTS: Final = among(Code.DISPATCH_START)
_ENDS: Final = among(Code.DISPATCH_END)


@checkpointed("dispatch_counts")
@dataclass(eq=False, slots=True)
class DispatchCounts:
    """The dispatches of one subscription."""

    dispatched: int = 0  # the number of decisions to dispatch
    unkeyed: int = 0  # the number of those whose key no row had named by then
    keys: HeavyHitters = field(default_factory=HeavyHitters)  # the dispatches by hash and key id
    hashes: HeavyHitters = field(default_factory=HeavyHitters)  # the dispatches by hash

    def count(self, events: Events, hashes: Ints, decided: NDArray[np.intp]) -> None:
        """Takes events with the sticky hash of each (UNKNOWN: no row names its key), and which are decisions."""
        if not decided.size:
            return
        keyed = decided[hashes[decided] != UNKNOWN]
        self.dispatched += decided.size
        self.unkeyed += decided.size - keyed.size
        sticky, where = hashes[keyed], (events.ledger[keyed], events.entry[keyed])
        self.keys.add(sticky, events.key_id[keyed], *where)
        self.hashes.add(sticky, np.zeros_like(sticky), *where)


def decisions(events: Events, starts_seen: bool) -> NDArray[np.intp]:
    """The indexes of decisions to dispatch; an end counts as one until the recorder has written a start."""
    if not events.has(Code.DISPATCH_START, Code.DISPATCH_END):
        return np.empty(0, dtype=np.intp)
    starts = _STARTS[events.code]
    if not starts_seen:
        starts |= _ENDS[events.code] & ~np.logical_or.accumulate(starts)
    return np.flatnonzero(starts)


@checkpointed("peak")
class Peak(NamedTuple):
    """The most entries of a hash that were pending at one time, at all consumers together."""

    hash: Ints
    entries: Ints


@checkpointed("peaks")
@dataclass(eq=False, slots=True)
class Peaks:
    """The largest peaks of the hashes of one subscription.

    The state forgets hashes that are not in use and may meet them again, so a hash has the largest of its peaks. Only
    the `ROOM` largest peaks are kept, and a 4.x dispatcher has fewer hashes (contract 1.3). All that are dropped are
    smaller, so the kept ones are exact.
    """

    _parts: list[Peak] = field(default_factory=list)
    _size: int = 0

    def note_all(self, state: State) -> None:
        """Takes the peaks of all hashes in use; call before they are forgotten, and at the end."""
        hashes: Any = state.hashes
        used = hashes.hash != UNKNOWN
        self.note(hashes.hash[used], hashes.held_max[used])

    def note(self, hashes: Ints, peaks: NDArray[np.int32]) -> None:
        """Takes the peaks of some hashes; call before or right after these are forgotten. Columns of equal length."""
        held = peaks > 0
        self._parts.append(Peak(hashes[held], peaks[held].astype(np.int64)))
        self._size += int(np.count_nonzero(held))
        # Sort only when the new rows are at least as many as the kept ones, and not too few.
        if self._size > 2 * max(self._parts[0].hash.size, _SORTED_MIN):
            self.all()

    def all(self) -> Peak:
        """The kept peaks, ascending by hash; a missing hash had at most as many entries as the smallest of them."""
        nothing = np.empty(0, dtype=np.int64)
        peak = Peak(*(np.concatenate(columns) for columns in zip(Peak(nothing, nothing), *self._parts, strict=True)))
        peak = _rows(peak, np.lexsort((-peak.entries, peak.hash)))
        peak = _rows(peak, np.flatnonzero(np.diff(peak.hash, prepend=UNKNOWN)))
        if peak.hash.size > ROOM:
            peak = _rows(peak, np.sort(np.lexsort((peak.hash, -peak.entries))[:ROOM]))
        self._parts, self._size = [peak], peak.hash.size
        return peak


def _rows(peak: Peak, index: NDArray[np.intp]) -> Peak:
    return Peak(peak.hash[index], peak.entries[index])
