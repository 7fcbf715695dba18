"""What the rows of a stall show of the known bugs that stop all sending (contract 3.9, 3.11, 3.12, 4.2, 6.2, 6.3).

| symptom | the rows show |
|---|---|
| write_not_completed | a dispatch has no end although others have: its connection does not take it, and others wait |
| parked_at_the_end | all that waits was read; some of it cannot be sent for long, and what could be is not |
| head_of_replay | 3.x, classic: all was read, and as many as a read picks cannot be sent and are before what could be |
| joined_out_of_order | 3.x, classic: what could be sent is for consumers remembered after one with a later position |
| nothing_is_read | nothing that could be sent was read, and snapshots show that the read position stands still |
| no_read_pending | the same, and the last of them shows that the dispatcher waits for no read |
| counted_as_draining_again | each hash that could be served had drained, and was counted as draining more than once |

Each names a bug only where the catalogue has one for the release and the dispatcher.
"""

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dispatch_audit.pipeline.checkpointed import checkpointed
from dispatch_audit.pipeline.replay.blocking.attribution import Interval, Waiters, number_before, oldest, shown_as_read
from dispatch_audit.pipeline.replay.blocking.starved_hashes import unserved_since_drained
from dispatch_audit.pipeline.replay.packing.snapshot import Position
from dispatch_audit.pipeline.replay.state.marks import Mark
from dispatch_audit.pipeline.replay.state.records import NOBODY, UNKNOWN
from dispatch_audit.pipeline.replay.state.seen import Seen
from dispatch_audit.pipeline.replay.state.state import common_of

WRITE_NOT_COMPLETED: Final = "write_not_completed"
PARKED_AT_THE_END: Final = "parked_at_the_end"
HEAD_OF_REPLAY: Final = "head_of_replay"
JOINED_OUT_OF_ORDER: Final = "joined_out_of_order"
NOTHING_IS_READ: Final = "nothing_is_read"
NO_READ_PENDING: Final = "no_read_pending"
COUNTED_AGAIN: Final = "counted_as_draining_again"


@checkpointed("reported_reading")
class Reported(NamedTuple):
    """What the last snapshots and samples say, and when they said it, in microseconds.

    Attributes:
        replay_us: when the size of the replay queue was reported.
        in_replay: that size, in entries; None: no snapshot says it.
        position_us: when the read position was reported.
        read_position: the position of the next normal read; None: no snapshot says it.
        stands_us: when a snapshot showed that read position first.
        holes_us: when the ranges of acknowledged entries above mark-delete were counted.
        ack_holes: their number, from the trace; None: they were not counted.
        mark_delete: the position up to which all entries are deleted at the cursor; None: no snapshot says it.
        unacked_us: when unacknowledged messages and permits were reported.
        unacked: unacknowledged messages of the subscription; None: no snapshot says it.
        short: the indexes of the consumers that had no permits.
        reads: whether the dispatcher waited for a read at `position_us`; None: that snapshot does not say it.
        replay_at_read: the last size of the replay queue in front of which the broker read on; 0: no snapshot shows it.
    """

    replay_us: int = 0
    in_replay: int | None = None
    position_us: int = 0
    read_position: Position | None = None
    stands_us: int = 0
    holes_us: int = 0
    ack_holes: int | None = None
    mark_delete: Position | None = None
    unacked_us: int = 0
    unacked: int | None = None
    short: frozenset[int] = frozenset()
    reads: bool | None = None
    replay_at_read: int = 0

    def read_since(self, since_us: int) -> Position | None:
        """The read position that snapshots have shown since a time; None: none shows one for so long."""
        return self.read_position if self.stands_us <= since_us else None

    def since(self, since_us: int) -> "Reported":
        """What was reported at a time or later."""
        found = self
        if self.replay_us < since_us:
            found = found._replace(in_replay=None)
        if self.position_us < since_us:
            found = found._replace(read_position=None, reads=None)
        if self.holes_us < since_us:
            found = found._replace(ack_holes=None)
        if self.unacked_us < since_us:
            found = found._replace(unacked=None, short=frozenset())
        return found


class ReplayHead(NamedTuple):
    """What decides whether the older dispatcher gets past the first entries in replay (3.x and classic; 6.2, 6.3).

    Attributes:
        picked: how many of them a read looks at.
        out_of_order: the consumers that snapshots show to be remembered after one with a later read position.
    """

    picked: int
    out_of_order: frozenset[int]


