"""When an entry begins and ceases to wait, what its hash counts of it, and delayed entries.

Delayed entries (contract 4.13): the broker takes what is due from its tracker at the next tick of
delayedDeliveryTickTimeMillis, or up to a tick early unless isDelayedDeliveryDeliverAtTimeStrict is set. What is due is
read before anything new, and goes into replay without its hash. Nothing of its hash is kept back for it: later entries
may pass it, but not for long, because the broker looks at it at each read (V10).
"""

from typing import Final

from dispatch_audit.pipeline.entry_point import EntryPoint
from dispatch_audit.pipeline.packing.events import NEVER_DUE
from dispatch_audit.pipeline.packing.membership_rows import TracePoint
from dispatch_audit.pipeline.replay.blocking.passed_over import report_starved
from dispatch_audit.pipeline.replay.blocking.wait_causes import begin_wait, explain
from dispatch_audit.pipeline.replay.dispatcher.entry.draining import count_waiting, note_blocked
from dispatch_audit.pipeline.replay.state.compiled import compiled
from dispatch_audit.pipeline.replay.state.kinds import COMMON
from dispatch_audit.pipeline.replay.state.output import By, Output
from dispatch_audit.pipeline.replay.state.records import UNKNOWN, position_of, record_of, set_point
from dispatch_audit.pipeline.replay.state.state import Policy, State, was_reset
from dispatch_audit.pipeline.replay.state.values import DELAYS_CLAIMED_OFF, DELAYS_OFF, DELAYS_ON, Cause, Mark, is_due
from dispatch_audit.pipeline.replay.state.waiting_queues import dequeue, enqueue

# A look at an entry takes nanoseconds, so looks take less than a thousandth of the time that the trace covers.
_BETWEEN_LOOKS_US: Final = 10


@compiled
def begin_waiting(state: State, slot: int, point: TracePoint) -> None:
    """Makes an entry wait to be sent."""
    entries, hashes, common = state.entries, state.hashes, state.common
    at = entries[slot].hash_at
    if entries[slot].marks & Mark.WAITING != 0 or at < 0:
        return
    count_waiting(hashes, at, point.ts_us)
    if hashes[at].waiting == 0:
        set_point(hashes[at].waiting_since, point)
        begin_wait(state, at, point)
    entries[slot].marks |= Mark.WAITING
    highest = position_of(common[0].highest_dispatched)
    # After a reset the cursor may be in front of entries from before: no row shows which of them it has to read.
    behind = was_reset(state) and (highest[0] == UNKNOWN or highest < position_of(common[0].published_at_reset))
    if common[0].waiting > common[0].in_replay or behind:
        entries[slot].marks |= Mark.IN_BACKLOG
    if is_due(entries[slot].marks):
        note_ready(state, at, point)
    elif entries[slot].due.ts_us != UNKNOWN:
        look_at_delays_by(state, entries[slot].due.ts_us)
    set_point(entries[slot].since, point)
    enqueue(state, slot)
    hashes[at].waiting += 1
    hashes[at].waiting_messages += entries[slot].messages
    if hashes[at].away == 1:
        note_blocked(hashes, at, 1, point)


@compiled
def note_ready(state: State, at: int, point: TracePoint) -> None:
    """Counts an entry of a hash that waits and could be sent from here on, as far as its delay is concerned."""
    common = state.common
    if common[0].waiting == 0:
        set_point(common[0].waiting_since, point)
    common[0].waiting += 1
    state.hashes[at].ready += 1
    state.hashes[at].became_ready += 1


@compiled
def look_at_delays_by(state: State, ts: int) -> None:
    """Lets the delayed entries be looked at by a time, or before."""
    common = state.common
    common[0].next_due_ts = ts if common[0].next_due_ts == UNKNOWN else min(common[0].next_due_ts, ts)


@compiled
def stop_waiting(state: State, slot: int, ts: int) -> None:
    """Ends the wait of an entry, if it waits: it is sent, acknowledged or gone."""
    entries, hashes = state.entries, state.hashes
    if entries[slot].marks & Mark.WAITING == 0:
        return
    at = entries[slot].hash_at
    count_waiting(hashes, at, ts)
    dequeue(state, slot)
    if is_due(entries[slot].marks):
        state.common[0].waiting -= 1
        hashes[at].ready -= 1
    entries[slot].marks &= ~Mark.WAITING
    hashes[at].waiting -= 1
    hashes[at].waiting_messages -= entries[slot].messages


