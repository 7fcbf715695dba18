"""Pauses that a limit of the dispatch rate explains: one that is in force, or one that only the traffic shows.

A broker that has used up a limit asks again after 1000 ms (MESSAGE_RATE_BACKOFF_MS; contract 4.2, step 5d). So nothing
is sent for no longer than the period that pays for what was sent, and that second.

A limit that no setting claims, such as a policy of the namespace that nobody recorded, shows in the traffic: about the
same number of entries, or of messages, between pauses of about the same length, again and again. A stall that heals
once does not look like that.
"""

from collections import deque
from collections.abc import Sequence
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np

from dispatch_audit.pipeline.checkpointed import checkpointed
from dispatch_audit.pipeline.replay.blocking.attribution import Interval
from dispatch_audit.pipeline.replay.settings.settings_in_force import DispatchRate
from dispatch_audit.pipeline.replay.state.records import Ints

HORIZON_US: Final = 20_000_000
"""How long after a pause dispatches may still show that a rate limit caused it."""

_BACKOFF_US: Final = 1_000_000
# The timer of a broker and the way of a dispatch to its row.
_LATE_US: Final = 250_000
# Counts of a limiter are not exact: the token bucket adds tokens in steps, and a read may exceed them by a batch.
_USED_UP: Final = 0.9
# A read takes up to 40 ms (contract 6.6), and sees a bucket that may not have counted the one before it.
_READ_US: Final = 100_000
_SECOND_US: Final = 1_000_000
_KEPT_US: Final = 60 * _SECOND_US
# So many changes of limits are remembered.
_CHANGES_MAX: Final = 64

_PAUSE_MIN_US: Final = 500_000
PERIOD_US: Final = _SECOND_US
"""That of a limit, by default."""
# It, and the backoff.
PAUSE_MAX_US: Final = PERIOD_US + _BACKOFF_US + _LATE_US
_BURSTS: Final = 3
# Few messages after each pause may be those that came meanwhile, however regularly. Then, and after longer pauses, a
# limit is possible, but not shown.
_BURST_MIN: Final = 10
_FEW_MIN: Final = 3
_FEW_ALIKE: Final = 1
# All bursts that show a limit have to come within the horizon.
_LONG_PAUSE_MAX_US: Final = HORIZON_US // _BURSTS
_ALIKE: Final = 0.2


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
        # One put in force later than the last dispatch has no debt yet.
        by_time = reversed(self._rates_by_time)
        rates = next((rates for since_us, rates in by_time if since_us <= pause.from_ts), ())
        counted = 0 if by_entry else 1
        last_us = max(
            (int(sent.ts_us[sent.ts_us <= pause.from_ts].max(initial=0)) for sent in self._stretches), default=0
        )
        lately = self.until(last_us, _READ_US)[counted]
        for rate in rates:
            period_us = rate.period_s * _SECOND_US
            used = self.until(pause.from_ts, period_us)[counted]
            # Dispatches of other subscriptions and topics count too, and no row has the size of a dispatched entry.
            countable = rate.scope == "subscription" and rate.size_bytes == 0
            if countable and used < _USED_UP * rate.messages:
                continue
            # Once it is used up no read begins. What was sent before it was in force is not charged to it.
            charged = min(used, rate.messages + lately)
            periods = max(1.0, charged / rate.messages) if rate.messages else 1.0
            if pause.to_ts - pause.from_ts <= periods * period_us + _BACKOFF_US + _LATE_US:
                return _detail(rate, used, by_entry)
        return None


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
        certain: whether only a limit explains them: bursts of many messages, with pauses as they are by default.
    """

    from_us: int
    to_us: int
    messages: int
    certain: bool


@checkpointed("dispatch_pace")
class DispatchPace:
    """Finds the times in which dispatches come in bursts of one size, as a rate limit lets them."""

    __slots__ = ("_open", "_paced", "_recent")

    def __init__(self) -> None:
        self._open: _Burst | None = None
        self._recent: deque[_Burst] = deque(maxlen=_BURSTS + 1)
        self._paced: list[Paced] = []

    def note(self, sent: Sent) -> None:
        """Takes the dispatches of the next rows, at least one."""
        starts = [0, *(np.flatnonzero(np.diff(sent.ts_us) >= _PAUSE_MIN_US) + 1).tolist(), sent.ts_us.size]
        for first, after in pairwise(starts):
            begin_us, end_us = int(sent.ts_us[first]), int(sent.ts_us[after - 1])
            entries, messages = after - first, int(sent.messages[first:after].sum())
            before = self._open
            if before is not None and begin_us - before.to_us < _PAUSE_MIN_US:
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
        for paced in sorted(self._paced, key=lambda paced: not paced.certain):
            if paced.from_us <= pause.from_ts and pause.to_ts <= paced.to_us:
                return paced
            if paced.to_us == self._began_us and pause.from_ts == self._ended_us and self._goes_on(paced, pause):
                return paced
        return None

    @property
    def _began_us(self) -> int:
        return -1 if self._open is None else self._open.from_us

    @property
    def _ended_us(self) -> int:
        return -1 if self._open is None else self._open.to_us

    def _goes_on(self, paced: Paced, pause: Interval) -> bool:
        """Whether a pause is that after the burst that follows those of a time."""
        longest_us = PAUSE_MAX_US if paced.certain else _LONG_PAUSE_MAX_US
        if self._open is None or pause.to_ts - pause.from_ts > longest_us:
            return False
        return _alike([paced.messages, self._open.messages])

    def _end(self, burst: _Burst) -> None:
        self._recent.append(burst)
        if len(self._recent) <= _BURSTS:
            return
        *before, last = first, *run = self._recent
        pauses = [burst.next_us - burst.to_us for burst in before]
        cycles = [burst.next_us - burst.from_us for burst in run[:-1]]
        messages = [burst.messages for burst in run]
        same_size = _alike(messages) or _alike([burst.entries for burst in run])
        certain = same_size and min(messages) >= _BURST_MIN and max(pauses) <= PAUSE_MAX_US
        alike = same_size if min(messages) >= _BURST_MIN else max(messages) - min(messages) <= _FEW_ALIKE
        few = min(messages) >= _FEW_MIN and alike
        if not (certain or (few and max(pauses) <= _LONG_PAUSE_MAX_US)) or not _alike(cycles):
            return
        # The pause after the last burst may be another one.
        longest_us = PAUSE_MAX_US if certain else _LONG_PAUSE_MAX_US
        over_us = last.next_us if last.next_us - last.to_us <= longest_us else last.to_us
        found = Paced(first.to_us, over_us, sorted(messages)[_BURSTS // 2], certain)
        before_it = self._paced[-1] if self._paced else None
        if before_it is not None and found.from_us <= before_it.to_us and before_it.certain == certain:
            found = found._replace(from_us=self._paced.pop().from_us)
        self._paced.append(found)


def _alike(values: Sequence[int]) -> bool:
    """Whether values differ by no more than a limiter lets them."""
    return max(values) - min(values) <= max(2, _ALIKE * max(values))
