"""The rules that one dispatch can break (docs/RULES.md; contract 9.2), checked before it takes effect.

A recorded event is an interval, and a finding must be true at every moment of it (TRACE_FORMAT, "Phases"). So another
consumer counts as holder only while it certainly is one: from the decision to dispatch until the first sign of an
acknowledgement, a redelivery or a leave. Findings on dispatches that never reached their connection are dropped at the
end (`Output.unsent`).

The rules cannot see what a client does with a message, nor dispatches that the recorder lost.
"""

from dispatch_audit.pipeline.contract.rules import (
    EARLY_DUPLICATE,
    FIRST_DELIVERY_ORDER,
    GAP_DELIVERY,
    OWNERSHIP,
    REDELIVERY_COUNT,
    REDELIVERY_ORDER,
    REPLAY_OVERTAKEN,
    SINGLE_HOLDER,
)
from dispatch_audit.pipeline.replay.rules.finding_records import Dispatch, report, report_against
from dispatch_audit.pipeline.replay.state.compiled import compiled
from dispatch_audit.pipeline.replay.state.output import Output
from dispatch_audit.pipeline.replay.state.records import NOBODY, position_of
from dispatch_audit.pipeline.replay.state.state import (
    COUNTED_DISPATCHES,
    FIRST_DELIVERIES,
    LIMITED_DISPATCHES,
    Policy,
    Seen,
    SeenByRules,
)
from dispatch_audit.pipeline.replay.state.values import LEAVING, UNSURE, Mark, Reset
from dispatch_audit.pipeline.replay.state.waiting_queues import older_waiting

# How another consumer holds an entry, from the worst evidence to the best.
_DROPPED, _CERTAIN, _CERTAIN_AND_ENDED = 1, 2, 3


@compiled
def check_dispatch(
    state: SeenByRules, out: Output, slot: int, sent: Dispatch, policy: Policy, before_return: bool
) -> None:
    """Checks all rules for one dispatch, except those about the owner (`check_owner`) and limits (`limits`).

    No check changes what another one reads, so their order does not matter. The state is the one before the dispatch
    takes effect, and the hash of the entry in `slot` is known. `before_return` says whether the dispatch may have been
    decided before the redeliver command that last returned the entry; then its count may be one lower.
    """
    before_us = sent.ts_us - policy.unordered_us
    check_single_holder(state, out, slot, sent, before_us)
    check_early_duplicate(state, out, slot, sent, before_us)
    if state.common[0].resetting != Reset.NONE:
        # Waiting entries and counts may belong to the old dispatcher or to the new one: nothing is certain.
        return
    common, counts = state.common, state.checks.counts
    if sent.redelivery_count >= 0:
        counts[COUNTED_DISPATCHES] += 1
    if common[0].unacked_max > 0 or common[0].subscription_max > 0:
        counts[LIMITED_DISPATCHES] += 1
    if policy.keeps_order and is_first_delivery(state.entries[slot].marks):
        counts[FIRST_DELIVERIES] += 1
    check_overtaking(state, out, slot, sent, before_us)
    check_redelivery_count(state, out, slot, sent, before_return)
    if policy.keeps_order:
        check_first_delivery(state, out, slot, sent, before_us)


@compiled
def check_owner(state: Seen, out: Output, slot: int, sent: Dispatch, sticky: bool) -> None:
    """Checks V2, V12: the entry goes to the owner of its hash.

    If consumers declare their hashes (`sticky`), the other hashes have no owner.
    """
    if sent.owner != sent.consumer:
        row = report(state, out, GAP_DELIVERY if sticky and sent.owner < 0 else OWNERSHIP, slot, sent)
        out.findings[row].other_consumer = sent.owner


@compiled
def check_single_holder(state: SeenByRules, out: Output, slot: int, sent: Dispatch, before_us: int) -> None:
    """Checks V1, V3: no other consumer holds an entry of the hash.

    One that certainly does is reported, if possible of an ended dispatch; else one that a skip may have dropped (E6).
    The broker may keep a batch of which all messages are acknowledged (5.3), but only a hash that drains waits
    for that.
    """
    hashes, entries, at = state.hashes, state.entries, sent.hash_at
    if hashes[at].held_elsewhere == 0:
        holder = hashes[at].holder
        if hashes[at].held == 0 or holder == sent.consumer or state.consumers[holder].leaving != 0:
            return
    other, best, held = NOBODY, 0, hashes[at].first
    while held >= 0 and best < _CERTAIN_AND_ENDED:
        marks, holder = entries[held].marks, entries[held].holder
        how = 0
        if holder == sent.consumer or state.consumers[holder].leaving != 0:
            pass
        elif (marks & Mark.ACKED == 0 or hashes[at].away == 1) and _certainly_held(state, held, before_us):
            how = _CERTAIN_AND_ENDED if marks & Mark.DISPATCH_CONFIRMED != 0 else _CERTAIN
        elif marks & Mark.MAYBE_SKIPPED != 0:
            how = _DROPPED
        if how > best:
            other, best = held, how
        held = entries[held].next
    if other >= 0:
        report_against(state, out, SINGLE_HOLDER, slot, sent, other)


@compiled
def _certainly_held(state: Seen, slot: int, before_us: int) -> bool:
    entries = state.entries
    holder = entries[slot].holder
    return bool(
        holder >= 0
        and state.consumers[holder].leaving == 0
        and entries[slot].marks & (Mark.MAYBE_SKIPPED | Mark.VAGUE) == 0
        and entries[slot].sent_at.ts_us <= before_us
    )


