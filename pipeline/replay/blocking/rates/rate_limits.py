"""Pauses that a limit of the dispatch rate explains which settings claim.

A broker that has used up a limit asks again after 1000 ms (MESSAGE_RATE_BACKOFF_MS; contract 4.2, step 5d). So nothing
is sent for no longer than the period that pays for what was sent, and that second.
"""

from collections import deque
from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from dispatch_audit.pipeline.checkpointed import checkpointed
from dispatch_audit.pipeline.replay.blocking.attribution import Interval
from dispatch_audit.pipeline.replay.durations import BACKOFF_US, READ_AND_PAUSE_US, TIMER_LATE_US
from dispatch_audit.pipeline.replay.settings.settings_in_force import DispatchRate
from dispatch_audit.pipeline.replay.state.records import Ints

_ASKS_AGAIN_US: Final = BACKOFF_US + TIMER_LATE_US
# Counts of a limiter are not exact: the token bucket adds tokens in steps, and a read may exceed them by a batch.
_USED_UP: Final = 0.9
# What one read may bring, however little a limit in bytes has left: dispatcherMaxReadSizeBytes, by default.
_READ_BYTES: Final = 5 * 1024 * 1024
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


@checkpointed("recent_dispatches")
class RecentDispatches:
    """The dispatches of the last minute, kept while a limit of the rate is in force, and the limits by time."""

    __slots__ = ("_rates_by_time", "_stretches")

    def __init__(self) -> None:
        self._stretches: deque[Sent] = deque()
        self._rates_by_time: deque[tuple[int, tuple[DispatchRate, ...]]] = deque(maxlen=_CHANGES_MAX)

    def note(self, sent: Sent, rates: tuple[DispatchRate, ...]) -> None:
        """Takes the dispatches of the next rows, at least one, and the limits that may be in force."""
        if not self._rates_by_time or self._rates_by_time[-1][1] != rates:
            self._rates_by_time.append((int(sent.ts_us[0]), rates))
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
        entries, messages = 0, 0
        for sent in self._stretches:
            within = (sent.ts_us > ts_us - period_us) & (sent.ts_us <= ts_us)
            entries += int(np.count_nonzero(within))
            messages += int(sent.messages[within].sum())
        return entries, messages

    def paused_us(self, from_us: int, to_us: int) -> int:
        """How long nothing was sent between two times at which a limit may have been in force."""
        if not (self._rates_at(from_us) or self._rates_at(to_us)):
            return 0
        sent_us = [sent.ts_us[(sent.ts_us > from_us) & (sent.ts_us < to_us)] for sent in self._stretches]
        apart_us = np.diff(np.concatenate([[from_us], *sent_us, [to_us]]))
        return int(apart_us[apart_us > READ_AND_PAUSE_US].sum())

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
        for rate in self._rates_at(pause.from_ts):
            used = self.until(pause.from_ts, rate.period_s * _SECOND_US)[counted]
            # Dispatches of other subscriptions and topics count too, and no row has the size of a dispatched entry.
            countable = rate.scope == "subscription" and rate.size_bytes == 0
            left = self._left(rate, pause.from_ts, by_entry, rate.messages) if rate.messages else 0.0
            if countable and used < _USED_UP * rate.messages and left >= 1:
                continue
            # Once it is used up no read begins. What was sent before it was in force is not charged to it.
            charged = max(min(used, rate.messages + lately), 1 - left)
            if _pays_within(pause, rate, charged / rate.messages if rate.messages else 1):
                return _detail(rate, used, by_entry)
        return None

    def may_explain(self, pause: Interval, by_entry: bool) -> bool:
        """Whether a limit may explain a pause, for all that rows show.

        None has the size of what was sent, up to a whole read, or what a limit had left at the first read that rows
        show under it: it may have been in force before, and in debt.
        """
        for rate in self._rates_at(pause.from_ts):
            periods = 1 + _READ_BYTES / rate.size_bytes if rate.size_bytes else 0.0
            if rate.messages:
                owed = 1 - self._left(rate, pause.from_ts, by_entry, 1)
                periods = max(periods, owed / rate.messages if owed > 0 else 0)
            if periods and _pays_within(pause, rate, periods):
                return True
        return False

    def _rates_at(self, ts_us: int) -> tuple[DispatchRate, ...]:
        """The limits at a time; what is put in force later than the last dispatch has no debt yet."""
        return next((rates for since_us, rates in reversed(self._rates_by_time) if since_us <= ts_us), ())

    def _left(self, rate: DispatchRate, ts_us: int, by_entry: bool, left_at_first: int) -> float:
        """What a limit has left at a time, from what it had when it came in force; below 0: a debt.

        It earns what was used, and the last read may overdraw it, so a debt is paid by later periods (AsyncTokenBucket;
        the limiter of 3.x renews once a period, and keeps the debt). Where a read began, something was left.
        """
        since_us = self._since_us(rate, ts_us)
        earned_us, left = since_us, float(left_at_first)
        for read_us, sent in self._reads(since_us, ts_us, by_entry):
            left = self._earned(rate, left, read_us - earned_us)
            left, earned_us = max(left, 1.0) - sent, read_us
        return self._earned(rate, left, ts_us - earned_us)

    @staticmethod
    def _earned(rate: DispatchRate, left: float, us: int) -> float:
        return min(left + us * rate.messages / (rate.period_s * _SECOND_US), rate.messages)

    def _reads(self, from_us: int, to_us: int, by_entry: bool) -> Iterator[tuple[int, float]]:
        """When something was sent between two times, `READ_AND_PAUSE_US` apart, and how many messages, or entries."""
        for stretch in self._stretches:
            within = (stretch.ts_us >= from_us) & (stretch.ts_us <= to_us)
            reads_us = stretch.ts_us[within] // READ_AND_PAUSE_US * READ_AND_PAUSE_US
            begin_us, read = np.unique(reads_us, return_inverse=True)
            sent = np.bincount(read, None if by_entry else stretch.messages[within])
            yield from zip(np.maximum(begin_us, from_us).tolist(), sent.tolist(), strict=True)

    def _since_us(self, rate: DispatchRate, ts_us: int) -> int:
        """Since when a limit has been in force without a break, of those at a time."""
        since_us = ts_us
        for at_us, rates in reversed(self._rates_by_time):
            if at_us <= ts_us:
                if rate not in rates:
                    break
                since_us = at_us
        return since_us


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
