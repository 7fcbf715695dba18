"""Takes and frees slots of entries, ties entries to their hashes, and notes what was read and what comes late or never.

A publish may be recorded after the dispatch of its entry (contract 10.3), so an entry without one is counted at the
first row that names it, and uncounted when its publish comes. Positions between two recorded publishes count as
published too: the state forgets entries that mark-delete has passed, and they may come again after a seek.

A dispatch without an end may not have left the broker, and a pending entry may have ended before its row. Findings that
depend on one of them are dropped (TRACE_FORMAT, "Phases").
"""

from typing import Final

from dispatch_audit.pipeline.packing.events import Code, Events
from dispatch_audit.pipeline.packing.membership_rows import TracePoint
from dispatch_audit.pipeline.replay.blocking.consumer_availability import begin_hash, note_head_read
from dispatch_audit.pipeline.replay.state.compiled import compiled
from dispatch_audit.pipeline.replay.state.index import drop, find, put
from dispatch_audit.pipeline.replay.state.kinds import ENTRY, HASH
from dispatch_audit.pipeline.replay.state.output import UNSENT, WITHDRAWN, Output
from dispatch_audit.pipeline.replay.state.records import UNKNOWN, EntryPosition, position_of, set_point, set_position
from dispatch_audit.pipeline.replay.state.state import State, entry_at, was_reset
from dispatch_audit.pipeline.replay.state.values import Mark, is_tracked

_NEW_ENTRY: Final = ENTRY.new(1)
_NEW_HASH: Final = HASH.new(1)
# A read in flight may send an entry with one of these marks after its acknowledgement, so it keeps its slot until
# `allocation` sweeps it: overlapping replay reads send what was replayed once more (F10), and a rewound cursor what a
# read from before has sent (F12).
_KEPT = Mark.ACKED_WHILE_QUEUED | Mark.SETTLING | Mark.REPLAYED | Mark.FROM_BEFORE


@compiled
def add_entry(state: State, ledger: int, entry: int) -> int:
    """Takes a slot for an entry that has none, and returns it."""
    entries, common = state.entries, state.common
    common[0].free_entries -= 1
    slot = int(state.entries_free[common[0].free_entries])
    entries[slot] = _NEW_ENTRY[0]
    entries[slot].ledger = ledger
    entries[slot].entry = entry
    state.checks.evidence_seq[slot] = UNKNOWN
    if was_read(state, ledger, entry):
        entries[slot].marks = Mark.READ
        entries[slot].read_ts = 0
    put(state.entry_table, ledger, entry, slot)
    return slot


@compiled
def free_entry(state: State, slot: int) -> None:
    """Frees the slot of an entry if it is acknowledged, not held, and mark-delete has passed it."""
    entries = state.entries
    marks = entries[slot].marks
    if marks & Mark.ACKED == 0 or marks & _KEPT != 0 or entries[slot].holder >= 0:
        return
    # At or below the floor a missing slot does not say that the entry was acknowledged.
    if was_passed(state, entries[slot].ledger, entries[slot].entry):
        free_slot(state, slot)


@compiled
def is_kept_for_a_read(state: State, slot: int) -> bool:
    """Whether an entry has its slot for an overlapping replay read only (F10): acknowledged, not held, and deleted."""
    entries, common = state.entries, state.common
    marks, at = entries[slot].marks, position_of(entries[slot])
    passed = at <= position_of(common[0].mark_delete)
    return bool(
        passed
        and marks & (Mark.ACKED | Mark.ACKED_WHILE_QUEUED | Mark.SETTLING) == Mark.ACKED
        and entries[slot].holder < 0
    )


@compiled
def free_slot(state: State, slot: int) -> None:
    """Frees a slot, whatever its entry is."""
    entries, common = state.entries, state.common
    note_settled(state, slot)
    drop(state.entry_table, entries.ledger, entries.entry, entries[slot].ledger, entries[slot].entry)
    entries[slot].ledger = UNKNOWN
    state.entries_free[common[0].free_entries] = slot
    common[0].free_entries += 1


@compiled
def note_settling(state: State, slot: int) -> None:
    """Notes that the acknowledgement of an entry has begun: the broker may count its messages until it ends."""
    if state.entries[slot].marks & Mark.SETTLING == 0:
        state.entries[slot].marks |= Mark.SETTLING
        state.common[0].settling += state.entries[slot].messages


@compiled
def note_settled(state: State, slot: int) -> None:
    """Notes that the acknowledgement of an entry has certainly taken effect, or does not matter any more."""
    if state.entries[slot].marks & Mark.SETTLING != 0:
        state.entries[slot].marks &= ~Mark.SETTLING
        state.common[0].settling -= state.entries[slot].messages


@compiled
def count_never_sent(state: State, slot: int) -> None:
    """Counts an entry that is forgotten, if mark-delete passed it and no read in flight has sent it since."""
    entry, common = state.entries[slot], state.common
    if entry.ledger < 0 or entry.marks & Mark.NEVER_SENT == 0 or entry.times_sent > 0:
        return
    state.entries[slot].marks &= ~Mark.NEVER_SENT
    first = position_of(common[0].never_sent_first)
    if common[0].never_sent > 0 and entry.key_id != common[0].never_sent_key:
        common[0].never_sent_key = UNKNOWN
    elif common[0].never_sent == 0:
        common[0].never_sent_key = entry.key_id
    if common[0].never_sent == 0 or position_of(entry) < first:
        set_position(common[0].never_sent_first, entry)
        set_point(common[0].never_sent_since, entry.since)
    common[0].never_sent += 1


