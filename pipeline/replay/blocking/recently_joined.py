"""Recently joined consumers, as 3.x and the classic dispatcher keep them (contract 6.1, 6.3).

A consumer that joins while others hold entries gets no entry from the read position of that moment on until mark-delete
reaches that position. Consumers are released in the order of their joins, so one unacknowledged entry blocks all of
them (F5).

PIP-282 would have used the last sent position instead. No release has that rule (contract 6.0), but an audit can apply
it to show what it would have changed.
"""

from collections.abc import Sequence
from itertools import takewhile
from typing import Any, Final, NamedTuple

import numpy as np

from dispatch_audit.pipeline.checkpointed import checkpointed
from dispatch_audit.pipeline.packing.membership_rows import TracePoint
from dispatch_audit.pipeline.packing.snapshot import Position
from dispatch_audit.pipeline.replay.blocking.attribution import (
    Blocked,
    Interval,
    are_before,
    in_order,
    oldest,
    waiters,
)
from dispatch_audit.pipeline.replay.blocking.consumer_availability import mark_delete_is_guessed
from dispatch_audit.pipeline.replay.blocking.kept_intervals import KeptIntervals
from dispatch_audit.pipeline.replay.state.memories import WAIT
from dispatch_audit.pipeline.replay.state.output import By
from dispatch_audit.pipeline.replay.state.records import NOBODY, UNKNOWN, record_of
from dispatch_audit.pipeline.replay.state.state import Seen, SeenByBlocking, common_of
from dispatch_audit.pipeline.replay.state.values import UNSURE, Cause, Mark

_ENTRIES_MIN: Final = 2
"""The least number of entries between mark-delete and the read position with which a consumer is held back (6.1)."""


