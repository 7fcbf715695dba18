"""Applies acknowledgements of whole entries and of batch indexes, and the moves of mark-delete (contract 5)."""

from dispatch_audit.pipeline.contract.rules import FOREIGN_ACK, SENT_OFTEN, SENT_OFTEN_MIN
from dispatch_audit.pipeline.replay.blocking.consumer_availability import is_released
from dispatch_audit.pipeline.replay.dispatcher.entry.entries import free_entry, was_passed
from dispatch_audit.pipeline.replay.dispatcher.entry.transitions import ack_completed, acknowledge, delete_at_cursor
from dispatch_audit.pipeline.replay.dispatcher.flow_control import charge, messages_left, note_capacity
from dispatch_audit.pipeline.replay.dispatcher.mark_delete import advance, new_entry
from dispatch_audit.pipeline.replay.packing.events import Code
from dispatch_audit.pipeline.replay.packing.membership_rows import TracePoint
from dispatch_audit.pipeline.replay.rules.finding_records import report_row
from dispatch_audit.pipeline.replay.state.compiled import compiled
from dispatch_audit.pipeline.replay.state.late_rows import note_without_publish, was_reset, withdraw
from dispatch_audit.pipeline.replay.state.output import BY_ACK, RELEASED, Output
from dispatch_audit.pipeline.replay.state.records import UNKNOWN
from dispatch_audit.pipeline.replay.state.state import ACKNOWLEDGEMENTS, Policy, State, Stretch, entry_at
from dispatch_audit.pipeline.replay.state.values import CLOSED, NO_RESET, RESET_BEGUN, SETS_IGNORED, Mark


@compiled
def acked(state: State, out: Output, rows: Stretch, i: int) -> None:
    """Applies one side of an acknowledgement of a whole entry."""
    events, consumer = rows.events, rows.consumers[i]
    point = TracePoint(events.seq[i], events.ts_us[i])
    state.common[0].acks_seen = 1
    ledger, entry = events.ledger[i], events.entry[i]
    slot = entry_at(state, ledger, entry)
    if state.consumers[consumer].leaving == CLOSED or state.common[0].resetting == RESET_BEGUN:
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
        ack_completed(state, slot)
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
            row = report_row(out, FOREIGN_ACK, events, i, consumer)
            out.findings[row].other_consumer = state.entries[slot].holder
            out.findings[row].other_seq = state.entries[slot].sent_at.seq
            out.findings[row].hash = state.hashes[state.entries[slot].hash_at].hash
            out.findings[row].key_id = state.entries[slot].key_id
    if events.code[i] == Code.ACK_END:
        # Only the late side is recorded: it may have taken effect before a dispatch that was reported because of it.
        withdraw(state, out, slot, point.ts_us - rows.policy.skew_us, point.seq)
    else:
        state.entries[slot].marks |= Mark.SETTLING
    if state.entries[slot].times_sent >= SENT_OFTEN_MIN:
        row = report_row(out, SENT_OFTEN, events, i, consumer)
        out.findings[row].value = state.entries[slot].times_sent
        out.findings[row].hash = state.hashes[state.entries[slot].hash_at].hash
        out.findings[row].key_id = state.entries[slot].key_id
    holder = state.entries[slot].holder
    acknowledge(state, out, slot, point, in_transaction)
    if holder >= 0:
        note_capacity(state, out, holder, point, BY_ACK, rows.policy.report_min_us)
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
        note_release(state, out)


@compiled
def note_release(state: State, out: Output) -> None:
    """Stops the kernel if mark-delete releases a recently joined consumer."""
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
    if slot < 0 or entries[slot].marks & Mark.ACKED != 0 or state.common[0].resetting != NO_RESET:
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
        note_capacity(state, out, held, point, BY_ACK, rows.policy.report_min_us)
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