@compiled
def check_early_duplicate(state: SeenByRules, out: Output, slot: int, sent: Dispatch, before_us: int) -> None:
    """Checks V7: the entry is neither held nor deleted."""
    if _certainly_held(state, slot, before_us):
        report_against(state, out, EARLY_DUPLICATE, slot, sent, slot)
        return
    marks = state.entries[slot].marks
    # An acknowledgement from before a restart of the broker comes late, and a read in flight may have the entry. It may
    # also send an acknowledged entry that was returned, or whose place no row shows.
    deleted = marks & Mark.PASSED != 0 or marks & (Mark.ACKED | Mark.RETURNED | UNSURE) == Mark.ACKED
    sent_before = state.entries[slot].holder < 0 and marks & Mark.SENT != 0
    if sent_before and deleted and state.common[0].resetting == Reset.NONE:
        row = report_against(state, out, EARLY_DUPLICATE, slot, sent, slot)
        out.findings[row].acknowledged = 1


@compiled
def check_overtaking(state: SeenByRules, out: Output, slot: int, sent: Dispatch, before_us: int) -> None:
    """Checks V5, V6: no older entry of the hash waits. Entries that may be overtaken (E1, E2, E6) are reported too."""
    hashes, at = state.hashes, sent.hash_at
    other = NOBODY
    if hashes[at].queue.first != slot or hashes[at].aside.first >= 0:
        other = older_waiting(state, slot, False)
        if other < 0:
            other = older_waiting(state, slot, True)
    if other >= 0:
        returned = state.entries[other].marks & Mark.RETURNED != 0
        left = state.consumers[sent.consumer].connected == 0 and state.entries[other].sent_to == sent.consumer
        if before_us < sent.ts_us and returned and left:
            # The dispatch was decided before the receiver, which then held the older entry, left.
            return
        report_against(state, out, REDELIVERY_ORDER if returned else REPLAY_OVERTAKEN, slot, sent, other)
        return
    other = _older_of_a_leaver(state, slot, sent, before_us)
    if other >= 0:
        row = report_against(state, out, REDELIVERY_ORDER, slot, sent, other)
        # The milder of the two cases is reported: the leaver has just returned the older entry.
        out.findings[row].other_marks |= Mark.RETURNED
        out.findings[row].other_since_seq = sent.seq
        out.findings[row].other_since_ts = sent.ts_us


@compiled
def _older_of_a_leaver(state: Seen, slot: int, sent: Dispatch, before_us: int) -> int:
    """The slot of an older entry whose holder, not the receiver, is about to leave or has just left; -1: none.

    In both cases the dispatched entry passes it: the leaver still holds the older entry, or that waits again (3.6).
    """
    hashes, entries = state.hashes, state.entries
    position = position_of(entries[slot])
    at = sent.hash_at
    holder = hashes[at].holder
    if hashes[at].held_elsewhere == 0 and (holder < 0 or state.consumers[holder].leaving != LEAVING):
        return NOBODY
    other = hashes[at].first
    while other >= 0:
        holder = entries[other].holder
        leaves = holder != sent.consumer and state.consumers[holder].leaving == LEAVING
        certain = entries[other].marks & (Mark.MAYBE_SKIPPED | Mark.VAGUE) == 0
        if leaves and certain and entries[other].sent_at.ts_us <= before_us and position_of(entries[other]) < position:
            return int(other)
        other = entries[other].next
    return NOBODY


@compiled
def check_redelivery_count(state: Seen, out: Output, slot: int, sent: Dispatch, before_return: bool) -> None:
    """Checks V8: the redelivery count is the number of redeliver commands that returned the entry."""
    if sent.redelivery_count < 0:
        return
    expected, marks = state.entries[slot].redelivered, state.entries[slot].marks
    lost = sent.redelivery_count < expected and marks & Mark.COUNT_LOST != 0
    # The count may be one higher if a redeliver row was recorded before it took effect.
    more = sent.redelivery_count == expected + 1 and marks & Mark.VAGUE != 0
    older = before_return and sent.redelivery_count == expected - 1
    if sent.redelivery_count != expected and not (lost or more or older):
        row = report(state, out, REDELIVERY_COUNT, slot, sent)
        out.findings[row].value = sent.redelivery_count
        out.findings[row].expected = expected


@compiled
def check_first_delivery(state: Seen, out: Output, slot: int, sent: Dispatch, before_us: int) -> None:
    """Checks V4: no later entry of the hash was sent before."""
    if not is_first_delivery(state.entries[slot].marks):
        return
    hashes, at = state.hashes, sent.hash_at
    if position_of(sent) > position_of(hashes[at].top) or hashes[at].top_at.ts_us > before_us:
        return
    row = report(state, out, FIRST_DELIVERY_ORDER, slot, sent)
    out.findings[row].other_consumer = hashes[at].top_consumer
    out.findings[row].other_seq = hashes[at].top_at.seq
    out.findings[row].other_ts = hashes[at].top_at.ts_us
    out.findings[row].other_ledger = hashes[at].top.ledger
    out.findings[row].other_entry = hashes[at].top.entry
    out.findings[row].other_key_id = hashes[at].top_key_id


@compiled
def is_first_delivery(marks: int) -> bool:
    """Whether the next dispatch of an entry with these marks is its first, with a promised order."""
    # An acknowledged entry was sent before, even without a row. It does not matter whether mark-delete passed it.
    return marks & (Mark.SENT | Mark.DELAYED | Mark.ACKED) == 0