@checkpointed("held_back_consumer")
class HeldBack(NamedTuple):
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
        waiting: those that are held back, in the order of the joins; their real positions may be higher.
    """

    __slots__ = (
        "_as_pip_282",
        "_intervals",
        "_perhaps",
        "_released_us",
        "_reported",
        "applies",
        "held_from",
        "waiting",
    )

    def __init__(self, intervals: KeptIntervals, as_pip_282: bool) -> None:
        self._intervals = intervals
        self._as_pip_282 = as_pip_282
        self.applies = False
        self.held_from: dict[int, Position] = {}
        self.waiting: list[HeldBack] = []
        self._reported: dict[int, Position] = {}  # the read position at each join by snapshots, in their order
        self._perhaps: dict[int, Position] = {}  # the highest position that was published at each join
        self._released_us: dict[int, int] = {}

    @property
    def until(self) -> dict[int, Position]:
        """The positions that those get nothing from for now that are held back, by their indexes."""
        return {held.place: held.until for held in self.waiting}

    def certain(self, state: Seen) -> dict[int, Position]:
        """`until` without those that a skip may have released, as long as no snapshot has shown mark-delete since.

        Mark-delete is certainly below an unacknowledged entry that the skip cannot have passed.
        """
        common, entries = common_of(state), state.entries.view(np.ndarray)
        if not self.waiting or common["shown_ts"] >= common["skip_begun_ts"]:
            return self.until
        passable = Mark.ACKED | Mark.MAYBE_SKIPPED | UNSURE
        kept = np.flatnonzero((entries["ledger"] != UNKNOWN) & (entries["marks"] & passable == 0))
        below = oldest(state, kept)
        return {held.place: held.until for held in self.waiting if below and held.until > below[0]}

    def perhaps(self, state: Seen) -> list[int]:
        """The indexes of consumers that rows do not show to be held back, but may be."""
        reached, until, guessed = _next_of(common_of(state)["mark_delete"]), self.until, mark_delete_is_guessed(state)
        perhaps = (at for at, published in self._perhaps.items() if guessed or published >= reached)
        return [at for at in perhaps if at not in until]

    def out_of_order(self, state: Seen) -> set[int]:
        """The consumers that are remembered after one with a later read position that mark-delete has not reached (F8).

        They get nothing from their own position on, and are released only after that one (6.1, 6.3).
        """
        reached = latest = _next_of(common_of(state)["mark_delete"])
        found = set()
        for consumer, until in self._reported.items():
            if reached < latest and until < latest:
                found.add(consumer)
            latest = max(latest, until)
        return found

    def held_until_us(self, consumer: int) -> int:
        """When a consumer was released last; it may have been sent nothing till then; 0: never."""
        return self._released_us.get(consumer, 0)

    def join(self, state: SeenByBlocking, consumer: int, at: TracePoint) -> None:
        """Adds a consumer that joins, if another one is connected and entries lie above mark-delete (6.1).

        The broker counts the entries up to its read position, acknowledged ones included: one that is not acknowledged
        is enough, if later ones were read.
        """
        common, entries = common_of(state), state.entries.view(np.ndarray)
        if common["connected"] < 2:
            return
        # What was read when it joined may be more than dispatches show, but no more than was published.
        self._perhaps[consumer] = common["last_published"].item()
        known = np.flatnonzero(entries["ledger"] != UNKNOWN)
        unacked = known[entries["marks"][known] & Mark.ACKED == 0]
        if common["highest_dispatched"]["ledger"] == UNKNOWN or not unacked.size:
            return
        # The read position is after the highest dispatch by one at least; a snapshot may report it (`note_position`).
        until = _next_of(common["highest_dispatched"])
        above = are_before(state, known, until) & ~are_before(state, known, _next_of(common["mark_delete"]))
        if np.count_nonzero(above) < _ENTRIES_MIN:
            return
        first = unacked[in_order(state, unacked)[0]]
        holder, root = int(entries["holder"][first]), oldest(state, unacked)[0]
        self.waiting.append(HeldBack(consumer, until, at, holder, root))
        self.held_from[consumer] = until
        self._update(state)

    def note_position(self, state: SeenByBlocking, consumer: int, until: Position) -> None:
        """Takes the read position at the join of a consumer from a snapshot."""
        if self._as_pip_282:
            return  # the dispatches show the last sent position
        self._reported[consumer] = until
        if consumer in self._perhaps:
            self._perhaps[consumer] = until[0], until[1] - 1
        # Dispatches mislead: they may be of a read from before a rewind, or go on while the consumer joins.
        self.waiting = [held._replace(until=until) if held.place == consumer else held for held in self.waiting]
        if consumer in self.held_from:
            self.held_from[consumer] = until
        self._update(state)

    def release(self, state: SeenByBlocking, at: TracePoint) -> None:
        """Releases the consumers whose position mark-delete has reached."""
        reached = _next_of(common_of(state)["mark_delete"])
        self._end(state, [*takewhile(lambda held: held.until <= reached, self.waiting)], at, By.ACK)

    def leave(self, state: SeenByBlocking, consumer: int, at: TracePoint) -> None:
        """Releases a consumer that leaves, or all if one remains; call before the leave."""
        if common_of(state)["connected"] <= 2:
            self.close(state, at, By.LEAVE)
        else:
            self._end(state, [held for held in self.waiting if held.place == consumer], at, By.LEAVE)
        for of in (self._released_us, self._reported, self._perhaps):
            of.pop(consumer, None)

    def close(self, state: SeenByBlocking, at: TracePoint, ended_by: int) -> None:
        """Releases all; call before the end of the trace or a reset."""
        self._reported.clear()
        self._perhaps.clear()
        self._end(state, self.waiting, at, ended_by)

    def _end(self, state: SeenByBlocking, over: Sequence[HeldBack], at: TracePoint, ended_by: int) -> None:
        """Releases some, and adds the intervals of their waits."""
        self.waiting = [held for held in self.waiting if held not in over]
        self._update(state)
        for held in over:
            self._released_us[held.place] = at.ts_us
            self._note_wait(state, held, at, ended_by)

    def _note_wait(self, state: Seen, held: HeldBack, at: TracePoint, ended_by: int) -> None:
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
        first = self.waiting[0].until if self.waiting else (UNKNOWN, UNKNOWN)
        common["join_release"] = first
        recent[:] = 0
        recent[[*self.until]] = 1


def _next_of(position: Any) -> Position:
    """The position after one in the state, or the first that is not deleted if that is mark-delete."""
    ledger, entry = position.item()
    return ledger, entry + 1
