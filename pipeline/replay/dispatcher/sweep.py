"""Frees slots of entries and hashes that no later row can need, so that keys that never come again fill no memory."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dispatch_audit.pipeline.replay.blocking.wait_causes import end_wait, may_go_on
from dispatch_audit.pipeline.replay.dispatcher.entry.entries import count_never_sent, free_slot, is_kept_for_a_read
from dispatch_audit.pipeline.replay.durations import SLOWEST_READ_US
from dispatch_audit.pipeline.replay.state.compiled import compiled
from dispatch_audit.pipeline.replay.state.index.pair_index import drop
from dispatch_audit.pipeline.replay.state.marks import Mark
from dispatch_audit.pipeline.replay.state.output import Output
from dispatch_audit.pipeline.replay.state.records import UNKNOWN, Ints, position_of
from dispatch_audit.pipeline.replay.state.state import State

# How a sweep finds a hash: without an entry (0), with such as are kept for a read in flight, or with open ones.
_KEPT, _OPEN = 1, 2


def sweep(state: State, out: Output, from_us: int, report_min_us: int) -> tuple[Ints, NDArray[np.int32]]:
    """Frees slots in place; returns the hashes that were freed, and the most entries of each that were pending at once.

    Arguments are those of `allocation.make_room`.
    """
    _sweep_entries(state, from_us - SLOWEST_READ_US)
    hashes: Any = state.hashes
    before = hashes.hash.copy()
    _sweep_hashes(state, out, from_us, report_min_us, np.zeros(before.size, dtype=np.int64))
    freed = np.flatnonzero(hashes.hash != before)
    return before[freed], hashes.held_max[freed]


@compiled
def _sweep_entries(state: State, before_us: int) -> None:
    """Frees entries below mark-delete that no consumer holds and no read in flight can send."""
    entries, common = state.entries, state.common
    for slot in range(entries.size):
        ledger, entry = entries[slot].ledger, entries[slot].entry
        if (
            ledger >= 0
            and entries[slot].holder < 0
            and entries[slot].marks & Mark.WAITING == 0
            and (entries[slot].marks & Mark.ACKED != 0 or common[0].mark_delete.ledger > ledger)
            and (ledger, entry) <= position_of(common[0].mark_delete)
            and max(entries[slot].sent_at.ts_us, entries[slot].acked_ts) < before_us
        ):
            count_never_sent(state, slot)
            free_slot(state, slot)


@compiled
def _sweep_hashes(state: State, out: Output, from_us: int, report_min_us: int, used: Ints) -> None:
    """Frees hashes without pending or waiting entries whose highest delivery is at or below mark-delete.

    Where an entry is kept for an overlapping read only, its hash keeps its slot, and its interval ends all the same. A
    hash whose interval may go on keeps both. `used` has a zero for each slot of a hash, because a compiled function
    cannot make an array.
    """
    entries, hashes, common = state.entries, state.hashes, state.common
    for slot in range(entries.size):
        at = entries[slot].hash_at
        if entries[slot].ledger >= 0 and at >= 0:
            used[at] = max(used[at], _KEPT if is_kept_for_a_read(state, slot) else _OPEN)
    deleted = position_of(common[0].mark_delete)
    for at in range(hashes.size):
        if hashes[at].hash < 0 or used[at] == _OPEN or position_of(hashes[at].top) > deleted:
            continue
        if may_go_on(state, at, from_us, report_min_us):
            continue
        end_wait(state, out, at)
        if used[at] == 0:
            drop(state.hash_table, hashes.hash, hashes.hash, hashes[at].hash, hashes[at].hash)
            hashes[at].hash = UNKNOWN
            state.hashes_free[common[0].free_hashes] = at
            common[0].free_hashes += 1
