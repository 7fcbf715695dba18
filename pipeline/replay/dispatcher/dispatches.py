"""Applies dispatches: the rules are checked first, and then the entry is pending at its receiver."""

from dispatch_audit.pipeline.contract.rules import ABORTED_ACKNOWLEDGEMENT, ACKNOWLEDGED_BEFORE_RESET
from dispatch_audit.pipeline.packing.events import Code
from dispatch_audit.pipeline.packing.membership_rows import TracePoint
from dispatch_audit.pipeline.replay.dispatcher.acknowledgements import was_skipped
from dispatch_audit.pipeline.replay.dispatcher.entry.entries import (
    expect_end,
    new_entry,
    note_without_publish,
    see_end,
    set_key,
    was_passed,
    withdraw,
)
from dispatch_audit.pipeline.replay.dispatcher.entry.transitions import add_pending, remove_pending
from dispatch_audit.pipeline.replay.dispatcher.entry.waiting import note_overdue
from dispatch_audit.pipeline.replay.dispatcher.flow_control import note_capacity
from dispatch_audit.pipeline.replay.dispatcher.join_leave_reset import hash_served
from dispatch_audit.pipeline.replay.rules.dispatch_rules import check_dispatch, check_owner, is_first_delivery
from dispatch_audit.pipeline.replay.rules.finding_records import Dispatch, report_row
from dispatch_audit.pipeline.replay.rules.limits import judge_limit_of_consumer, judge_limit_of_subscription
from dispatch_audit.pipeline.replay.state.compiled import compiled
from dispatch_audit.pipeline.replay.state.output import By, Output
from dispatch_audit.pipeline.replay.state.records import UNKNOWN, position_of, set_point, set_position
from dispatch_audit.pipeline.replay.state.state import (
    DISPATCHES,
    STICKY_DISPATCHES,
    Policy,
    State,
    Stretch,
    entry_at,
    owner_of,
)
from dispatch_audit.pipeline.replay.state.values import CLOSED, Mark, Reset


@compiled
def dispatched(state: State, out: Output, rows: Stretch, i: int) -> None:
    """Applies one side of a dispatch; where starts are recorded, its end only shows that it reached the connection."""
    entries, common = state.entries, state.common
    events, hashes, policy, consumer = rows.events, rows.hashes, rows.policy, rows.consumers[i]
    slot = entry_at(state, events.ledger[i], events.entry[i])
    if events.code[i] == Code.DISPATCH_START:
        common[0].starts_seen = 1
    elif common[0].starts_seen == 1:
        if slot >= 0:
            see_end(state, slot, consumer, events.ts_us[i], policy.stall_threshold_us)
        return
    anew = slot < 0
    if anew:
        deleted = common[0].resetting == Reset.NONE and was_passed(state, events.ledger[i], events.entry[i])
        slot = new_entry(state, events, i)
        entries[slot].messages = events.value[i]
        if deleted:
            skipped = was_skipped(state, events.ledger[i], events.entry[i], events.ts_us[i])
            entries[slot].marks = Mark.ACKED | Mark.PASSED if skipped else Mark.ACKED | Mark.SENT
        else:
            note_without_publish(state, slot)
    set_key(state, slot, events.murmur[i], events.key_id[i], hashes[i])
    if anew and common[0].resetting == Reset.NONE:
        _recall_delivery(state, slot)
    state.consumers[consumer].dispatched += 1
    if entries[slot].hash_at == UNKNOWN:
        # No row has named its key yet, so no rule can be checked.
        entries[slot].marks |= Mark.SENT
        return
    if hashes[i] < 0:
        hashes[i] = state.hashes[entries[slot].hash_at].hash
        events.key_id[i] = entries[slot].key_id
    sent = Dispatch(
        events.seq[i],
        events.ts_us[i],
        events.ledger[i],
        events.entry[i],
        entries[slot].hash_at,
        entries[slot].key_id,
        consumer,
        owner_of(state.routing, state.hashes[entries[slot].hash_at].hash),
        events.word[i],
    )
    if policy.unordered_us > 0:
        # A dispatch that seemed to overtake it may have been decided after it and recorded before it.
        withdraw(state, out, slot, sent.ts_us - policy.unordered_us, sent.seq)
    state.checks.counts[DISPATCHES] += 1
    if policy.sticky:
        state.checks.counts[STICKY_DISPATCHES] += 1
    check_owner(state, out, slot, sent, policy.sticky)
    # A consumer that a reset closed got it from the dispatcher before the reset.
    if state.consumers[consumer].leaving != CLOSED:
        _sent(state, out, rows, i, slot, sent)


