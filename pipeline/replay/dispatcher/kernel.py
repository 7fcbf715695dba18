"""The kernel of the dispatcher: one compiled loop over events, without I/O, clock or randomness.

It does not apply joins, leaves and resets: their rows are intervals whose true moment is found by looking ahead
(`timeline`), and `Dispatcher` applies them between two stretches of events.
"""

from dispatch_audit.pipeline.contract.rules import CUMULATIVE_ACK
from dispatch_audit.pipeline.packing.events import Code
from dispatch_audit.pipeline.packing.membership_rows import TracePoint
from dispatch_audit.pipeline.replay.blocking.consumer_availability import is_released
from dispatch_audit.pipeline.replay.blocking.stall_stops import stop_for_a_stall
from dispatch_audit.pipeline.replay.blocking.wait_causes import note_limits
from dispatch_audit.pipeline.replay.dispatcher.acknowledgements import acked, acked_in_part, jump
from dispatch_audit.pipeline.replay.dispatcher.dispatches import dispatched
from dispatch_audit.pipeline.replay.dispatcher.entry.entries import new_entry, note_published, set_key, was_passed
from dispatch_audit.pipeline.replay.dispatcher.entry.transitions import return_also, return_to_replay
from dispatch_audit.pipeline.replay.dispatcher.entry.waiting import begin_waiting, end_delays, note_delay
from dispatch_audit.pipeline.replay.dispatcher.flow_control import note_capacity, unblock
from dispatch_audit.pipeline.replay.dispatcher.join_leave_reset import return_all
from dispatch_audit.pipeline.replay.durations import SNAPSHOT_LAG_US
from dispatch_audit.pipeline.replay.rules.finding_records import report_row
from dispatch_audit.pipeline.replay.rules.limits import note_full
from dispatch_audit.pipeline.replay.state.compiled import compiled
from dispatch_audit.pipeline.replay.state.output import RELEASED, SAMPLE, By, Output, nearly_full
from dispatch_audit.pipeline.replay.state.records import NOBODY, UNKNOWN
from dispatch_audit.pipeline.replay.state.state import State, Stretch, entry_at, owner_of
from dispatch_audit.pipeline.replay.state.values import BY_FLOWS, UNLOOKED, Mark, Reset


@compiled
def replay(state: State, out: Output, rows: Stretch, start: int) -> int:
    """Applies rows from `start` on; the state has room for each of them (`allocation.make_room`).

    Returns:
        The first row that was not applied: the number of rows, or less if the caller has to empty `out` first or to
        handle `out.stop`.
    """
    events = rows.events
    for i in range(start, events.code.size):
        if nearly_full(out, state.hashes.size, state.entries.size) or out.stop[0] != 0:
            return i
        if events.ts_us[i] >= state.waits.common[0].next_sample_ts:
            out.stop[0] = SAMPLE
            return i
        _pass_time(state, out, rows, i)
        stall = stop_for_a_stall(state, events, i, rows.policy.stall_threshold_us)
        if stall:
            out.stop[0] = stall
            return i
        code = events.code[i]
        if code in (Code.DISPATCH_START, Code.DISPATCH_END):
            dispatched(state, out, rows, i)
        elif code in (Code.ACK_START, Code.ACK_END):
            acked(state, out, rows, i)
        elif code in (Code.PUBLISH, Code.PUBLISH_DELAYED):
            _published(state, rows, i)
        elif code in (Code.ACK_PART_START, Code.ACK_PART_END):
            acked_in_part(state, out, rows, i)
        elif code == Code.ACK_CUMULATIVE:
            report_row(state, out, CUMULATIVE_ACK, events, i, rows.consumers[i], NOBODY)
        elif code in (Code.REDELIVER, Code.REDELIVER_ALL):
            _redelivered(state, out, rows, i)
        elif code == Code.FLOW:
            _granted(state, out, rows, i)
        elif code == Code.MARK_DELETE and _after_reset(state, events.ts_us[i] - SNAPSHOT_LAG_US):
            _mark_deleted(state, out, rows, i)
    state.common[0].last_seq = events.seq[-1]
    return events.code.size


@compiled
def _mark_deleted(state: State, out: Output, rows: Stretch, i: int) -> None:
    """Applies the position of mark-delete in a snapshot, which may show less than the trace (E6)."""
    events, policy, point = rows.events, rows.policy, TracePoint(rows.events.seq[i], rows.events.ts_us[i])
    jump(state, out, events.ledger[i], events.entry[i], point, policy.mark_delete_releases)
    for consumer in range(state.consumers.size):
        if state.consumers[consumer].connected == 1 and state.consumers[consumer].gave_up_at.seq == point.seq:
            note_capacity(state, out, consumer, point, By.MARK_DELETE, policy.report_min_us)
    state.common[0].shown_ts = point.ts_us - SNAPSHOT_LAG_US
    if is_released(state):
        out.stop[0] = RELEASED