class Shown(NamedTuple):
    """A symptom, and the index of the consumer that it is about; an empty name: none, NOBODY: it is about none."""

    name: str
    consumer: int


def symptom(
    state: Seen,
    waiting: Waiters,
    free: Waiters,
    interval: Interval,
    reported: Reported,
    head: ReplayHead | None,
    threshold_us: int,
) -> Shown:
    """The symptom that the rows of a stall show.

    Args:
        state: the state at its end.
        waiting: all entries that wait,
        free: and those of them that could have been sent.
        interval: the time in which nothing was sent.
        reported: what snapshots of the interval say.
        head: of the dispatcher of recently joined consumers (3.x and classic); None: it is the other one.
        threshold_us: the shortest time without a dispatch that is a stall.
    """
    unwritten = _unwritten_to(state, interval.to_ts - threshold_us)
    # One slow connection holds up the others; its own entries wait for it on any release.
    if unwritten != NOBODY and bool((free.owner != unwritten).any()):
        return Shown(WRITE_NOT_COMPLETED, unwritten)
    read = reported_as_read(state, waiting, reported)
    if bool(read.all()):
        since_us = max(interval.from_ts, interval.to_ts - threshold_us)
        parked = _parked(state, waiting, free, head, since_us)
        if parked:
            return Shown(parked, NOBODY)
    stands = reported.read_position is not None and reported.position_us >= interval.from_ts + threshold_us
    if stands and not reported_as_read(state, free, reported).any():
        return Shown(NO_READ_PENDING if reported.reads is False else NOTHING_IS_READ, NOBODY)
    counted_again = state.hashes.view(np.ndarray)["registered"][free.hash_at] > 1
    stuck = free.slot.size > 0 and bool((counted_again & unserved_since_drained(state, free)).all())
    return Shown(COUNTED_AGAIN if stuck else "", NOBODY)


def _parked(state: Seen, waiting: Waiters, free: Waiters, head: ReplayHead | None, since_us: int) -> str:
    """What keeps a dispatcher from the entries in replay that could be sent; empty: nothing that is known."""
    if head is None:
        # What was published later is not among `free`, although its owner may be ready.
        long = np.count_nonzero(waiting.since_ts <= since_us)
        return PARKED_AT_THE_END if long > free.slot.size else ""
    if free.slot.size and set(free.owner.tolist()) <= head.out_of_order:
        return JOINED_OUT_OF_ORDER
    if free.slot.size == 0:
        return ""
    ahead = number_before(state, waiting, oldest(state, free.slot)[0])
    return HEAD_OF_REPLAY if ahead >= head.picked else ""


def _unwritten_to(state: Seen, before_us: int) -> int:
    """The receiver of a dispatch before a time that had no end by then although others had; NOBODY: there is none."""
    entries: Any = state.entries.view(np.ndarray)
    if common_of(state)["starts_seen"] == 0:
        return NOBODY
    held = (entries["ledger"] != UNKNOWN) & (entries["holder"] != NOBODY)
    written = entries["marks"] & Mark.DISPATCH_CONFIRMED.value != 0
    if not bool((written & (entries["ledger"] != UNKNOWN)).any()):
        return NOBODY
    slots = np.flatnonzero(held & ~written & (entries["sent_ts"] <= before_us))
    if slots.size:
        return int(entries["holder"][slots[np.argmin(entries["sent_seq"][slots])]])
    common = common_of(state)
    # What ends the stall may be its end, at last.
    lately = common["written_late_since_ts"] <= before_us <= common["written_late_ts"]
    return int(common["written_late_to"]) if lately else NOBODY


def reported_as_read(state: Seen, waiting: Waiters, reported: Reported) -> NDArray[np.bool_]:
    """Which entries the broker has read: unless a snapshot shows otherwise, what is due was, to find out its delay."""
    entries: Any = state.entries.view(np.ndarray)
    due = entries["marks"][waiting.slot] & (Mark.DUE | Mark.SENT) == Mark.DUE.value
    if reported.read_position is not None:
        return shown_as_read(state, waiting, reported.read_position)
    if reported.in_replay is not None and reported.in_replay >= np.count_nonzero(~due):
        return np.ones(waiting.slot.size, dtype=np.bool_)
    read: NDArray[np.bool_] = waiting.was_read | due
    return read
