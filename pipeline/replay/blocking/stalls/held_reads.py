"""What each gate holds back of the entries that could be sent, and whom it blames: the functions of `gates`."""

from typing import Any

import numpy as np

from dispatch_audit.pipeline.packing.snapshot import Position
from dispatch_audit.pipeline.replay.blocking.attribution import Waiters, are_before, held_by, in_order, most_waited_for
from dispatch_audit.pipeline.replay.blocking.capacity_samples import ack_holes
from dispatch_audit.pipeline.replay.blocking.passed_over import are_found, unserved_since_drained
from dispatch_audit.pipeline.replay.blocking.stalls.reported import may_be_skipped, reported_as_read, shown_as_read
from dispatch_audit.pipeline.replay.blocking.stalls.situation import Mask, Situation
from dispatch_audit.pipeline.replay.durations import READ_AND_PAUSE_US, SNAPSHOT_LAG_US
from dispatch_audit.pipeline.replay.state.memories import WAIT
from dispatch_audit.pipeline.replay.state.records import NOBODY, Ints, record_of
from dispatch_audit.pipeline.replay.state.state import Seen, common_of


def _ahead(situation: Situation, ahead: Waiters) -> Ints:
    """How many of some entries are before each that could be sent."""
    entries: Any = situation.state.entries.view(np.ndarray)
    both = np.concatenate([ahead.slot, situation.free.slot])
    # Of equal positions the one that asks comes first: an entry is not ahead of itself.
    asks = np.concatenate([np.ones(ahead.slot.size, np.int64), np.zeros(situation.free.slot.size, np.int64)])
    order = np.lexsort((asks, entries["entry"][both], entries["ledger"][both]))
    counted = np.empty(both.size, dtype=np.int64)
    counted[order] = np.cumsum(asks[order])
    found: Ints = counted[ahead.slot.size :]
    return found


def behind_joins(situation: Situation) -> Mask:
    """Recently joined consumers hold back their own entries, and those of others as long as these are not read.

    The broker reads in order and puts what it holds back into replay. Some releases do not read on while replay has
    entries (6.4); the others do (6.2), and take a read and a pause at most for each entry that comes first and was not
    read before.
    """
    state, waiting = situation.state, situation.waiting
    if not situation.recent.waiting:
        return situation.behind_joins
    if not situation.limits.reads_past_replay:
        late: Mask = _ahead(situation, waiting) > 0
    else:
        late = situation.duration_us <= _ahead(situation, waiting.where(~waiting.was_read)) * READ_AND_PAUSE_US
    behind: Mask = situation.behind_joins | (late & ~reported_as_read(state, situation.free, situation.reported))
    return behind


def blames_joins(situation: Situation) -> int:
    """The holder of the oldest entry that the first of the recently joined consumers waits for."""
    first = situation.recent.waiting[0]
    holder = holder_of_oldest(situation, first.until)
    # Else the holder has just acknowledged the entry that mark-delete waited for.
    return first.holder if holder == NOBODY else holder


def behind_full_replay(situation: Situation) -> Mask:
    """What comes after as many entries as replay may have, and was not read: the look-ahead limit (4.6, 4.7).

    The broker reads on without a dispatch as long as replay is below the limit, so the entries that cannot be sent and
    come before one that can are in replay by then. What was read is sent at any size of replay. If the read position
    stands still for longer than a read and a pause while replay is below the limit, something else stops it.
    """
    limit, reported, free = situation.look_ahead_limit, situation.reported, situation.free
    if limit is None:
        return np.zeros(free.slot.size, dtype=np.bool_)
    if reported.in_replay is not None and reported.in_replay >= limit:
        return ~free.was_read
    stood_us = reported.position_us - max(reported.stands_us, situation.since_us)
    if reported.in_replay is not None and stood_us >= READ_AND_PAUSE_US + SNAPSHOT_LAG_US:
        return np.zeros(free.slot.size, dtype=np.bool_)
    # The queue may have grown since a snapshot with a smaller size. Due entries after one that can be sent do not
    # count: the broker would have had to read, and send, that one first.
    stuck = situation.waiting.where(situation.held & ~may_be_skipped(situation.state, situation.waiting, reported))
    read = shown_as_read(situation.state, stuck, reported)
    full: Mask = ~free.was_read & (np.count_nonzero(read) + _ahead(situation, stuck.where(~read)) >= limit)
    return full


