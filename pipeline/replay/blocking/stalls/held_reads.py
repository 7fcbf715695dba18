"""What each gate holds back of the entries that could be sent, and whom it blames: the functions of `gates`."""

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from dispatch_audit.pipeline.replay.blocking.attribution import (
    Waiters,
    are_before,
    most_waited_for,
)
from dispatch_audit.pipeline.replay.blocking.capacity_samples import ack_holes
from dispatch_audit.pipeline.replay.blocking.stalls.reported import reported_as_read, shown_as_read
from dispatch_audit.pipeline.replay.blocking.stalls.sendable import Divided, held_back, may_be_skipped
from dispatch_audit.pipeline.replay.blocking.stalls.situation import Situation
from dispatch_audit.pipeline.replay.blocking.starved_hashes import are_found, unserved_since_drained
from dispatch_audit.pipeline.replay.durations import READ_AND_PAUSE_US, SNAPSHOT_LAG_US
from dispatch_audit.pipeline.replay.packing.membership_rows import NEVER
from dispatch_audit.pipeline.replay.packing.snapshot import Position
from dispatch_audit.pipeline.replay.state.memories import WAIT
from dispatch_audit.pipeline.replay.state.records import NOBODY, UNKNOWN, Ints, record_of
from dispatch_audit.pipeline.replay.state.seen import Seen
from dispatch_audit.pipeline.replay.state.state import common_of

_AFTER_ALL: Final = (NEVER, 0)

Mask = NDArray[np.bool_]


def _ahead(state: Seen, ahead: Waiters, free: Waiters) -> Ints:
    """How many entries are before each of others."""
    entries: Any = state.entries.view(np.ndarray)
    both = np.concatenate([ahead.slot, free.slot])
    # Of equal positions the one that asks comes first: an entry is not ahead of itself.
    asks = np.concatenate([np.ones(ahead.slot.size, np.int64), np.zeros(free.slot.size, np.int64)])
    order = np.lexsort((asks, entries["entry"][both], entries["ledger"][both]))
    counted = np.empty(both.size, dtype=np.int64)
    counted[order] = np.cumsum(asks[order])
    found: Ints = counted[ahead.slot.size :]
    return found


def nobody(_situation: Situation, _parts: Divided) -> int:
    """No consumer is to blame."""
    return NOBODY


def behind_joins(situation: Situation, parts: Divided) -> Mask:
    """Recently joined consumers hold back their own entries, and those of others as long as these are not read.

    The broker reads in order and puts what it holds back into replay. Some releases do not read on while replay has
    entries (6.4); the others do (6.2), and take a read and a pause at most for each entry that comes first and was not
    read before.
    """
    state, waiting, free = situation.state, parts.waiting, parts.free
    if not situation.held_back.until:
        return np.zeros(free.slot.size, dtype=np.bool_)
    certain = held_back(situation, free)[0]
    unread = ~reported_as_read(state, free, situation.reported)
    if not situation.limits.reads_past_replay:
        late: Mask = _ahead(state, waiting, free) > 0
    else:
        late = situation.duration_us <= _ahead(state, waiting.where(~waiting.was_read), free) * READ_AND_PAUSE_US
    behind: Mask = certain | (unread & late)
    return behind


def blames_joins(situation: Situation, _parts: Divided) -> int:
    """The holder of the oldest entry that the first of the recently joined consumers waits for."""
    holder = _oldest_holder(situation.state, situation.held_back.until[0][1])
    # Else the holder has just acknowledged the entry that mark-delete waited for.
    return situation.held_back.holder if holder == NOBODY else holder


def behind_look_ahead(situation: Situation, parts: Divided) -> Mask:
    """What comes after as many entries as replay may have, and was not read."""
    not_skipped = ~may_be_skipped(situation.state, parts.waiting, situation.reported)
    return behind_full_replay(situation, parts.waiting.where(parts.held & not_skipped), parts.free)


def behind_full_replay(situation: Situation, stuck: Waiters, free: Waiters) -> Mask:
    """Which entries the look-ahead limit kept the broker from reading for long (4.6, 4.7).

    It reads on without a dispatch as long as replay is below the limit, so the entries that cannot be sent and come
    before one that can are in replay by then. What was read is sent at any size of replay. If the read position stands
    still for longer than a read and a pause while replay is below the limit, something else stops it.
    """
    limit, reported = situation.look_ahead_limit, situation.reported
    none: Mask = np.zeros(free.slot.size, dtype=np.bool_)
    if limit is None:
        return none
    if reported.in_replay is not None and reported.in_replay >= limit:
        return ~free.was_read
    stood_us = reported.position_us - max(reported.stands_us, situation.since_us)
    if reported.in_replay is not None and stood_us >= READ_AND_PAUSE_US + SNAPSHOT_LAG_US:
        return none
    # The queue may have grown since a snapshot with a smaller size.
    full: Mask = ~free.was_read & (replay_before(situation, stuck, free) >= limit)
    return full


