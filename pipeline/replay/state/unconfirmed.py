"""Notes dispatches that may not have left the broker, and pending entries that may have ended before their row.

Findings that depend on one of them are dropped (TRACE_FORMAT, "Phases").
"""

from dispatch_audit.pipeline.replay.state.compiled import compiled
from dispatch_audit.pipeline.replay.state.output import UNSENT, WITHDRAWN, Output
from dispatch_audit.pipeline.replay.state.seen import Seen
from dispatch_audit.pipeline.replay.state.state import (
    DISPATCH_CONFIRMED,
    UNKNOWN,
    State,
)


@compiled
def expect_end(state: State, out: Output, slot: int) -> None:
    """Remembers a dispatch without an end before the entry is sent again: another thread may still record its end."""
    entries = state.entries
    note_unsent(state, out, slot)
    if (
        state.common[0].starts_seen == 1
        and entries[slot].sent_seq != UNKNOWN
        and entries[slot].marks & DISPATCH_CONFIRMED == 0
    ):
        entries[slot].before_seq = entries[slot].sent_seq
        entries[slot].before_to = entries[slot].sent_to


@compiled
def see_end(state: State, slot: int, consumer: int) -> None:
    """Notes that a dispatch of the entry to `consumer` reached the connection: the earliest one without an end."""
    entries = state.entries
    if entries[slot].before_seq != UNKNOWN and entries[slot].before_to == consumer:
        entries[slot].before_seq = UNKNOWN
    elif entries[slot].sent_to == consumer:
        entries[slot].marks |= DISPATCH_CONFIRMED


@compiled
def note_unsent(state: State, out: Output, slot: int) -> None:
    """Reports the dispatch before the last one as unsent: its end will not come any more."""
    if state.entries[slot].before_seq != UNKNOWN:
        out.unsent[out.filled[UNSENT]] = state.entries[slot].before_seq
        out.filled[UNSENT] += 1
        state.entries[slot].before_seq = UNKNOWN


@compiled
def withdraw(state: Seen, out: Output, slot: int, since_us: int, seq: int) -> None:
    """Reports that the entry was perhaps neither pending nor waiting from `since_us` until the row `seq`.

    Findings from that time that depend on the entry are dropped. If there are none since its last dispatch, nothing is
    reported.
    """
    entries = state.entries
    if state.checks.evidence_seq[slot] > entries[slot].sent_seq:
        row = out.filled[WITHDRAWN]
        out.withdrawn[row].ledger = entries[slot].ledger
        out.withdrawn[row].entry = entries[slot].entry
        out.withdrawn[row].since_ts = since_us
        out.withdrawn[row].until_seq = seq
        out.filled[WITHDRAWN] = row + 1
