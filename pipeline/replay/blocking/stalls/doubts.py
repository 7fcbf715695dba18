"""What rows leave open, and may be why nothing is sent: doubts, and settings that no row says.

A stall is not provable if doubts perhaps hold back all that could be sent. It rests on a setting if another value of it
might: where nobody says it, what the trace claims or the default of the release is taken, and the finding names it.
Where rows that say it may be missing, or the broker contradicts it, it is unknown, and the stall is not provable.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import numpy as np

from dispatch_audit.pipeline.replay.blocking.attribution import are_before, waiters
from dispatch_audit.pipeline.replay.blocking.consumer_availability import may_be_unwritable
from dispatch_audit.pipeline.replay.blocking.stalls.reported import may_be_skipped
from dispatch_audit.pipeline.replay.blocking.stalls.situation import Mask, Situation
from dispatch_audit.pipeline.replay.durations import HORIZON_US
from dispatch_audit.pipeline.replay.settings.settings_in_force import (
    DISPATCH_RATES,
    LOOK_AHEAD,
    UNACKED_PER_BROKER,
    UNACKED_PER_CONSUMER,
    UNACKED_PER_SUBSCRIPTION,
    SettingsInForce,
)
from dispatch_audit.pipeline.replay.state.memories import CLAIM
from dispatch_audit.pipeline.replay.state.output import OF_CONSUMER, OF_SUBSCRIPTION
from dispatch_audit.pipeline.replay.state.records import UNKNOWN, record_of
from dispatch_audit.pipeline.replay.state.state import Seen, common_of
from dispatch_audit.pipeline.replay.state.values import (
    BY_SNAPSHOTS,
    CLAIM_DISREGARDED,
    DELAYS_CLAIMED_OFF,
    UNSURE,
    Mark,
)

_LIMITED: Final = {UNACKED_PER_CONSUMER: OF_CONSUMER, UNACKED_PER_SUBSCRIPTION: OF_SUBSCRIPTION}

# maxUnackedMessagesPerSubscriptionOnBrokerBlocked, by default (contract 4.14).
_SHARE_OF_BROKER: Final = 0.16
# Nobody limits replay to fewer entries.
_OF_REPLAY_MIN: Final = 100


class Doubt(NamedTuple):
    """Something that may hold back entries and that no row shows.

    Attributes:
        because: why it may explain a stall, as a clause.
        perhaps: which of the entries that could be sent it perhaps holds back, or whether all.
    """

    because: str
    perhaps: Callable[[Situation], Mask | bool]


def doubt(situation: Situation) -> str:
    """What may explain a stall, by name: the doubt with which all that could be sent is in doubt; empty: it is not."""
    behind = np.zeros(situation.free.slot.size, dtype=np.bool_)
    for name, of in DOUBTS.items():
        behind |= of.perhaps(situation)
        if bool(behind.all()):
            return name
    return ""


def _unwritable(situation: Situation) -> Mask | bool:
    if not situation.limits.unwritable_takes_nothing:
        return False
    unwritable: Mask = may_be_unwritable(situation.state, situation.interval.from_seq)[situation.free.owner]
    return unwritable


def _without_permits(situation: Situation) -> Mask | bool:
    if common_of(situation.state)["permits_known_by"] != BY_SNAPSHOTS:
        return False
    unknown: Mask = situation.consumers["certain_permits"][situation.free.owner] <= 0
    return unknown


def _asked_for_a_delay(situation: Situation) -> Mask | bool:
    delayed: Mask = situation.state.entries.view(np.ndarray)["marks"][situation.free.slot] & Mark.DELAYED != 0
    return delayed if common_of(situation.state)["delays"] == DELAYS_CLAIMED_OFF else False


def _follows_a_transaction(situation: Situation) -> Mask | bool:
    entries: Any = situation.state.entries.view(np.ndarray)
    unread = entries["marks"] & (Mark.IN_TRANSACTION | Mark.SENT | Mark.READ) == Mark.IN_TRANSACTION
    unread &= entries["ledger"] != UNKNOWN
    first = min(entries[["ledger", "entry"]][unread].tolist(), default=None)
    return False if first is None else ~are_before(situation.state, situation.free.slot, first)


def _reads_slowly(situation: Situation) -> bool:
    storage_us, span = situation.reported.storage_us, situation.interval
    return storage_us > 0 and 2 * (span.to_ts - max(storage_us, span.from_ts)) >= situation.duration_us


def _joined_recently(situation: Situation) -> Mask | bool:
    if situation.reported.released.issuperset(np.flatnonzero(situation.connected).tolist()):
        return False
    # Consumers that joined after a reset wait for what is unsure. A skip does not show when it releases these (6.1).
    skipped = bool(common_of(situation.state)["skip_begun_ts"] > situation.interval.from_ts)
    perhaps = situation.recent.applies and (skipped or _unsure(situation.state) > 0)
    return perhaps or situation.perhaps_behind_joins


def _blocked(situation: Situation) -> Mask:
    limit, consumers = common_of(situation.state)["blocks_at"], situation.consumers
    uncounted = np.where(limit > 0, consumers["uncounted"], 0)
    blocked: Mask = (uncounted > 0) & (2 * (consumers["unacked"] + uncounted) >= limit)
    return (blocked & situation.perhaps_blocked)[situation.free.owner]


def _full(situation: Situation) -> Mask:
    common, consumers = common_of(situation.state), situation.consumers
    # Who has left since the last dispatch may have counted when the limit was reached.
    counted = situation.connected | (consumers["gave_up_at"]["seq"] > common["last_dispatch"]["seq"])
    limit, uncounted = common["unacked_limit"], int(consumers["uncounted"][counted].sum())
    more = uncounted > 0 or bool(common["perhaps_blocked"] == 1)
    return situation.unread & (more and 0 < limit <= 2 * (situation.unacked + uncounted))


def _has_its_share(situation: Situation) -> Mask:
    limit = situation.in_force.lowest(UNACKED_PER_BROKER)
    given_up = bool((situation.consumers["gave_up_at"]["ts_us"] > situation.since_us).any())
    return situation.unread & (limit > 0 and (given_up or situation.unacked > limit * _SHARE_OF_BROKER))


def _replay_full(situation: Situation) -> bool:
    limit, waiting = situation.look_ahead_limit, situation.waiting
    # What is delayed is in replay if its consumer could not be sent it when it was read (4.13), and what two reads had
    # may be there although it is held (F10, 6.6).
    unsure = _unsure(situation.state) + waiters(situation.state, delayed=True).slot.size
    unsure += int(situation.consumers["uncounted"][situation.connected].sum())
    if situation.recent.applies or limit is None or unsure + waiting.slot.size < limit:
        return False
    skipped = may_be_skipped(situation.state, waiting, situation.reported)
    return unsure > 0 or bool(skipped.any() or _blocked(situation).any())


def _unsure(state: Seen) -> int:
    """How many entries no row shows where they are: from before a reset, or in a transaction."""
    entries: Any = state.entries.view(np.ndarray)
    marks = entries["marks"][entries["ledger"] != UNKNOWN]
    return int(np.count_nonzero((marks & UNSURE != 0) & (marks & Mark.ACKED == 0)))


def _only_later_rows_say(_situation: Situation) -> bool:
    return False


PERMITS: Final = "no_permits"
RATE: Final = "dispatch_rate_limit"
JOINED: Final = "recently_joined"
LOWERED: Final = "limit_lowered"

DOUBTS: Final[Mapping[str, Doubt]] = {
    "unwritable_connection": Doubt(
        "their consumers acknowledged nothing meanwhile, and may not have read from connections that were full: this "
        "release sends nothing to those (#26630)",
        _unwritable,
    ),
    PERMITS: Doubt(
        "their consumers were sent as many messages as the last snapshot shows permits for, and no row shows what they "
        "have asked for since",
        _without_permits,
    ),
    "claimed_delays": Doubt(
        "what could be sent had asked for delayed delivery, and only trace.json says that it is off: a policy may say "
        "otherwise",
        _asked_for_a_delay,
    ),
    "open_transaction": Doubt(
        "what could be sent comes after messages of a transaction that may not have ended", _follows_a_transaction
    ),
    "slow_storage": Doubt(
        "snapshots show a read from storage under way (pendingReadOps): a bookie is slow, or the ledger was offloaded",
        _reads_slowly,
    ),
    JOINED: Doubt(
        "consumers may have joined recently (F5), although no row shows how far the broker had read by then, or where "
        "entries from before a reset or a skip are",
        _joined_recently,
    ),
    "unacked_limit_consumer": Doubt(
        "the broker may count more messages as unacknowledged than rows show, and so have blocked their consumers",
        _blocked,
    ),
    "unacked_limit_subscription": Doubt(
        "the broker may count more messages as unacknowledged than rows show, and so have blocked the subscription",
        _full,
    ),
    "unacked_limit_broker": Doubt(
        "the broker may have reached maxUnackedMessagesPerBroker with what other subscriptions hold, which no row "
        "shows",
        _has_its_share,
    ),
    "look_ahead_limit": Doubt(
        "replay may have been full: entries from before a reset, delayed ones, those that a skip may have taken, that "
        "were sent twice, or of consumers that the broker may have blocked may be in it, and no row shows whether they "
        "are",
        _replay_full,
    ),
    RATE: Doubt(
        "a limit of the dispatch rate may have had to make up for what it was charged, which no row shows",
        _only_later_rows_say,
    ),
    LOWERED: Doubt(
        "a lower limit of unacknowledged messages, which only a later row says, may have been in force by then, and "
        "have blocked their consumers or the subscription",
        _only_later_rows_say,
    ),
}
"""All doubts, by name; docs/BLOCKING.md says what the rows show in each."""


def rests_on(situation: Situation) -> tuple[str, ...]:
    """The names of the settings that nobody says and that might explain a stall, alone or together; perhaps none.

    If one of the entries that could be sent is held back by none of these settings, whatever their values, the stall
    rests on none.
    """
    state, in_force, could_be_sent = situation.state, situation.in_force, ~situation.behind_joins
    held_by = {name: held[could_be_sent] for name, held in _held_by(situation).items()}
    perhaps = {name: held for name, held in held_by.items() if held.any() and not is_certain(state, in_force, name)}
    return tuple(perhaps) if perhaps and bool(np.logical_or.reduce([*perhaps.values()]).all()) else ()


def is_certain(state: Seen, in_force: SettingsInForce, name: str) -> bool:
    """Whether a row says a setting, and the broker does not contradict it."""
    return in_force.is_said(name) and not _is_contradicted(state, name)


def is_unknown(state: Seen, in_force: SettingsInForce, name: str) -> bool:
    """Whether nothing may be assumed of a setting: rows that say it may be missing, or the broker contradicts it."""
    return not in_force.is_known(name) or _is_contradicted(state, name)


def _is_contradicted(state: Seen, name: str) -> bool:
    if name not in _LIMITED:
        return False
    return bool(record_of(state.limits.claims, CLAIM, _LIMITED[name])["claim"] == CLAIM_DISREGARDED)


def _held_by(situation: Situation) -> dict[str, Mask]:
    """Which of the entries that could be sent some value of each setting might have held back."""
    consumers, free, goes_on = situation.consumers, situation.free, situation.goes_on
    gave_up_lately = consumers["gave_up_at"]["ts_us"] > situation.since_us
    holds = ((consumers["unacked"] + consumers["uncounted"] > 0) | gave_up_lately) & situation.perhaps_blocked
    uncounted = bool((consumers["uncounted"][situation.connected] > 0).any())
    anything = uncounted or situation.unacked > 0 or bool(gave_up_lately.any())
    # If it reads on at last although no consumer has given up anything, no count held it up.
    reads_on = not bool(goes_on.was_read.all() or situation.gave_up.any())
    in_replay = situation.reported.in_replay
    if in_replay is None:
        in_replay = int(np.count_nonzero(situation.held))
    fills = situation.limits.looks_ahead and in_replay >= _OF_REPLAY_MIN
    # Where rows are missing, the last dispatch may be.
    last_us = int(common_of(situation.state)["last_dispatch"]["ts_us"]) or situation.interval.from_ts
    may_pay = situation.interval.to_ts - last_us <= HORIZON_US
    contradicted = _is_contradicted(situation.state, UNACKED_PER_CONSUMER)
    return {
        # What is for consumers that are blocked also fills replay, so that others get nothing either.
        UNACKED_PER_CONSUMER: holds[free.owner] | (contradicted and holds.any()),
        UNACKED_PER_SUBSCRIPTION: situation.unread & (anything and not reads_on),
        LOOK_AHEAD: situation.unread & fills,
        DISPATCH_RATES: np.full(free.slot.size, may_pay),
    }
