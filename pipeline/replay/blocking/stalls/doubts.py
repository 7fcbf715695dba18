"""What rows leave open although every setting is known, and may be why nothing is sent: then a stall is not provable.

| name | why it may hold back |
|---|---|
| unacked_limit_consumer | what was skipped while held, or sent twice, may count (E6, F10), up to the limit |
| unacked_limit_subscription | the same, up to the limit of the subscription |
| look_ahead_limit | entries from before a reset or a skip may be in replay, and fill it (contract 4.10) |
| recently_joined | 3.x, classic: they may hold back who joined after that (contract 6.1) |
| unacked_limit_broker | its share of `maxUnackedMessagesPerBroker` is unacknowledged, and others count (4.14) |
| unwritable_connection | a connection that takes nothing more counts as no permits from 5.0.0 on (contract 3.12) |
| open_transaction | nothing is read beyond the first message of a transaction that has not ended (contract 9.3, E11) |
| dispatch_rate_limit | no row has all that a limit of the rate was charged: bytes, or what came before it |
| slow_storage | snapshots show a read of the cursor under way (`pendingReadOps`) for half of the time or longer |
| claimed_delays | what could be sent asked for a delay, and only trace.json says that delays are off (contract 4.13) |
"""

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from dispatch_audit.pipeline.replay.blocking.attribution import (
    Waiters,
    are_before,
    at_position,
)
from dispatch_audit.pipeline.replay.blocking.consumer_availability import may_be_blocked, may_be_unwritable
from dispatch_audit.pipeline.replay.blocking.stalls.reported import shown_as_read
from dispatch_audit.pipeline.replay.blocking.stalls.sendable import Divided, divided, held_back, may_be_skipped
from dispatch_audit.pipeline.replay.blocking.stalls.situation import Situation
from dispatch_audit.pipeline.replay.settings.settings_in_force import UNACKED_PER_BROKER
from dispatch_audit.pipeline.replay.state.marks import UNSURE, Mark
from dispatch_audit.pipeline.replay.state.records import UNKNOWN
from dispatch_audit.pipeline.replay.state.seen import Seen
from dispatch_audit.pipeline.replay.state.state import common_of
from dispatch_audit.pipeline.replay.state.values import DELAYS_CLAIMED_OFF

UNACKED: Final = "unacked_limit_consumer"
RATE: Final = "dispatch_rate_limit"
TRANSACTION: Final = "open_transaction"
IN_REPLAY: Final = "look_ahead_limit"
JOINED: Final = "recently_joined"
SUBSCRIPTION: Final = "unacked_limit_subscription"
BROKER: Final = "unacked_limit_broker"
UNWRITABLE: Final = "unwritable_connection"
DELAYED: Final = "claimed_delays"
STORAGE: Final = "slow_storage"

# maxUnackedMessagesPerSubscriptionOnBrokerBlocked, by default (contract 4.14).
_SHARE_OF_BROKER: Final = 0.16

DOUBTS: Final[Mapping[str, str]] = {
    UNACKED: "the broker may count more messages as unacknowledged than rows show, and so have blocked their consumers",
    RATE: "a limit of the dispatch rate may have had to make up for what it was charged, which no row shows",
    IN_REPLAY: (
        "entries of which no row shows where they are, from before a reset or a skip, may have filled replay up to the "
        "look-ahead limit"
    ),
    JOINED: "consumers that joined recently may have waited for entries from before a reset or a skip",
    SUBSCRIPTION: (
        "the broker may count more messages as unacknowledged than rows show, and so have blocked the subscription"
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
    STORAGE: (
        "snapshots show a read from storage under way (pendingReadOps): a bookie is slow, or the ledger was offloaded"
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
    storage_us, lasted = situation.reported.storage_us, situation.interval
    if storage_us and 2 * (lasted.to_ts - max(storage_us, lasted.from_ts)) >= lasted.to_ts - lasted.from_ts:
        return STORAGE
    return _of_counts(situation, parts) or _of_backlog(situation, parts.waiting)


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
    """The limit of unacknowledged messages of consumers; empty: it is not reached, whatever the broker counts."""
    state, waiting = situation.state, parts.waiting
    consumers = state.consumers.size
    blocked = np.fromiter((may_be_blocked(state, consumer) for consumer in range(consumers)), np.bool_, consumers)
    gave_up: NDArray[np.bool_] = state.consumers.view(np.ndarray)["gave_up_at"]["seq"] > situation.interval.from_seq
    goes_on = ends_it(situation, waiting)
    # A consumer that is sent something now, and has given up nothing since the beginning, was not blocked.
    blocked[goes_on.owner] &= gave_up[goes_on.owner]
    perhaps = divided(situation, waiting, parts.unavailable | blocked)
    free = perhaps.free.where(~held_back(situation, perhaps.free)[1])
    if free.slot.size == 0:
        return UNACKED
    # Limits of several consumers hold up what the broker has not read.
    if bool(shown_as_read(state, free, situation.reported).any()):
        return ""
    if _may_be_full(situation):
        return SUBSCRIPTION
    return BROKER if _has_its_share(situation) else ""


def _of_backlog(situation: Situation, waiting: Waiters) -> str:
    """What entries hold up of which no row shows where they are: from before a reset, in a transaction, or skipped."""
    state = situation.state
    entries: Any = state.entries.view(np.ndarray)
    marks = entries["marks"][entries["ledger"] != UNKNOWN]
    unsure = int(np.count_nonzero((marks & UNSURE != 0) & (marks & Mark.ACKED == 0)))
    if situation.held_back.applies:
        # Consumers that joined after a reset wait for them. A skip does not show when it releases these (6.1).
        skipped = common_of(state)["skip_begun_ts"] > situation.interval.from_ts
        return JOINED if unsure > 0 or skipped else ""
    limit = situation.look_ahead_limit
    perhaps = unsure > 0 or bool(may_be_skipped(state, waiting, situation.reported).any())
    return IN_REPLAY if perhaps and limit is not None and unsure + waiting.slot.size >= limit else ""


def ends_it(situation: Situation, waiting: Waiters) -> Waiters:
    """The entry whose dispatch ends the interval; none if something else does."""
    none = waiting.where(np.zeros(waiting.slot.size, dtype=np.bool_))
    return none if situation.sent is None else waiting.where(at_position(situation.state, waiting, situation.sent))


def reads_on(goes_on: Waiters, gave_up: NDArray[np.bool_]) -> bool:
    """Whether the broker reads on at last although no consumer has given up anything, so that no count held it up."""
    return bool((~goes_on.was_read).any()) and not bool(gave_up.any())


def _may_be_full(situation: Situation) -> bool:
    """Whether the subscription may be at its limit, not down to half of it, with what rows do not show (E6, F10)."""
    limit = common_of(situation.state)["unacked_limit"]
    uncounted = int(situation.state.consumers.view(np.ndarray)["uncounted"][situation.connected].sum())
    return bool(uncounted > 0 and 0 < limit <= 2 * (situation.unacked + uncounted))


def _has_its_share(situation: Situation) -> bool:
    """Whether the broker, at its limit for all subscriptions, blocks this one, or may have until shortly before."""
    limit = situation.in_force.lowest(UNACKED_PER_BROKER)
    given_up: NDArray[np.bool_] = situation.state.consumers.view(np.ndarray)["gave_up_at"]["ts_us"] > situation.since_us
    return limit > 0 and (situation.unacked > limit * _SHARE_OF_BROKER or bool(given_up.any()))
