"""The columns of a dispatch trace, format 1, as Spark types.

Every reader returns `EVENT_SCHEMA`, whatever the source. It differs from the recorded columns in one way: the sticky
key is one binary column `key`, whether it was recorded as `key_b64` or as `key`.

Source: TRACE_FORMAT, "Columns"; the fields of a snapshot have Pulsar's names in snake case.
"""

from collections.abc import Mapping

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)


def _struct(**fields: DataType) -> StructType:
    return StructType([StructField(name, data_type) for name, data_type in fields.items()])


_TEXT, _INT, _LONG = StringType(), IntegerType(), LongType()

# A set bit is a message that is still to be delivered; words are signed, so bit 63 makes a word negative.
ACK_SET = ArrayType(_LONG)
POSITION = _struct(ledger_id=_LONG, entry_id=_LONG, ack_set=ACK_SET)
HASH_RANGE = _struct(start=_INT, end=_INT)
DRAINING_HASH = _struct(hash=_INT, unacked_messages=_LONG, blocked_attempts=_LONG)

CONSUMER_SNAPSHOT = _struct(
    consumer=_LONG,
    consumer_name=_TEXT,
    available_permits=_LONG,
    unacked_messages=_LONG,
    # Pairs, both ends inclusive. Null: the same ranges as in the snapshot before.
    key_hash_ranges=ArrayType(ArrayType(_INT)),
    # In the place of all ranges: those that came since the snapshot before, and those that went.
    key_hash_ranges_changed=ArrayType(ArrayType(_INT)),
    draining_hashes_count=_LONG,
    draining_hashes_cleared_total=_LONG,
    draining_hashes_unacked_messages=_LONG,
    draining_hashes=ArrayType(DRAINING_HASH),
    # The classic dispatcher's, as "ledger:entry".
    read_position_when_joining=_TEXT,
)

SNAPSHOT = _struct(
    seq_begin=_LONG,
    seq_end=_LONG,
    msg_in_replay=_LONG,
    unacked_messages=_LONG,
    blocked_subscription_on_unacked_msgs=BooleanType(),
    msg_backlog=_LONG,
    read_position=_TEXT,
    mark_delete_position=_TEXT,
    subscription_have_pending_read=BooleanType(),
    subscription_have_pending_replay_read=BooleanType(),
    pending_read_ops=_LONG,
    key_shared_mode=_TEXT,
    allow_out_of_order_delivery=BooleanType(),
    # What the entry filters did with entries, since the dispatcher was made.
    filter_processed_msg_count=_LONG,
    filter_accepted_msg_count=_LONG,
    filter_rejected_msg_count=_LONG,
    filter_rescheduled_msg_count=_LONG,
    # The classic dispatcher's: a position by consumer name.
    consumers_after_mark_delete_position=MapType(_TEXT, _TEXT),
    consumers=ArrayType(CONSUMER_SNAPSHOT),
    # Further connected consumers. A field that is null has the value of the snapshot before.
    consumers_as_before=ArrayType(CONSUMER_SNAPSHOT),
)

_BEFORE_KEY = {
    "event": _TEXT,
    "phase": _TEXT,
    "seq": _LONG,
    "ts_us": _LONG,
    "broker": _TEXT,
    "topic": _TEXT,
    "subscription": _TEXT,
    "ledger_id": _LONG,
    "entry_id": _LONG,
    "batch_size": _INT,
}
_AFTER_KEY = {
    "key_source": _TEXT,
    "sticky_hash": _INT,
    "producer_name": _TEXT,
    "sequence_id": _LONG,
    "publish_time_ms": _LONG,
    "size_bytes": _LONG,
    "batch_keys": ArrayType(_TEXT),
    "deliver_at_ms": _LONG,
    "transaction": _TEXT,
    "consumer": _LONG,
    "consumer_name": _TEXT,
    "consumer_id": _LONG,
    "address": _TEXT,
    "redelivery_count": _INT,
    "ack_set": ACK_SET,
    "ack_type": _TEXT,
    "positions": ArrayType(POSITION),
    "permits": _INT,
    "key_shared_mode": _TEXT,
    "allow_out_of_order": BooleanType(),
    "ranges": ArrayType(HASH_RANGE),
    # Recorded so that such a trace can be refused (`dispatch_audit.pipeline.trace.entry_buckets`).
    "entry_bucket_dispatch": BooleanType(),
    "priority": _INT,
    "reason": _TEXT,
    "error": _TEXT,
    "seq_end": _LONG,
    "dropped": _LONG,
    "dropped_events": ArrayType(_TEXT),
    "settings": MapType(_TEXT, _TEXT),
    "sources": MapType(_TEXT, _TEXT),
    "seq_begin": _LONG,
    "begun_us": _LONG,
    "waits_for": _TEXT,
    "snapshot": SNAPSHOT,
}

EVENT_SCHEMA = _struct(**_BEFORE_KEY, key=BinaryType(), **_AFTER_KEY)
"""One typed event. Every column is nullable: `trace.checks.one_row` has the columns that each event needs."""

JSON_SCHEMA = _struct(**_BEFORE_KEY, key_b64=_TEXT, **_AFTER_KEY)
"""One event as a JSON object, which holds bytes as base64."""

ARROW_TYPES: Mapping[str, pa.DataType] = {
    field.name: field.type for schema in (EVENT_SCHEMA, JSON_SCHEMA) for field in to_arrow_schema(schema)
}
"""The columns of `EVENT_SCHEMA`, and `key_b64`, as Arrow types."""
