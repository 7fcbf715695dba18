"""The dispatcher core: one loop over events, compiled, without I/O, clock or randomness.

What moves the mapping (joins, leaves, resets) is not decided here: those rows are intervals whose true moment is
found by looking ahead (`timeline`), and the caller calls `remap`, `depart`, `forget` and `doubt` between two
stretches of events.
"""

from typing import NamedTuple

import numpy as np

from pipeline.replay.compiled import compiled
from pipeline.replay.delay import begin_wait, end_delay, explain, note_limits
from pipeline.replay.draining import count_waiting, end_episode
from pipeline.replay.events import Code, Events
from pipeline.replay.mark_delete import advance, jump, note_position, put_floor, was_deleted
from pipeline.replay.output import (
    BY_ACK,
    BY_DISPATCH,
    BY_FLOW,
    BY_LEAVE,
    BY_REDELIVER,
    BY_RESET,
    CUMULATIVE_ACK,
    FOREIGN_ACK,
    STILL_OPEN,
    Output,
    nearly_full,
)
from pipeline.replay.progress import RELEASED, SAMPLE, end_hindrance, grant, judge, note_passed, stalls, unblock
from pipeline.replay.read_position import rewind
from pipeline.replay.rules import Dispatch, check_dispatch, report_row
from pipeline.replay.state import (
    ACKED,
    ACKNOWLEDGEMENTS,
    CONNECTED,
    COUNT_LOST,
    DELAYED,
    DELETED_ENTRY,
    DELETED_LEDGER,
    DONE,
    DOUBTFUL,
    GIVEN_BACK,
    HASHES_FREE,
    IN_REPLAY,
    NACKED,
    NEXT_SAMPLE_TS,
    NOBODY,
    PAUSE,
    RECENT_ENTRY,
    RECENT_LEDGER,
    RESETTING,
    SENT,
    SETTLING,
    STARTS_SEEN,
    UNKNOWN,
    UNLOOKED,
    WAITING,
    WORDS_USED,
    Ints,
    State,
)
from pipeline.replay.transitions import (
    acknowledge,
    add_entry,
    charge,
    delete_at_cursor,
    entry_at,
    expect_end,
    give_back,
    hold,
    let_go,
    messages_left,
    note_unsent,
    release,
    retire,
    see_end,
    set_key,
    settle,
    stop_waiting,
    wait,
    withdraw,
)
from pipeline.replay.waiting import dequeue, enqueue

PUBLISH = int(Code.PUBLISH)
PUBLISH_DELAYED = int(Code.PUBLISH_DELAYED)
DISPATCH_START = int(Code.DISPATCH_START)
DISPATCH_END = int(Code.DISPATCH_END)
ACK_START = int(Code.ACK_START)
ACK_END = int(Code.ACK_END)
ACK_PART_START = int(Code.ACK_PART_START)
ACK_PART_END = int(Code.ACK_PART_END)
ACK_CUMULATIVE = int(Code.ACK_CUMULATIVE)
REDELIVER = int(Code.REDELIVER)
REDELIVER_ALL = int(Code.REDELIVER_ALL)
FLOW = int(Code.FLOW)
MARK_DELETE = int(Code.MARK_DELETE)


class Mapping(NamedTuple):
    """A `Routing` whose owners are indexes of consumers in the state, -1: nobody."""

    uppers: Ints
    owners: Ints
    modulus: int


@compiled
def owner_of(mapping: Mapping, sticky_hash: int) -> int:
    """`Routing.owners_of` for one hash, which may be that of an earlier row: not every dispatch says its key."""
    slot = sticky_hash % mapping.modulus if mapping.modulus > 0 else sticky_hash
    return int(mapping.owners[np.searchsorted(mapping.uppers, slot)])


