"""Changes the owners of hashes in the state, and ends and begins the intervals of their waiting."""

from dispatch_audit.pipeline.replay.blocking.consumer_availability import end_unavailability
from dispatch_audit.pipeline.replay.blocking.starvation import note_starved
from dispatch_audit.pipeline.replay.blocking.wait_causes import begin_wait, end_wait, explain
from dispatch_audit.pipeline.replay.dispatcher.draining import count_waiting
from dispatch_audit.pipeline.replay.dispatcher.entry.entries import set_key
from dispatch_audit.pipeline.replay.dispatcher.entry.waiting import note_overdue_of
from dispatch_audit.pipeline.replay.dispatcher.flow_control import note_capacities
from dispatch_audit.pipeline.replay.packing.membership_rows import TracePoint
from dispatch_audit.pipeline.replay.state.compiled import compiled
from dispatch_audit.pipeline.replay.state.index.waiting_queues import enqueue
from dispatch_audit.pipeline.replay.state.marks import Mark, is_due
from dispatch_audit.pipeline.replay.state.output import Output
from dispatch_audit.pipeline.replay.state.policy import Policy
from dispatch_audit.pipeline.replay.state.records import NOBODY, UNKNOWN, Ints
from dispatch_audit.pipeline.replay.state.routings import owner_of
from dispatch_audit.pipeline.replay.state.state import State
from dispatch_audit.pipeline.replay.state.values import UNLOOKED


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
                hash_served(state, out, at, point, ended_by, policy)
                end_wait(state, out, at)
                state.hashes[at].owner = owner
                state.hashes[at].free_ts = point.ts_us
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
