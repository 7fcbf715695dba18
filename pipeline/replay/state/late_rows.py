"""Rows that come late, or never: publishes, ends of dispatches, and what may have happened before its row.

A publish may be recorded after the dispatch of its entry (contract 10.3), so an entry without one is counted at the
first row that names it, and uncounted when its publish comes. Positions between two recorded publishes count as
published too: the state forgets entries that mark-delete has passed, and they may come again after a seek.

A dispatch without an end may not have left the broker, and a pending entry may have ended before its row. Findings that
depend on one of them are dropped (TRACE_FORMAT, "Phases").
"""

from dispatch_audit.pipeline.replay.state.compiled import compiled
from dispatch_audit.pipeline.replay.state.output import UNSENT, WITHDRAWN, Output
from dispatch_audit.pipeline.replay.state.records import UNKNOWN, EntryPosition, position_of, set_position
from dispatch_audit.pipeline.replay.state.state import Seen, State
from dispatch_audit.pipeline.replay.state.values import Mark


@compiled
def was_reset(state: Seen) -> bool:
    """Whether a seek, unload or transfer has reset the dispatcher, so that rows may be about what was before it."""
    return bool(state.common[0].unseen_until_ts != UNKNOWN)


@compiled
def note_published(state: State, ledger: int, entry: int) -> None:
    """Notes that the trace has the publish of a position."""
    common = state.common
    first = position_of(common[0].first_published)
    if common[0].first_published.ledger == UNKNOWN or (ledger, entry) < first:
        set_position(common[0].first_published, EntryPosition(ledger, entry))
    if (ledger, entry) > position_of(common[0].last_published):
        set_position(common[0].last_published, EntryPosition(ledger, entry))


@compiled
def note_without_publish(state: State, slot: int) -> None:
    """Counts a new entry that another row than its publish names first."""
    entries, common = state.entries, state.common
    at = position_of(entries[slot])
    first = position_of(common[0].first_published)
    last = position_of(common[0].last_published)
    if common[0].first_published.ledger == UNKNOWN or at < first or at > last:
        entries[slot].marks |= Mark.UNPUBLISHED
        common[0].without_publish += 1


@compiled
def expect_end(state: State, out: Output, slot: int) -> None:
    """Remembers a dispatch without an end before the entry is sent again: another thread may still record its end."""
    entries = state.entries
    note_unsent(state, out, slot)
    if (
        state.common[0].starts_seen == 1
        and entries[slot].sent_at.seq != UNKNOWN
        and entries[slot].marks & Mark.DISPATCH_CONFIRMED == 0
    ):
        entries[slot].before_seq = entries[slot].sent_at.seq
        entries[slot].before_to = entries[slot].sent_to


@compiled
def see_end(state: State, slot: int, consumer: int, ts_us: int, late_us: int) -> None:
    """Notes that a dispatch of the entry to `consumer` reached the connection: the earliest one without an end.

    One that took `late_us` or longer is remembered: the connection may have held up others until then (#26635).
    """
    entries, common = state.entries, state.common
    if entries[slot].before_seq != UNKNOWN and entries[slot].before_to == consumer:
        entries[slot].before_seq = UNKNOWN
    elif entries[slot].sent_to == consumer:
        if entries[slot].marks & Mark.DISPATCH_CONFIRMED == 0 and ts_us - entries[slot].sent_at.ts_us >= late_us:
            common[0].written_late_since_ts = entries[slot].sent_at.ts_us
            common[0].written_late_ts = ts_us
            common[0].written_late_to = consumer
        entries[slot].marks |= Mark.DISPATCH_CONFIRMED


@compiled
def note_unsent(state: State, out: Output, slot: int) -> None:
    """Reports the dispatch before the last one as unsent: its end will not come any more."""
    if state.entries[slot].before_seq != UNKNOWN:
        out.unsent[out.filled[UNSENT]] = state.entries[slot].before_seq
        out.filled[UNSENT] += 1
        state.entries[slot].before_seq = UNKNOWN


@compiled
def withdraw(state: State, out: Output, slot: int, since_us: int, seq: int) -> None:
    """Reports that the entry was perhaps neither pending nor waiting from `since_us` until the row `seq`.

    Findings from that time that depend on the entry are dropped. If there are none since its last dispatch, nothing is
    reported.
    """
    entries = state.entries
    if state.checks.evidence_seq[slot] > entries[slot].sent_at.seq:
        row = out.filled[WITHDRAWN]
        set_position(out.withdrawn[row], entries[slot])
        out.withdrawn[row].since_ts = since_us
        out.withdrawn[row].until_seq = seq
        out.filled[WITHDRAWN] = row + 1
