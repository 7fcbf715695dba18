"""Draining (PIP-379; contract 3): a hash moved away while its former owner still holds entries of it.

An episode begins with the membership change that moves the hash, and ends when its holder has no pending entry of it.
In between the hash may return to the holder and move away again. When it returns, the broker removes it from its list:
at once from 4.0.7 on, before that at the next attempt (contract 3.4, 3.9). Entries count as waiting for the holder only
while the hash is away, and each such time is reported by itself.
"""

from dispatch_audit.pipeline.assignment import Routing
from dispatch_audit.pipeline.packing.membership_rows import TracePoint
from dispatch_audit.pipeline.replay.blocking.wait_causes import note_free
from dispatch_audit.pipeline.replay.state.compiled import compiled
from dispatch_audit.pipeline.replay.state.output import EPISODES, NEW_EPISODE, By, Output
from dispatch_audit.pipeline.replay.state.records import UNKNOWN, Records, position_of
from dispatch_audit.pipeline.replay.state.state import State, owner_of


@compiled
def count_waiting(hashes: Records, at: int, ts: int) -> None:
    """Adds the message-time waited since the last count; call before the number of waiting messages changes."""
    # If the wall clock steps back, no time counts twice.
    if ts > hashes[at].summed_to_ts:
        waited_us = hashes[at].waiting_messages * (ts - hashes[at].summed_to_ts)
        if hashes[at].away == 1:
            hashes[at].episode.waited_us += waited_us
        else:
            hashes[at].idle_us += waited_us
        hashes[at].summed_to_ts = ts


@compiled
def note_blocked(hashes: Records, at: int, entries: int, point: TracePoint) -> None:
    """Counts more entries that wait for a draining hash."""
    episode = hashes[at].episode
    if entries > 0 and episode.awaited == 0:
        episode.blocked_seq = point.seq
        episode.blocked_ts = point.ts_us
    episode.awaited += entries


@compiled
def end_episode(state: State, out: Output, at: int, point: TracePoint, ended_by: int) -> None:
    """Ends the episode of a hash: its holder has none of its entries any more, or the trace ends."""
    hashes = state.hashes
    _report(state, out, at, point, ended_by)
    hashes[at].drained_from = hashes[at].holder
    hashes[at].episode.from_seq = UNKNOWN
    hashes[at].away = 0


@compiled
def _return(state: State, out: Output, at: int, point: TracePoint) -> None:
    """Ends the time in which a hash is away from its holder, and reports it: if it moves away again, another begins."""
    _report(state, out, at, point, By.RETURNED)
    state.hashes[at].away = 0
    episode = state.hashes[at].episode
    episode.returned_seq = point.seq
    episode.returned_ts = point.ts_us
    episode.awaited = 0
    episode.waited_us = 0


@compiled
def _report(state: State, out: Output, at: int, point: TracePoint, ended_by: int) -> None:
    """Reports the episode of a hash, unless the change that began it may not have taken effect by then."""
    hashes = state.hashes
    count_waiting(hashes, at, point.ts_us)
    if ended_by == By.OPEN or point.seq >= hashes[at].moved_by_seq:
        episode = hashes[at].episode
        episode.holder = hashes[at].holder
        episode.held_at_end = hashes[at].held
        episode.to_seq = point.seq
        episode.to_ts = point.ts_us
        episode.ended_by = ended_by
        out.episodes[out.filled[EPISODES]] = episode
        out.filled[EPISODES] += 1


@compiled
def _begin_episode(state: State, at: int, point: TracePoint, over_seq: int) -> None:
    hashes = state.hashes
    hashes[at].registered = 0
    hashes[at].moved_by_seq = over_seq
    hashes[at].episode = NEW_EPISODE[0]
    episode = hashes[at].episode
    episode.hash = hashes[at].hash
    episode.from_seq = point.seq
    episode.from_ts = point.ts_us
    episode.held_at_start = hashes[at].held


@compiled
def _move_away(state: State, at: int, point: TracePoint, owner: int) -> None:
    """Notes that a hash moves away from its holder, for the first time in its episode or once more."""
    hashes, entries = state.hashes, state.entries
    count_waiting(hashes, at, point.ts_us)
    hashes[at].registered += 1
    hashes[at].away = 1
    episode = hashes[at].episode
    episode.new_owner = owner
    episode.away_seq = point.seq
    episode.held_when_away = hashes[at].held
    episode.returned_seq = UNKNOWN
    episode.returned_ts = UNKNOWN
    note_blocked(hashes, at, hashes[at].waiting, point)
    # The root of the block is the oldest entry that the holder has not acknowledged (Q9).
    episode.root_ledger = UNKNOWN
    episode.root_entry = UNKNOWN
    slot = hashes[at].first
    while slot >= 0:
        root = (episode.root_ledger, episode.root_entry)
        if entries[slot].holder == hashes[at].holder and (root[0] == UNKNOWN or position_of(entries[slot]) < root):
            episode.root_ledger = entries[slot].ledger
            episode.root_entry = entries[slot].entry
        slot = entries[slot].next


@compiled
def remap(state: State, out: Output, before: Routing, point: TracePoint, over_seq: int) -> None:
    """Begins and returns draining hashes for the routing in force, as addConsumer and removeConsumer do (3.5, 3.6).

    In front of the row `over_seq` the routing is certainly in force. A leaving consumer holds nothing by then.
    """
    hashes = state.hashes
    for at in range(hashes.size):
        if hashes[at].hash < 0 or hashes[at].held <= 0:
            continue
        holder = hashes[at].holder
        owner = owner_of(state.routing, hashes[at].hash)
        if owner == holder:
            if hashes[at].away == 1:
                _return(state, out, at, point)
                note_free(state, at, point)
        elif hashes[at].away == 1:
            hashes[at].episode.new_owner = owner
        elif owner_of(before, hashes[at].hash) == holder:
            if hashes[at].episode.from_seq == UNKNOWN:
                _begin_episode(state, at, point, over_seq)
            _move_away(state, at, point, owner)
