"""Limits: the broker's on entries in replay and unacknowledged messages (contract 4.7, 4.14), and those of an audit."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from dispatch_audit.pipeline.checkpointed import checkpointed
from dispatch_audit.pipeline.replay.settings.settings_in_force import (
    READ_BATCH,
    UNACKED_PER_CONSUMER,
    UNACKED_PER_SUBSCRIPTION,
    SettingsInForce,
)

_IN_REPLAY_PER_CONSUMER: Final = "keySharedLookAheadMsgInReplayThresholdPerConsumer"
_IN_REPLAY_PER_SUBSCRIPTION: Final = "keySharedLookAheadMsgInReplayThresholdPerSubscription"
LOOK_AHEAD: Final = frozenset({_IN_REPLAY_PER_CONSUMER, _IN_REPLAY_PER_SUBSCRIPTION})
"""The settings that limit how far a dispatcher looks ahead."""

READ_BATCH_DEFAULT: Final = 100
"""The default of dispatcherMaxReadBatchSize in every release."""


@checkpointed("broker_limits")
class BrokerLimits(NamedTuple):
    """Settings of the broker, 0 where there is no limit."""

    # Whether the dispatcher limits its look-ahead; that of recently joined consumers does not up to 4.0.13 and 4.2.4,
    # and from then on heeds the limit of the subscription (6.2).
    looks_ahead: bool
    # Whether the dispatcher of recently joined consumers reads on while nothing in replay can be sent (6.2, 6.4).
    reads_past_replay: bool
    # Whether a consumer counts as one without permits while its connection is not writable (3.12).
    unwritable_takes_nothing: bool
    replay_per_consumer: int  # entries in replay, for each connected consumer
    replay_per_subscription: int  # entries in replay
    unacked_per_consumer: int  # unacknowledged messages of a consumer
    unacked_per_subscription: int  # unacknowledged messages of the subscription
    # The lowest of these limits so far; where it is raised or dropped, a subscription that was blocked by it stays so
    # until the next acknowledgement (4.14).
    lowest_per_subscription: int
    read_batch: int  # entries of a read
    ack_holes: int  # ranges of acknowledged entries that a cursor persists

    def look_ahead(self, consumers: int) -> int | None:
        """The number of entries in replay at which normal reads stop, with so many consumers connected (4.7).

        None: there is no such limit.
        """
        if not self.looks_ahead:
            return None
        each, all_of_them = self.replay_per_consumer, self.replay_per_subscription
        if each <= 0:
            limit = all_of_them
        else:
            limit = min(each * consumers, all_of_them) if all_of_them > 0 else each * consumers
        if limit > 0:
            return limit
        unacked = [n for n in (self.unacked_per_subscription, consumers * self.unacked_per_consumer) if n > 0]
        return min(unacked, default=None)


def limits_of(
    broker: Mapping[str, object],
    looks_ahead: bool,
    reads_past_replay: bool = False,
    unwritable_takes_nothing: bool = False,
) -> BrokerLimits:
    """The limits in broker.conf; a setting that is absent, or not a number, is no limit."""

    def number(name: str) -> int:
        value = broker.get(name)
        return value if isinstance(value, int) and not isinstance(value, bool) else 0

    return BrokerLimits(
        looks_ahead=looks_ahead,
        reads_past_replay=reads_past_replay,
        unwritable_takes_nothing=unwritable_takes_nothing,
        replay_per_consumer=number(_IN_REPLAY_PER_CONSUMER),
        replay_per_subscription=number(_IN_REPLAY_PER_SUBSCRIPTION),
        unacked_per_consumer=number(UNACKED_PER_CONSUMER),
        unacked_per_subscription=number(UNACKED_PER_SUBSCRIPTION),
        lowest_per_subscription=number(UNACKED_PER_SUBSCRIPTION),
        read_batch=number(READ_BATCH),
        ack_holes=number("managedLedgerMaxUnackedRangesToPersist"),
    )


def in_force_of(limits: BrokerLimits, in_force: SettingsInForce) -> BrokerLimits:
    """The limits after a change of settings; within its bracket the lowest that may hold the broker back."""
    lowest = limits.lowest_per_subscription, in_force.lowest(UNACKED_PER_SUBSCRIPTION)
    return limits._replace(
        replay_per_consumer=in_force.lowest(_IN_REPLAY_PER_CONSUMER),
        replay_per_subscription=in_force.lowest(_IN_REPLAY_PER_SUBSCRIPTION),
        unacked_per_consumer=in_force.of_broker(UNACKED_PER_CONSUMER),
        unacked_per_subscription=in_force.of_broker(UNACKED_PER_SUBSCRIPTION),
        lowest_per_subscription=min((limit for limit in lowest if limit > 0), default=0),
        read_batch=in_force.highest(READ_BATCH),
    )


@checkpointed("thresholds")
class Thresholds(NamedTuple):
    """The thresholds of an audit; times in microseconds."""

    report_min_us: int = 100_000  # the shortest interval of waiting that is reported
    stall_threshold_us: int = 1_000_000  # the shortest time without a dispatch that is a stall, or that starves a hash
    sample_us: int = 10_000_000  # the time between two samples of the capacity
    intervals_max: int = 10_000  # how many intervals of a cause and scope are kept
    # Whether recently joined consumers wait for the last sent position instead of the read position.
    as_pip_282: bool = False
