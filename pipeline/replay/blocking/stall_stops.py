"""Where the kernel stops because nothing was sent for long, so that the state can be looked at in front of a row."""

from typing import Final

from dispatch_audit.pipeline.packing.events import Code, Events
from dispatch_audit.pipeline.replay.state.compiled import compiled
from dispatch_audit.pipeline.replay.state.output import GIVES_UP, PASSES, STALLED
from dispatch_audit.pipeline.replay.state.records import position_of
from dispatch_audit.pipeline.replay.state.state import Seen, SeenByBlocking, entry_at
from dispatch_audit.pipeline.replay.state.values import Mark

_LOOKS_OF_A_STALL: Final = 4
"""So often at most the state is looked at in the shortest stall, in front of rows that take entries from consumers."""


@compiled
def stop_for_a_stall(state: SeenByBlocking, events: Events, i: int, longest_us: int) -> int:
    """Why the kernel stops in front of a row after nothing was sent to any consumer for `longest_us`; 0: it goes on.

    It stops once in front of a dispatch, which ends the stall (STALLED), once in front of a snapshot by which
    mark-delete passes what waits (PASSES), and now and then in front of a row that takes an entry from a consumer,
    which may end it (GIVES_UP): who held what shows in front of that row only.
    """
    common, waits, ts, code = state.common, state.waits.common, events.ts_us[i], events.code[i]
    silent_us = ts - max(common[0].last_dispatch.ts_us, common[0].waiting_since.ts_us)
    if common[0].waiting == 0 or silent_us < longest_us:
        return 0
    sends = code == Code.DISPATCH_START or (code == Code.DISPATCH_END and common[0].starts_seen == 0)
    if sends or (code == Code.MARK_DELETE and _passes_what_waits(state, events.ledger[i], events.entry[i])):
        if waits[0].stopped_at_seq == events.seq[i]:
            return 0
        waits[0].stopped_at_seq = events.seq[i]
        return STALLED if sends else PASSES
    if ts - waits[0].looked_ts < longest_us // _LOOKS_OF_A_STALL or not _takes_an_entry(state, events, i):
        return 0
    waits[0].looked_ts = ts
    return GIVES_UP


@compiled
def _passes_what_waits(state: Seen, ledger: int, entry: int) -> bool:
    """Whether mark-delete at a position is behind an entry that waits."""
    entries = state.entries
    for slot in range(entries.size):
        waits = entries[slot].ledger >= 0 and entries[slot].marks & Mark.WAITING != 0
        if waits and position_of(entries[slot]) <= (ledger, entry):
            return True
    return False


@compiled
def _takes_an_entry(state: Seen, events: Events, i: int) -> bool:
    """Whether a row takes an entry from the consumer that holds it."""
    code = events.code[i]
    if code in (Code.ACK_START, Code.ACK_END, Code.ACK_PART_START, Code.ACK_PART_END, Code.REDELIVER):
        slot = entry_at(state, events.ledger[i], events.entry[i])
        return bool(slot >= 0 and state.entries[slot].holder >= 0)
    return bool(code == Code.REDELIVER_ALL)
