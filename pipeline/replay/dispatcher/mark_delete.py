"""Mark-delete, followed from the acknowledgements (contract 10: no recorder sees it move).

Mark-delete is the position up to which all entries are acknowledged. An entry whose batch was acknowledged piecewise by
several consumers is deleted at the cursor and yet pending; on 4.0.x it is released when mark-delete passes it (contract
3.11, 5.3, 5.9). Snapshots contain the broker's own position and correct the reconstructed one.
"""

from dispatch_audit.pipeline.replay.blocking.consumer_availability import mark_delete_is_guessed
from dispatch_audit.pipeline.replay.dispatcher.entry.entries import add_entry, free_entry
from dispatch_audit.pipeline.replay.dispatcher.entry.transitions import remove_pending
from dispatch_audit.pipeline.replay.dispatcher.entry.waiting import stop_waiting
from dispatch_audit.pipeline.replay.dispatcher.flow_control import count_as_maybe_skipped
from dispatch_audit.pipeline.replay.durations import READ_US, SKIP_US
from dispatch_audit.pipeline.replay.packing.events import Code, Events
from dispatch_audit.pipeline.replay.packing.membership_rows import TracePoint
from dispatch_audit.pipeline.replay.state.compiled import compiled
from dispatch_audit.pipeline.replay.state.index.waiting_queues import dequeue, enqueue
from dispatch_audit.pipeline.replay.state.late_rows import was_reset, withdraw
from dispatch_audit.pipeline.replay.state.output import BY_MARK_DELETE, Output
from dispatch_audit.pipeline.replay.state.records import UNKNOWN, EntryPosition, position_of, set_position
from dispatch_audit.pipeline.replay.state.state import State, entry_at
from dispatch_audit.pipeline.replay.state.values import UNSURE, Mark


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
def _is_before_all(state: State, ledger: int, entry: int) -> bool:
    """Whether a position is before the first one seen, and mark-delete has not moved: rows of publishes may be late."""
    common = state.common
    floor = position_of(common[0].floor)
    return (ledger, entry) <= floor and floor == position_of(common[0].mark_delete)


@compiled
def new_entry(state: State, events: Events, i: int) -> int:
    """Takes a slot for the entry of a row, which has none, and returns it."""
    ledger, entry = events.ledger[i], events.entry[i]
    note_position(state, ledger, entry)
    # After a reset consumers acknowledge entries that they got before it, at any position.
    acknowledged = events.code[i] in (Code.ACK_START, Code.ACK_END) and was_reset(state)
    first = state.common[0].mark_delete.ledger == UNKNOWN and not acknowledged
    published = events.code[i] in (Code.PUBLISH, Code.PUBLISH_DELAYED)
    if first or (published and _is_before_all(state, ledger, entry)):
        put_floor(state, ledger, entry)
    return add_entry(state, ledger, entry)


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
                remove_pending(state, out, slot, point, BY_MARK_DELETE)
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
def _is_never_sent(state: State, slot: int) -> bool:
    """Whether an entry that mark-delete passes was published after the first join and sent to nobody."""
    entry, common = state.entries[slot], state.common
    unknown = Mark.ACKED | UNSURE | Mark.VAGUE | Mark.UNPUBLISHED
    return bool(
        entry.marks & Mark.WAITING != 0
        and entry.marks & unknown == 0
        and entry.times_sent == 0
        and entry.since.seq >= common[0].first_join_seq
    )


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
            if _is_never_sent(state, slot):
                entries[slot].marks |= Mark.NEVER_SENT
            if entries[slot].marks & (Mark.ACKED | Mark.MAYBE_SKIPPED | Mark.IN_TRANSACTION) == 0:
                _passed_by_broker(state, out, slot, point)
            stop_waiting(state, slot, point.ts_us)
            # The trace has no acknowledgement of a pending entry. It stays pending unless mark-delete was moved over it
            # (E6). What a read in flight sent after that is below mark-delete and pending.
            dropped = entries[slot].sent_at.ts_us < common[0].skip_begun_ts
            if entries[slot].holder >= 0 and dropped and entries[slot].marks & Mark.MAYBE_SKIPPED != 0:
                remove_pending(state, out, slot, point, BY_MARK_DELETE)
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
