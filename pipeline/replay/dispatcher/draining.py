"""Draining hashes (PIP-379; contract 3): a hash moved away while its former owner still holds entries of it.

An episode begins with the membership change that moves the hash, and ends when its holder has no pending entry of it.
In between the hash may return to the holder and move away again. When it returns, the broker removes it from its list:
at once from 4.0.7 on, before that at the next attempt (contract 3.4, 3.10). The episode records the return, and entries
count as waiting only while the hash is away.
"""

from dispatch_audit.pipeline.assignment import Routing
from dispatch_audit.pipeline.replay.blocking.wait_causes import begin_wait
from dispatch_audit.pipeline.replay.packing.membership_rows import TracePoint
from dispatch_audit.pipeline.replay.state.compiled import compiled
from dispatch_audit.pipeline.replay.state.output import EPISODES, STILL_OPEN, Output
from dispatch_audit.pipeline.replay.state.records import UNKNOWN, Records, position_of, set_point, set_position
from dispatch_audit.pipeline.replay.state.state import State, owner_of


@compiled
def count_waiting(hashes: Records, at: int, ts: int) -> None:
    """Adds the message-time waited since the last count; call before the number of waiting messages changes."""
    # If the wall clock steps back, no time counts twice.
    if ts > hashes[at].summed_to_ts:
        waited_us = hashes[at].waiting_messages * (ts - hashes[at].summed_to_ts)
        if hashes[at].away == 1:
            hashes[at].waited_us += waited_us
        else:
            hashes[at].idle_us += waited_us
        hashes[at].summed_to_ts = ts


@compiled
def note_blocked(hashes: Records, at: int, entries: int, point: TracePoint) -> None:
    """Counts more entries that wait for a draining hash."""
    if entries > 0 and hashes[at].awaited == 0:
        set_point(hashes[at].blocked, point)
    hashes[at].awaited += entries


@compiled
def end_episode(state: State, out: Output, at: int, point: TracePoint, ended_by: int) -> None:
    """Ends the episode of the hash at `at`, and reports it if it certainly began.

    One that ends while the change that began it may not have taken effect perhaps had nothing pending at the change.
    """
    hashes = state.hashes
    count_waiting(hashes, at, point.ts_us)
    if ended_by == STILL_OPEN or point.seq >= hashes[at].moved_by_seq:
        _report_episode(state, out, at, point, ended_by)
    hashes[at].drained_from = hashes[at].holder
    hashes[at].draining_since.seq = UNKNOWN
    hashes[at].away = 0


@compiled
def _report_episode(state: State, out: Output, at: int, point: TracePoint, ended_by: int) -> None:
    hashes = state.hashes
    row = out.filled[EPISODES]
    out.filled[EPISODES] = row + 1
    report = out.episodes
    report[row].hash = hashes[at].hash
    report[row].holder = hashes[at].holder
    report[row].new_owner = hashes[at].new_owner
    report[row].from_seq = hashes[at].draining_since.seq
    report[row].to_seq = point.seq
    report[row].from_ts = hashes[at].draining_since.ts_us
    report[row].to_ts = point.ts_us
    report[row].held_at_start = hashes[at].held_at_start
    report[row].held_at_end = hashes[at].held
    report[row].root_ledger = hashes[at].root.ledger
    report[row].root_entry = hashes[at].root.entry
    report[row].returned_seq = UNKNOWN if hashes[at].away == 1 else hashes[at].returned.seq
    report[row].returned_ts = UNKNOWN if hashes[at].away == 1 else hashes[at].returned.ts_us
    report[row].ended_by = ended_by
    report[row].blocked_seq = hashes[at].blocked.seq
    report[row].blocked_ts = hashes[at].blocked.ts_us
    report[row].awaited = hashes[at].awaited
    report[row].waited_us = hashes[at].waited_us


@compiled
def _begin_episode(state: State, at: int, point: TracePoint, over_seq: int) -> None:
    hashes, entries = state.hashes, state.entries
    set_point(hashes[at].draining_since, point)
    hashes[at].moved_by_seq = over_seq
    hashes[at].held_at_start = hashes[at].held
    hashes[at].blocked.seq = UNKNOWN
    hashes[at].awaited = 0
    hashes[at].waited_us = 0
    # The root of the block is the oldest entry that the holder has not acknowledged (Q9).
    hashes[at].root.ledger = UNKNOWN
    slot = hashes[at].first
    while slot >= 0:
        if entries[slot].holder == hashes[at].holder and (
            hashes[at].root.ledger == UNKNOWN or position_of(entries[slot]) < position_of(hashes[at].root)
        ):
            set_position(hashes[at].root, entries[slot])
        slot = entries[slot].next


@compiled
def remap(state: State, before: Routing, point: TracePoint, over_seq: int) -> None:
    """Begins and returns draining hashes for the routing in force, as addConsumer and removeConsumer do (3.5, 3.6).

    A leaving consumer has returned its entries before, so it holds nothing here; the broker skips it too. In front of
    the row `over_seq` the routing is certainly in force.
    """
    hashes = state.hashes
    for at in range(hashes.size):
        if hashes[at].hash < 0 or hashes[at].held <= 0:
            continue
        holder = hashes[at].holder
        owner = owner_of(state.routing, hashes[at].hash)
        if owner == holder:
            if hashes[at].away == 1:
                count_waiting(hashes, at, point.ts_us)
                hashes[at].away = 0
                set_point(hashes[at].returned, point)
                hashes[at].free_ts = point.ts_us
                begin_wait(state, at, point)
        elif hashes[at].away == 1:
            hashes[at].new_owner = owner
        elif owner_of(before, hashes[at].hash) == holder:
            if hashes[at].draining_since.seq == UNKNOWN:
                _begin_episode(state, at, point, over_seq)
                hashes[at].registered = 0
            hashes[at].registered += 1
            count_waiting(hashes, at, point.ts_us)
            note_blocked(hashes, at, hashes[at].waiting, point)
            hashes[at].new_owner = owner
            hashes[at].away = 1
