"""Applies joins, leaves, new owners of hashes, resets, gaps and the end of the trace to the whole state.

`Dispatcher` calls these functions between two stretches of events, because the true moment of a change is found by
looking ahead (`timeline`).
"""

from dispatch_audit.pipeline.packing.membership_rows import TracePoint
from dispatch_audit.pipeline.replay.blocking.consumer_availability import end_unavailability
from dispatch_audit.pipeline.replay.blocking.passed_over import note_starved
from dispatch_audit.pipeline.replay.blocking.wait_causes import begin_wait, end_wait, explain, note_free, note_move
from dispatch_audit.pipeline.replay.dispatcher.entry.draining import count_waiting, end_episode
from dispatch_audit.pipeline.replay.dispatcher.entry.entries import (
    count_never_sent,
    expect_end,
    free_slot,
    is_kept_for_a_read,
    note_settled,
    note_unsent,
    set_key,
)
from dispatch_audit.pipeline.replay.dispatcher.entry.transitions import remove_pending, return_also, return_to_replay
from dispatch_audit.pipeline.replay.dispatcher.entry.waiting import (
    begin_waiting,
    note_overdue_of,
    stop_waiting,
)
from dispatch_audit.pipeline.replay.dispatcher.flow_control import note_capacities
from dispatch_audit.pipeline.replay.state.compiled import compiled
from dispatch_audit.pipeline.replay.state.kinds import COMMON, CONSUMER
from dispatch_audit.pipeline.replay.state.memories import CLAIM, CONSUMER_LIMIT, CONSUMER_WAIT, LIMIT, WAIT, LimitsSeen
from dispatch_audit.pipeline.replay.state.output import By, Output
from dispatch_audit.pipeline.replay.state.records import NOBODY, UNKNOWN, Ints, position_of, set_point
from dispatch_audit.pipeline.replay.state.state import Policy, State, new_state, owner_of
from dispatch_audit.pipeline.replay.state.values import CLOSED, LEAVING, UNLOOKED, Mark, Reset, is_due
from dispatch_audit.pipeline.replay.state.waiting_queues import dequeue, enqueue


@compiled
def return_all(state: State, out: Output, consumer: int, point: TracePoint, ended_by: int) -> None:
    """Returns all pending entries of a consumer, so that they wait again: By.REDELIVER, or By.LEAVE."""
    entries = state.entries
    for slot in range(entries.size):
        if entries[slot].ledger >= 0 and entries[slot].holder == consumer:
            return_to_replay(state, out, slot, point, ended_by)
        return_also(state, slot, consumer)
    if state.common[0].resetting != Reset.NONE:
        # No dispatcher can send them, and the new position of the cursor is unknown.
        return
    # Only after all episodes of the consumer have ended, because the entries did not wait for their own holder.
    for slot in range(entries.size):
        returned = entries[slot].marks & (Mark.RETURNED | Mark.ACKED) == Mark.RETURNED
        if entries[slot].ledger >= 0 and entries[slot].holder < 0 and returned:
            begin_waiting(state, slot, point)


@compiled
def consumer_left(state: State, out: Output, consumer: int, point: TracePoint, skew_us: int) -> None:
    """Removes a consumer (contract 3.6). When the last one leaves, the cursor rewinds and the order starts anew."""
    if state.consumers[consumer].connected == 0:
        return
    state.consumers[consumer].connected = 0
    state.consumers[consumer].leaving = max(state.consumers[consumer].leaving, LEAVING)
    state.common[0].connected -= 1
    if state.consumers[consumer].unacked > 0:
        # Some versions subtract what they have not removed (#26422).
        state.common[0].total_vague = 1
    entries = state.entries
    for slot in range(entries.size):
        # A redeliver command that takes effect after its row, and so after the leave, does not count (5.8).
        returned = entries[slot].ledger >= 0 and entries[slot].marks & Mark.NACKED != 0
        if returned and entries[slot].sent_to == consumer and entries[slot].since.ts_us + skew_us >= point.ts_us:
            entries[slot].marks |= Mark.COUNT_LOST
    return_all(state, out, consumer, point, By.LEAVE)
    if state.common[0].connected == 0:
        rewind(state, point)
        # From here on they wait for a consumer.
        set_point(state.common[0].waiting_since, point)


