"""Dispatch rate limits of a simulated subscription, its topic and its broker (contract 4.2 step 5d, 4.10 step 5).

A read is as large as the least limit leaves, and what is sent is charged afterwards, so a limit may be overdrawn; the
debt is paid before anything more is read `[DispatchRateLimiter, AsyncTokenBucket]`.
"""

from collections.abc import Sequence
from typing import Final

from dispatch_audit.pipeline.simulate.state.broker_settings import RateLimit

RETRY_US: Final = 1_000_000
"""From a read that found a limit reached to the next one: `PersistentTopic.MESSAGE_RATE_BACKOFF_MS`."""


class TokenBucket:
    """Tokens that come in at a constant rate, up to those of one period; full at first."""

    __slots__ = ("_a_period", "_at_us", "_period_us", "_tokens")

    def __init__(self, a_period: int, period_us: int, now_us: int) -> None:
        self._a_period = a_period
        self._period_us = period_us
        self._at_us = now_us
        self._tokens = float(a_period)

    def left(self, now_us: int) -> int:
        """The whole tokens that are there; 0 or less: none."""
        earned = (now_us - self._at_us) * self._a_period / self._period_us
        self._tokens = min(self._tokens + earned, self._a_period)
        self._at_us = now_us
        return int(self._tokens)

    def take(self, tokens: int) -> None:
        """Takes tokens out, more than there are if need be."""
        self._tokens -= tokens


class _Limited:
    """One rate, in messages, bytes or both."""

    __slots__ = ("messages", "rate", "size_bytes")

    def __init__(self, rate: RateLimit, now_us: int) -> None:
        self.rate = rate
        self.messages = TokenBucket(rate.messages, rate.period_us, now_us) if rate.messages else None
        self.size_bytes = TokenBucket(rate.size_bytes, rate.period_us, now_us) if rate.size_bytes else None


class DispatchRates:
    """The rate limits of one subscription.

    Attributes:
        reached: how many reads found a limit reached.
    """

    __slots__ = ("_limited", "reached")

    def __init__(self) -> None:
        self._limited: list[_Limited] = []
        self.reached = 0

    def change(self, rates: Sequence[RateLimit], now_us: int) -> None:
        """Puts other limits in force; one that stays as it was keeps its tokens."""
        before, self._limited = self._limited, []
        for rate in rates:
            kept = next((limited for limited in before if limited.rate == rate), None)
            if kept is not None:
                # Two levels may have the same rate, and tokens of their own.
                before.remove(kept)
            self._limited.append(kept or _Limited(rate, now_us))

    def refill(self, now_us: int) -> None:
        """Refills all limits: a broker that loads a topic makes new limiters for it."""
        self._limited = [_Limited(limited.rate, now_us) for limited in self._limited]

    def allowed(self, entries_max: int, entry_bytes: int, now_us: int) -> int:
        """How many entries a read may have; 0: a limit is reached.

        Args:
            entries_max: how many it would have without limits.
            entry_bytes: the size of an entry, as far as the broker knows.
            now_us: the time.
        """
        for limited in self._limited:
            if limited.messages is not None:
                entries_max = min(entries_max, limited.messages.left(now_us))
            if limited.size_bytes is not None:
                left = limited.size_bytes.left(now_us)
                # A read has at least one entry while any byte is left.
                entries_max = min(entries_max, max(left // max(entry_bytes, 1), 1) if left > 0 else 0)
            if entries_max <= 0:
                self.reached += 1
                return 0
        return entries_max

    def charge(self, messages: int, size_bytes: int) -> None:
        """Charges what was sent to all limits."""
        for limited in self._limited:
            if limited.messages is not None:
                limited.messages.take(messages)
            if limited.size_bytes is not None:
                limited.size_bytes.take(size_bytes)