@compiled
def _recall_delivery(state: State, slot: int) -> None:
    """Tells an entry that has a slot again who was sent it first, if it was the highest of its hash: acknowledged."""
    entries, hashes, at = state.entries, state.hashes, state.entries[slot].hash_at
    passed = entries[slot].marks & Mark.PASSED != 0
    if at >= 0 and not passed and position_of(hashes[at].top) == position_of(entries[slot]):
        entries[slot].marks |= Mark.ACKED | Mark.SENT | Mark.DISPATCH_CONFIRMED
        entries[slot].sent_to = hashes[at].top_consumer
        entries[slot].sent_at = hashes[at].top_at


@compiled
def _sent(state: State, out: Output, rows: Stretch, i: int, slot: int, sent: Dispatch) -> None:
    """Checks the rules for a dispatch and applies it."""
    entries, consumer, policy = state.entries, sent.consumer, rows.policy
    point = TracePoint(sent.seq, sent.ts_us)
    _note_sent_again(state, out, rows, i, slot, sent)
    vague = _perhaps_returned(state, slot, sent, policy)
    check_dispatch(state, out, slot, sent, policy, vague and policy.unordered_us > 0)
    if state.common[0].resetting == Reset.NONE:
        judge_limit_of_consumer(state, out, slot, sent)
        judge_limit_of_subscription(state, out, slot, sent)
    note_delivery(state, slot, sent, policy.keeps_order)
    expect_end(state, out, slot)
    state.hashes[sent.hash_at].owner = sent.owner
    note_overdue(state, out, slot, point, By.DISPATCH, policy.stall_threshold_us)
    hash_served(state, out, sent.hash_at, point, By.DISPATCH, policy)
    holder = entries[slot].holder
    if holder >= 0 and (holder != consumer or entries[slot].marks & Mark.VAGUE != 0):
        if holder != consumer:
            # It stays pending there, too, until that consumer acknowledges it, or gives it back (F10).
            entries[slot].also_at = holder
            state.consumers[holder].uncounted += entries[slot].unacked
        remove_pending(state, out, slot, point, By.REDELIVER)
    add_pending(state, slot, consumer, point)
    if vague:
        entries[slot].marks |= Mark.VAGUE
    if rows.events.code[i] == Code.DISPATCH_END:
        entries[slot].marks |= Mark.DISPATCH_CONFIRMED
    note_capacity(state, out, consumer, point, By.DISPATCH, policy.report_min_us)


@compiled
def _note_sent_again(state: State, out: Output, rows: Stretch, i: int, slot: int, sent: Dispatch) -> None:
    """Counts a dispatch, and reports one that shows that an acknowledgement was lost in a reset, or aborted."""
    entries = state.entries
    entries[slot].times_sent += 1
    lost = entries[slot].marks & Mark.ACKED_BEFORE != 0
    aborted = entries[slot].marks & (Mark.IN_TRANSACTION | Mark.SENT) == Mark.IN_TRANSACTION | Mark.SENT
    if aborted:
        # The abort has returned it.
        entries[slot].redelivered += 1
        entries[slot].marks |= Mark.COUNT_LOST
    if state.common[0].resetting != Reset.NONE:
        return
    entries[slot].marks &= ~Mark.ACKED_BEFORE
    if lost or aborted:
        rule = ACKNOWLEDGED_BEFORE_RESET if lost else ABORTED_ACKNOWLEDGEMENT
        row = report_row(state, out, rule, rows.events, i, sent.consumer, slot)
        out.findings[row].other_seq = entries[slot].sent_at.seq
        out.findings[row].other_consumer = entries[slot].sent_to


@compiled
def _perhaps_returned(state: State, slot: int, sent: Dispatch, policy: Policy) -> bool:
    """Whether a redeliver row before a dispatch may take effect after it (10.3), and return the entry at once."""
    entries = state.entries
    since_us = sent.ts_us - policy.unordered_us - policy.skew_us
    if entries[slot].named_ts >= since_us and entries[slot].named_by == sent.consumer:
        return True
    if entries[slot].marks & Mark.NACKED != 0 and entries[slot].since.ts_us >= since_us:
        # If the dispatch has the higher count, the row took effect before.
        return bool(0 <= sent.redelivery_count < entries[slot].redelivered)
    return bool(state.consumers[sent.consumer].redeliver_ts >= max(since_us, 1))


@compiled
def note_delivery(state: State, slot: int, sent: Dispatch, keeps_order: bool) -> None:
    """Notes a dispatch of an entry whose hash is known; call before it changes the marks of the entry."""
    entries, hashes, at = state.entries, state.hashes, sent.hash_at
    if state.common[0].resetting != Reset.NONE:
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