@compiled
def end_delays(state: State, out: Output, point: TracePoint, policy: Policy) -> None:
    """Marks the waiting entries as due whose time has come at `point`: the time, and the last row before it."""
    entries, hashes, common = state.entries, state.hashes, state.common
    common[0].next_due_ts = UNKNOWN
    open_entries = 0
    for slot in range(entries.size):
        if entries[slot].ledger < 0:
            continue
        open_entries += 1
        delayed = entries[slot].marks & Mark.WAITING != 0 and not is_due(entries[slot].marks)
        if not delayed or entries[slot].due.ts_us == UNKNOWN:
            continue
        if entries[slot].due.ts_us > point.ts_us:
            look_at_delays_by(state, entries[slot].due.ts_us)
            continue
        at = entries[slot].hash_at
        # Nothing of the hash may seem to happen before what has happened already.
        due = TracePoint(point.seq, max(entries[slot].due.ts_us, state.waits.hashes[at].clear.ts_us))
        if hashes[at].ready == 0:
            count_waiting(hashes, at, due.ts_us)
            explain(state, out, at, due, By.DUE, policy.report_min_us)
            begin_wait(state, at, due)
        entries[slot].marks |= Mark.DUE
        set_point(entries[slot].due, due)
        note_ready(state, at, due)
    if common[0].next_due_ts != UNKNOWN:
        common[0].next_due_ts = max(common[0].next_due_ts, point.ts_us + open_entries * _BETWEEN_LOOKS_US)


@compiled
def note_delay(state: State, slot: int, point: TracePoint, delay_ms: int, tick_us: int) -> None:
    """Marks a published entry that asks for delayed delivery, as far as the broker heeds that (4.13).

    Where a row says that it does not, the entry is one like any other. Where only trace.json says so, the entry may be
    sent at once, and may be tracked all the same. `delay_ms` is the time from the row of its publish, at `point`, to
    its delivery; `NEVER_DUE`: not known.
    """
    entries, delays = state.entries, state.common[0].delays
    if delay_ms != NEVER_DUE:
        entries[slot].due.ts_us = (point.ts_us // 1000 + delay_ms) * 1000 + tick_us
    if delays != DELAYS_OFF:
        entries[slot].marks |= Mark.DELAYED
    if delays == DELAYS_CLAIMED_OFF:
        entries[slot].marks |= Mark.DUE | Mark.CLAIMED_DUE
        set_point(entries[slot].due, point)
        state.common[0].delays_in_doubt = 1


def take_switch(state: State, off: bool, said_by_row: bool, ts: int) -> None:
    """Takes over whether delayed delivery is off from a time on; trace.json may claim so without a row that says it."""
    common = record_of(state.common, COMMON)
    if off:
        common["delays"] = DELAYS_OFF if said_by_row else DELAYS_CLAIMED_OFF
    elif common["delays"] != DELAYS_ON:
        common["delays"] = DELAYS_ON
        _heed_delays(state, ts)


@EntryPoint
@compiled
def _heed_delays(state: State, ts: int) -> None:
    """Lets the entries that asked for delayed delivery wait no longer for certain: it was off and is on from here on.

    The broker tracks those that it reads from here on, and no row shows which it has read.
    """
    entries = state.entries
    for slot in range(entries.size):
        ignored = entries[slot].marks & Mark.DELAYED == 0 or entries[slot].marks & Mark.CLAIMED_DUE != 0
        asked = entries[slot].ledger >= 0 and entries[slot].due.ts_us != UNKNOWN
        if not asked or not ignored:
            continue
        if entries[slot].marks & Mark.SENT == 0:
            stop_waiting(state, slot, ts)
            entries[slot].marks = (entries[slot].marks | Mark.BEFORE_RESET) & ~Mark.DUE
        entries[slot].marks |= Mark.DELAYED


@compiled
def note_overdue(state: State, out: Output, slot: int, point: TracePoint, ended_by: int, longest_us: int) -> None:
    """Reports a hash as starved if an entry of it was due for `longest_us`; call before the entry is sent."""
    entries, hashes, waits = state.entries, state.hashes, state.waits.consumers
    at = entries[slot].hash_at
    owner = hashes[at].owner
    # One that an administrator may have skipped need not be sent (E6), nor one that the broker has not read yet.
    marks = entries[slot].marks & (Mark.WAITING | Mark.DUE | Mark.SENT | Mark.MAYBE_SKIPPED | Mark.READ)
    if marks != Mark.WAITING | Mark.DUE | Mark.READ or hashes[at].away == 1 or owner < 0:
        return
    # For one that is blocked on unacknowledged messages the broker does not read (4.14).
    if waits[owner].cause != Cause.READY or state.consumers[owner].blocked == 1:
        return
    due_ts = max(entries[slot].due.ts_us, entries[slot].read_ts)
    free_ts = max(state.waits.hashes[at].free_ts, state.waits.hashes[at].owned_ts)
    from_ts = max(due_ts, free_ts, waits[owner].cause_since.ts_us, state.consumers[owner].unblocked_ts)
    if point.ts_us - from_ts >= longest_us:
        since = TracePoint(entries[slot].due.seq, from_ts)
        report_starved(state, out, at, slot, since, point, ended_by, 0)


@compiled
def note_overdue_of(state: State, out: Output, at: int, point: TracePoint, ended_by: int, longest_us: int) -> None:
    """Calls `note_overdue` for the first entry of a hash that is due."""
    slot = state.hashes[at].aside.first
    while slot >= 0 and state.entries[slot].marks & (Mark.DUE | Mark.SENT | Mark.MAYBE_SKIPPED) != Mark.DUE:
        slot = state.entries[slot].next
    if slot >= 0:
        note_overdue(state, out, slot, point, ended_by, longest_us)
