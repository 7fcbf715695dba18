"""Why nothing was sent to any consumer: the cause of a stall, and the consumer to blame (contract 4.2 to 4.14, 6.1)."""

from typing import Any, Final

import numpy as np

from dispatch_audit.pipeline.replay.blocking.attribution import (
    Waiters,
    are_before,
    most_waited_for,
    number_before,
    oldest,
)
from dispatch_audit.pipeline.replay.blocking.capacity_samples import ack_holes
from dispatch_audit.pipeline.replay.blocking.stalls.reported import reported_as_read, shown_as_read
from dispatch_audit.pipeline.replay.blocking.stalls.sendable import Divided, causes, held_back, may_be_skipped
from dispatch_audit.pipeline.replay.blocking.stalls.situation import Situation
from dispatch_audit.pipeline.replay.blocking.starved_hashes import are_found, unserved_since_drained
from dispatch_audit.pipeline.replay.packing.membership_rows import NEVER
from dispatch_audit.pipeline.replay.packing.snapshot import SNAPSHOT_LAG_US, Position
from dispatch_audit.pipeline.replay.state.causes import Cause
from dispatch_audit.pipeline.replay.state.memories import WAIT
from dispatch_audit.pipeline.replay.state.records import NOBODY, UNKNOWN, record_of
from dispatch_audit.pipeline.replay.state.seen import Seen
from dispatch_audit.pipeline.replay.state.state import common_of

# A read takes 0.7 to 40 ms, and the pause after one that brings nothing to send 10 ms (contract 4.9, 6.6).
_READ_AND_PAUSE_US: Final = 100_000
_AFTER_ALL: Final = (NEVER, 0)


def cause_of(situation: Situation, parts: Divided) -> tuple[Cause, int]:
    """The cause of a stall and the consumer to blame, NOBODY: none; UNEXPLAINED where something could be sent."""
    state, waiting, free = situation.state, parts.waiting, parts.free
    unavailable = np.flatnonzero(parts.unavailable).tolist()
    if free.slot.size == 0:
        return _of_unavailable(situation, waiting, unavailable)
    cause, blocking = Cause.UNEXPLAINED, NOBODY
    not_skipped = ~may_be_skipped(state, waiting, situation.reported)
    if _explained_by_joins(situation, waiting, free):
        cause, blocking = Cause.RECENTLY_JOINED, _oldest_holder(state, situation.held_back.until[0][1])
        if blocking == NOBODY:
            # The holder has just acknowledged the entry that mark-delete waited for.
            blocking = situation.held_back.holder
    elif look_ahead_reached(situation, waiting.where(parts.held & not_skipped), free):
        cause, blocking = Cause.LOOK_AHEAD_LIMIT, most_waited_for(waiting.where(waiting.was_read), unavailable)
        if blocking == NOBODY:
            blocking = _holder(state, waiting.where(waiting.drains))
    elif _unowned_ahead(situation, waiting, free):
        cause = Cause.NO_OWNER
    elif _paused_on_ack_state(situation, free):
        cause, blocking = Cause.ACK_HOLES_LIMIT, _oldest_holder(state, _AFTER_ALL)
    elif not _was_any_read(situation, free) and _subscription_was_full(situation):
        cause, blocking = Cause.UNACKED_LIMIT_SUBSCRIPTION, int(np.argmax(state.consumers.view(np.ndarray)["unacked"]))
    elif not situation.held_back.applies and _are_stuck(situation, free):
        cause, blocking = Cause.DRAINING_STUCK, int(state.hashes.view(np.ndarray)["drained_from"][free.hash_at[0]])
    return cause, blocking


def _of_unavailable(situation: Situation, waiting: Waiters, unavailable: list[int]) -> tuple[Cause, int]:
    """The cause where no entry could have been sent, because of its owner or because its hash drains."""
    blocking = most_waited_for(waiting, unavailable)
    if blocking == NOBODY:
        return Cause.DRAINING, _holder(situation.state, waiting.where(waiting.drains))
    no_permits = causes(situation, situation.since_us)[blocking] == Cause.NO_PERMITS
    return Cause.NO_PERMITS if no_permits else Cause.UNACKED_LIMIT_CONSUMER, blocking


def _are_stuck(situation: Situation, free: Waiters) -> bool:
    """Whether each hash had drained and is a finding by itself, so that the stall is not another one."""
    drained = bool(unserved_since_drained(situation.state, free).all())
    return drained and are_found(situation.state, free, situation.stall_threshold_us, situation.sent)


def _was_any_read(situation: Situation, free: Waiters) -> bool:
    """Whether any of the entries was read, and so is sent although the subscription is at its limit (4.2, step 8)."""
    return bool((free.was_read & ~held_back(situation, free)[0]).any())


def _subscription_was_full(situation: Situation) -> bool:
    """Whether the subscription is blocked on unacknowledged messages at the end, or was until shortly before.

    Nothing was sent in the interval, so the limit was reached before it or not at all.
    """
    state, unacked = situation.state, situation.reported.unacked
    common = common_of(state)
    if unacked is not None and 0 < common["unacked_limit"] <= unacked:
        # The broker may count what an administrator has skipped (5.10).
        return True
    return bool(common["blocked_on_unacked"] == 1) or was_full_until_us(state) > situation.since_us