class Policy(NamedTuple):
    """What the profile and the subscription ask of the core.

    Attributes:
        skew_us: how far a row may lie behind what it records where its early side is missing.
        unordered_us: see `rules.check_dispatch`.
        mark_delete_releases: whether ordinary moves of mark-delete release pending entries (SEMANTICS 3.11).
        keeps_order: False for a subscription that allows out-of-order delivery (E5).
        sticky: whether its consumers name the hashes that they want (STICKY).
        unacked_max: maxUnackedMessagesPerConsumer; 0: no limit.
        shortest_us: how long a consumer must be hindered to be reported.
        stalled_us: how long nothing may happen, where something could, before it counts as a stall.
    """

    skew_us: int
    unordered_us: int
    mark_delete_releases: bool
    keeps_order: bool
    sticky: bool
    unacked_max: int
    shortest_us: int
    stalled_us: int


@compiled
def replay(
    state: State,
    out: Output,
    events: Events,
    consumers: Ints,
    hashes: Ints,
    mapping: Mapping,
    start: int,
    policy: Policy,
) -> int:
    """Applies events from row `start` on.

    Args:
        state: the state, with room for every row (`room.make_room`).
        out: where findings and ended episodes go.
        events: the rows, in the order of seq.
        consumers: for each row the index of its consumer in the state; -1 where it has none.
        hashes: for each row its sticky hash; -1 where it has none.
        mapping: the mapping in force.
        start: the first row to apply.
        policy: see `Policy`.

    Returns:
        The first row that was not applied: the number of rows, or less when `out` has to be emptied first, or when
        there is something to look at (`state.PAUSE`).
    """
    cells = state.cells
    for i in range(start, events.code.size):
        if nearly_full(out, state.hashes.size) or cells[PAUSE] != 0:
            return i
        if events.ts_us[i] >= cells[NEXT_SAMPLE_TS]:
            cells[PAUSE] = SAMPLE
            return i
        note_limits(state, events.ts_us[i])
        code = events.code[i]
        decided = code == DISPATCH_START or (code == DISPATCH_END and cells[STARTS_SEEN] == 0)
        if decided and stalls(state, events.seq[i], events.ts_us[i], policy.stalled_us):
            return i
        if code in (DISPATCH_START, DISPATCH_END):
            _dispatched(state, out, events, i, consumers[i], hashes[i], mapping, policy)
        elif code in (ACK_START, ACK_END):
            _acked(state, out, events, i, consumers[i], policy)
        elif code in (PUBLISH, PUBLISH_DELAYED):
            _published(state, events, i, hashes[i], mapping)
        elif code in (ACK_PART_START, ACK_PART_END):
            _acked_in_part(state, out, events, i, policy)
        elif code == ACK_CUMULATIVE:
            report_row(state, out, CUMULATIVE_ACK, events, i, consumers[i])
        elif code in (REDELIVER, REDELIVER_ALL):
            _redelivered(state, out, events, i, consumers[i], policy)
        elif code == FLOW:
            grant(state, consumers[i], events.value[i])
            _judge(state, out, events, i, consumers[i], BY_FLOW, policy)
        elif code == MARK_DELETE and state.cells[RESETTING] == 0:
            releases = policy.mark_delete_releases
            jump(state, out, events.ledger[i], events.entry[i], events.seq[i], events.ts_us[i], releases)
            _note_release(cells)
    return events.code.size


@compiled
def _redelivered(state: State, out: Output, events: Events, i: int, consumer: int, policy: Policy) -> None:
    if events.code[i] == REDELIVER_ALL:
        give_back_all(state, out, consumer, events.seq[i], events.ts_us[i], BY_REDELIVER)
    else:
        slot = entry_at(state, events.ledger[i], events.entry[i])
        # What it does not hold the broker leaves alone (5.6).
        if slot < 0 or state.entries[slot].holder != consumer:
            return
        give_back(state, out, slot, events.seq[i], events.ts_us[i], BY_REDELIVER)
    unblock(state, consumer, events.ts_us[i])
    _judge(state, out, events, i, consumer, BY_REDELIVER, policy)


