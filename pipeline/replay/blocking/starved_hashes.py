"""Hashes that could be served and were not: how they had moved, and whether they had drained (V10, V11)."""

from collections import deque
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dispatch_audit.pipeline.assignment import Routing
from dispatch_audit.pipeline.checkpointed import checkpointed
from dispatch_audit.pipeline.entry_point import EntryPoint
from dispatch_audit.pipeline.replay.blocking.attribution import Waiters, are_before
from dispatch_audit.pipeline.replay.packing.membership_rows import TracePoint
from dispatch_audit.pipeline.replay.state.compiled import compiled
from dispatch_audit.pipeline.replay.state.records import NOBODY, UNKNOWN, Ints
from dispatch_audit.pipeline.replay.state.state import Seen, owner_of

# The number of moves of one hash that are remembered.
_MOVES_MAX: Final = 16


@compiled
def moves_in_use(state: Seen, before: Routing, in_use: Ints, moved: Ints) -> tuple[int, int]:
    """Fills in the hashes with pending or waiting entries, and those of them that move from one owner to another.

    Args:
        state: with n hashes, and the routing that has begun.
        before: the routing that has ended.
        in_use: (n) gets the hashes in use.
        moved: (4, n) gets those that move, the indexes of the owners before and after, and how many entries of each are
            pending at the holder.

    Returns:
        How many are in use, and how many move.
    """
    hashes, used, moves = state.hashes, 0, 0
    for at in range(hashes.size):
        if hashes[at].hash == UNKNOWN or (hashes[at].held == 0 and hashes[at].waiting == 0):
            continue
        in_use[used] = hashes[at].hash
        used += 1
        old, new = owner_of(before, hashes[at].hash), owner_of(state.routing, hashes[at].hash)
        if old not in (new, NOBODY):
            moved[0, moves], moved[1, moves] = hashes[at].hash, old
            moved[2, moves], moved[3, moves] = new, hashes[at].held
            moves += 1
    return used, moves


_moves_in_use = EntryPoint(moves_in_use)


@checkpointed("ownership_move")
class OwnershipMove(NamedTuple):
    """A move of a hash from one owner to another, both by their indexes; `held` of its entries were pending."""

    at: TracePoint
    before: int
    after: int
    held: int


@checkpointed("ownership_moves")
class OwnershipMoves:
    """The last moves of each hash that has pending or waiting entries."""

    __slots__ = ("_of_hash",)

    def __init__(self) -> None:
        self._of_hash: dict[int, deque[OwnershipMove]] = {}

    def note(self, state: Seen, before: Routing, at: TracePoint) -> None:
        """Takes the moves when another routing has come into force; forgets those of hashes that are not in use."""
        in_use = np.empty(len(state.hashes), dtype=np.int64)
        moved = np.empty((4, in_use.size), dtype=np.int64)
        used, moves_now = _moves_in_use(state, before, in_use, moved)
        for gone in self._of_hash.keys() - set(in_use[:used].tolist()):
            del self._of_hash[gone]
        # Plain numbers: reading array elements one by one takes several times as long.
        for sticky_hash, old, new, held in zip(*moved[:, :moves_now].tolist(), strict=True):
            moves = self._of_hash.get(sticky_hash)
            if moves is None:
                moves = self._of_hash[sticky_hash] = deque(maxlen=_MOVES_MAX)
            moves.append(OwnershipMove(at, old, new, held))

    def of(self, sticky_hash: int) -> tuple[OwnershipMove, ...]:
        """The moves of a hash, in order."""
        return tuple(self._of_hash.get(sticky_hash, ()))


def unserved_since_drained(state: Seen, waiting: Waiters) -> NDArray[np.bool_]:
    """Which entries have a hash that had drained, and no pending entry of it at the owner."""
    hashes: Any = state.hashes.view(np.ndarray)[waiting.hash_at]
    served = (hashes["held"] > 0) & (hashes["holder"] == waiting.owner)
    unserved: NDArray[np.bool_] = (hashes["drained_from"] != NOBODY) & ~served
    return unserved


def are_found(state: Seen, waiting: Waiters, longest_us: int, sent: tuple[int, int] | None) -> bool:
    """Whether each hash of some entries that could be sent starves: its owner was sent a later one `longest_us` after.

    `sent` is the entry whose dispatch ends the time in which they could be sent; None: something else ends it.
    """
    entries: Any = state.entries.view(np.ndarray)
    owners, waits = state.consumers.view(np.ndarray)[waiting.owner], state.waits.hashes.view(np.ndarray)
    first = entries[waiting.slot]
    passed = (owners["sent"]["ledger"] > first["ledger"]) | (
        (owners["sent"]["ledger"] == first["ledger"]) & (owners["sent"]["entry"] > first["entry"])
    )
    since_us = np.maximum(waits["clear"]["ts_us"][waiting.hash_at], waiting.since_ts)
    unserved_us = state.waits.consumers.view(np.ndarray)["unserved_us"][waiting.owner]
    unserved_us = unserved_us - waits["clear_unserved_us"][waiting.hash_at]
    found = passed & (owners["sent_ts"] - since_us - unserved_us >= longest_us)
    if sent is not None:
        hash_at = entries["hash_at"][(entries["ledger"] == sent[0]) & (entries["entry"] == sent[1])]
        to = state.hashes.view(np.ndarray)["owner"][hash_at]
        found |= np.isin(waiting.owner, to) & are_before(state, waiting.slot, sent)
    return bool(np.isin(waiting.hash, waiting.hash[found]).all())
