"""When an entry begins and ceases to wait, and what its hash counts of it."""

from dispatch_audit.pipeline.replay.blocking.wait_causes import begin_wait
from dispatch_audit.pipeline.replay.dispatcher.draining import count_waiting, note_blocked
from dispatch_audit.pipeline.replay.dispatcher.entry.entries import may_be_far_behind
from dispatch_audit.pipeline.replay.packing.membership_rows import TracePoint
from dispatch_audit.pipeline.replay.state.compiled import compiled
from dispatch_audit.pipeline.replay.state.index.waiting_queues import dequeue, enqueue
from dispatch_audit.pipeline.replay.state.marks import Mark, is_due
from dispatch_audit.pipeline.replay.state.records import UNKNOWN, set_point
from dispatch_audit.pipeline.replay.state.state import State


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
    if common[0].waiting > common[0].in_replay or may_be_far_behind(state):
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
    """Lets the delayed entries be looked at by a time, or before it."""
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