def blames_full_replay(situation: Situation) -> int:
    """The consumer that most of the entries in replay wait for."""
    waiting = situation.waiting
    blocking = most_waited_for(waiting.where(waiting.was_read), np.flatnonzero(situation.unavailable).tolist())
    return holder_of_draining(situation.state, waiting.where(waiting.drains)) if blocking == NOBODY else blocking


def behind_unowned(situation: Situation) -> Mask:
    """Entries that nobody owns and that come first keep the cursor from what was not read.

    A read has no more entries than the consumers have permits, and one that brings nothing to send is followed by a
    pause (4.2). So few permits and many unowned entries keep the cursor long, but the dispatcher of draining hashes
    puts them into replay and reads on (4.11): each of them costs it a read at most.
    """
    ahead = _ahead(situation, situation.waiting.where(situation.waiting.owner == NOBODY))
    behind: Mask = ~situation.free.was_read & (ahead > 0)
    if not situation.recent.applies:
        behind &= situation.duration_us <= ahead * READ_AND_PAUSE_US
    return behind


def behind_ack_holes(situation: Situation) -> Mask:
    """More ranges are acknowledged than the cursor persists."""
    paused = 0 < situation.pauses_at < ack_holes(situation.state)
    return ~situation.free.was_read & paused


def holder_of_oldest(situation: Situation, below: Position | None = None) -> int:
    """The holder of the oldest unacknowledged entry, or of the oldest below a position: mark-delete waits for it."""
    state = situation.state
    held = held_by(state)
    if below is not None:
        held = held[are_before(state, held, below)]
    return int(state.entries.view(np.ndarray)["holder"][held[in_order(state, held)[0]]]) if held.size else NOBODY


def behind_full_subscription(situation: Situation) -> Mask:
    """The subscription is blocked on unacknowledged messages at the end, or was until shortly before.

    Nothing was sent in the interval, so the limit was reached before it or not at all. What was read is sent although
    the subscription is at its limit (4.2, step 8).
    """
    common, unacked = common_of(situation.state), situation.reported.unacked
    # The broker may count what an administrator has skipped (5.10).
    counted = unacked is not None and 0 < common["unacked_limit"] <= unacked
    full_until_us = record_of(situation.state.waits.common, WAIT)["blocked_on_unacked_until_ts"]
    full = counted or common["blocked_on_unacked"] == 1 or bool(full_until_us > situation.since_us)
    return ~situation.free.was_read & full


def most_unacked(situation: Situation) -> int:
    """The consumer with the most unacknowledged messages."""
    return int(np.argmax(situation.consumers["unacked"]))


def stuck_after_draining(situation: Situation) -> Mask:
    """Each hash had drained and is a finding by itself, so that the stall is not another one."""
    state, free = situation.state, situation.free
    stuck = not situation.recent.applies and bool(unserved_since_drained(state, free).all())
    stuck = stuck and are_found(state, free, situation.stall_threshold_us, situation.sent)
    return np.full(free.slot.size, stuck)


def blames_drained(situation: Situation) -> int:
    """The consumer from which the first hash drained."""
    return int(situation.state.hashes.view(np.ndarray)["drained_from"][situation.free.hash_at[0]])


def holder_of_draining(state: Seen, waiting: Waiters) -> int:
    """The holder of the draining hashes that most entries wait for."""
    if waiting.slot.size == 0:
        return NOBODY
    hashes = state.hashes.view(np.ndarray)[waiting.hash_at]
    holders = np.where(hashes["away"] == 1, hashes["holder"], hashes["drained_from"])
    found, counts = np.unique(holders, return_counts=True)
    return int(found[np.argmax(counts)])