@compiled
def was_read(state: State, ledger: int, entry: int) -> bool:
    """Whether the broker has certainly read a position: at least up to the highest one that was dispatched."""
    common = state.common
    return bool((ledger, entry) <= position_of(common[0].highest_dispatched))


@compiled
def note_read(state: State, ledger: int, entry: int, point: TracePoint) -> None:
    """Marks all entries up to a position as read: a dispatch at `point` shows it."""
    common, entries, ledgers = state.common, state.entries, state.ledgers
    if was_read(state, ledger, entry):
        return
    before_ledger, before_entry = common[0].highest_dispatched.ledger, common[0].highest_dispatched.entry
    set_position(common[0].highest_dispatched, EntryPosition(ledger, entry))
    for at in range(common[0].ledgers):
        passed = ledgers[at].ledger
        if before_ledger <= passed <= ledger:
            # Positions below the first one of a ledger that the trace names have no slot.
            first = max(before_entry + 1 if passed == before_ledger else 0, ledgers[at].first)
            last = entry if passed == ledger else ledgers[at].end
            for number in range(first, last + 1):
                slot = entry_at(state, passed, number)
                if slot >= 0 and entries[slot].marks & Mark.READ == 0:
                    entries[slot].marks |= Mark.READ
                    entries[slot].read_ts = point.ts_us
                    if entries[slot].marks & Mark.WAITING != 0 and not is_tracked(entries[slot].marks):
                        common[0].in_replay += 1
                        if state.hashes[entries[slot].hash_at].queue.first == slot:
                            note_head_read(state, entries[slot].hash_at, point)


@compiled
def was_passed(state: State, ledger: int, entry: int) -> bool:
    """Whether mark-delete has reached or passed a position, as far as the trace shows; not one that it began above."""
    common = state.common
    floor = position_of(common[0].floor)
    return bool(floor < (ledger, entry) <= position_of(common[0].mark_delete))


@compiled
def set_key(state: State, slot: int, murmur: int, key_id: int, sticky_hash: int) -> None:
    """Ties an entry to its hash, once: it is constant for the life of a dispatcher (1.4)."""
    entries, hashes, common = state.entries, state.hashes, state.common
    if entries[slot].hash_at != UNKNOWN or sticky_hash < 0:
        return
    at = find(state.hash_table, hashes.hash, hashes.hash, sticky_hash, sticky_hash)
    if at < 0:
        common[0].free_hashes -= 1
        at = int(state.hashes_free[common[0].free_hashes])
        hashes[at] = _NEW_HASH[0]
        hashes[at].hash = sticky_hash
        put(state.hash_table, sticky_hash, sticky_hash, at)
        begin_hash(state, at)
    entries[slot].hash_at = at
    entries[slot].murmur = murmur
    entries[slot].key_id = key_id


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


@compiled
def note_position(state: State, ledger: int, entry: int) -> None:
    """Notes a position in the first and last entry of its ledger; mark-delete crosses ledgers at the last entry."""
    ledgers, common = state.ledgers, state.common
    at = common[0].ledgers
    while at > 0 and ledgers[at - 1].ledger > ledger:
        at -= 1
    if at > 0 and ledgers[at - 1].ledger == ledger:
        ledgers[at - 1].first = min(ledgers[at - 1].first, entry)
        ledgers[at - 1].end = max(ledgers[at - 1].end, entry)
        return
    for later in range(common[0].ledgers, at, -1):
        ledgers[later] = ledgers[later - 1]
    ledgers[at].ledger = ledger
    ledgers[at].first = entry
    ledgers[at].end = entry
    common[0].ledgers += 1


@compiled
def put_floor(state: State, ledger: int, entry: int) -> None:
    """Sets mark-delete right before the first position seen; entries below it are unknown."""
    common = state.common
    set_position(common[0].mark_delete, EntryPosition(ledger, entry - 1))
    common[0].floor = common[0].mark_delete


@compiled
def new_entry(state: State, events: Events, i: int) -> int:
    """Takes a slot for the entry of a row, which has none, and returns it."""
    ledger, entry = events.ledger[i], events.entry[i]
    note_position(state, ledger, entry)
    # After a reset consumers acknowledge entries that they got before it, at any position.
    acknowledged = events.code[i] in (Code.ACK_START, Code.ACK_END) and was_reset(state)
    first = state.common[0].mark_delete.ledger == UNKNOWN and not acknowledged
    published, floor = events.code[i] in (Code.PUBLISH, Code.PUBLISH_DELAYED), position_of(state.common[0].floor)
    # Rows of publishes may be late.
    late = published and (ledger, entry) <= floor and floor == position_of(state.common[0].mark_delete)
    if first or late:
        put_floor(state, ledger, entry)
    slot = add_entry(state, ledger, entry)
    if (ledger, entry) <= position_of(state.common[0].deleted_before):
        state.entries[slot].marks |= Mark.ACKED_BEFORE
    return slot