@compiled
def _published(state: State, events: Events, i: int, sticky_hash: int, mapping: Mapping) -> None:
    entries = state.entries
    slot = entry_at(state, events.ledger[i], events.entry[i])
    if slot < 0:
        if was_deleted(state, events.ledger[i], events.entry[i]):
            return
        slot = _new_entry(state, events, i)
        set_key(state, slot, events.murmur[i], events.key_id[i], sticky_hash)
        entries[slot].messages = events.value[i]
        if events.code[i] == PUBLISH_DELAYED:
            entries[slot].marks |= DELAYED
        at = entries[slot].hash_at
        if at >= 0 and state.hashes[at].owner == UNLOOKED:
            state.hashes[at].owner = owner_of(mapping, sticky_hash)
        wait(state, slot, events.seq[i], events.ts_us[i])
    else:
        # The hooks run on different threads: the entry may have been dispatched already.
        set_key(state, slot, events.murmur[i], events.key_id[i], sticky_hash)
        if events.code[i] == PUBLISH_DELAYED and entries[slot].marks & WAITING == 0:
            entries[slot].marks |= DELAYED


@compiled
def _new_entry(state: State, events: Events, i: int) -> int:
    ledger, entry = events.ledger[i], events.entry[i]
    note_position(state, ledger, entry)
    if state.cells[DELETED_LEDGER] == UNKNOWN:
        put_floor(state, ledger, entry)
    return add_entry(state, ledger, entry)


@compiled
def _dispatched(
    state: State,
    out: Output,
    events: Events,
    i: int,
    consumer: int,
    sticky_hash: int,
    mapping: Mapping,
    policy: Policy,
) -> None:
    entries, cells = state.entries, state.cells
    slot = entry_at(state, events.ledger[i], events.entry[i])
    if events.code[i] == DISPATCH_START:
        cells[STARTS_SEEN] = 1
    elif cells[STARTS_SEEN] == 1:
        if slot >= 0:
            see_end(state, slot, consumer)
        return
    if slot < 0:
        deleted = was_deleted(state, events.ledger[i], events.entry[i])
        slot = _new_entry(state, events, i)
        entries[slot].messages = events.value[i]
        if deleted:
            entries[slot].marks = ACKED | SENT
    set_key(state, slot, events.murmur[i], events.key_id[i], sticky_hash)
    state.consumers[consumer].dispatched += 1
    if entries[slot].hash_at == UNKNOWN:
        # No row has said its key yet, so nothing can be held against it, nor it against others.
        entries[slot].marks |= SENT
        return
    sent = Dispatch(
        events.seq[i],
        events.ts_us[i],
        events.ledger[i],
        events.entry[i],
        entries[slot].hash_at,
        entries[slot].key_id,
        consumer,
        owner_of(mapping, state.hashes[entries[slot].hash_at].hash),
        events.word[i],
    )
    if policy.unordered_us > 0:
        # What overtook it may have been decided behind it, and recorded before.
        withdraw(state, out, slot, sent.ts_us - policy.unordered_us, sent.seq)
    check_dispatch(state, out, slot, sent, policy.unordered_us, policy.keeps_order, policy.sticky, policy.unacked_max)
    expect_end(state, out, slot)
    state.hashes[sent.hash_at].owner = sent.owner
    serve(state, out, sent.hash_at, sent.seq, sent.ts_us, BY_DISPATCH, policy)
    if entries[slot].holder >= 0 and entries[slot].holder != consumer:
        release(state, out, slot, sent.seq, sent.ts_us, BY_REDELIVER)
    hold(state, slot, consumer, sent.seq, sent.ts_us)
    if events.code[i] == DISPATCH_END:
        entries[slot].marks |= DONE
    _judge(state, out, events, i, consumer, BY_DISPATCH, policy)


@compiled
def _judge(state: State, out: Output, events: Events, i: int, consumer: int, ended_by: int, policy: Policy) -> None:
    seq, ts = events.seq[i], events.ts_us[i]
    judge(state, out, consumer, seq, ts, ended_by, policy.unacked_max, policy.shortest_us)


