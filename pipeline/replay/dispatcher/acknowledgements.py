"""Applies acknowledgements of whole entries and of batch indexes, and the moves of mark-delete (contract 5).

Mark-delete is the position up to which all entries are acknowledged. No recorder sees it move (contract 10), so it is
followed from the acknowledgements. An entry whose batch was acknowledged piecewise by several consumers is deleted at
the cursor and yet pending; on 4.0.x it is released when mark-delete passes it (contract 3.11, 5.3, 5.9). Snapshots
contain the position of the broker itself and correct the reconstructed one.
"""

from dispatch_audit.pipeline.contract.rules import FOREIGN_ACK, SENT_OFTEN, SENT_OFTEN_MIN
from dispatch_audit.pipeline.packing.events import Code
from dispatch_audit.pipeline.packing.membership_rows import TracePoint
from dispatch_audit.pipeline.replay.blocking.consumer_availability import is_released, mark_delete_is_guessed
from dispatch_audit.pipeline.replay.dispatcher.entry.entries import (
    free_entry,
    new_entry,
    note_settled,
    note_settling,
    note_without_publish,
    put_floor,
    was_passed,
    withdraw,
)
from dispatch_audit.pipeline.replay.dispatcher.entry.transitions import acknowledge, delete_at_cursor, remove_pending
from dispatch_audit.pipeline.replay.dispatcher.entry.waiting import stop_waiting
from dispatch_audit.pipeline.replay.dispatcher.flow_control import (
    charge,
    count_as_maybe_skipped,
    messages_left,
    note_capacity,
)
from dispatch_audit.pipeline.replay.durations import READ_US, SKIP_US
from dispatch_audit.pipeline.replay.rules.finding_records import report_row
from dispatch_audit.pipeline.replay.state.compiled import compiled
from dispatch_audit.pipeline.replay.state.output import RELEASED, By, Output
from dispatch_audit.pipeline.replay.state.records import UNKNOWN, EntryPosition, position_of, set_position
from dispatch_audit.pipeline.replay.state.state import ACKNOWLEDGEMENTS, Policy, State, Stretch, entry_at, was_reset
from dispatch_audit.pipeline.replay.state.values import CLOSED, SETS_IGNORED, UNSURE, Mark, Reset
from dispatch_audit.pipeline.replay.state.waiting_queues import dequeue, enqueue


@compiled
def was_skipped(state: State, ledger: int, entry: int, ts: int) -> bool:
    """Whether mark-delete jumped over a position without a slot so lately that a read in flight may still send it."""
    common, at = state.common, (ledger, entry)
    if common[0].jumped_ts == UNKNOWN or ts > common[0].jumped_ts + READ_US:
        return False
    return position_of(common[0].jumped_from) < at <= position_of(common[0].jumped_to)


@compiled
def advance(state: State, out: Output, point: TracePoint, releases: bool) -> None:
    """Moves mark-delete over the acknowledged entries up to the first gap.

    On some brokers it `releases` a pending entry that it passes (`Profile.mark_delete_releases`). Where rows have some
    of the hashes only, it stays: an entry of another hash may hold it up, and only snapshots show how far it is.
    """
    common = state.common
    if common[0].sampled == 1:
        return
    while True:
        slot = entry_at(state, common[0].mark_delete.ledger, common[0].mark_delete.entry + 1)
        if slot >= 0:
            if state.entries[slot].marks & Mark.ACKED == 0:
                return
            common[0].mark_delete.entry += 1
            if releases and state.entries[slot].holder >= 0:
                remove_pending(state, out, slot, point, By.MARK_DELETE)
            free_entry(state, slot)
        elif not _cross_ledger(state):
            return


@compiled
def _cross_ledger(state: State) -> bool:
    common = state.common
    for at in range(common[0].ledgers - 1):
        if state.ledgers[at].ledger == common[0].mark_delete.ledger:
            if common[0].mark_delete.entry < state.ledgers[at].end:
                return False
            common[0].mark_delete.ledger = state.ledgers[at + 1].ledger
            common[0].mark_delete.entry = -1
            return True
    return False


@compiled
def _passed_by_broker(state: State, out: Output, slot: int, point: TracePoint) -> None:
    """Notes that mark-delete passed an entry that nobody acknowledged, since the snapshot before, and no row says why.

    The broker expires messages by their TTL and evicts them by a quota of the backlog, without a request (E6).
    """
    entries, common, holder = state.entries, state.common, state.entries[slot].holder
    withdraw(state, out, slot, common[0].shown_ts, point.seq)
    if holder >= 0:
        entries[slot].marks |= Mark.MAYBE_SKIPPED
        count_as_maybe_skipped(state, holder, entries[slot].unacked)
        common[0].skip_begun_ts = max(common[0].skip_begun_ts, common[0].shown_ts)


