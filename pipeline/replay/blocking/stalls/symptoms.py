"""What the rows of a stall show of the known bugs that stop all sending (contract 3.9, 3.11, 3.12, 4.2, 6.2, 6.3).

| symptom | the rows show |
|---|---|
| write_not_completed | a dispatch has no end although others have: its connection does not take it, and others wait |
| parked_at_the_end | all that waits was read; some of it cannot be sent for long, and what could be is not |
| head_of_replay | 3.x, classic: what waited long was read, and as many as a read picks are before what could be sent |
| reads_pass_replay | 3.x, classic: what could be sent is in replay, and reads of new entries went on and sent nothing |
| joined_out_of_order | 3.x, classic: what could be sent is for consumers remembered after one with a later position |
| nothing_is_read | nothing that could be sent was read, and snapshots show that the read position stands still |
| no_read_pending | the same, and the last of them shows that the dispatcher waits for no read |
| counted_as_draining_again | each hash that could be served had drained, and was counted as draining more than once |

Each names a bug only where the catalogue has one for the release and the dispatcher.
"""

from typing import Any, Final, NamedTuple

import numpy as np

from dispatch_audit.pipeline.replay.blocking.attribution import Waiters, are_before, held_by, oldest
from dispatch_audit.pipeline.replay.blocking.stalls.reported import reported_as_read
from dispatch_audit.pipeline.replay.blocking.stalls.situation import Situation
from dispatch_audit.pipeline.replay.blocking.starved_hashes import unserved_since_drained
from dispatch_audit.pipeline.replay.settings.broker_limits import READ_BATCH_DEFAULT
from dispatch_audit.pipeline.replay.state.marks import Mark
from dispatch_audit.pipeline.replay.state.records import NOBODY, UNKNOWN
from dispatch_audit.pipeline.replay.state.seen import Seen
from dispatch_audit.pipeline.replay.state.state import common_of

WRITE_NOT_COMPLETED: Final = "write_not_completed"
PARKED_AT_THE_END: Final = "parked_at_the_end"
HEAD_OF_REPLAY: Final = "head_of_replay"
READS_PASS_REPLAY: Final = "reads_pass_replay"
JOINED_OUT_OF_ORDER: Final = "joined_out_of_order"
NOTHING_IS_READ: Final = "nothing_is_read"
NO_READ_PENDING: Final = "no_read_pending"
COUNTED_AGAIN: Final = "counted_as_draining_again"


class Shown(NamedTuple):
    """A symptom, and the index of the consumer that it is about; an empty name: none, NOBODY: it is about none."""

    name: str
    consumer: int


def symptom(situation: Situation, free: Waiters) -> Shown:
    """The symptom that the rows of a stall show, in which some entries could have been sent."""
    state, reported = situation.state, situation.reported
    unwritten = _unwritten_to(state, situation.interval.to_ts - situation.stall_threshold_us)
    # One slow connection holds up the others; its own entries wait for it on any release.
    if unwritten != NOBODY and bool((free.owner != unwritten).any()):
        return Shown(WRITE_NOT_COMPLETED, unwritten)
    parked = _parked(situation, free)
    if parked:
        return Shown(parked, NOBODY)
    longest_us = reported.position_us - situation.interval.from_ts
    stands = reported.read_position is not None and longest_us >= situation.stall_threshold_us
    if stands and not reported_as_read(state, free, reported).any():
        return Shown(NO_READ_PENDING if reported.reads is False else NOTHING_IS_READ, NOBODY)
    counted_again = state.hashes.view(np.ndarray)["registered"][free.hash_at] > 1
    stuck = free.slot.size > 0 and bool((counted_again & unserved_since_drained(state, free)).all())
    return Shown(COUNTED_AGAIN if stuck else "", NOBODY)


def _parked(situation: Situation, free: Waiters) -> str:
    """What keeps a dispatcher from the entries in replay that could be sent; empty: nothing that is known."""
    waiting = situation.waiting
    read, long = reported_as_read(situation.state, waiting, situation.reported), waiting.since_ts <= situation.since_us
    if not situation.recent.applies:
        # What was published later is not among `free`, although its owner may be ready.
        return PARKED_AT_THE_END if bool(read.all()) and np.count_nonzero(long) > free.slot.size else ""
    # A read of new entries may go past the head of replay, so what came last need not have been read.
    if not bool(read[long].all()):
        return ""
    return _passed_over(situation, free) if free.slot.size else ""


def _passed_over(situation: Situation, free: Waiters) -> str:
    """What keeps a dispatcher of recently joined consumers from what could be sent and was read."""
    state, reported = situation.state, situation.reported
    if set(free.owner.tolist()) <= situation.recent.out_of_order(state):
        return JOINED_OUT_OF_ORDER
    ahead = int(np.count_nonzero(are_before(state, situation.waiting.slot, oldest(state, free.slot)[0])))
    if ahead >= _picked(situation):
        return HEAD_OF_REPLAY
    # Each read that sends nothing makes the next one pass over replay, unless consumers are recently joined (6.2).
    read_to = reported.read_position
    if read_to is None or reported.in_replay is None or reported.stands_us <= situation.interval.from_ts:
        return ""
    in_replay = ahead < min(reported.in_replay, reported.replay_at_read)
    joined_later = all(position >= read_to for position in situation.recent.until.values())
    return READS_PASS_REPLAY if in_replay and joined_later else ""


def _picked(situation: Situation) -> int:
    """How many of the first entries in replay a read of the older dispatcher looks at: min(permits, batch) (6.2)."""
    permits = int(np.maximum(situation.consumers["permits"][situation.ready], 0).sum())
    return max(min(permits, situation.limits.read_batch or READ_BATCH_DEFAULT), 1)


def _unwritten_to(state: Seen, before_us: int) -> int:
    """The receiver of a dispatch before a time that had no end by then although others had; NOBODY: there is none."""
    entries: Any = state.entries.view(np.ndarray)
    common, written = common_of(state), entries["marks"] & Mark.DISPATCH_CONFIRMED != 0
    if common["starts_seen"] == 0 or not bool((written & (entries["ledger"] != UNKNOWN)).any()):
        return NOBODY
    held = held_by(state)
    slots = held[~written[held] & (entries["sent_at"]["ts_us"][held] <= before_us)]
    if slots.size:
        return int(entries["holder"][slots[np.argmin(entries["sent_at"]["seq"][slots])]])
    # The row that ends the stall may be the late end of such a dispatch.
    lately = common["written_late_since_ts"] <= before_us <= common["written_late_ts"]
    return int(common["written_late_to"]) if lately else NOBODY
