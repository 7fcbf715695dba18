"""Which keys and hashes are hot (Q18): by what was dispatched of them, and by what was pending of them at one time.

Counted are decisions to dispatch, redeliveries too, as `Consumer.dispatched` does. A dispatch that does not say its
key has that of its entry, if a row before it said it; the others are left out and counted as `unkeyed`.
"""

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.replay.packing.events import Code, Events
from pipeline.replay.state.state import UNKNOWN, Ints, State
from pipeline.replay.traffic.heavy_hitters import ROOM, HeavyHitters, KeyCounts

_LOOKED_AT_MIN: Final = 1 << 14


class DispatchCounts:
    """What was dispatched of one subscription.

    Attributes:
        dispatched: decisions to dispatch.
        unkeyed: those whose key no row had said by then.
    """

    def __init__(self, room: int = ROOM) -> None:
        """Takes how many keys, and how many hashes, are counted exactly."""
        self.dispatched = 0
        self.unkeyed = 0
        self._keys = HeavyHitters(room)
        self._hashes = HeavyHitters(room)

    def count(self, events: Events, hashes: Ints, decided: NDArray[np.bool_]) -> None:
        """Takes a stretch of events.

        Args:
            events: rows in the order of seq.
            hashes: the sticky hash of each row, UNKNOWN where nothing says it.
            decided: which rows are decisions to dispatch.
        """
        keyed = np.flatnonzero(decided & (hashes != UNKNOWN))
        decisions_here = int(np.count_nonzero(decided))
        self.dispatched += decisions_here
        self.unkeyed += decisions_here - keyed.size
        sticky, where = hashes[keyed], (events.ledger[keyed], events.entry[keyed])
        self._keys.add(sticky, events.key_id[keyed].astype(np.int64), *where)
        self._hashes.add(sticky, np.zeros_like(sticky), *where)

    def keys(self) -> tuple[KeyCounts, int]:
        """Dispatches by hash and key id, and by how much a count may be too small."""
        return self._keys.counts(), self._keys.error_max

    def hashes(self) -> tuple[KeyCounts, int]:
        """Dispatches by hash, and by how much a count may be too small."""
        return self._hashes.counts(), self._hashes.error_max


def decisions(events: Events, starts_seen: bool) -> NDArray[np.bool_]:
    """Which rows are decisions to dispatch: an end is one only as long as the recorder has written no start.

    Args:
        events: rows in the order of seq.
        starts_seen: whether a row before them was a start (`state.STARTS_SEEN`).
    """
    starts = events.code == Code.DISPATCH_START
    told = np.logical_or.accumulate(starts) | starts_seen
    decided: NDArray[np.bool_] = starts | ((events.code == Code.DISPATCH_END) & ~told)
    return decided


class Peak(NamedTuple):
    """The most entries of a hash that were pending at one time, at all consumers together."""

    hash: Ints
    entries: Ints


class Peaks:
    """The largest peaks of the hashes of one subscription.

    The state forgets a hash that nobody asks for, and may learn of it again: a hash has the largest of its peaks.
    Kept are the largest ones, which is exact: what is dropped is smaller than all that are kept.
    """

    def __init__(self, room: int = ROOM) -> None:
        """Takes how many hashes are remembered; a 4.x dispatcher has fewer (contract 1.3)."""
        self._room = room
        self._parts: list[Peak] = []
        self._size = 0

    def note(self, state: State) -> None:
        """Looks at every hash in use; called before any of them is forgotten, and at the end."""
        hashes: Any = state.hashes
        used = np.flatnonzero((hashes.hash != UNKNOWN) & (hashes.held_max > 0))
        self._parts.append(Peak(hashes.hash[used], hashes.held_max[used].astype(np.int64)))
        self._size += used.size
        # One sort for many looks: of as many rows as are kept, or of some that are few.
        if self._size > 2 * max(self._parts[0].hash.size, _LOOKED_AT_MIN):
            self.all()

    def all(self) -> Peak:
        """Ascending by hash; a hash that is missing had at most as many as the smallest of them."""
        nothing = np.empty(0, dtype=np.int64)
        peak = Peak(*(np.concatenate(columns) for columns in zip(Peak(nothing, nothing), *self._parts, strict=True)))
        peak = _rows(peak, np.lexsort((-peak.entries, peak.hash)))
        peak = _rows(peak, np.flatnonzero(np.diff(peak.hash, prepend=UNKNOWN)))
        if peak.hash.size > self._room:
            peak = _rows(peak, np.sort(np.lexsort((peak.hash, -peak.entries))[: self._room]))
        self._parts, self._size = [peak], peak.hash.size
        return peak


def _rows(peak: Peak, index: NDArray[np.intp]) -> Peak:
    return Peak(peak.hash[index], peak.entries[index])