@compiled
def rewind(state: State, point: TracePoint) -> None:
    """Rewinds the cursor to mark-delete: waiting entries are read anew, redelivery counts are lost (3.5, 3.6, 5.8)."""
    entries, common = state.entries, state.common
    common[0].total_vague = 0
    common[0].left_behind = common[0].highest_dispatched
    left_behind, published = position_of(common[0].left_behind), position_of(common[0].last_published)
    if left_behind[0] != UNKNOWN and published > left_behind:
        # A normal read that was over by then is sent as a replay read is: it may have brought all that was published.
        common[0].left_behind = common[0].last_published
    set_point(common[0].rewound, point)
    common[0].highest_dispatched.ledger = UNKNOWN
    common[0].reported_read.ledger = UNKNOWN
    common[0].in_replay = 0
    for at in range(state.hashes.size):
        state.hashes[at].top.ledger = UNKNOWN
    for slot in range(entries.size):
        if entries[slot].ledger < 0:
            continue
        entries[slot].marks &= ~Mark.READ
        entries[slot].redelivered = 0
        if entries[slot].marks & Mark.WAITING != 0:
            entries[slot].marks |= Mark.IN_BACKLOG
        if entries[slot].marks & (Mark.WAITING | Mark.NACKED) == Mark.WAITING | Mark.NACKED:
            dequeue(state, slot)
            entries[slot].marks &= ~Mark.NACKED
            enqueue(state, slot)


@compiled
def reset_takes_effect(state: State, out: Output, point: TracePoint, skew_us: int) -> None:
    """Clears the state (E3): entries keep only that they are delayed or without a publish, and none waits.

    No row has the new position of the cursor. So an entry from before the reset waits again only when it is sent again
    and then returned.
    """
    entries = state.entries
    over = state.common[0].resetting == Reset.ENDED
    state.common[0].resetting = Reset.NONE if over else Reset.RESTARTED
    state.common[0].unseen_until_ts = max(state.common[0].unseen_until_ts, point.ts_us + skew_us)
    for slot in range(entries.size):
        count_never_sent(state, slot)
        # No read survives a reset.
        if entries[slot].ledger >= 0 and is_kept_for_a_read(state, slot):
            free_slot(state, slot)
        if entries[slot].ledger < 0:
            continue
        if entries[slot].holder >= 0:
            remove_pending(state, out, slot, point, By.RESET)
        stop_waiting(state, slot, point.ts_us)
        expect_end(state, out, slot)
        note_unsent(state, out, slot)
        note_settled(state, slot)
        entries[slot].sent_at.seq = UNKNOWN
        state.checks.evidence_seq[slot] = UNKNOWN
        entries[slot].words_at = UNKNOWN
        if entries[slot].marks & (Mark.ACKED | Mark.PASSED | Mark.IN_TRANSACTION) == Mark.ACKED:
            entries[slot].marks |= Mark.ACKED_BEFORE
        entries[slot].marks &= Mark.DELAYED | Mark.UNPUBLISHED | Mark.IN_TRANSACTION | Mark.ACKED_BEFORE
        entries[slot].marks |= Mark.BEFORE_RESET
    rewind(state, point)
    if position_of(state.common[0].mark_delete) > position_of(state.common[0].deleted_before):
        # What is sent again from below it had been acknowledged or skipped.
        state.common[0].deleted_before = state.common[0].mark_delete
    # What the former dispatcher has read is lost with it.
    state.common[0].left_behind.ledger = UNKNOWN
    state.common[0].published_at_reset = state.common[0].last_published
    state.common[0].mark_delete.ledger = UNKNOWN
    for consumer in range(state.consumers.size):
        if state.consumers[consumer].connected == 1 or state.consumers[consumer].leaving != 0:
            state.consumers[consumer].leaving = CLOSED


def without_entries(state: State) -> State:
    """The state after a gap: the same consumers and counts, no entries and hashes, and arrays of the same sizes.

    What rows have shown of entries and hashes is no longer certain. Consumers stay connected, unless joins and leaves
    may be missing too; then the caller judges nothing by them.
    """
    found = new_state(state.entries.size, state.hashes.size, 0, state.words.size, state.ledgers.size)
    common, waits, limits = COMMON.anew(state.common), state.waits, state.limits
    for name in ("free_entries", "free_hashes"):
        common[name] = found.common[name]
    return found._replace(
        consumers=CONSUMER.anew(state.consumers),
        common=common,
        routing=state.routing,
        waits=found.waits._replace(consumers=CONSUMER_WAIT.anew(waits.consumers), common=WAIT.anew(waits.common)),
        limits=LimitsSeen(CONSUMER_LIMIT.anew(limits.consumers), CLAIM.anew(limits.claims), LIMIT.anew(limits.common)),
        checks=found.checks._replace(counts=state.checks.counts),
    )


