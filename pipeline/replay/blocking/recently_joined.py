"""Recently joined consumers, as 3.x and the classic dispatcher keep them (contract 6.1, 6.3).

A consumer that joins while others hold entries is sent nothing from the read position of that moment on, until
mark-delete has reached it. They are released in the order in which they joined, so one unacknowledged entry blocks
all of them (F5).

PIP-282 would have held them back behind the last sent position instead. No release has that rule (contract 6.0), but
it can be chosen, to see what it would have changed.
"""

from typing import Any, NamedTuple

import numpy as np

from pipeline.replay.blocking.attribution import Blocked, Interval, oldest, waiters
from pipeline.replay.blocking.causes import NAMES, RECENTLY_JOINED
from pipeline.replay.packing.membership_rows import TracePoint
from pipeline.replay.packing.snapshot import Position
from pipeline.replay.state.output import BY_LEAVE
from pipeline.replay.state.policy import RoutingArrays
from pipeline.replay.state.state import (
    ACKED,
    NOBODY,
    UNKNOWN,
    State,
)


class _Waiting(NamedTuple):
    place: int
    until: Position
    since: TracePoint
    holder: int
    root: Position


class RecentlyJoined:
    """The consumers that are held back, oldest first.

    Attributes:
        held_behind: by place, the position that a consumer was or is held back behind.
    """

    def __init__(self, as_pip_282: bool = False) -> None:
        self._as_pip_282 = as_pip_282
        self.held_behind: dict[int, Position] = {}
        self._waiting: list[_Waiting] = []

    @property
    def places(self) -> frozenset[int]:
        """Places of the consumers in the state."""
        return frozenset(waiting.place for waiting in self._waiting)

    @property
    def first(self) -> tuple[Position | None, int]:
        """What the first of them waits for, and the place of whom it waited for when it joined; None, NOBODY: none."""
        return (self._waiting[0].until, self._waiting[0].holder) if self._waiting else (None, NOBODY)

    def join(self, state: State, place: int, at: TracePoint) -> None:
        """A consumer joined; it is held back if somebody else is there and entries are unacknowledged."""
        common = state.common
        entries: Any = state.entries
        open_ones = np.flatnonzero((entries.ledger != UNKNOWN) & (entries.marks & ACKED == 0))
        if common[0].connected < 2 or common[0].highest_dispatched_ledger == UNKNOWN or open_ones.size < 2:
            return
        # The read position is behind what was dispatched; a snapshot may say how far (`told`).
        until = (int(common[0].highest_dispatched_ledger), int(common[0].highest_dispatched_entry) + 1)
        if until <= (common[0].mark_delete_ledger, common[0].mark_delete_entry + 1):
            return
        root = oldest(state, open_ones)[0]
        at_root = np.flatnonzero((entries.ledger == root[0]) & (entries.entry == root[1]))
        holder = int(entries.holder[at_root[0]])
        self._waiting.append(_Waiting(place, until, at, holder, root))
        self.held_behind[place] = until
        self._tell(state)

    def told(self, state: State, place: int, until: Position) -> None:
        """A snapshot said at which read position a consumer had joined."""
        if self._as_pip_282:
            return  # the last sent position is known from the dispatches
        self._waiting = [w._replace(until=max(w.until, until)) if w.place == place else w for w in self._waiting]
        if place in self.held_behind:
            self.held_behind[place] = max(self.held_behind[place], until)
        self._tell(state)

    def release(self, state: State, mapping: RoutingArrays, at: TracePoint, ended_by: int) -> list[Blocked]:
        """Mark-delete has moved: those that waited for it, up to the first that waits for more."""
        released: list[Blocked] = []
        next_valid = (int(state.common[0].mark_delete_ledger), int(state.common[0].mark_delete_entry) + 1)
        while self._waiting and self._waiting[0].until <= next_valid:
            released += _held_back(state, mapping, self._waiting.pop(0), at, ended_by)
        self._tell(state)
        return released

    def leave(self, state: State, mapping: RoutingArrays, place: int, at: TracePoint) -> list[Blocked]:
        """A consumer leaves; with one consumer left nobody is held back any more."""
        over = [w for w in self._waiting if w.place == place or state.common[0].connected <= 2]
        self._waiting = [w for w in self._waiting if w not in over]
        self._tell(state)
        return [interval for w in over for interval in _held_back(state, mapping, w, at, BY_LEAVE)]

    def close(self, state: State, mapping: RoutingArrays, at: TracePoint, ended_by: int) -> list[Blocked]:
        """The trace ends, or everything starts anew."""
        over, self._waiting = self._waiting, []
        self._tell(state)
        return [interval for w in over for interval in _held_back(state, mapping, w, at, ended_by)]

    def _tell(self, state: State) -> None:
        """Where the core is to stop."""
        first = self._waiting[0].until if self._waiting else (UNKNOWN, UNKNOWN)
        state.common[0].join_release_ledger, state.common[0].join_release_entry = first
        state.consumers.recent[:] = 0
        state.consumers.recent[sorted(self.places)] = 1


def _held_back(state: State, mapping: RoutingArrays, held: _Waiting, at: TracePoint, ended_by: int) -> list[Blocked]:
    waiting = waiters(state, mapping)
    entries: Any = state.entries
    ledger, entry = entries.ledger[waiting.slot], entries.entry[waiting.slot]
    behind = (ledger > held.until[0]) | ((ledger == held.until[0]) & (entry >= held.until[1]))
    waiting = waiting.where((waiting.owner == held.place) & behind)
    if waiting.slot.size == 0:
        return []
    span = Interval(held.since.seq, held.since.ts_us, at.seq, at.ts_us, ended_by)
    waited_us = int(waiting.waited_us(span).sum())
    detail: dict[str, object] = {"held_back_behind": f"{held.until[0]}:{held.until[1]}"}
    holder = held.holder if held.holder != held.place else NOBODY
    return [
        Blocked(
            "consumer",
            NAMES[RECENTLY_JOINED],
            UNKNOWN,
            held.place,
            holder,
            span,
            waiting.slot.size,
            waited_us,
            (held.root,),
            detail,
        )
    ]