@compiled
def jump(state: State, out: Output, ledger: int, entry: int, point: TracePoint, releases: bool) -> None:
    """Moves mark-delete to the broker's own position if that is higher, or if it was a guess."""
    common, entries = state.common, state.entries
    lower = (ledger, entry) < position_of(common[0].mark_delete)
    if common[0].mark_delete.ledger == UNKNOWN or (lower and mark_delete_is_guessed(state)):
        put_floor(state, ledger, entry + 1)
        return
    if (ledger, entry) <= position_of(common[0].mark_delete):
        return
    if common[0].jumped_ts == UNKNOWN or point.ts_us > common[0].jumped_ts + READ_US:
        common[0].jumped_from = common[0].mark_delete
    set_position(common[0].jumped_to, EntryPosition(ledger, entry))
    common[0].jumped_ts = point.ts_us
    set_position(common[0].mark_delete, EntryPosition(ledger, entry))
    for slot in range(entries.size):
        if entries[slot].ledger >= 0 and position_of(entries[slot]) <= (ledger, entry):
            waited = entries[slot].marks & Mark.WAITING != 0
            known = entries[slot].marks & (Mark.ACKED | UNSURE | Mark.VAGUE | Mark.UNPUBLISHED) == 0
            # Before the first join the subscription may not have been there.
            since_join = entries[slot].since.seq >= common[0].first_join_seq
            if waited and known and since_join and entries[slot].times_sent == 0:
                entries[slot].marks |= Mark.NEVER_SENT
            if entries[slot].marks & (Mark.ACKED | Mark.MAYBE_SKIPPED | Mark.IN_TRANSACTION) == 0:
                _passed_by_broker(state, out, slot, point)
            stop_waiting(state, slot, point.ts_us)
            # The trace has no acknowledgement of a pending entry. It stays pending unless mark-delete was moved over it
            # (E6). What a read in flight sent after that is below mark-delete and pending.
            dropped = entries[slot].sent_at.ts_us < common[0].skip_begun_ts
            if entries[slot].holder >= 0 and dropped and entries[slot].marks & Mark.MAYBE_SKIPPED != 0:
                remove_pending(state, out, slot, point, By.MARK_DELETE)
            if entries[slot].holder < 0:
                if waited:
                    # A read in flight may still send it.
                    entries[slot].marks |= Mark.ACKED_WHILE_QUEUED
                    entries[slot].acked_ts = point.ts_us
                if entries[slot].marks & Mark.ACKED == 0:
                    entries[slot].marks |= Mark.ACKED | Mark.PASSED
                else:
                    # A read in flight may still send it, so it keeps its slot for a while.
                    entries[slot].marks |= Mark.ACKED_WHILE_QUEUED
                free_entry(state, slot)
    advance(state, out, point, releases)


@compiled
def mark_delete_may_move(state: State, ts: int, over: bool) -> None:
    """Marks all entries as perhaps skipped: an administrator moves mark-delete, and the broker may drop them (E6).

    Unless it is `over`, this concerns entries that are published from here on too.
    """
    entries = state.entries
    state.common[0].skip_begun_ts = ts
    state.common[0].skip_until_ts = ts if over else ts + SKIP_US
    for slot in range(entries.size):
        if entries[slot].ledger < 0:
            continue
        waits = entries[slot].marks & Mark.WAITING != 0
        if waits:
            dequeue(state, slot)
        entries[slot].marks |= Mark.MAYBE_SKIPPED
        if waits:
            enqueue(state, slot)
    for consumer in range(state.consumers.size):
        newly = state.consumers[consumer].unacked - state.consumers[consumer].maybe_skipped
        count_as_maybe_skipped(state, consumer, newly)


@compiled
def acked(state: State, out: Output, rows: Stretch, i: int) -> None:
    """Applies one side of an acknowledgement of a whole entry."""
    events, consumer = rows.events, rows.consumers[i]
    point = TracePoint(events.seq[i], events.ts_us[i])
    state.common[0].acks_seen = 1
    ledger, entry = events.ledger[i], events.entry[i]
    slot = entry_at(state, ledger, entry)
    if state.consumers[consumer].leaving == CLOSED or state.common[0].resetting == Reset.BEGUN:
        # No row shows whether it was acknowledged before or after the cursor was reset.
        return
    if slot < 0:
        if state.common[0].sampled == 1 or was_passed(state, ledger, entry):
            # It is of a hash that is not in the sample, or was acknowledged before.
            return
        # Any consumer may acknowledge any position, also one that this trace has not named yet (contract 5.1).
        slot = new_entry(state, events, i)
        note_without_publish(state, slot)
        if was_reset(state):
            state.entries[slot].marks |= Mark.BEFORE_RESET
    if events.code[i] == Code.ACK_END and state.entries[slot].marks & Mark.SETTLING != 0:
        note_settled(state, slot)
        free_entry(state, slot)
        return
    state.entries[slot].marks |= Mark.COUNT_LOST
    in_transaction = events.words_left[i] < 0
    settled = Mark.ACKED | Mark.IN_TRANSACTION if in_transaction else Mark.ACKED
    if state.entries[slot].marks & settled != 0 and state.entries[slot].holder < 0:
        return
    state.checks.counts[ACKNOWLEDGEMENTS] += 1
    if state.entries[slot].holder >= 0:
        state.consumers[consumer].acked += 1
        held_us = point.ts_us - state.entries[slot].sent_at.ts_us
        state.consumers[consumer].longest_us = max(state.consumers[consumer].longest_us, held_us)
        latest = max(state.consumers[consumer].acked_sent_seq, state.entries[slot].sent_at.seq)
        state.consumers[consumer].acked_sent_seq = latest
        if state.entries[slot].holder != consumer:
            # If its holder acknowledges it as well, the broker counts it down twice (#24096).
            state.common[0].total_vague = 1
            uncounted = state.consumers[consumer].uncounted - state.entries[slot].unacked
            state.consumers[consumer].uncounted = max(uncounted, 0)
            row = report_row(state, out, FOREIGN_ACK, events, i, consumer, slot)
            out.findings[row].other_consumer = state.entries[slot].holder
            out.findings[row].other_seq = state.entries[slot].sent_at.seq
    if events.code[i] == Code.ACK_END:
        # Only the late side is recorded: it may have taken effect before a dispatch that was reported because of it.
        withdraw(state, out, slot, point.ts_us - rows.policy.skew_us, point.seq)
    else:
        note_settling(state, slot)
    if state.entries[slot].times_sent >= SENT_OFTEN_MIN:
        row = report_row(state, out, SENT_OFTEN, events, i, consumer, slot)
        out.findings[row].value = state.entries[slot].times_sent
    holder = state.entries[slot].holder
    acknowledge(state, out, slot, point, in_transaction)
    if holder >= 0:
        note_capacity(state, out, holder, point, By.ACK, rows.policy.report_min_us)
    _perhaps_deleted(state, out, slot, point, rows.policy)


