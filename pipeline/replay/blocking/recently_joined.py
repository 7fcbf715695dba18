"""Recently joined consumers, as 3.x and the classic dispatcher keep them (contract 6.1, 6.3).

A consumer that joins while others hold entries gets no entry from the read position of that moment on until mark-delete
reaches that position. Consumers are released in the order of their joins, so one unacknowledged entry blocks all of
them (F5).

PIP-282 would have used the last sent position instead. No release has that rule (contract 6.0), but an audit can apply
it to show what it would have changed.
"""

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dispatch_audit.pipeline.checkpointed import checkpointed
from dispatch_audit.pipeline.replay.blocking.attribution import Blocked, Interval, are_before, oldest, waiters
from dispatch_audit.pipeline.replay.blocking.kept_intervals import KeptIntervals
from dispatch_audit.pipeline.replay.blocking.stalls.situation import HeldBack
from dispatch_audit.pipeline.replay.packing.membership_rows import TracePoint
from dispatch_audit.pipeline.replay.packing.snapshot import Position
from dispatch_audit.pipeline.replay.state.causes import Cause
from dispatch_audit.pipeline.replay.state.marks import Mark
from dispatch_audit.pipeline.replay.state.memories import WAIT
from dispatch_audit.pipeline.replay.state.output import BY_ACK, BY_LEAVE
from dispatch_audit.pipeline.replay.state.records import NOBODY, UNKNOWN, record_of
from dispatch_audit.pipeline.replay.state.seen import Seen, SeenByBlocking

_NO_ENTRY: Final = (UNKNOWN, UNKNOWN)
_ENTRIES_MIN: Final = 2
"""The least number of entries between mark-delete and the read position with which a consumer is held back (6.1)."""


@checkpointed("held_back_consumer")
class _Waiting(NamedTuple):
    """A consumer that is held back; when it joined, `holder` held `root`, the oldest unacknowledged entry."""

    place: int
    until: Position
    since: TracePoint
    holder: int
    root: Position