@compiled
def close(state: State, out: Output, point: TracePoint) -> None:
    """Reports open episodes and dispatches without an end at the end of the trace."""
    for at in range(state.hashes.size):
        if state.hashes[at].hash >= 0 and state.hashes[at].episode.from_seq != UNKNOWN:
            end_episode(state, out, at, point, By.OPEN)
    for slot in range(state.entries.size):
        count_never_sent(state, slot)
        if state.entries[slot].ledger >= 0 and state.entries[slot].marks & Mark.ACKED == 0:
            expect_end(state, out, slot)
            note_unsent(state, out, slot)


@compiled
def hash_served(state: State, out: Output, at: int, point: TracePoint, ended_by: int, policy: Policy) -> None:
    """Ends the wait of a hash that is served or moves, and begins the next one."""
    count_waiting(state.hashes, at, point.ts_us)
    explain(state, out, at, point, ended_by, policy.report_min_us)
    note_starved(state, out, at, point, ended_by, policy.stall_threshold_us)
    begin_wait(state, at, point)


@compiled
def end_unavailability_of_all(state: State, out: Output, point: TracePoint, ended_by: int, policy: Policy) -> None:
    """Ends the intervals of all unavailable consumers; call before joins, leaves and resets."""
    for consumer in range(state.consumers.size):
        if state.consumers[consumer].connected == 1:
            end_unavailability(state, out, consumer, point, ended_by, policy.report_min_us)


@compiled
def change_owners(state: State, out: Output, point: TracePoint, ended_by: int, policy: Policy) -> None:
    """Gives every hash its owner in a new routing, and ends the waits of those that move."""
    for at in range(state.hashes.size):
        if state.hashes[at].hash >= 0:
            owner = owner_of(state.routing, state.hashes[at].hash)
            if owner != state.hashes[at].owner:
                if state.hashes[at].owner == UNLOOKED:
                    begin_wait(state, at, point)
                note_overdue_of(state, out, at, point, ended_by, policy.stall_threshold_us)
                note_move(state, at, point.ts_us)
                hash_served(state, out, at, point, ended_by, policy)
                end_wait(state, out, at)
                state.hashes[at].owner = owner
                begin_wait(state, at, point)
    note_capacities(state, out, point, ended_by, policy.report_min_us)


@compiled
def all_hashes_served(state: State, out: Output, point: TracePoint, ended_by: int, policy: Policy) -> None:
    """Ends the waits of all hashes and reports starved ones; call before a reset or the end."""
    for at in range(state.hashes.size):
        if state.hashes[at].hash >= 0:
            state.hashes[at].owner = owner_of(state.routing, state.hashes[at].hash)
            note_overdue_of(state, out, at, point, ended_by, policy.stall_threshold_us)
            hash_served(state, out, at, point, ended_by, policy)
            end_wait(state, out, at)
            note_free(state, at, point)


@compiled
def rehash_entries(state: State, hashes: Ints) -> None:
    """Ties every entry to another hash; `hashes` has one for each slot, -1 where the key is not known."""
    entries = state.entries
    for at in range(state.hashes.size):
        if state.hashes[at].hash >= 0:
            state.hashes[at].hash = UNKNOWN
            state.hashes_free[state.common[0].free_hashes] = at
            state.common[0].free_hashes += 1
    state.hash_table[:] = NOBODY
    state.common[0].in_replay = 0
    for slot in range(entries.size):
        if entries[slot].ledger >= 0 and entries[slot].hash_at != UNKNOWN:
            entries[slot].hash_at = UNKNOWN
            set_key(state, slot, entries[slot].murmur, entries[slot].key_id, hashes[slot])
            if entries[slot].marks & Mark.WAITING != 0:
                enqueue(state, slot)
                state.hashes[entries[slot].hash_at].waiting += 1
                if is_due(entries[slot].marks):
                    state.hashes[entries[slot].hash_at].ready += 1
                state.hashes[entries[slot].hash_at].waiting_messages += entries[slot].messages
