"""What rows leave open although every setting is known, and may be why nothing is sent: then a stall is not provable.

| name | why it may hold back |
|---|---|
| unacked_limit_consumer | what was skipped while held, or sent twice, may count (E6, F10), up to the limit |
| look_ahead_limit | delayed entries may be in replay: what cannot be sent goes there, due or not (contract 4.10) |
| unacked_limit_subscription | half of the limit is unacknowledged: the broker reads on below that (contract 4.14) |
| unacked_limit_broker | its share of `maxUnackedMessagesPerBroker` is unacknowledged, and others count (4.14) |
| unwritable_connection | a connection that takes nothing more counts as no permits from 5.0.0 on (contract 3.12) |
| open_transaction | nothing is read beyond the first message of a transaction that has not ended (contract 9.3, E11) |
| claimed_delays | what could be sent asked for a delay, and only trace.json says that delays are off (contract 4.13) |
| dispatch_rate_limit | no row has all that a limit of the rate was charged: bytes, or what came before it |
"""

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from dispatch_audit.pipeline.replay.blocking.attribution import (
    Waiters,
    are_before,
    at_position,
    joined,
    sent_from_replay,
    waiters,
)
from dispatch_audit.pipeline.replay.blocking.consumer_availability import may_be_unwritable
from dispatch_audit.pipeline.replay.blocking.may_be_blocked import is_half_of_limit, uncounted_of_all
from dispatch_audit.pipeline.replay.blocking.stalls.held_reads import look_ahead_reached
from dispatch_audit.pipeline.replay.blocking.stalls.reported import shown_as_read
from dispatch_audit.pipeline.replay.blocking.stalls.sendable import Divided, divided, held_back, held_up
from dispatch_audit.pipeline.replay.blocking.stalls.situation import Situation
from dispatch_audit.pipeline.replay.settings.settings_in_force import UNACKED_PER_BROKER
from dispatch_audit.pipeline.replay.state.marks import Mark
from dispatch_audit.pipeline.replay.state.memories import WAIT
from dispatch_audit.pipeline.replay.state.records import NOBODY, UNKNOWN, record_of
from dispatch_audit.pipeline.replay.state.seen import Seen
from dispatch_audit.pipeline.replay.state.state import DELAYS_CLAIMED_OFF, common_of

UNACKED: Final = "unacked_limit_consumer"
IN_REPLAY: Final = "look_ahead_limit"
RATE: Final = "dispatch_rate_limit"
SUBSCRIPTION: Final = "unacked_limit_subscription"
TRANSACTION: Final = "open_transaction"
BROKER: Final = "unacked_limit_broker"
UNWRITABLE: Final = "unwritable_connection"
DELAYED: Final = "claimed_delays"

# maxUnackedMessagesPerSubscriptionOnBrokerBlocked, by default (contract 4.14).
_SHARE_OF_BROKER: Final = 0.16

DOUBTS: Final[Mapping[str, str]] = {
    UNACKED: "the broker may count more messages as unacknowledged than rows show, and so have blocked their consumers",
    IN_REPLAY: (
        "delayed entries, or some that overlapping replay reads sent (F10), may have filled replay up to the "
        "look-ahead limit, and no row shows whether they are in it"
    ),
    RATE: "a limit of the dispatch rate may have had to make up for what it was charged, which no row shows",
    SUBSCRIPTION: (
        "the subscription may have reached its limit of unacknowledged messages, and has not come down to half of it"
    ),
    BROKER: (
        "the broker may have reached maxUnackedMessagesPerBroker with what other subscriptions hold, which no row shows"
    ),
    UNWRITABLE: (
        "their consumers acknowledged nothing meanwhile, and may not have read from connections that were full: this "
        "release sends nothing to those (#26630)"
    ),
    DELAYED: (
        "what could be sent had asked for delayed delivery, and only trace.json says that it is off: a policy may say "
        "otherwise"
    ),
    TRANSACTION: "what could be sent comes after messages of a transaction that may not have ended",
}
"""Why each may explain a stall, as a clause."""


def doubt(situation: Situation, parts: Divided) -> str:
    """What may explain a stall, by name; empty: nothing."""
    if situation.limits.unwritable_takes_nothing:
        unwritable = may_be_unwritable(situation.state, situation.interval.from_seq)
        if parts.free.slot.size and bool(unwritable[parts.free.owner].all()):
            return UNWRITABLE
    if _asked_for_a_delay(situation.state, parts.free):
        return DELAYED
    if _follows_a_transaction(situation.state, parts.free):
        return TRANSACTION
    return _of_counts(situation, parts)


