"""Hashes that could be served and were not, while their owners or others were sent later entries (V10, V11).

With a stuck broker all hashes may starve, again and again. A limited number is kept; the rest is counted by the facts
that decide its verdict, so that it gets the severity that it would have with its evidence.
"""

from collections import Counter, deque
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dispatch_audit.pipeline.assignment import Routing
from dispatch_audit.pipeline.checkpointed import checkpointed
from dispatch_audit.pipeline.entry_point import EntryPoint
from dispatch_audit.pipeline.replay.blocking.attribution import Interval, Waiters, are_before
from dispatch_audit.pipeline.replay.packing.membership_rows import TracePoint
from dispatch_audit.pipeline.replay.packing.snapshot import Position
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


@checkpointed("starvation_kind")
class StarvationKind(NamedTuple):
    """The facts that decide the verdict on a starved hash.

    Attributes:
        drained: whether the hash drained from another consumer before.
        counted_again: whether its pending entries were counted as draining more than once there (contract 3.9).
    """

    drained: bool
    counted_again: bool


@checkpointed("starved_hash")
class StarvedHash(NamedTuple):
    """A hash that could be served and was not, while its owner or another consumer was sent later entries.

    Attributes:
        hash: the sticky hash.
        owner: the index of its owner.
        span: the interval in which it was starved.
        entries: the number of entries that waited at the end.
        head: the position of the first of them.
        passed: the position of the later entry that was sent last, at `passed_ts`, to `passed_by`.
        passed_by: the index of the owner; of another consumer if the owner was sent nothing.
        drained_from: the index of the consumer from which it drained before; NOBODY: it never drained.
        registered: how often its pending entries were counted as draining there.
        moves: the moves of the hash while entries of it were held.
        rests_on: the settings that no row says and that might explain it.
        unknown: those of them of which nothing may be assumed.
    """

    hash: int
    owner: int
    span: Interval
    entries: int
    head: tuple[int, int]
    passed: tuple[int, int]
    passed_ts: int
    passed_by: int
    drained_from: int
    registered: int
    moves: tuple[OwnershipMove, ...]
    rests_on: tuple[str, ...]
    unknown: tuple[str, ...]

    @property
    def kind(self) -> StarvationKind:
        """The facts that decide the verdict."""
        return StarvationKind(self.drained_from != NOBODY, self.registered > 1)


@checkpointed("starved_hashes")
@dataclass(eq=False, slots=True)
class StarvedHashes:
    """The starved hashes, up to a limit.

    Attributes:
        beyond: the number of those beyond the limit, by kind.
    """

    _kept_max: int
    beyond: Counter[StarvationKind] = field(default_factory=Counter)
    _kept: dict[tuple[int, Position, int], StarvedHash] = field(default_factory=dict)  # by hash, head and end

    @property
    def kept(self) -> list[StarvedHash]:
        """The starved hashes up to the limit."""
        return [*self._kept.values()]

    def add(self, found: StarvedHash) -> None:
        """Adds a starved hash; one that continues under another owner replaces its beginning."""
        begun = self._kept.pop((found.hash, found.head, found.span.from_ts), None)
        if begun is not None:
            found = found._replace(span=found.span._replace(from_seq=begun.span.from_seq, from_ts=begun.span.from_ts))
        if len(self._kept) < self._kept_max:
            self._kept[found.hash, found.head, found.span.to_ts] = found
        else:
            self.beyond[found.kind] += 1

    def clear(self) -> None:
        """Drops everything, the counts included."""
        self._kept.clear()
        self.beyond.clear()

    def forget(self, reported_seq: int) -> None:
        """Drops what ended up to the row `reported_seq`, and the counts."""
        self._kept = {key: found for key, found in self._kept.items() if found.span.to_seq > reported_seq}
        self.beyond.clear()
