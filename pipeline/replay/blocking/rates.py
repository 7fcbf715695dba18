"""Pauses of limits of the dispatch rate: those that settings claim, and those that only the traffic shows.

A broker that has used up a limit asks again after 1000 ms (MESSAGE_RATE_BACKOFF_MS; contract 4.2, step 5d). So nothing
is sent for no longer than the period that pays for what was sent, and that second.

A limit that no setting claims may be a policy of the namespace that nobody recorded. About the same number of entries,
or of messages, is sent between pauses of about the same length, again and again. A stall that heals once does not look
like that.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np

from dispatch_audit.pipeline.checkpointed import checkpointed
from dispatch_audit.pipeline.replay.blocking.attribution import Interval
from dispatch_audit.pipeline.replay.durations import (
    BACKOFF_US,
    HORIZON_US,
    PAUSE_MAX_US,
    PAUSE_MIN_US,
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
        for rate, since_us in self._rates_at(pause.from_ts):
            used = self.until(pause.from_ts, rate.period_s * _SECOND_US)[counted]
            # Dispatches of other subscriptions and topics count too, and no row has the size of a dispatched entry.
            countable = rate.scope == "subscription" and rate.size_bytes == 0
            # Where a read began, something was left: the last one has overdrawn it by what it brought at most.
            owed = min(self._owed(rate, since_us, pause.from_ts, by_entry), lately)
            if countable and used < _USED_UP * rate.messages and owed <= 0:
                continue
            # Once it is used up no read begins. What was sent before it was in force is not charged to it.
            charged = max(min(used, rate.messages + lately), owed)
            if _pays_within(pause, rate, charged / rate.messages if rate.messages else 1):
                return _detail(rate, used, by_entry)
        return None

    def may_explain(self, pause: Interval) -> bool:
        """Whether a limit in bytes may explain a pause: no row has the size of what was sent, up to a whole read."""
        return any(
            rate.size_bytes and _pays_within(pause, rate, 1 + _READ_BYTES / rate.size_bytes)
            for rate, _ in self._rates_at(pause.from_ts)
        )

    def _rates_at(self, ts_us: int) -> Iterator[tuple[DispatchRate, int]]:
        """The limits at a time, each with since when; what is put in force after the last dispatch has no debt yet."""
        until_now = [since for since in self._rates_by_time if since[0] <= ts_us]
        for rate in until_now[-1][1] if until_now else ():
            without = [at for at, (_, rates) in enumerate(until_now) if not _is_among(rate, rates)]
            yield rate, until_now[max(without, default=-1) + 1][0]

    def _owed(self, rate: DispatchRate, from_us: int, to_us: int, by_entry: bool) -> float:
        """What a limit lacks at a time for the next read; reads may overdraw it, and later periods pay for that.

        It has no more at any moment than what it may let through in a period (AsyncTokenBucket; the limiter of 3.x
        renews once a period, and keeps the debt).
        """
        sent_us = np.concatenate([np.zeros(0, np.int64), *(sent.ts_us for sent in self._stretches)])
        messages = np.concatenate([np.zeros(0, np.int64), *(sent.messages for sent in self._stretches)])
        within = (sent_us >= from_us) & (sent_us <= to_us)
        if not within.any():
            return 0
        sent = np.cumsum(np.ones_like(messages[within][::-1]) if by_entry else messages[within][::-1])
        earned = (to_us - sent_us[within][::-1]) * rate.messages / (rate.period_s * _SECOND_US)
        return float((sent - earned).max()) + 1 - rate.messages


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


_BURSTS: Final = 3
# Bursts of few messages show a limit only if they are equal: a few may be those published during the pause.
_BURST_MIN: Final = 10
_FEW_MIN: Final = 3
_FEW_ALIKE: Final = 1
# All bursts that show a limit have to come within the horizon.
_LONG_PAUSE_MAX_US: Final = HORIZON_US // _BURSTS
_ALIKE: Final = 0.2


@checkpointed("burst")
class _Burst(NamedTuple):
    """Dispatches without a pause between them, and the time of the dispatch that ends the pause after them."""

    from_us: int
    to_us: int
    entries: int
    messages: int
    next_us: int


@checkpointed("paced")
class Paced(NamedTuple):
    """A time in which dispatches came in bursts of one size, with one pause after each.

    Attributes:
        from_us: the beginning of the pause before the first burst.
        to_us: the end of the pause after the last one.
        messages: the messages of a burst.
        pause_max_us: the longest pause between bursts of so many messages that counts as one of the limit.
    """

    from_us: int
    to_us: int
    messages: int
    pause_max_us: int


@checkpointed("dispatch_pace")
class DispatchPace:
    """Finds bursts of one size, as a rate limit lets them."""

    __slots__ = ("_open", "_paced", "_recent")

    def __init__(self) -> None:
        self._open: _Burst | None = None
        self._recent: deque[_Burst] = deque(maxlen=_BURSTS + 1)
        self._paced: list[Paced] = []

    def note(self, sent: Sent) -> None:
        """Takes the dispatches of the next rows, at least one."""
        starts = [0, *(np.flatnonzero(np.diff(sent.ts_us) >= PAUSE_MIN_US) + 1).tolist(), sent.ts_us.size]
        for first, after in pairwise(starts):
            begin_us, end_us = int(sent.ts_us[first]), int(sent.ts_us[after - 1])
            entries, messages = after - first, int(sent.messages[first:after].sum())
            before = self._open
            if before is not None and begin_us - before.to_us < PAUSE_MIN_US:
                both = before.entries + entries, before.messages + messages
                self._open = _Burst(before.from_us, max(before.to_us, end_us), *both, 0)
                continue
            if before is not None:
                self._end(before._replace(next_us=begin_us))
            self._open = _Burst(begin_us, end_us, entries, messages, 0)

    def interrupted(self) -> None:
        """Forgets the bursts that are going on: rows may be missing."""
        self._open = None
        self._recent.clear()

    def forget(self, before_us: int) -> None:
        """Drops what ended before a time."""
        self._paced = [paced for paced in self._paced if paced.to_us >= before_us]

    def during(self, pause: Interval) -> Paced | None:
        """The time of bursts of one size that a pause belongs to; None: there is none."""
        for paced in self._paced:
            if paced.from_us <= pause.from_ts and pause.to_ts <= paced.to_us:
                return paced
        return None

    def _end(self, burst: _Burst) -> None:
        self._recent.append(burst)
        if len(self._recent) <= _BURSTS:
            return
        *before, last = first, *run = self._recent
        cycles = [burst.next_us - burst.from_us for burst in run[:-1]]
        messages = [burst.messages for burst in run]
        longest_us = max(burst.next_us - burst.to_us for burst in before)
        same_size = _alike(messages) or _alike([burst.entries for burst in run])
        equal = min(messages) >= _FEW_MIN and max(messages) - min(messages) <= _FEW_ALIKE
        many = same_size and min(messages) >= _BURST_MIN and longest_us <= PAUSE_MAX_US
        pause_max_us = PAUSE_MAX_US if many else _LONG_PAUSE_MAX_US
        if not (many or equal) or longest_us > pause_max_us or not _alike(cycles):
            return
        # The pause after the last burst may be another one.
        over_us = last.next_us if last.next_us - last.to_us <= pause_max_us else last.to_us
        found = Paced(first.to_us, over_us, sorted(messages)[_BURSTS // 2], pause_max_us)
        if self._paced and found.from_us <= self._paced[-1].to_us:
            found = found._replace(from_us=self._paced.pop().from_us)
        self._paced.append(found)


def _alike(values: Sequence[int]) -> bool:
    """Whether values differ by no more than a limiter lets them."""
    return max(values) - min(values) <= max(2, _ALIKE * max(values))