@compiled
def _pass_time(state: State, out: Output, rows: Stretch, i: int) -> None:
    """Does what is due by the time of a row, and notes that its consumer was connected."""
    common, seqs, ts, consumer = state.common, rows.events.seq, rows.events.ts_us[i], rows.consumers[i]
    if consumer >= 0:
        state.consumers[consumer].named_seq = seqs[i]
    if common[0].next_due_ts != UNKNOWN and ts >= common[0].next_due_ts:
        end_delays(state, out, TracePoint(seqs[i - 1] if i > 0 else common[0].last_seq, ts), rows.policy)
    note_limits(state, ts)
    if common[0].subscription_max > 0 or state.limits.common[0].full_since_ts > 0:
        note_full(state, ts)


@compiled
def _after_reset(state: State, ts: int) -> bool:
    """Whether an event at a time certainly happened after the last reset, if there was one."""
    return bool(state.common[0].resetting == Reset.NONE and ts > state.common[0].unseen_until_ts)


@compiled
def _granted(state: State, out: Output, rows: Stretch, i: int) -> None:
    consumer, point = rows.consumers[i], TracePoint(rows.events.seq[i], rows.events.ts_us[i])
    state.common[0].permits_known_by = BY_FLOWS
    if state.consumers[consumer].blocked == 1:
        state.consumers[consumer].withheld += rows.events.value[i]
    else:
        state.consumers[consumer].permits += rows.events.value[i]
    note_capacity(state, out, consumer, point, By.FLOW, rows.policy.report_min_us)


@compiled
def _redelivered(state: State, out: Output, rows: Stretch, i: int) -> None:
    events, consumer = rows.events, rows.consumers[i]
    point = TracePoint(events.seq[i], events.ts_us[i])
    if events.code[i] == Code.REDELIVER_ALL:
        state.consumers[consumer].redeliver_ts = events.ts_us[i]
        return_all(state, out, consumer, point, By.REDELIVER)
    else:
        slot = entry_at(state, events.ledger[i], events.entry[i])
        if slot < 0:
            return
        if state.entries[slot].holder != consumer:
            # The broker ignores entries that the consumer does not hold (5.6), unless it gets them before the row
            # takes effect.
            state.entries[slot].named_ts = events.ts_us[i]
            state.entries[slot].named_by = consumer
            return_also(state, slot, consumer)
            return
        return_to_replay(state, out, slot, point, By.REDELIVER)
        if state.entries[slot].marks & Mark.RETURNED != 0:
            begin_waiting(state, slot, point)
    unblock(state, consumer, events.ts_us[i])
    note_capacity(state, out, consumer, point, By.REDELIVER, rows.policy.report_min_us)


@compiled
def _published(state: State, rows: Stretch, i: int) -> None:
    entries, common = state.entries, state.common
    events, policy, sticky_hash = rows.events, rows.policy, rows.hashes[i]
    note_published(state, events.ledger[i], events.entry[i])
    slot = entry_at(state, events.ledger[i], events.entry[i])
    if slot < 0:
        if was_passed(state, events.ledger[i], events.entry[i]):
            return
        slot = new_entry(state, events, i)
        set_key(state, slot, events.murmur[i], events.key_id[i], sticky_hash)
        entries[slot].messages = events.value[i]
        if events.code[i] == Code.PUBLISH_DELAYED:
            point = TracePoint(events.seq[i], events.ts_us[i])
            note_delay(state, slot, point, events.word[i], policy.delay_tick_us)
        if common[0].skip_until_ts != UNKNOWN and events.ts_us[i] <= common[0].skip_until_ts + policy.skew_us:
            # The row of a publish comes a moment after its entry, which the broker may have skipped by then.
            entries[slot].marks |= Mark.MAYBE_SKIPPED
        at = entries[slot].hash_at
        if at >= 0 and state.hashes[at].owner == UNLOOKED:
            state.hashes[at].owner = owner_of(state.routing, sticky_hash)
        if events.words_left[i] < 0:
            # Nobody sees it before its transaction commits, and nobody ever does if that is aborted.
            entries[slot].marks |= Mark.IN_TRANSACTION
        elif _after_reset(state, events.ts_us[i]):
            begin_waiting(state, slot, TracePoint(events.seq[i], events.ts_us[i]))
        else:
            # A reset to a later position skips it; only a dispatch shows that it has to be sent.
            entries[slot].marks |= Mark.BEFORE_RESET
    else:
        # The hooks run on different threads: the entry may have been dispatched already.
        if entries[slot].marks & Mark.UNPUBLISHED != 0:
            entries[slot].marks &= ~Mark.UNPUBLISHED
            common[0].without_publish -= 1
        set_key(state, slot, events.murmur[i], events.key_id[i], sticky_hash)