@compiled
def _acked(state: State, out: Output, events: Events, i: int, consumer: int, policy: Policy) -> None:
    ledger, entry = events.ledger[i], events.entry[i]
    slot = entry_at(state, ledger, entry)
    if slot < 0:
        if was_deleted(state, ledger, entry) or state.cells[RESETTING] == 1:
            return
        # Any consumer may acknowledge any position, also one that this trace has not shown yet (SEMANTICS 5.1).
        slot = _new_entry(state, events, i)
    if events.code[i] == ACK_END and state.entries[slot].marks & SETTLING != 0:
        settle(state, slot)
        return
    state.entries[slot].marks |= COUNT_LOST
    if state.entries[slot].marks & ACKED != 0 and state.entries[slot].holder < 0:
        return
    state.checked[ACKNOWLEDGEMENTS] += 1
    if state.entries[slot].holder >= 0:
        state.consumers[consumer].acked += 1
        if state.entries[slot].holder != consumer:
            row = report_row(state, out, FOREIGN_ACK, events, i, consumer)
            out.findings[row].other_consumer = state.entries[slot].holder
            out.findings[row].other_seq = state.entries[slot].sent_seq
            out.findings[row].hash = state.hashes[state.entries[slot].hash_at].hash
            out.findings[row].key_id = state.entries[slot].key_id
    if state.cells[RESETTING] == 1:
        # Before or after the cursor was reset? Nobody holds it for certain, nor is it deleted for certain.
        if state.entries[slot].holder >= 0:
            release(state, out, slot, events.seq[i], events.ts_us[i], BY_RESET)
        return
    if events.code[i] == ACK_END:
        # Only its late side is recorded: it may have taken effect before a dispatch that was held against it.
        withdraw(state, out, slot, events.ts_us[i] - policy.skew_us, events.seq[i])
    else:
        state.entries[slot].marks |= SETTLING
    holder = state.entries[slot].holder
    acknowledge(state, out, slot, events.seq[i], events.ts_us[i])
    if holder >= 0:
        _judge(state, out, events, i, holder, BY_ACK, policy)
    _deleted_at_cursor(state, out, slot, events.seq[i], events.ts_us[i], policy)


@compiled
def _deleted_at_cursor(state: State, out: Output, slot: int, seq: int, ts: int, policy: Policy) -> None:
    cells = state.cells
    ledger, entry = state.entries[slot].ledger, state.entries[slot].entry
    retire(state, slot)
    # The next in line, or the first of a ledger behind the one that mark-delete stands at the end of.
    if entry == 0 or (ledger == cells[DELETED_LEDGER] and entry == cells[DELETED_ENTRY] + 1):
        advance(state, out, seq, ts, policy.mark_delete_releases)
        _note_release(cells)


@compiled
def _note_release(cells: Ints) -> None:
    recent = (cells[RECENT_LEDGER], cells[RECENT_ENTRY])
    if cells[RECENT_LEDGER] != UNKNOWN and (cells[DELETED_LEDGER], cells[DELETED_ENTRY] + 1) >= recent:
        cells[PAUSE] = RELEASED


