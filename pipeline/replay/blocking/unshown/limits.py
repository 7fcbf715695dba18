"""Limits and slow reads that no row shows and that may be why nothing is sent: then a stall is not provable.

| name | why it may hold back |
|---|---|
| unacked_limit_consumer | the limit is not what the trace claims, and a consumer that it may block holds messages |
| look_ahead_limit | delayed entries may be in replay: what cannot be sent goes there, due or not (contract 4.10) |
| dispatch_rate_limit | only a timer of the broker ends a pause as long as that of a limit (contract 4.2, step 5d) |
| lower_look_ahead_limit | replay has about the size that it had when the broker read on, and no row says the limit |
| unacked_limit_subscription | half of the limit is unacknowledged: the broker reads on below that (contract 4.14) |
| unwritable_connection | a connection that takes nothing more counts as no permits from 5.0.0 on (contract 3.12) |
| open_transaction | nothing is read beyond the first message of a transaction that has not ended (contract 9.3, E11) |
| slow_read | snapshots show a read under way, and sending went on: storage may have been slow |
"""

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from dispatch_audit.pipeline.replay.blocking.attribution import (
    Interval,
    Waiters,
    are_before,
    at_position,
    joined,
    sent_from_replay,
    waiters,
)
from dispatch_audit.pipeline.replay.blocking.consumer_availability import may_be_unwritable
from dispatch_audit.pipeline.replay.blocking.half_full import may_be_half_full, uncounted_of_all
from dispatch_audit.pipeline.replay.blocking.stalls.held_reads import look_ahead_reached, replay_before
from dispatch_audit.pipeline.replay.blocking.stalls.reported import Reported, shown_as_read
from dispatch_audit.pipeline.replay.blocking.stalls.sendable import Divided, divided, held_back, held_up
from dispatch_audit.pipeline.replay.blocking.stalls.situation import Situation
from dispatch_audit.pipeline.replay.blocking.unshown.rate_limits import PAUSE_MAX_US, PERIOD_US
from dispatch_audit.pipeline.replay.blocking.unshown.replay_levels import ALIKE
from dispatch_audit.pipeline.replay.state.marks import Mark
from dispatch_audit.pipeline.replay.state.memories import WAIT
from dispatch_audit.pipeline.replay.state.records import NOBODY, UNKNOWN, record_of
from dispatch_audit.pipeline.replay.state.seen import Seen
from dispatch_audit.pipeline.replay.state.state import common_of

UNSHOWN_UNACKED: Final = "unacked_limit_consumer"
UNSHOWN_IN_REPLAY: Final = "look_ahead_limit"
UNSHOWN_RATE: Final = "dispatch_rate_limit"
UNSHOWN_SUBSCRIPTION: Final = "unacked_limit_subscription"
UNSHOWN_LOOK_AHEAD: Final = "lower_look_ahead_limit"
UNSHOWN_TRANSACTION: Final = "open_transaction"
UNSHOWN_SLOW_READ: Final = "slow_read"
UNSHOWN_UNWRITABLE: Final = "unwritable_connection"

UNSHOWN: Final[Mapping[str, str]] = {
    UNSHOWN_UNACKED: "a limit of unacknowledged messages other than the claimed one may have blocked their consumers",
    UNSHOWN_IN_REPLAY: (
        "delayed entries, or some that overlapping replay reads sent (F10), may have filled replay up to the "
        "look-ahead limit, and no row shows whether they are in it"
    ),
    UNSHOWN_RATE: "a limit of the dispatch rate makes pauses of this length, and no row rules one out",
    UNSHOWN_LOOK_AHEAD: "replay is as large as it ever was, and no row rules out a look-ahead limit of about that size",
    UNSHOWN_SUBSCRIPTION: (
        "the subscription may have reached its limit of unacknowledged messages, and has not come down to half of it"
    ),
    UNSHOWN_UNWRITABLE: (
        "their consumers acknowledged nothing meanwhile, and may not have read from connections that were full: this "
        "release sends nothing to those (#26630)"
    ),
    UNSHOWN_TRANSACTION: "what could be sent comes after messages of a transaction that may not have ended",
    UNSHOWN_SLOW_READ: "snapshots show a read under way all the time until sending went on: storage may have been slow",
}
"""Why each may explain a stall, as a clause."""

# Nobody limits replay to fewer entries.
_OF_REPLAY_MIN: Final = 100


def unshown_limit(situation: Situation, parts: Divided) -> str:
    """The limit that no row shows and that may explain a stall; empty: there is none."""
    if situation.limits.unwritable_takes_nothing:
        unwritable = may_be_unwritable(situation.state, situation.interval.from_seq)
        if parts.free.slot.size and bool(unwritable[parts.free.owner].all()):
            return UNSHOWN_UNWRITABLE
    if _follows_a_transaction(situation.state, parts.free):
        return UNSHOWN_TRANSACTION
    found = _of_counts(situation, parts)
    if found or situation.rates_are_said:
        return found
    return UNSHOWN_RATE if _is_pause_of_a_rate(situation.state, situation.interval) else ""


