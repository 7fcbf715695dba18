"""Draining hashes (PIP-379; SEMANTICS 3): a hash moved away while its former owner still holds entries of it.

An episode begins with the membership change that moves the hash, and ends when its holder has none of it pending
any more. In between the hash may come back to the holder (the broker then takes it off its list, at once from 4.0.7
on, at the next attempt before; SEMANTICS 3.4, 3.10) and may move away again; the episode says when it came back,
and entries count as waiting only while the hash is away.
"""

import numpy as np

from pipeline.replay.compiled import compiled
from pipeline.replay.output import EPISODES, Output
from pipeline.replay.state import UNKNOWN, Hashes, Ints, State


@compiled
def count_waiting(hashes: Hashes, at: int, ts: int) -> None:
    """Adds the message-time waited since the last count; called before the number of waiting messages changes."""
    if hashes.away[at] == 1:
        # A wall clock may step back; time never counts twice.
        if ts > hashes.summed_to_ts[at]:
            hashes.waited_us[at] += hashes.waiting_messages[at] * (ts - hashes.summed_to_ts[at])
            hashes.summed_to_ts[at] = ts


@compiled
def _owner_of(uppers: Ints, owners: Ints, sticky_hash: int) -> int:
    # `Routing.owners_of` for one hash; the selectors of a draining dispatcher reduce it by no modulus.
    return int(owners[np.searchsorted(uppers, sticky_hash)])


@compiled
def end_episode(state: State, out: Output, at: int, seq: int, ts: int, ended_by: int) -> None:
    """Reports the episode of the hash at `at` and forgets it."""
    hashes = state.hashes
    count_waiting(hashes, at, ts)
    row = out.filled[EPISODES]
    out.filled[EPISODES] = row + 1
    report = out.episodes
    report.hash[row] = hashes.hash[at]
    report.holder[row] = hashes.holder[at]
    report.new_owner[row] = hashes.new_owner[at]
    report.from_seq[row] = hashes.draining_seq[at]
    report.to_seq[row] = seq
    report.from_ts[row] = hashes.draining_ts[at]
    report.to_ts[row] = ts
    report.held_at_start[row] = hashes.held_at_start[at]
    report.root_ledger[row] = hashes.root_ledger[at]
    report.root_entry[row] = hashes.root_entry[at]
    report.returned_seq[row] = UNKNOWN if hashes.away[at] == 1 else hashes.returned_seq[at]
    report.returned_ts[row] = UNKNOWN if hashes.away[at] == 1 else hashes.returned_ts[at]
    report.ended_by[row] = ended_by
    report.awaited[row] = hashes.awaited[at]
    report.waited_us[row] = hashes.waited_us[at]
    hashes.draining_seq[at] = UNKNOWN
    hashes.away[at] = 0


@compiled
def _begin_episode(state: State, at: int, seq: int, ts: int) -> None:
    hashes, entries = state.hashes, state.entries
    hashes.draining_seq[at] = seq
    hashes.draining_ts[at] = ts
    hashes.held_at_start[at] = hashes.held[at]
    hashes.awaited[at] = 0
    hashes.waited_us[at] = 0
    # The root of the block is the oldest entry that the holder has not acknowledged (Q9).
    hashes.root_ledger[at] = UNKNOWN
    slot = hashes.first[at]
    while slot >= 0:
        if entries.holder[slot] == hashes.holder[at] and (
            hashes.root_ledger[at] == UNKNOWN
            or (entries.ledger[slot], entries.entry[slot]) < (hashes.root_ledger[at], hashes.root_entry[at])
        ):
            hashes.root_ledger[at] = entries.ledger[slot]
            hashes.root_entry[at] = entries.entry[slot]
        slot = entries.next[slot]


@compiled
def remap(
    state: State,
    before_uppers: Ints,
    before_owners: Ints,
    uppers: Ints,
    owners: Ints,
    seq: int,
    ts: int,
) -> None:
    """Moves the draining state from one mapping to the next, as addConsumer and removeConsumer do (3.5, 3.6).

    What a leaver held was given back before, so it holds nothing here, as in the broker it is skipped.
    """
    hashes = state.hashes
    for at in range(hashes.hash.size):
        if hashes.hash[at] < 0 or hashes.held[at] <= 0:
            continue
        holder = hashes.holder[at]
        owner = _owner_of(uppers, owners, hashes.hash[at])
        if owner == holder:
            if hashes.away[at] == 1:
                count_waiting(hashes, at, ts)
                hashes.away[at] = 0
                hashes.returned_seq[at] = seq
                hashes.returned_ts[at] = ts
        elif hashes.away[at] == 1:
            hashes.new_owner[at] = owner
        elif _owner_of(before_uppers, before_owners, hashes.hash[at]) == holder:
            if hashes.draining_seq[at] == UNKNOWN:
                _begin_episode(state, at, seq, ts)
            hashes.awaited[at] += hashes.waiting[at]
            hashes.new_owner[at] = owner
            hashes.away[at] = 1
            hashes.summed_to_ts[at] = ts
