"""The read position as dispatches show it: waiting entries that were read are in the replay queue.

The broker has read at least up to the highest dispatched position, so `in_replay` is a lower bound of the replay queue.
The read position returns to mark-delete when the last consumer leaves and at a restart (contract 3.5, 3.6).
"""

from typing import Final

from dispatch_audit.pipeline.replay.state.availability import unavailable_us
from dispatch_audit.pipeline.replay.state.compiled import compiled
from dispatch_audit.pipeline.replay.state.pair_index import find
from dispatch_audit.pipeline.replay.state.state import (
    DELAYED,
    READ,
    SENT,
    UNKNOWN,
    WAITING,
    State,
)

READ_US: Final = 1_000_000
"""How long a read may be in flight: 0.7 to 40 ms were measured (contract 6.6, which allows 1 s)."""


@compiled
def was_read(state: State, ledger: int, entry: int) -> bool:
    """Whether the broker has certainly read this position."""
    return bool(
        (ledger, entry) <= (state.common[0].highest_dispatched_ledger, state.common[0].highest_dispatched_entry)
    )


@compiled
def note_read(state: State, ledger: int, entry: int, seq: int, ts: int) -> None:
    """Marks all entries up to a position as read: the dispatch in row `seq` shows it."""
    common = state.common
    if was_read(state, ledger, entry):
        return
    before_ledger, before_entry = common[0].highest_dispatched_ledger, common[0].highest_dispatched_entry
    common[0].highest_dispatched_ledger = ledger
    common[0].highest_dispatched_entry = entry
    for at in range(common[0].ledgers):
        passed = state.ledger_ids[at]
        if passed < before_ledger or passed > ledger:
            continue
        first = before_entry + 1 if passed == before_ledger else 0
        last = entry if passed == ledger else state.ledger_ends[at]
        # Positions below the first one of a ledger that the trace names have no slot.
        _mark_read(state, passed, max(first, state.ledger_firsts[at]), last, seq, ts)


@compiled
def _mark_read(state: State, ledger: int, first: int, last: int, seq: int, ts: int) -> None:
    entries, hashes = state.entries, state.hashes
    for entry in range(first, last + 1):
        slot = find(state.entry_table, entries.ledger, entries.entry, ledger, entry)
        if slot >= 0 and entries[slot].marks & READ == 0:
            entries[slot].marks |= READ
            entries[slot].read_ts = ts
            if entries[slot].marks & WAITING != 0 and entries[slot].marks & (DELAYED | SENT) != DELAYED:
                state.common[0].in_replay += 1
                at = entries[slot].hash_at
                if hashes[at].queue_first == slot:
                    hashes[at].read_seq = seq
                    hashes[at].read_ts = ts
                    hashes[at].read_unavailable_us = unavailable_us(state, hashes[at].owner, ts)


@compiled
def rewind(state: State) -> None:
    """Marks all entries as unread."""
    state.common[0].highest_dispatched_ledger = UNKNOWN
    state.common[0].in_replay = 0
    for slot in range(state.entries.size):
        if state.entries[slot].ledger >= 0:
            state.entries[slot].marks &= ~READ