def _asked_for_a_delay(state: Seen, free: Waiters) -> bool:
    """Whether all that could be sent asked for delayed delivery, which is off by the word of trace.json alone."""
    marks = state.entries.view(np.ndarray)["marks"][free.slot]
    claimed: bool = common_of(state)["delays"] == DELAYS_CLAIMED_OFF
    return claimed and bool(marks.size) and bool((marks & Mark.DELAYED != 0).all())


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
    goes_on = ends_it(situation, waiting)
    # A consumer that is sent something now, and has given up nothing since the beginning, was not blocked.
    blocked[goes_on.owner] &= gave_up[goes_on.owner]
    perhaps = divided(situation, waiting, parts.unavailable | blocked)
    free = perhaps.free.where(~held_back(situation, perhaps.free)[1])
    held = waiting.where(perhaps.held)
    if free.slot.size == 0 or look_ahead_reached(situation, held, free):
        return UNACKED
    delayed = waiters(state, delayed=True)
    all_are_read = reported.read_position is None and (reported.in_replay or 0) >= waiting.slot.size + delayed.slot.size
    if reported.in_replay is None:
        stopped = held_up(state, delayed, perhaps.unavailable, situation.since_us)
        delayed = delayed.where((delayed.owner != NOBODY) & stopped)
        again = sent_from_replay(state)
        stopped = held_up(state, again, perhaps.unavailable, situation.since_us)
        again = again.where((again.owner != NOBODY) & stopped)
        if look_ahead_reached(situation, joined(joined(held, delayed), again), free):
            return IN_REPLAY
    # What is due may not have been read: limits hold the broker up before it knows the delay.
    if all_are_read or bool(shown_as_read(state, free, reported).any()):
        return ""
    if _may_be_full(situation) and not reads_on(goes_on, gave_up):
        return SUBSCRIPTION
    return BROKER if _has_its_share(situation) else ""


def ends_it(situation: Situation, waiting: Waiters) -> Waiters:
    """The entry whose dispatch ends the interval; none if something else does."""
    none = waiting.where(np.zeros(waiting.slot.size, dtype=np.bool_))
    return none if situation.sent is None else waiting.where(at_position(situation.state, waiting, situation.sent))


def reads_on(goes_on: Waiters, gave_up: NDArray[np.bool_]) -> bool:
    """Whether the broker reads on at last although no consumer has given up anything, so that no count held it up."""
    return bool((~goes_on.was_read).any()) and not bool(gave_up.any())


def _perhaps_blocked(state: Seen, since_us: int) -> NDArray[np.bool_]:
    """Which consumers may be blocked because the broker counts more than rows show, or were since a time."""
    waits: Any = state.waits.consumers.view(np.ndarray)
    blocked: NDArray[np.bool_] = (waits["may_be_blocked"] == 1) | (waits["may_be_blocked_ts"] > since_us)
    blocked |= state.consumers.view(np.ndarray)["skip_blocks"] == 1
    return blocked


def _may_be_full(situation: Situation) -> bool:
    """Whether the subscription may be at its limit of unacknowledged messages, or was lately."""
    state = situation.state
    wait = record_of(state.waits.common, WAIT)
    if wait["may_be_blocked"] == 1 or wait["may_be_blocked_ts"] > situation.since_us:
        return True
    return bool(is_half_of_limit(state, _unacked(situation)))


def _has_its_share(situation: Situation) -> bool:
    """Whether the broker, at its limit for all subscriptions, blocks this one, or may have until shortly before."""
    limit = situation.in_force.lowest(UNACKED_PER_BROKER)
    given_up: NDArray[np.bool_] = situation.state.consumers.view(np.ndarray)["gave_up_ts"] > situation.since_us
    return limit > 0 and (_unacked(situation) > limit * _SHARE_OF_BROKER or bool(given_up.any()))


def _unacked(situation: Situation) -> int:
    """The messages that the broker may count as unacknowledged in the subscription."""
    state = situation.state
    return max(int(common_of(state)["unacked"]) + uncounted_of_all(state), situation.reported.unacked or 0)