@compiled
def _acked_in_part(state: State, out: Output, events: Events, i: int, policy: Policy) -> None:
    """ANDs one word of an ack set into what is left of the batch; at zero the cursor has it deleted (5.3).

    The entry stays pending all the same, until it is acknowledged whole or mark-delete passes it.
    """
    entries = state.entries
    slot = entry_at(state, events.ledger[i], events.entry[i])
    if slot < 0 or entries[slot].marks & ACKED != 0 or state.cells[RESETTING] == 1:
        return
    entries[slot].marks |= COUNT_LOST
    word, words_left = events.word[i], events.words_left[i]
    if entries[slot].words_at == UNKNOWN:
        count = word + words_left + 1
        entries[slot].words_at = state.cells[WORDS_USED]
        entries[slot].words = count
        state.words[state.cells[WORDS_USED] : state.cells[WORDS_USED] + count] = -1
        state.cells[WORDS_USED] += count
    first, count = entries[slot].words_at, entries[slot].words
    if word < count:
        state.words[first + word] &= events.value[i]
    if words_left > 0:
        return
    held = entries[slot].holder
    # Java's bit sets leave out the words behind the last bit set, so the sets of one batch differ in length.
    state.words[first + min(word + 1, count) : first + count] = 0
    if held >= 0:
        left = messages_left(state, slot)
        charge(state, held, left - entries[slot].unacked)
        entries[slot].unacked = left
        _judge(state, out, events, i, held, BY_ACK, policy)
    if np.any(state.words[first : first + count] != 0):
        return
    delete_at_cursor(state, slot, events.ts_us[i])
    _deleted_at_cursor(state, out, slot, events.seq[i], events.ts_us[i], policy)


@compiled
def give_back_all(state: State, out: Output, consumer: int, seq: int, ts: int, ended_by: int) -> None:
    """Everything that `consumer` holds waits again."""
    entries = state.entries
    for slot in range(entries.size):
        if entries[slot].ledger >= 0 and entries[slot].holder == consumer:
            let_go(state, out, slot, seq, ts, ended_by)
    # Only now, when every episode is over that this ends: nobody waited for what the holder had itself.
    for slot in range(entries.size):
        given_back = entries[slot].marks & (GIVEN_BACK | ACKED) == GIVEN_BACK
        if entries[slot].ledger >= 0 and entries[slot].holder < 0 and given_back:
            wait(state, slot, seq, ts)


@compiled
def depart(state: State, out: Output, consumer: int, seq: int, ts: int) -> None:
    """The consumer is gone (SEMANTICS 3.6). With the last one the order starts anew: the cursor rewinds."""
    if state.consumers[consumer].connected == 0:
        return
    state.consumers[consumer].connected = 0
    state.consumers[consumer].leaving = 1
    state.cells[CONNECTED] -= 1
    give_back_all(state, out, consumer, seq, ts, BY_LEAVE)
    if state.cells[CONNECTED] == 0:
        _forget_order(state)


@compiled
def _forget_order(state: State) -> None:
    """The cursor rewinds to mark-delete: what waits is read anew, and the redelivery counts are lost (3.6, 5.8)."""
    for at in range(state.hashes.size):
        state.hashes[at].top_ledger = UNKNOWN
    rewind(state)
    entries = state.entries
    for slot in range(entries.size):
        if entries[slot].ledger < 0:
            continue
        entries[slot].redelivered = 0
        if entries[slot].marks & (WAITING | NACKED) == WAITING | NACKED:
            dequeue(state, slot)
            entries[slot].marks &= ~NACKED
            enqueue(state, slot)


@compiled
def serve(state: State, out: Output, at: int, seq: int, ts: int, ended_by: int, policy: Policy) -> None:
    """A hash is served or changes hands; from here on it waits anew."""
    count_waiting(state.hashes, at, ts)
    explain(state, out, at, seq, ts, ended_by, policy.shortest_us)
    note_passed(state, out, at, seq, ts, ended_by, policy.stalled_us)
    begin_wait(state, at, seq, ts)


@compiled
def interrupt(state: State, out: Output, seq: int, ts: int, ended_by: int, policy: Policy) -> None:
    """Before consumers come or go, or everything starts anew: what kept them from being sent anything is over."""
    for consumer in range(state.consumers.size):
        if state.consumers[consumer].connected == 1:
            end_hindrance(state, out, consumer, seq, ts, ended_by, policy.shortest_us)


