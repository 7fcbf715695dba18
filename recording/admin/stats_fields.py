"""The fields of a broker's statistics that a recording keeps: their names in Pulsar, and those of their columns.

A field that a release does not have is left out. Columns have Pulsar's names in snake case.

Source: contract 7; `SubscriptionStatsImpl`, `ConsumerStatsImpl` and `ManagedLedgerInternalStats` of 3.0 to 5.0.
"""

import re
from collections.abc import Mapping
from typing import Final


def _columns(names: str) -> Mapping[str, str]:
    return {name: re.sub("[A-Z]", lambda letter: f"_{letter[0].lower()}", name) for name in names.split()}


OF_SUBSCRIPTION: Final = _columns(
    """
    type keySharedMode allowOutOfOrderDelivery isDurable
    msgInReplay unackedMessages msgBacklog msgBacklogNoDelayed msgDelayed
    blockedSubscriptionOnUnackedMsgs
    msgOutCounter msgRateOut msgRateRedeliver messageAckRate totalMsgExpired
    nonContiguousDeletedMessagesRanges nonContiguousDeletedMessagesRangesSerializedSize
    lastExpireTimestamp lastConsumedFlowTimestamp lastConsumedTimestamp lastAckedTimestamp
    lastMarkDeleteAdvancedTimestamp
    dispatchThrottledMsgEventsBySubscriptionLimit dispatchThrottledBytesEventsBySubscriptionLimit
    dispatchThrottledMsgEventsByTopicLimit dispatchThrottledBytesEventsByTopicLimit
    dispatchThrottledMsgEventsByBrokerLimit dispatchThrottledBytesEventsByBrokerLimit
    """
)
OF_CONSUMER: Final = _columns(
    """
    consumerName address connectedSince clientVersion
    availablePermits unackedMessages avgMessagesPerEntry blockedConsumerOnUnackedMsgs
    drainingHashesCount drainingHashesClearedTotal drainingHashesUnackedMessages readPositionWhenJoining
    msgOutCounter msgRateOut msgRateRedeliver messageAckRate
    lastAckedTimestamp lastConsumedTimestamp lastConsumedFlowTimestamp
    firstMessagesSentTimestamp firstConsumedFlowTimestamp
    """
)
OF_CURSOR: Final = _columns(
    """
    readPosition markDeletePosition
    waitingReadOp pendingReadOps subscriptionHavePendingRead subscriptionHavePendingReplayRead
    messagesConsumedCounter numberOfEntriesSinceFirstNotAckedMessage active
    """
)
OF_LEDGER: Final = _columns("lastConfirmedEntry")