@checkpointed("recently_joined")
class RecentlyJoined:
    """The recently joined consumers, in the order of their joins, whose waits it adds to the intervals.

    Attributes:
        applies: whether the dispatcher keeps recently joined consumers at all.
        held_from: by the index of the consumer, the position from which on it gets, or got, no entries.
        reported: by the index of the consumer, its read position at the join by snapshots, in the order of the joins.
    """

    __slots__ = (
        "_as_pip_282",
        "_intervals",
        "_perhaps",
        "_released_us",
        "_waiting",
        "applies",
        "held_from",
        "reported",
    )

    def __init__(self, intervals: KeptIntervals, as_pip_282: bool) -> None:
        self._intervals = intervals
        self._as_pip_282 = as_pip_282
        self.applies = False
        self.held_from: dict[int, Position] = {}
        self.reported: dict[int, Position] = {}
        self._waiting: list[_Waiting] = []
        self._perhaps: dict[int, Position] = {}
        self._released_us: dict[int, int] = {}

    @property
    def places(self) -> frozenset[int]:
        """The indexes of the consumers that are held back."""
        return frozenset(waiting.place for waiting in self._waiting)

    def held_back(self, state: Seen) -> HeldBack:
        """The facts that decide why nothing was sent."""
        until = tuple((waiting.place, waiting.until) for waiting in self._waiting)
        holder, root = (self._waiting[0].holder, self._waiting[0].root) if until else (NOBODY, _NO_ENTRY)
        perhaps = tuple((place, at) for place, at in self._perhaps.items() if place not in self.places)
        return HeldBack(self.applies, until, holder, root, perhaps, self._out_of_order(state))

    def held_until_us(self, consumer: int) -> int:
        """When a consumer was released, or last shown to be held; it may have been sent nothing till then; 0: never."""
        return self._released_us.get(consumer, 0)

    def join(self, state: SeenByBlocking, consumer: int, at: TracePoint) -> None:
        """Adds a consumer that joins, if another one is connected and entries lie above mark-delete (6.1).

        The broker counts the entries up to its read position, acknowledged ones included: one that is not acknowledged
        is enough, if later ones were read.
        """
        common = state.common
        entries: Any = state.entries
        if common[0].connected >= 2:
            # What was read when it joined may be more than dispatches show, but no more than was published.
            self._perhaps[consumer] = int(common[0].last_published.ledger), int(common[0].last_published.entry)
        unacked = _unacked(state)
        if common[0].connected < 2 or common[0].highest_dispatched.ledger == UNKNOWN or not unacked.size:
            return
        # The read position is after the highest dispatch by one at least; a snapshot may report it (`note_position`).
        until = (int(common[0].highest_dispatched.ledger), int(common[0].highest_dispatched.entry) + 1)
        if until <= (common[0].mark_delete.ledger, common[0].mark_delete.entry + 1):
            return
        if _number_between(state, _next_of_mark_delete(state), until) < _ENTRIES_MIN:
            return
        root = oldest(state, unacked)[0]
        at_root = np.flatnonzero((entries.ledger == root[0]) & (entries.entry == root[1]))
        holder = int(entries.holder[at_root[0]])
        self._waiting.append(_Waiting(consumer, until, at, holder, root))
        self.held_from[consumer] = until
        self._update(state)

    def note_position(self, state: SeenByBlocking, consumer: int, until: Position) -> None:
        """Takes the read position at the join of a consumer from a snapshot."""
        if self._as_pip_282:
            return  # the dispatches show the last sent position
        self.reported[consumer] = until
        if consumer in self._perhaps:
            self._perhaps[consumer] = until[0], until[1] - 1
        # Dispatches mislead: they may be of a read from before a rewind, or go on while the consumer joins.
        self._waiting = [w._replace(until=until) if w.place == consumer else w for w in self._waiting]
        if consumer in self.held_from:
            self.held_from[consumer] = until
        self._update(state)

    def _out_of_order(self, state: Seen) -> frozenset[int]:
        """The consumers that are remembered after one with a later read position that mark-delete has not reached (F8).

        They get nothing from their own position on, and are released only after that one (6.1, 6.3).
        """
        reached = latest = _next_of_mark_delete(state)
        found = set()
        for consumer, until in self.reported.items():
            if reached < latest and until < latest:
                found.add(consumer)
            latest = max(latest, until)
        return frozenset(found)

    def release(self, state: SeenByBlocking, at: TracePoint) -> None:
        """Releases the consumers whose position mark-delete has reached."""
        next_valid = _next_of_mark_delete(state)
        while self._waiting and self._waiting[0].until <= next_valid:
            over = self._waiting.pop(0)
            self._released_us[over.place] = at.ts_us
            self._note_wait(state, over, at, BY_ACK)
        self._update(state)

    def leave(self, state: SeenByBlocking, consumer: int, at: TracePoint) -> None:
        """Releases a consumer that leaves, or all if one remains; call before the leave."""
        over = [w for w in self._waiting if w.place == consumer or state.common[0].connected <= 2]
        self._waiting = [w for w in self._waiting if w not in over]
        self._released_us |= {w.place: at.ts_us for w in over}
        self._released_us.pop(consumer, None)
        self.reported.pop(consumer, None)
        self._perhaps.pop(consumer, None)
        if state.common[0].connected <= 2:
            self._perhaps.clear()
        self._update(state)
        for waiting in over:
            self._note_wait(state, waiting, at, BY_LEAVE)

    def close(self, state: SeenByBlocking, at: TracePoint, ended_by: int) -> None:
        """Releases all; call before the end of the trace or a reset."""
        over, self._waiting = self._waiting, []
        self._released_us.clear()
        self.reported.clear()
        self._perhaps.clear()
        self._update(state)
        for waiting in over:
            self._note_wait(state, waiting, at, ended_by)

    def _note_wait(self, state: Seen, held: _Waiting, at: TracePoint, ended_by: int) -> None:
        """Adds the interval of a consumer's wait, if any entry waited for it."""
        waiting = waiters(state)
        waiting = waiting.where((waiting.owner == held.place) & ~are_before(state, waiting.slot, held.until))
        if waiting.slot.size == 0:
            return
        span = Interval(held.since.seq, held.since.ts_us, at.seq, at.ts_us, ended_by)
        waited = Blocked(
            scope="consumer",
            cause=Cause.RECENTLY_JOINED.word,
            hash=UNKNOWN,
            consumer=held.place,
            blocking=held.holder if held.holder != held.place else NOBODY,
            span=span,
            entries=waiting.slot.size,
            waited_us=int(waiting.waited_us(span).sum()),
            roots=(held.root,),
            detail={"held_back_behind": f"{held.until[0]}:{held.until[1]}"},
        )
        self._intervals.note([waited])

    def _update(self, state: SeenByBlocking) -> None:
        """Notes for the kernel which consumers are recent, and at which mark-delete position it stops."""
        common, recent = record_of(state.waits.common, WAIT), state.waits.consumers.view(np.ndarray)["recent"]
        first = self._waiting[0].until if self._waiting else _NO_ENTRY
        common["join_release"] = first
        recent[:] = 0
        recent[sorted(self.places)] = 1


def _unacked(state: Seen) -> NDArray[np.intp]:
    """The slots of the entries that no row acknowledges."""
    entries: Any = state.entries.view(np.ndarray)
    return np.flatnonzero((entries["ledger"] != UNKNOWN) & (entries["marks"] & Mark.ACKED == 0))


def _number_between(state: Seen, first: Position, until: Position) -> int:
    """The number of known entries from a position up to another one, acknowledged ones included."""
    known = np.flatnonzero(state.entries.view(np.ndarray)["ledger"] != UNKNOWN)
    return int(np.count_nonzero(are_before(state, known, until) & ~are_before(state, known, first)))


def _next_of_mark_delete(state: Seen) -> Position:
    """The first position that is not deleted."""
    return int(state.common[0].mark_delete.ledger), int(state.common[0].mark_delete.entry) + 1
