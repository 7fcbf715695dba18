"""Why nothing was sent to anybody for a while, although entries waited (Q12; PIP-474's stall)."""

from typing import NamedTuple

import numpy as np

from pipeline.replay.blocking.attribution import (
    Blocked,
    Interval,
    Waiters,
    largest,
    most_waited_for,
    oldest,
    oldest_held,
    waiters,
)
from pipeline.replay.blocking.broker_limits import BrokerLimits
from pipeline.replay.blocking.causes import (
    DRAINING,
    DRAINING_STUCK,
    LOOK_AHEAD_LIMIT,
    NAMES,
    NO_OWNER,
    NO_PERMITS,
    READY,
    RECENTLY_JOINED,
    UNACKED_LIMIT_CONSUMER,
    UNACKED_LIMIT_SUBSCRIPTION,
    UNEXPLAINED,
)
from pipeline.replay.packing.snapshot import Position
from pipeline.replay.state.policy import RoutingArrays
from pipeline.replay.state.state import (
    NOBODY,
    UNKNOWN,
    State,
)

# What is said where nothing in the trace keeps the entries back: rule `stalled` looks at it.


class Situation(NamedTuple):
    """What is known of the subscription besides its state.

    Attributes:
        limits: of the broker.
        replay_size: of the last snapshot within the span; None: there was none.
        held_behind: the read position that the first of the recently joined consumers waits for (3.x and classic);
            None: there is none.
        held_by: place of the consumer that held the oldest entry when that one joined.
        stall_threshold_us: how long nothing may happen, where something could.
    """

    limits: BrokerLimits
    replay_size: int | None
    held_behind: Position | None
    held_by: int
    stall_threshold_us: int


def stalled(state: State, mapping: RoutingArrays, span: Interval, situation: Situation) -> Blocked | None:
    """The stall that ends with `span`, or is about to; None: nothing waited."""
    waiting = waiters(state, mapping)
    waiting = waiting.where(waiting.since_ts < span.to_ts)
    if waiting.slot.size == 0:
        return None
    consumers = state.consumers
    connected = [int(place) for place in np.flatnonzero(consumers.connected == 1)]
    since_us = _since_us(span, situation)
    # Who is blocked may be sent something, but only when something else makes the broker read (4.2, 4.8).
    hindered = [
        place for place in connected if _hindrance(state, place, since_us) != READY or _blocked(state, place, since_us)
    ]
    with_permits = sum(int(consumers[place].cause) == READY for place in connected)
    if not connected or bool(np.all(waiting.owner == NOBODY)):
        cause, blocking = NAMES[NO_OWNER], NOBODY
    else:
        hashes, hash_at = state.hashes, state.entries.hash_at[waiting.slot]
        lately = hashes.clear_ts[hash_at] > since_us
        waiting = waiting._replace(drains=waiting.drains | (lately & (hashes.drained_from[hash_at] != NOBODY)))
        free = waiting.where(
            ~(waiting.drains | lately)
            & (waiting.since_ts <= since_us)
            & (waiting.owner != NOBODY)
            & ~np.isin(waiting.owner, hindered)
        )
        if free.slot.size == 0 and not hindered and not waiting.drains.any():
            return None
        cause, blocking = _cause(state, waiting, free, connected, hindered, situation, span)
    for_blocking = waiting.where(waiting.owner == blocking)
    roots = oldest_held(state, blocking) or oldest(state, waiting.slot)
    known = state.common[0].permits_known_by != 0
    detail: dict[str, object] = {
        "no_progress": True,
        "consumers": len(connected),
        "with_permits": with_permits if known else None,
        "replay_size_at_least": int(state.common[0].in_replay),
        "replay_size_reported": situation.replay_size,
        "look_ahead_limit": situation.limits.look_ahead(len(connected)),
        "hashes": largest(for_blocking.hash, for_blocking.waited_us(span)),
        "waiting_for_it": for_blocking.slot.size,
    }
    waited_us = int(waiting.waited_us(span).sum())
    return Blocked("subscription", cause, UNKNOWN, NOBODY, blocking, span, waiting.slot.size, waited_us, roots, detail)


def is_finding(interval: Blocked) -> bool:
    """Whether rule `stalled` was broken."""
    # Where the trace shows nobody's permits, it may have been for lack of them: a wait, and no finding.
    return interval.cause == NAMES[UNEXPLAINED] and interval.detail["with_permits"] is not None


def _since_us(span: Interval, situation: Situation) -> int:
    """A stall is what somebody could have been sent for so long; what hindered until a moment ago is to blame."""
    return max(span.from_ts, span.to_ts - situation.stall_threshold_us)