def _follows_a_transaction(state: Seen, free: Waiters) -> bool:
    """Whether all that could be sent comes after an unread entry of a transaction, which may be open."""
    entries: Any = state.entries.view(np.ndarray)
    unread = entries["marks"] & (Mark.IN_TRANSACTION | Mark.SENT | Mark.READ) == Mark.IN_TRANSACTION
    unread &= entries["ledger"] != UNKNOWN
    first = min(entries[["ledger", "entry"]][unread].tolist(), default=None)
    return first is not None and not bool(are_before(state, free.slot, first).any())


def _of_counts(situation: Situation, parts: Divided) -> str:
    """The limit of unacknowledged messages, or of look-ahead; empty: none."""
    state, waiting, reported = situation.state, parts.waiting, situation.reported
    blocked = _perhaps_blocked(state, situation.since_us)
    gave_up: NDArray[np.bool_] = state.consumers.view(np.ndarray)["gave_up_seq"] > situation.interval.from_seq
    goes_on = waiting.where(_is_sent(situation, waiting))
    # A consumer that is sent something now, and has given up nothing since the beginning, was not blocked.
    blocked[goes_on.owner] &= gave_up[goes_on.owner]
    perhaps = divided(situation, waiting, parts.unavailable | blocked)
    free = perhaps.free.where(~held_back(situation, perhaps.free)[1])
    held = waiting.where(perhaps.held)
    if free.slot.size == 0 or look_ahead_reached(situation, held, free):
        return UNSHOWN_UNACKED
    delayed = waiters(state, delayed=True)
    all_are_read = reported.read_position is None and (reported.in_replay or 0) >= waiting.slot.size + delayed.slot.size
    stopped = held_up(state, delayed, perhaps.unavailable, situation.since_us)
    delayed = delayed.where((delayed.owner != NOBODY) & stopped)
    stuck = joined(held, delayed)
    if reported.in_replay is None:
        again = sent_from_replay(state)
        stopped = held_up(state, again, perhaps.unavailable, situation.since_us)
        if look_ahead_reached(situation, joined(stuck, again.where((again.owner != NOBODY) & stopped)), free):
            return UNSHOWN_IN_REPLAY
    # What is due may not have been read: limits hold the broker up before it knows the delay.
    if all_are_read or bool(shown_as_read(state, free, reported).any()):
        return ""
    # Only what consumers give up lets a full subscription read on.
    reads_on = bool((~goes_on.was_read).any()) and not bool(gave_up.any())
    if not reads_on and _may_be_full(situation):
        return UNSHOWN_SUBSCRIPTION
    if not situation.limits.looks_ahead or situation.look_ahead_is_said:
        return ""
    in_replay = int(replay_before(situation, stuck, free).min()) if reported.in_replay is None else reported.in_replay
    return UNSHOWN_LOOK_AHEAD if _may_be_too_long(in_replay, reported) else ""


def _is_sent(situation: Situation, waiting: Waiters) -> NDArray[np.bool_]:
    """Which entry is the one whose dispatch ends the interval; none where something else ends it."""
    if situation.sent is None:
        return np.zeros(waiting.slot.size, dtype=np.bool_)
    return at_position(situation.state, waiting, situation.sent)


def _perhaps_blocked(state: Seen, since_us: int) -> NDArray[np.bool_]:
    """Which consumers may be blocked on unacknowledged messages at a limit that no row shows, or were since a time."""
    waits: Any = state.waits.consumers.view(np.ndarray)
    blocked: NDArray[np.bool_] = (waits["half_full"] == 1) | (waits["half_full_ts"] > since_us)
    blocked |= state.consumers.view(np.ndarray)["skip_blocks"] == 1
    return blocked


def _may_be_full(situation: Situation) -> bool:
    """Whether the subscription may be at a limit of unacknowledged messages that no row shows, or was lately."""
    state = situation.state
    wait = record_of(state.waits.common, WAIT)
    if wait["half_full"] == 1 or wait["half_full_ts"] > situation.since_us:
        return True
    counted = max(int(common_of(state)["unacked"]) + uncounted_of_all(state), situation.reported.unacked or 0)
    return bool(may_be_half_full(state, counted))


def _may_be_too_long(in_replay: int, reported: Reported) -> bool:
    """Whether replay may have reached a limit that no row says: it is about as large as when the broker read on."""
    return in_replay >= max(_OF_REPLAY_MIN, (1 - ALIKE) * reported.replay_at_read)


def _is_pause_of_a_rate(state: Seen, pause: Interval) -> bool:
    """Whether a limit of the dispatch rate may explain a pause, by its length and by what was sent just before."""
    used_up = pause.from_ts - int(common_of(state)["third_last_ts"]) <= PERIOD_US
    return used_up and pause.to_ts - pause.from_ts <= PAUSE_MAX_US
