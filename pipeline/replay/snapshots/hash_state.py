"""Reads the owner and the pending entries of one hash from the state of the replay."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from dispatch_audit.pipeline.replay.state.marks import Mark
from dispatch_audit.pipeline.replay.state.records import NOBODY, UNKNOWN
from dispatch_audit.pipeline.replay.state.seen import Seen


class HashState(NamedTuple):
    """One hash at one moment; consumers are indexes into the state, NOBODY for none.

    Attributes:
        owner: the consumer to which the routing in force sends its entries.
        held: the number of pending entries by consumer, the first dispatch first.
        drains_from: the holder, while another consumer owns the hash and has to wait for it (PIP-379).
        drains_to: the consumer to which the hash moved.
        waiting: the number of entries that wait to be sent.
        in_replay: the number of these that the broker has read, so that they wait in replay.
    """

    owner: int
    held: Mapping[int, int]
    drains_from: int
    drains_to: int
    waiting: int
    in_replay: int


def hash_state(state: Seen, sticky_hash: int) -> HashState:
    """The state of a hash at this moment; a hash without entries has only an owner."""
    owner = int(state.routing.owners_of([sticky_hash])[0])
    hashes: Any = state.hashes
    entries: Any = state.entries
    slots = np.flatnonzero(hashes.hash == sticky_hash)
    if not slots.size:
        return HashState(owner, {}, NOBODY, NOBODY, 0, 0)
    slot = int(slots[0])
    of_hash = (entries.ledger != UNKNOWN) & (entries.hash_at == slot)
    pending = np.flatnonzero(of_hash & (entries.holder >= 0))
    held: dict[int, int] = {}
    for holder in entries.holder[pending[np.argsort(entries.sent_seq[pending], kind="stable")]].tolist():
        held[holder] = held.get(holder, 0) + 1
    waiting = of_hash & (entries.holder < 0) & (entries.marks & Mark.WAITING != 0)
    drains = hashes.draining_seq[slot] != UNKNOWN and hashes.away[slot] == 1
    return HashState(
        owner,
        held,
        int(hashes.holder[slot]) if drains else NOBODY,
        int(hashes.new_owner[slot]) if drains else NOBODY,
        int(np.count_nonzero(waiting)),
        int(np.count_nonzero(waiting & (entries.marks & Mark.READ != 0))),
    )
