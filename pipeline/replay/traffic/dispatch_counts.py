"""Counts dispatches by key and hash, and the most pending entries of a hash at one time (Q18).

It counts decisions to dispatch, with redeliveries, as `Consumer.dispatched` does. A dispatch without a key has the key
of its entry if an earlier row names it; the others are counted as `unkeyed`.
"""

from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dispatch_audit.pipeline.checkpointed import checkpointed
from dispatch_audit.pipeline.replay.packing.events import Code, Events, among
from dispatch_audit.pipeline.replay.state.records import UNKNOWN, Ints
from dispatch_audit.pipeline.replay.state.state import State
from dispatch_audit.pipeline.replay.traffic.heavy_hitters import ROOM, HeavyHitters

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