def _hindrance(state: State, place: int, since_us: int) -> int:
    """Why a consumer could be sent nothing, now or later than `since_us`."""
    consumer = state.consumers[place]
    return int(consumer.former if consumer.cause == READY and consumer.cause_ts > since_us else consumer.cause)


def _blocked(state: State, place: int, since_us: int) -> bool:
    """Whether a consumer has too much unacknowledged to ask for anything, now or later than `since_us`."""
    consumer = state.consumers[place]
    return bool(consumer.blocked == 1 or consumer.unblocked_ts > since_us)


def _cause(
    state: State,
    waiting: Waiters,
    free: Waiters,
    connected: list[int],
    hindered: list[int],
    situation: Situation,
    span: Interval,
) -> tuple[str, int]:
    """The cause and whom everybody waits for; `free` is what could have been sent for long."""
    consumers = state.consumers
    cause, blocking = NAMES[UNEXPLAINED], NOBODY
    if free.slot.size == 0:
        blocking = most_waited_for(waiting, hindered)
        if blocking == NOBODY:
            return NAMES[DRAINING], _holder(state, waiting.where(waiting.drains))
        none = _hindrance(state, blocking, _since_us(span, situation)) == NO_PERMITS
        cause = NAMES[NO_PERMITS if none else UNACKED_LIMIT_CONSUMER]
    # With recently joined consumers among them the others are sent nothing new either (6.2).
    elif situation.held_behind is not None:
        cause, blocking = NAMES[RECENTLY_JOINED], _oldest_holder(state, situation.held_behind)
        if blocking == NOBODY:
            # It has just acknowledged what mark-delete waited for.
            blocking = situation.held_by
    elif _look_ahead_reached(state, waiting, len(connected), situation):
        cause, blocking = NAMES[LOOK_AHEAD_LIMIT], most_waited_for(waiting.where(waiting.was_read), hindered)
        if blocking == NOBODY:
            blocking = _holder(state, waiting.where(waiting.drains))
    elif _subscription_was_full(state, span):
        cause, blocking = NAMES[UNACKED_LIMIT_SUBSCRIPTION], int(np.argmax(consumers.unacked))
    else:
        drained_from = state.hashes.drained_from[state.entries.hash_at[free.slot]]
        if bool(np.all(drained_from != NOBODY)):
            cause, blocking = NAMES[DRAINING_STUCK], int(drained_from[0])
    return cause, blocking


def _subscription_was_full(state: State, span: Interval) -> bool:
    """Whether the subscription had too much unacknowledged for most of the span.

    Nothing was sent in it, so it was full from the start, if at all; that it went on shows that it is no more.
    """
    until_us = (
        span.to_ts if state.common[0].blocked_on_unacked == 1 else int(state.common[0].blocked_on_unacked_until_ts)
    )
    return 2 * (until_us - span.from_ts) >= span.to_ts - span.from_ts


def _oldest_holder(state: State, below: Position) -> int:
    """Who holds the oldest entry below a position that is not acknowledged: mark-delete waits for it."""
    entries = state.entries
    before = (entries.ledger < below[0]) | ((entries.ledger == below[0]) & (entries.entry < below[1]))
    held = np.flatnonzero((entries.ledger != UNKNOWN) & (entries.holder != NOBODY) & before)
    if held.size == 0:
        return NOBODY
    return int(entries.holder[held[np.lexsort((entries.entry[held], entries.ledger[held]))[0]]])


def _look_ahead_reached(state: State, waiting: Waiters, consumers: int, situation: Situation) -> bool:
    limit = situation.limits.look_ahead(consumers)
    if limit is None:
        return False
    # The queue may have grown since a snapshot that says less.
    if situation.replay_size is not None and situation.replay_size >= limit:
        return True
    # Of the last read all may have been refused, so that no dispatch shows how far it went (4.2, step 9c).
    return int(state.common[0].in_replay) + situation.limits.read_batch >= limit and waiting.slot.size >= limit


def _holder(state: State, waiting: Waiters) -> int:
    """Who holds the draining hashes for which most entries wait."""
    if waiting.slot.size == 0:
        return NOBODY
    hash_at = state.entries.hash_at[waiting.slot]
    holders = np.where(
        state.hashes.away[hash_at] == 1, state.hashes.holder[hash_at], state.hashes.drained_from[hash_at]
    )
    found, counts = np.unique(holders, return_counts=True)
    return int(found[np.argmax(counts)])
