"""Pauses of limits of the dispatch rate that settings claim.

A broker that has used up a limit asks again after 1000 ms (MESSAGE_RATE_BACKOFF_MS; contract 4.2, step 5d). So nothing
is sent for no longer than the period that pays for what was sent, and that second.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

import numpy as np

from dispatch_audit.pipeline.checkpointed import checkpointed
from dispatch_audit.pipeline.replay.blocking.attribution import Interval
from dispatch_audit.pipeline.replay.durations import (
    BACKOFF_US,
    READ_AND_PAUSE_US,
    TIMER_LATE_US,
)
from dispatch_audit.pipeline.replay.settings.settings_in_force import DispatchRate
from dispatch_audit.pipeline.replay.state.records import Ints

_ASKS_AGAIN_US: Final = BACKOFF_US + TIMER_LATE_US
# Counts of a limiter are not exact: the token bucket adds tokens in steps, and a read may exceed them by a batch.
_USED_UP: Final = 0.9
# What one read may bring, however little a limit in bytes has left: dispatcherMaxReadSizeBytes, by default.
_READ_BYTES: Final = 5 * 1024 * 1024
# And how many entries: dispatcherMaxReadBatchSize, by default.
_READ_ENTRIES: Final = 100
_SECOND_US: Final = 1_000_000
_KEPT_US: Final = 60 * _SECOND_US
# So many changes of limits are remembered.
_CHANGES_MAX: Final = 64


@checkpointed("sent_dispatches")
class Sent(NamedTuple):
    """The dispatches of a stretch of rows, as columns of equal length.

    Attributes:
        ts_us: the time of each.
        messages: the messages in its entry.
    """

    ts_us: Ints
    messages: Ints


@checkpointed("limits_in_force")
class _InForce(NamedTuple):
    """The limits from a time on, and whether they may have been in force before, and owe for what was sent by then."""

    since_us: int
    rates: tuple[DispatchRate, ...]
    may_owe: bool


@checkpointed("recent_dispatches")
class RecentDispatches:
    """The dispatches of the last minute, kept while a limit of the rate is in force, and the limits by time."""

    __slots__ = ("_may_owe", "_rates_by_time", "_stretches")

    def __init__(self) -> None:
        self._stretches: deque[Sent] = deque()
        self._rates_by_time: deque[_InForce] = deque(maxlen=_CHANGES_MAX)
        self._may_owe = False

    def said_late(self) -> None:
        """Notes that the limits of the next dispatches may have been in force before, and owe for others."""
        self._may_owe = True

    def note(self, sent: Sent, rates: tuple[DispatchRate, ...]) -> None:
        """Takes the dispatches of the next rows, at least one, and the limits that may be in force."""
        if not self._rates_by_time or self._rates_by_time[-1].rates != rates:
            self._rates_by_time.append(_InForce(int(sent.ts_us[0]), rates, self._may_owe))
        self._may_owe = False
        if not rates:
            return
        self._stretches.append(sent)
        # A pause may lie anywhere in these rows, and their first dispatches long before their last ones.
        while int(self._stretches[0].ts_us[-1]) < int(sent.ts_us[0]) - _KEPT_US:
            self._stretches.popleft()

    def forget(self) -> None:
        """Drops the dispatches."""
        self._stretches.clear()

    def until(self, ts_us: int, period_us: int) -> tuple[int, int]:
        """The entries and messages that were sent in the period that ends at a time."""
        _, messages = self._between(ts_us - period_us + 1, ts_us)
        return messages.size, int(messages.sum())

    def explaining(self, pause: Interval, by_entry: bool) -> dict[str, object] | None:
        """What to say of the limit that explains a pause; None: none does.

        Args:
            pause: the time in which nothing was sent.
            by_entry: whether limits count entries instead of messages (dispatchThrottlingOnBatchMessageEnabled).
        """
        counted = 0 if by_entry else 1
        last_us = max(
            (int(sent.ts_us[sent.ts_us <= pause.from_ts].max(initial=0)) for sent in self._stretches), default=0
        )
        lately = self.until(last_us, READ_AND_PAUSE_US)[counted]
        for rate, since in self._rates_at(pause.from_ts):
            used = self.until(pause.from_ts, rate.period_s * _SECOND_US)[counted]
            # Dispatches of other subscriptions and topics count too, and no row has the size of a dispatched entry.
            countable = rate.scope == "subscription" and rate.size_bytes == 0
            # Where a read began, something was left: the last one has overdrawn it by what it brought at most.
            owed = min(self._owed(rate, since.since_us, pause.from_ts, by_entry), lately)
            if countable and used < _USED_UP * rate.messages and owed <= 0:
                continue
            # Once it is used up no read begins. What was sent before it was in force is not charged to it.
            charged = max(min(used, rate.messages + lately), owed)
            if _pays_within(pause, rate, charged / rate.messages if rate.messages else 1):
                return _detail(rate, used, by_entry)
        return None

    def may_explain(self, pause: Interval) -> bool:
        """Whether a limit may explain a pause with what no row shows.

        That is the size of what was sent, up to a whole read, or what was charged to it before the row that says it.
        """
        return any(
            (rate.size_bytes > 0 and _pays_within(pause, rate, 1 + _READ_BYTES / rate.size_bytes))
            or (since.may_owe and self._paid_after(rate, since.since_us, pause))
            for rate, since in self._rates_at(pause.from_ts)
        )

    def _paid_after(self, rate: DispatchRate, since_us: int, pause: Interval) -> bool:
        """Whether it takes a pause to pay for what a limit was sent since a time, and for one read from before."""
        _, messages = self._between(since_us, pause.from_ts)
        earned = (pause.from_ts - since_us) * rate.messages / (rate.period_s * _SECOND_US)
        owed = _READ_ENTRIES * int(messages.max(initial=1)) + int(messages.sum()) - earned
        return rate.messages > 0 and owed > 0 and _pays_within(pause, rate, owed / rate.messages)

    def _rates_at(self, ts_us: int) -> Iterator[tuple[DispatchRate, _InForce]]:
        """The limits at a time, each with since when; what is put in force after the last dispatch has no debt yet."""
        until_now = [since for since in self._rates_by_time if since.since_us <= ts_us]
        for rate in until_now[-1].rates if until_now else ():
            without = [at for at, since in enumerate(until_now) if not _is_among(rate, since.rates)]
            yield rate, until_now[max(without, default=-1) + 1]

    def _owed(self, rate: DispatchRate, from_us: int, to_us: int, by_entry: bool) -> float:
        """What a limit lacks at a time for the next read; reads may overdraw it, and later periods pay for that.

        It has no more at any moment than what it may let through in a period (AsyncTokenBucket; the limiter of 3.x
        renews once a period, and keeps the debt).
        """
        sent_us, messages = self._between(from_us, to_us)
        if not messages.size:
            return 0
        sent = np.cumsum(np.ones_like(messages[::-1]) if by_entry else messages[::-1])
        earned = (to_us - sent_us[::-1]) * rate.messages / (rate.period_s * _SECOND_US)
        return float((sent - earned).max()) + 1 - rate.messages

    def _between(self, from_us: int, to_us: int) -> Sent:
        """The dispatches between two times that are kept."""
        ts_us = np.concatenate([np.zeros(0, np.int64), *(sent.ts_us for sent in self._stretches)])
        messages = np.concatenate([np.zeros(0, np.int64), *(sent.messages for sent in self._stretches)])
        within = (ts_us >= from_us) & (ts_us <= to_us)
        return Sent(ts_us[within], messages[within])


def _is_among(rate: DispatchRate, rates: Iterable[DispatchRate]) -> bool:
    """Whether a limit is one of the rates; which settings claim it does not matter."""
    return any(rate._replace(claims=()) == other._replace(claims=()) for other in rates)


def _pays_within(pause: Interval, rate: DispatchRate, periods: float) -> bool:
    """Whether the broker asks again no later than a pause ends, if so many periods, at least one, pay for its reads."""
    return pause.to_ts - pause.from_ts <= max(1, periods) * rate.period_s * _SECOND_US + _ASKS_AGAIN_US


def _detail(rate: DispatchRate, used: int, by_entry: bool) -> dict[str, object]:
    claims = [f"{claim.name} = {claim.value}, {claim.source or claim.where}" for claim in rate.claims]
    return {
        "limit_scope": rate.scope,
        "limit_messages": rate.messages or None,
        "limit_bytes": rate.size_bytes or None,
        "period_s": rate.period_s,
        "counts": "entries" if by_entry else "messages",
        "sent_in_period": used,
        "claimed_by": "; ".join(claims),
    }