@compiled
def _perhaps_deleted(state: State, out: Output, slot: int, point: TracePoint, policy: Policy) -> None:
    """Moves mark-delete, and frees the entry, as far as it is deleted at the cursor."""
    common = state.common
    ledger, entry = state.entries[slot].ledger, state.entries[slot].entry
    free_entry(state, slot)
    # The position after mark-delete, or the first of a ledger, which may follow the ledger of mark-delete.
    if entry == 0 or (ledger == common[0].mark_delete.ledger and entry == common[0].mark_delete.entry + 1):
        advance(state, out, point, policy.mark_delete_releases)
        if is_released(state):
            out.stop[0] = RELEASED


@compiled
def acked_in_part(state: State, out: Output, rows: Stretch, i: int) -> None:
    """ANDs one word of an ack set into the remaining messages of a batch; at zero the cursor deletes the entry (5.3).

    The entry stays pending until it is acknowledged as a whole or mark-delete passes it. In a transaction it is pending
    until all its messages are acknowledged; an abort sends it again also while it is (5.5).

    Where `acknowledgmentAtBatchIndexLevelEnabled` is off the cursor ignores ack sets outside of transactions, though
    the broker forgets the redelivery count.
    """
    state.common[0].acks_seen = 1
    events, entries = rows.events, state.entries
    slot = entry_at(state, events.ledger[i], events.entry[i])
    if slot < 0 or entries[slot].marks & Mark.ACKED != 0 or state.common[0].resetting != Reset.NONE:
        return
    entries[slot].marks |= Mark.COUNT_LOST
    word, words_left = events.word[i], events.words_left[i]
    in_transaction = words_left < 0
    if not in_transaction and state.common[0].ack_sets == SETS_IGNORED:
        return
    if in_transaction:
        words_left = ~words_left
        entries[slot].marks |= Mark.VAGUE
    if entries[slot].words_at == UNKNOWN:
        count = word + words_left + 1
        entries[slot].words_at = state.common[0].words_used
        entries[slot].words = count
        state.words[state.common[0].words_used : state.common[0].words_used + count] = -1
        state.common[0].words_used += count
    first, count = entries[slot].words_at, entries[slot].words
    if word < count:
        state.words[first + word] &= events.value[i]
    if words_left > 0:
        return
    point = TracePoint(events.seq[i], events.ts_us[i])
    held = entries[slot].holder
    # Java's bit sets end with the word of the last set bit, so the ack sets of one batch differ in length.
    state.words[first + min(word + 1, count) : first + count] = 0
    if held >= 0:
        left = messages_left(state, slot)
        if left == entries[slot].unacked and events.code[i] == Code.ACK_PART_START and not in_transaction:
            # Clients name a batch once for each of its messages, and the broker counts what a command acknowledges
            # as often as it names it (#24096).
            state.consumers[held].maybe_skipped += entries[slot].messages - left
            state.common[0].total_vague = 1
        charge(state, slot, held, left - entries[slot].unacked)
        entries[slot].unacked = left
        note_capacity(state, out, held, point, By.ACK, rows.policy.report_min_us)
    for at in range(first, first + count):
        if state.words[at] != 0:
            return
    if in_transaction:
        acknowledge(state, out, slot, point, True)
        return
    delete_at_cursor(state, slot, point.ts_us)
    if state.common[0].sampled == 1 and rows.policy.mark_delete_releases:
        # Mark-delete may pass it at any time, which only the next snapshot shows.
        entries[slot].marks |= Mark.VAGUE
        state.common[0].released_unseen = 1
    _perhaps_deleted(state, out, slot, point, rows.policy)