@compiled
def reown(state: State, out: Output, mapping: Mapping, seq: int, ts: int, ended_by: int, policy: Policy) -> None:
    """Another mapping is in force: whose hash it is now."""
    for at in range(state.hashes.size):
        if state.hashes[at].hash >= 0:
            owner = owner_of(mapping, state.hashes[at].hash)
            if owner != state.hashes[at].owner:
                if state.hashes[at].owner == UNLOOKED:
                    begin_wait(state, at, seq, ts)
                serve(state, out, at, seq, ts, ended_by, policy)
                end_delay(state, out, at, ended_by)
                state.hashes[at].owner = owner
                begin_wait(state, at, seq, ts)
    for consumer in range(state.consumers.size):
        if state.consumers[consumer].connected == 1:
            judge(state, out, consumer, seq, ts, ended_by, policy.unacked_max, policy.shortest_us)


@compiled
def serve_all(state: State, out: Output, mapping: Mapping, seq: int, ts: int, ended_by: int, policy: Policy) -> None:
    """Everything starts anew, or the trace ends: what was passed over until now?"""
    for at in range(state.hashes.size):
        if state.hashes[at].hash >= 0:
            state.hashes[at].owner = owner_of(mapping, state.hashes[at].hash)
            serve(state, out, at, seq, ts, ended_by, policy)
            end_delay(state, out, at, ended_by)


@compiled
def doubt(state: State) -> None:
    """An administrator moves mark-delete: the broker may drop what is held, or waits, at any moment (E6)."""
    entries = state.entries
    for slot in range(entries.size):
        if entries[slot].ledger < 0:
            continue
        waits = entries[slot].marks & WAITING != 0
        if waits:
            dequeue(state, slot)
        entries[slot].marks |= DOUBTFUL
        if waits:
            enqueue(state, slot)


@compiled
def forget(state: State, out: Output, seq: int, ts: int) -> None:
    """A seek, unload or transfer: everything starts anew (E3). Only what was delayed is remembered of an entry."""
    entries = state.entries
    for slot in range(entries.size):
        if entries[slot].ledger < 0:
            continue
        if entries[slot].holder >= 0:
            release(state, out, slot, seq, ts, BY_RESET)
        stop_waiting(state, slot, ts)
        expect_end(state, out, slot)
        note_unsent(state, out, slot)
        entries[slot].sent_seq = UNKNOWN
        entries[slot].words_at = UNKNOWN
        entries[slot].marks &= DELAYED
    _forget_order(state)
    state.cells[DELETED_LEDGER] = UNKNOWN
    for place in range(state.consumers.size):
        state.consumers[place].leaving = 1


@compiled
def rekey(state: State, hashes: Ints) -> None:
    """Ties every entry to another hash; `hashes` has one for each slot, -1 where the key is not known."""
    entries = state.entries
    for at in range(state.hashes.size):
        if state.hashes[at].hash >= 0:
            state.hashes[at].hash = UNKNOWN
            state.hashes_free[state.cells[HASHES_FREE]] = at
            state.cells[HASHES_FREE] += 1
    state.hash_table[:] = NOBODY
    state.cells[IN_REPLAY] = 0
    for slot in range(entries.size):
        if entries[slot].ledger >= 0 and entries[slot].hash_at != UNKNOWN:
            entries[slot].hash_at = UNKNOWN
            set_key(state, slot, entries[slot].murmur, entries[slot].key_id, hashes[slot])
            if entries[slot].marks & WAITING != 0:
                enqueue(state, slot)
                state.hashes[entries[slot].hash_at].waiting += 1
                state.hashes[entries[slot].hash_at].waiting_messages += entries[slot].messages


@compiled
def close(state: State, out: Output, seq: int, ts: int) -> None:
    """The trace ends: episodes that are open are reported as such, and dispatches without an end are named."""
    for at in range(state.hashes.size):
        if state.hashes[at].hash >= 0 and state.hashes[at].draining_seq != UNKNOWN:
            end_episode(state, out, at, seq, ts, STILL_OPEN)
    for slot in range(state.entries.size):
        if state.entries[slot].ledger >= 0 and state.entries[slot].marks & ACKED == 0:
            expect_end(state, out, slot)
            note_unsent(state, out, slot)