def was_full_until_us(state: Seen) -> int:
    """When the subscription was last blocked on unacknowledged messages; UNKNOWN: never."""
    return int(record_of(state.waits.common, WAIT)["blocked_on_unacked_until_ts"])


def _oldest_holder(state: Seen, below: Position) -> int:
    """The holder of the oldest unacknowledged entry below a position, which mark-delete waits for."""
    entries: Any = state.entries
    held = np.flatnonzero((entries.ledger != UNKNOWN) & (entries.holder != NOBODY))
    held = held[are_before(state, held, below)]
    if held.size == 0:
        return NOBODY
    return int(entries.holder[held[np.lexsort((entries.entry[held], entries.ledger[held]))[0]]])


def look_ahead_reached(situation: Situation, stuck: Waiters, free: Waiters) -> bool:
    """Whether the look-ahead limit kept the broker from reading what could have been sent for long (4.6, 4.7).

    It reads on without a dispatch as long as replay is below the limit, so the entries that cannot be sent and come
    before all that can are in replay by then. What was read is sent at any size of replay. If the read position stands
    still for longer than a read and a pause while replay is below the limit, something else stops it.
    """
    limit, reported = situation.look_ahead_limit, situation.reported
    if limit is None or bool(free.was_read.any()):
        return False
    if reported.in_replay is not None and reported.in_replay >= limit:
        return True
    stood_us = reported.position_us - max(reported.stands_us, situation.since_us)
    if reported.in_replay is not None and stood_us >= _READ_AND_PAUSE_US + SNAPSHOT_LAG_US:
        return False
    # The queue may have grown since a snapshot with a smaller size.
    return replay_before(situation, stuck, free) >= limit


def replay_before(situation: Situation, stuck: Waiters, free: Waiters) -> int:
    """How many of the entries that cannot be sent are in replay if the broker has read up to the first that can.

    Due entries after that one do not count: the broker would have had to read, and send, that one first.
    """
    before = are_before(situation.state, stuck.slot, oldest(situation.state, free.slot)[0])
    read = shown_as_read(situation.state, stuck, situation.reported)
    return int(np.count_nonzero(before | read))


def _unowned_ahead(situation: Situation, waiting: Waiters, free: Waiters) -> bool:
    """Whether no entry that could have been sent has been read, and entries that nobody owns come before all of them.

    A read has no more entries than the consumers have permits, and one that brings nothing to send is followed by a
    pause (4.2). So few permits and many unowned entries keep the cursor long, but the dispatcher of draining hashes
    puts them into replay and reads on (4.11): each of them costs it a read at most.
    """
    if bool(free.was_read.any()):
        return False
    unowned = waiting.where(waiting.owner == NOBODY)
    ahead = number_before(situation.state, unowned, oldest(situation.state, free.slot)[0])
    if situation.held_back.applies or ahead == 0:
        return ahead > 0
    return situation.duration_us <= ahead * _READ_AND_PAUSE_US


def _explained_by_joins(situation: Situation, waiting: Waiters, free: Waiters) -> bool:
    """Whether recently joined consumers explain that nothing was sent.

    Their own entries are held back from them (6.1). Those of other consumers wait with them only until they are read.
    The broker reads in order and puts what it holds back into replay. Some releases do not read on while replay has
    entries (6.4); the others do (6.2), and take a read and a pause at most for each entry that comes first and was not
    read before.
    """
    if not situation.held_back.until:
        return False
    others = free.where(~held_back(situation, free)[0])
    if others.slot.size == 0:
        return True
    if bool(reported_as_read(situation.state, others, situation.reported).any()):
        return False
    first = oldest(situation.state, others.slot)[0]
    if not situation.limits.reads_past_replay:
        return number_before(situation.state, waiting, first) > 0
    to_read = number_before(situation.state, waiting.where(~waiting.was_read), first)
    return situation.duration_us <= to_read * _READ_AND_PAUSE_US


def may_pause(situation: Situation, free: Waiters) -> bool:
    """Whether the dispatcher may have paused normal reads until acknowledgements close holes (4.2, step 9b)."""
    return situation.pauses_at > 0 and not bool(free.was_read.any())


def _paused_on_ack_state(situation: Situation, free: Waiters) -> bool:
    """Whether more ranges of entries are acknowledged than the cursor persists, or were when they were counted last."""
    counted = situation.reported.ack_holes or 0
    return may_pause(situation, free) and max(ack_holes(situation.state), counted) > situation.pauses_at


def _holder(state: Seen, waiting: Waiters) -> int:
    """The holder of the draining hashes that most entries wait for."""
    if waiting.slot.size == 0:
        return NOBODY
    hashes = state.hashes.view(np.ndarray)[waiting.hash_at]
    holders = np.where(hashes["away"] == 1, hashes["holder"], hashes["drained_from"])
    found, counts = np.unique(holders, return_counts=True)
    return int(found[np.argmax(counts)])