def replay_before(situation: Situation, stuck: Waiters, free: Waiters) -> Ints:
    """How many of the entries that cannot be sent are in replay if the broker has read up to each that can.

    Due entries after that one do not count: the broker would have had to read, and send, that one first.
    """
    read = shown_as_read(situation.state, stuck, situation.reported)
    before = _ahead(situation.state, stuck.where(~read), free)
    found: Ints = np.count_nonzero(read) + before
    return found


def blames_look_ahead(situation: Situation, parts: Divided) -> int:
    """The consumer that most of the entries in replay wait for."""
    waiting = parts.waiting
    blocking = most_waited_for(waiting.where(waiting.was_read), np.flatnonzero(parts.unavailable).tolist())
    return holder_of_draining(situation.state, waiting.where(waiting.drains)) if blocking == NOBODY else blocking


def behind_unowned(situation: Situation, parts: Divided) -> Mask:
    """Entries that nobody owns and that come first keep the cursor from what was not read.

    A read has no more entries than the consumers have permits, and one that brings nothing to send is followed by a
    pause (4.2). So few permits and many unowned entries keep the cursor long, but the dispatcher of draining hashes
    puts them into replay and reads on (4.11): each of them costs it a read at most.
    """
    ahead = _ahead(situation.state, parts.waiting.where(parts.waiting.owner == NOBODY), parts.free)
    behind: Mask = ~parts.free.was_read & (ahead > 0)
    if not situation.held_back.applies:
        behind &= situation.duration_us <= ahead * READ_AND_PAUSE_US
    return behind


def behind_ack_holes(situation: Situation, parts: Divided) -> Mask:
    """More ranges are acknowledged than the cursor persists, or were when they were counted last."""
    counted = situation.reported.ack_holes or 0
    paused = 0 < situation.pauses_at < max(ack_holes(situation.state), counted)
    return ~parts.free.was_read & paused


def blames_ack_holes(situation: Situation, _parts: Divided) -> int:
    """The holder of the oldest entry that is not acknowledged."""
    return _oldest_holder(situation.state, _AFTER_ALL)


def behind_full_subscription(situation: Situation, parts: Divided) -> Mask:
    """The subscription is blocked on unacknowledged messages at the end, or was until shortly before.

    Nothing was sent in the interval, so the limit was reached before it or not at all. What was read is sent although
    the subscription is at its limit (4.2, step 8).
    """
    state, unacked = situation.state, situation.reported.unacked
    common = common_of(state)
    # The broker may count what an administrator has skipped (5.10).
    counted = unacked is not None and 0 < common["unacked_limit"] <= unacked
    full_until_us = record_of(state.waits.common, WAIT)["blocked_on_unacked_until_ts"]
    full = counted or common["blocked_on_unacked"] == 1 or bool(full_until_us > situation.since_us)
    return ~parts.free.was_read & full


def blames_subscription(situation: Situation, _parts: Divided) -> int:
    """The consumer with the most unacknowledged messages."""
    return int(np.argmax(situation.state.consumers.view(np.ndarray)["unacked"]))


def stuck_after_draining(situation: Situation, parts: Divided) -> Mask:
    """Each hash had drained and is a finding by itself, so that the stall is not another one."""
    state, free = situation.state, parts.free
    stuck = not situation.held_back.applies and bool(unserved_since_drained(state, free).all())
    stuck = stuck and are_found(state, free, situation.stall_threshold_us, situation.sent)
    return np.full(free.slot.size, stuck)


def blames_drained(situation: Situation, parts: Divided) -> int:
    """The consumer from which the first hash drained."""
    return int(situation.state.hashes.view(np.ndarray)["drained_from"][parts.free.hash_at[0]])


def _oldest_holder(state: Seen, below: Position) -> int:
    """The holder of the oldest unacknowledged entry below a position, which mark-delete waits for."""
    entries: Any = state.entries
    held = np.flatnonzero((entries.ledger != UNKNOWN) & (entries.holder != NOBODY))
    held = held[are_before(state, held, below)]
    if held.size == 0:
        return NOBODY
    return int(entries.holder[held[np.lexsort((entries.entry[held], entries.ledger[held]))[0]]])


def holder_of_draining(state: Seen, waiting: Waiters) -> int:
    """The holder of the draining hashes that most entries wait for."""
    if waiting.slot.size == 0:
        return NOBODY
    hashes = state.hashes.view(np.ndarray)[waiting.hash_at]
    holders = np.where(hashes["away"] == 1, hashes["holder"], hashes["drained_from"])
    found, counts = np.unique(holders, return_counts=True)
    return int(found[np.argmax(counts)])
