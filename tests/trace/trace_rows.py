"""One good row of every event, for tests that spoil them one field at a time."""

from collections.abc import Mapping
from typing import Any

Row = Mapping[str, Any]

TOPIC = "persistent://public/default/orders-partition-0"
_ALL: dict[str, Any] = {"ts_us": 1_795_225_305_572_696, "topic": TOPIC}
_CONSUMER = {
    **_ALL,
    "subscription": "ks",
    "consumer": 7,
    "consumer_name": "c0",
    "consumer_id": 0,
}
_ENTRY = {
    "ledger_id": 31,
    "entry_id": 0,
    "batch_size": 1,
    "key_b64": "a2V5LTQ=",
    "key_source": "partition_key",
}

PUBLISH: Row = {"event": "publish", "seq": 1, **_ALL, **_ENTRY, "producer_name": "p", "sequence_id": 0}
DISPATCH: Row = {
    "event": "dispatch",
    "phase": "start",
    "seq": 2,
    **_CONSUMER,
    **_ENTRY,
    "redelivery_count": 0,
}
DISPATCH_END: Row = {
    "event": "dispatch",
    "phase": "end",
    "seq": 3,
    **_CONSUMER,
    "ledger_id": 31,
    "entry_id": 0,
    "redelivery_count": 0,
}
ACK: Row = {
    "event": "ack",
    "phase": "end",
    "seq": 4,
    **_CONSUMER,
    "ack_type": "individual",
    "positions": [{"ledger_id": 31, "entry_id": 0, "ack_set": None}],
}
REDELIVER: Row = {"event": "redeliver", "seq": 5, **_CONSUMER, "positions": []}
FLOW: Row = {"event": "flow", "seq": 6, **_CONSUMER, "permits": 100}
JOIN: Row = {
    "event": "join",
    "phase": "end",
    "seq": 7,
    **_CONSUMER,
    "key_shared_mode": "STICKY",
    "allow_out_of_order": False,
    "ranges": [{"start": 0, "end": 65535}],
    "priority": 0,
}
# The broker refused it, so it has no number, and its ranges may be nonsense.
REFUSED_JOIN: Row = {
    **{name: value for name, value in JOIN.items() if name != "consumer"},
    "phase": "start",
    "seq": 8,
    "ranges": [{"start": 9, "end": 1}],
}
LEAVE: Row = {"event": "leave", "phase": "start", "seq": 9, **_CONSUMER}
RESET: Row = {"event": "reset", "phase": "start", "seq": 10, **_ALL, "subscription": "ks", "reason": "seek"}
STATS: Row = {
    "event": "stats",
    "seq": 11,
    **_ALL,
    "subscription": "ks",
    "snapshot": {
        "seq_begin": 10,
        "seq_end": 10,
        "msg_in_replay": 0,
        "mark_delete_position": "31:-1",
        "consumers": [
            {
                "consumer": 7,
                "key_hash_ranges": [[0, 65535]],
                "draining_hashes": [{"hash": 9, "unacked_messages": 1, "blocked_attempts": 0}],
            }
        ],
    },
}

GAP: Row = {
    "event": "gap",
    "seq": 12,
    **_ALL,
    "subscription": "ks",
    "seq_end": 20,
    "dropped": 5,
    "dropped_events": ["dispatch", "ack"],
}
# It holds for everything that its recorder wrote.
GAP_OF_ALL: Row = {"event": "gap", "seq": 21, "ts_us": 1_795_225_305_572_696, "seq_end": 21, "dropped": 1}

SETTINGS: Row = {
    "event": "settings",
    "seq": 22,
    **_ALL,
    "subscription": "ks",
    "settings": {"maxUnackedMessagesPerConsumer": "3000", "delayedDeliveryEnabled": "true"},
    "sources": {"maxUnackedMessagesPerConsumer": "namespace"},
    "seq_begin": 20,
}

HANG: Row = {
    "event": "hang",
    "phase": "start",
    "seq": 23,
    **_ALL,
    "subscription": "ks",
    "seq_begin": 22,
    "begun_us": 1_795_225_300_572_696,
    "waits_for": "the lock of a dispatcher",
}
# What a recorder says of itself names no topic.
HEARTBEAT: Row = {"event": "heartbeat", "seq": 24, "ts_us": 1_795_225_305_572_696}
END: Row = {"event": "end", "seq": 25, "ts_us": 1_795_225_305_572_696}

GOOD_ROWS: tuple[Row, ...] = (
    PUBLISH,
    DISPATCH,
    DISPATCH_END,
    ACK,
    REDELIVER,
    FLOW,
    JOIN,
    REFUSED_JOIN,
    LEAVE,
    RESET,
    STATS,
    GAP,
    SETTINGS,
    HANG,
)


def without(row: Row, field: str) -> dict[str, Any]:
    """`row` as if its recorder had left `field` out."""
    return {name: value for name, value in row.items() if name != field}
