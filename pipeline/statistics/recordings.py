"""Turns snapshots that `record-stats` wrote into typed statistics: each row is one subscription at one moment.

Source: TRACE_FORMAT, column `snapshot`.
"""

from collections.abc import Mapping
from typing import Any, Final

from dispatch_audit.pipeline.statistics.model import KEY_SHARED, Topic
from dispatch_audit.pipeline.statistics.parse import Reader, cursor_of, subscription_of

_OF_SUBSCRIPTION: Final = {
    "msg_in_replay": "msgInReplay",
    "unacked_messages": "unackedMessages",
    "msg_backlog": "msgBacklog",
    "msg_delayed": "msgDelayed",
    "msg_out_counter": "msgOutCounter",
    "msg_rate_out": "msgRateOut",
    "message_ack_rate": "messageAckRate",
    "blocked_subscription_on_unacked_msgs": "blockedSubscriptionOnUnackedMsgs",
    "key_shared_mode": "keySharedMode",
    "allow_out_of_order_delivery": "allowOutOfOrderDelivery",
    "consumers_after_mark_delete_position": "consumersAfterMarkDeletePosition",
    "non_contiguous_deleted_messages_ranges": "nonContiguousDeletedMessagesRanges",
    "last_consumed_timestamp": "lastConsumedTimestamp",
    "last_acked_timestamp": "lastAckedTimestamp",
    "last_consumed_flow_timestamp": "lastConsumedFlowTimestamp",
    "last_mark_delete_advanced_timestamp": "lastMarkDeleteAdvancedTimestamp",
}
_OF_CONSUMER: Final = {
    "consumer_name": "consumerName",
    "available_permits": "availablePermits",
    "unacked_messages": "unackedMessages",
    "avg_messages_per_entry": "avgMessagesPerEntry",
    "blocked_consumer_on_unacked_msgs": "blockedConsumerOnUnackedMsgs",
    "msg_out_counter": "msgOutCounter",
    "msg_rate_out": "msgRateOut",
    "message_ack_rate": "messageAckRate",
    "draining_hashes_count": "drainingHashesCount",
    "draining_hashes_unacked_messages": "drainingHashesUnackedMessages",
    "key_hash_ranges": "keyHashRangeArrays",
    "read_position_when_joining": "readPositionWhenJoining",
    "last_acked_timestamp": "lastAckedTimestamp",
    "last_consumed_timestamp": "lastConsumedTimestamp",
    "last_consumed_flow_timestamp": "lastConsumedFlowTimestamp",
    "connected_since": "connectedSince",
    "address": "address",
    "client_version": "clientVersion",
}
_OF_HASH: Final = {"hash": "hash", "unacked_messages": "unackMsgs", "blocked_attempts": "blockedAttempts"}
_OF_CURSOR: Final = {
    "read_position": "readPosition",
    "mark_delete_position": "markDeletePosition",
    "waiting_read_op": "waitingReadOp",
    "pending_read_ops": "pendingReadOps",
    "subscription_have_pending_read": "subscriptionHavePendingRead",
    "subscription_have_pending_replay_read": "subscriptionHavePendingReplayRead",
}


def topic_of_row(row: Mapping[str, Any]) -> Topic:
    """Returns what a row of event `stats` says."""
    snapshot, read = row["snapshot"], Reader()
    name = str(row.get("subscription"))
    found = _renamed(snapshot, _OF_SUBSCRIPTION)
    found["type"] = KEY_SHARED
    # Recorded only if it names somebody.
    found.setdefault("consumersAfterMarkDeletePosition", {})
    found["consumers"] = [_consumer(one) for one in snapshot.get("consumers") or () if isinstance(one, dict)]
    cursor = cursor_of(read, _renamed(snapshot, _OF_CURSOR))
    return Topic(
        str(row.get("topic")),
        (subscription_of(read, name, found),),
        {name: cursor} if cursor.read_position or cursor.mark_delete else {},
        unreadable=tuple(read.unreadable),
    )


def at_ms(row: Mapping[str, Any]) -> int | None:
    """Returns when a row was written; None: it does not say."""
    ts_us = row.get("ts_us")
    return ts_us // 1000 if isinstance(ts_us, int) else None


def _consumer(found: Mapping[str, Any]) -> dict[str, Any]:
    consumer = _renamed(found, _OF_CONSUMER)
    # The recorder of polls numbers consumers, which tells equal names apart.
    consumer.setdefault("address", f"consumer {found.get('consumer')}")
    draining = found.get("draining_hashes")
    if isinstance(draining, list):
        consumer["drainingHashes"] = [_renamed(one, _OF_HASH) for one in draining if isinstance(one, dict)]
    return consumer


def _renamed(found: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    return {field: found[name] for name, field in names.items() if name in found}
