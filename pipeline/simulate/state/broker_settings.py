"""The settings of broker.conf that the simulated dispatcher uses, and the times that the model assumes."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from dispatch_audit.pipeline.errors import UsageError

UNACKED_PER_CONSUMER: Final = "maxUnackedMessagesPerConsumer"
UNACKED_PER_SUBSCRIPTION: Final = "maxUnackedMessagesPerSubscription"
_THROTTLING: Final = "dispatchThrottlingRate"
_LEVELS: Final = ("", "PerTopic", "PerSubscription")
RATES: Final = tuple(f"{_THROTTLING}{level}{unit}" for level in _LEVELS for unit in ("InMsg", "InByte"))
"""The limits of the dispatch rate."""
LIMITS: Final = frozenset(
    {
        UNACKED_PER_CONSUMER,
        UNACKED_PER_SUBSCRIPTION,
        "dispatcherMaxReadBatchSize",
        "keySharedLookAheadMsgInReplayThresholdPerConsumer",
        "keySharedLookAheadMsgInReplayThresholdPerSubscription",
        "managedLedgerMaxUnackedRangesToPersist",
        *RATES,
    }
)
"""The limits among the settings that `broker_settings` reads: the higher one is, the more is sent."""
SIMULATED: Final = LIMITS | {
    "keySharedUnblockingIntervalMs",
    "dispatcherRetryBackoffInitialTimeInMs",
    "dispatcherRetryBackoffMaxTimeInMs",
    "dispatchThrottlingOnNonBacklogConsumerEnabled",
    "dispatchThrottlingOnBatchMessageEnabled",
    "delayedDeliveryEnabled",
    "delayedDeliveryTickTimeMillis",
    *(f"{_THROTTLING}{level}PeriodInSeconds" for level in _LEVELS),
}
"""The settings that `broker_settings` reads."""


@dataclass(frozen=True, slots=True)
class RateLimit:
    """A dispatch rate limit of the broker, the topic or the subscription; at least one of the two is a limit.

    Attributes:
        messages: in a period; 0: no limit.
        size_bytes: in a period; 0: no limit.
        period_us: the period.
    """

    messages: int
    size_bytes: int
    period_us: int


@dataclass(frozen=True, slots=True)
class BrokerSettings:
    """Settings of broker.conf (contract 8); where a release lacks one, the value here has no effect.

    Attributes:
        read_batch: `dispatcherMaxReadBatchSize`, entries.
        look_ahead_per_consumer: `keySharedLookAheadMsgInReplayThresholdPerConsumer`, entries; 0: off.
        look_ahead_per_subscription: `keySharedLookAheadMsgInReplayThresholdPerSubscription`, entries; 0: off.
        unblocking_interval_us: `keySharedUnblockingIntervalMs`.
        backoff_initial_us: `dispatcherRetryBackoffInitialTimeInMs`.
        backoff_max_us: `dispatcherRetryBackoffMaxTimeInMs`.
        unacked_per_consumer: `maxUnackedMessagesPerConsumer`, messages; 0: off.
        unacked_per_subscription: `maxUnackedMessagesPerSubscription`, messages; 0: off.
        persisted_ranges: `managedLedgerMaxUnackedRangesToPersist`.
        configured_unacked: the values of the two limits above in broker.conf, which the look-ahead limit falls back to
            (contract 4.7); a policy of the namespace or the topic changes only the limits.
        rates: the dispatch rates that are limited: of the broker, the topic, the subscription.
        rates_count_entries: `dispatchThrottlingOnBatchMessageEnabled`: rates count entries, not messages.
        tick_us: `delayedDeliveryTickTimeMillis`.
        delays: `delayedDeliveryEnabled`.
    """

    read_batch: int
    look_ahead_per_consumer: int
    look_ahead_per_subscription: int
    unblocking_interval_us: int
    backoff_initial_us: int
    backoff_max_us: int
    unacked_per_consumer: int
    unacked_per_subscription: int
    persisted_ranges: int
    configured_unacked: tuple[int, int]
    rates: tuple[RateLimit, ...]
    rates_count_entries: bool
    tick_us: int
    delays: bool

    def look_ahead_limit(self, consumers: int) -> int:
        """The most entries in replay with which a normal read is allowed (contract 4.7); 0: no limit."""
        per_consumer, per_subscription = self.look_ahead_per_consumer, self.look_ahead_per_subscription
        if per_consumer <= 0:
            limit = per_subscription
        else:
            limit = per_consumer * consumers
            limit = min(limit, per_subscription) if per_subscription > 0 else limit
        if limit > 0:
            return limit
        per_consumer, per_subscription = self.configured_unacked
        unacked = [per_subscription, per_consumer * consumers]
        return min((limit for limit in unacked if limit > 0), default=0)


def broker_settings(broker: Mapping[str, object], policies: Mapping[str, object] | None = None) -> BrokerSettings:
    """The settings of a broker.

    Args:
        broker: broker.conf names to values, complete for the release (`Profile.broker`).
        policies: the same names to values that policies of the namespace or the topic give instead.

    Raises:
        UsageError: a value is no number, or below 0.
    """
    in_force = {**broker, **(policies or {})}

    def number(name: str, default: int = 0, of: Mapping[str, object] = in_force) -> int:
        value = of.get(name, default)
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise UsageError(f"setting {name} is {value!r}", "give a whole number, 0 or more")
        return value

    return BrokerSettings(
        read_batch=max(number("dispatcherMaxReadBatchSize", 100), 1),
        look_ahead_per_consumer=number("keySharedLookAheadMsgInReplayThresholdPerConsumer"),
        look_ahead_per_subscription=number("keySharedLookAheadMsgInReplayThresholdPerSubscription"),
        unblocking_interval_us=number("keySharedUnblockingIntervalMs") * 1000,
        backoff_initial_us=number("dispatcherRetryBackoffInitialTimeInMs") * 1000,
        backoff_max_us=number("dispatcherRetryBackoffMaxTimeInMs") * 1000,
        unacked_per_consumer=number(UNACKED_PER_CONSUMER),
        unacked_per_subscription=number(UNACKED_PER_SUBSCRIPTION),
        persisted_ranges=number("managedLedgerMaxUnackedRangesToPersist", 10_000),
        configured_unacked=(number(UNACKED_PER_CONSUMER, of=broker), number(UNACKED_PER_SUBSCRIPTION, of=broker)),
        rates=_rates(in_force),
        rates_count_entries=in_force.get("dispatchThrottlingOnBatchMessageEnabled") is True,
        tick_us=number("delayedDeliveryTickTimeMillis", 1000) * 1000,
        delays=in_force.get("delayedDeliveryEnabled") is not False,
    )


def _rates(in_force: Mapping[str, object]) -> tuple[RateLimit, ...]:
    """The dispatch rates that are limited; 0 and -1 are no limit.

    A cursor that keeps up with the topic is not limited if `dispatchThrottlingOnNonBacklogConsumerEnabled` is off
    (contract 4.2, step 5d); a simulated one always does.
    """
    if in_force.get("dispatchThrottlingOnNonBacklogConsumerEnabled") is False:
        return ()

    def number(name: str, default: int) -> int:
        value = in_force.get(name, default)
        return value if isinstance(value, int) else default

    rates = (
        RateLimit(
            max(number(f"{_THROTTLING}{level}InMsg", 0), 0),
            max(number(f"{_THROTTLING}{level}InByte", 0), 0),
            number(f"{_THROTTLING}{level}PeriodInSeconds", 1) * 1_000_000,
        )
        for level in _LEVELS
    )
    return tuple(rate for rate in rates if rate.messages or rate.size_bytes)


@dataclass(frozen=True, slots=True)
class Timing:
    """The times that the model assumes; none of them is fitted to a recording.

    Attributes:
        read_us: least and most time of a read of the ledger.
        dispatch_us: least and most time from the end of a read to its dispatch in another thread.
        write_us: time until the writes to connections are complete.
        network_us: time of one way between broker and client.
        overflow_write_us: time to write an entry to an overflow ledger (PIP-474); writes overlap.
    """

    read_us: tuple[int, int] = (100, 400)
    dispatch_us: tuple[int, int] = (10, 50)
    write_us: int = 50
    network_us: int = 200
    overflow_write_us: int = 2000
