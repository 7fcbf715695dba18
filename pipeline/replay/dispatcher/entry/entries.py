"""Takes and frees slots of entries, ties entries to their hashes, and notes what was read and delivered."""

from typing import Final

from dispatch_audit.pipeline.replay.blocking.consumer_availability import begin_hash, note_head_read
from dispatch_audit.pipeline.replay.durations import READ_US
from dispatch_audit.pipeline.replay.packing.membership_rows import TracePoint
from dispatch_audit.pipeline.replay.rules.dispatch_rules import is_first_delivery
from dispatch_audit.pipeline.replay.rules.finding_records import Dispatch
from dispatch_audit.pipeline.replay.state.compiled import compiled
from dispatch_audit.pipeline.replay.state.index.pair_index import drop, find, put
from dispatch_audit.pipeline.replay.state.kinds import ENTRY, HASH
from dispatch_audit.pipeline.replay.state.late_rows import was_reset
from dispatch_audit.pipeline.replay.state.records import UNKNOWN, EntryPosition, position_of, set_point, set_position
from dispatch_audit.pipeline.replay.state.state import State, entry_at
from dispatch_audit.pipeline.replay.state.values import NO_RESET, Mark, is_tracked

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
    drop(state.entry_table, entries.ledger, entries.entry, entries[slot].ledger, entries[slot].entry)
    entries[slot].ledger = UNKNOWN
    state.entries_free[common[0].free_entries] = slot
    common[0].free_entries += 1


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
def may_be_far_behind(state: State) -> bool:
    """Whether the cursor may be in front of entries from before a reset: no row shows which of them it has to read."""
    common = state.common
    highest = position_of(common[0].highest_dispatched)
    at_reset = position_of(common[0].published_at_reset)
    return bool(was_reset(state) and (highest[0] == UNKNOWN or highest < at_reset))


@compiled
def shows_cursor(state: State, slot: int, ts: int) -> bool:
    """Whether a dispatch shows how far the cursor has read since it was rewound; ask before the dispatch is noted.

    What was sent since the rewind, or acknowledged in replay, comes from replay. What waited before the rewind may do
    so too: a read in flight as the last consumer left sends what it has to the next one, or puts it into replay (3.5,
    3.6).
    """
    common, entries = state.common, state.entries
    if max(entries[slot].sent_at.ts_us, entries[slot].acked_ts) > common[0].rewound.ts_us:
        return False
    left_behind = position_of(common[0].left_behind)
    waited = entries[slot].since.seq < common[0].rewound.seq and position_of(entries[slot]) <= left_behind
    return bool(not waited or ts > common[0].rewound.ts_us + READ_US)


@compiled
def note_read(state: State, ledger: int, entry: int, point: TracePoint) -> None:
    """Marks all entries up to a position as read: a dispatch at `point` shows it."""
    common = state.common
    if was_read(state, ledger, entry):
        return
    before_ledger, before_entry = common[0].highest_dispatched.ledger, common[0].highest_dispatched.entry
    set_position(common[0].highest_dispatched, EntryPosition(ledger, entry))
    for at in range(common[0].ledgers):
        passed = state.ledgers[at].ledger
        if passed < before_ledger or passed > ledger:
            continue
        first = before_entry + 1 if passed == before_ledger else 0
        last = entry if passed == ledger else state.ledgers[at].end
        # Positions below the first one of a ledger that the trace names have no slot.
        _mark_read(state, passed, max(first, state.ledgers[at].first), last, point)


@compiled
def _mark_read(state: State, ledger: int, first: int, last: int, point: TracePoint) -> None:
    entries, hashes = state.entries, state.hashes
    for entry in range(first, last + 1):
        slot = entry_at(state, ledger, entry)
        if slot >= 0 and entries[slot].marks & Mark.READ == 0:
            entries[slot].marks |= Mark.READ
            entries[slot].read_ts = point.ts_us
            if entries[slot].marks & Mark.WAITING != 0 and not is_tracked(entries[slot].marks):
                state.common[0].in_replay += 1
                at = entries[slot].hash_at
                if hashes[at].queue.first == slot:
                    note_head_read(state, at, point)


@compiled
def note_delivery(state: State, slot: int, sent: Dispatch, keeps_order: bool) -> None:
    """Notes a dispatch of an entry whose hash is known; call before it changes the marks of the entry."""
    entries, hashes, at = state.entries, state.hashes, sent.hash_at
    if state.common[0].resetting != NO_RESET:
        entries[slot].redelivered = max(sent.redelivery_count, 0)
        return
    if sent.redelivery_count >= 0:
        # Continue from the reported count, so that one error is one finding.
        entries[slot].redelivered = sent.redelivery_count
    if not is_first_delivery(entries[slot].marks) or not keeps_order:
        return
    if position_of(sent) > position_of(hashes[at].top):
        set_position(hashes[at].top, sent)
        set_point(hashes[at].top_at, sent)
        hashes[at].top_consumer = sent.consumer
        hashes[at].top_key_id = sent.key_id


@compiled
def recall_delivery(state: State, slot: int) -> None:
    """Takes the first delivery of an entry that has a slot again from its hash, if it was the hash's highest one.

    Only acknowledged entries lose their slots.
    """
    entries, hashes = state.entries, state.hashes
    at = entries[slot].hash_at
    if at < 0 or entries[slot].marks & Mark.PASSED != 0:
        return
    if position_of(hashes[at].top) == position_of(entries[slot]):
        entries[slot].marks |= Mark.ACKED | Mark.SENT | Mark.DISPATCH_CONFIRMED
        entries[slot].sent_to = hashes[at].top_consumer
        entries[slot].sent_at = hashes[at].top_at


@compiled
def was_passed(state: State, ledger: int, entry: int) -> bool:
    """Whether mark-delete has reached or passed a position, as far as the trace shows; not one that it began above."""
    common = state.common
    floor = position_of(common[0].floor)
    return bool(floor < (ledger, entry) <= position_of(common[0].mark_delete))


@compiled
def recall_acknowledgement(state: State, slot: int) -> None:
    """Marks an entry that is sent again although mark-delete had passed it before the last reset."""
    entries, common = state.entries, state.common
    before = position_of(common[0].deleted_before)
    if position_of(entries[slot]) <= before:
        entries[slot].marks |= Mark.ACKED_BEFORE


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
