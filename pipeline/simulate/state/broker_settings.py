"""The settings of broker.conf that the simulated dispatcher uses, and the times that the model assumes."""

from collections.abc import Mapping
from dataclasses import dataclass

from dispatch_audit.pipeline.errors import UsageError


@dataclass(frozen=True, slots=True)
class BrokerSettings:
    """Settings of broker.conf (contract 8); where a line of versions lacks one, the value here has no effect.

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
        unacked = [self.unacked_per_subscription, self.unacked_per_consumer * consumers]
        return min((limit for limit in unacked if limit > 0), default=0)


def broker_settings(broker: Mapping[str, object]) -> BrokerSettings:
    """The settings of a broker.

    Args:
        broker: broker.conf names to values, complete for the line of versions (`Profile.broker`).

    Raises:
        UsageError: a value is no number, or below 0.
    """

    def number(name: str, default: int = 0) -> int:
        value = broker.get(name, default)
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
        unacked_per_consumer=number("maxUnackedMessagesPerConsumer"),
        unacked_per_subscription=number("maxUnackedMessagesPerSubscription"),
        persisted_ranges=number("managedLedgerMaxUnackedRangesToPersist", 10_000),
    )


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
