"""The columns of a generated trace: from numbers to what recorders write, batch by batch."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from benchmarks.broker import ACKED, JOINED, LEFT, PUBLISHED, SENT
from dispatch_audit.pipeline.packing.pack import COLUMNS
from dispatch_audit.pipeline.trace.schema import ARROW_TYPES

_LEDGER_ENTRIES = 50_000
_ROW_GROUP = 131_072

# The types that `pack` takes; it takes reports of the broker as JSON.
_TYPES = {**ARROW_TYPES, "snapshot": pa.string()}

_EVENTS = ["publish", "dispatch", "ack", "join", "leave"]
_POSITION = pa.struct([("ledger_id", pa.int64()), ("entry_id", pa.int64()), ("ack_set", pa.list_(pa.int64()))])


@dataclass(frozen=True)
class TrafficRows:
    """Integer columns of the rows of all partitions, in the order of seq.

    Attributes:
        event: what happened, as a constant of `benchmarks.broker`.
        late: whether the row is the second side of it.
        ts_us: when, microseconds since 1970 UTC.
        partition: of the topic.
        message: which of its partition; -1 of a membership change.
        consumer: its number in the trace; -1 of a publish.
        name: its number in its partition; -1 of a publish.
        keys_of: for each partition the number of the key of each of its messages.
    """

    event: NDArray[np.int8]
    late: NDArray[np.bool_]
    ts_us: NDArray[np.int64]
    partition: NDArray[np.int32]
    message: NDArray[np.int64]
    consumer: NDArray[np.int64]
    name: NDArray[np.int64]
    keys_of: Sequence[NDArray[np.int64]]


def key_bytes(number: int) -> bytes:
    """The sticky key of that number."""
    return f"customer-{number:08}".encode()


def name_of(consumer: int) -> str:
    """What a consumer is called in its partition."""
    return f"c{consumer}"


def batches(rows: TrafficRows, part: NDArray[np.int64]) -> Iterator[pa.RecordBatch]:
    """The rows `part` (indices, in the order wanted), of `trace_schema`, a batch a row group."""
    for start in range(0, part.size, _ROW_GROUP):
        yield _batch(rows, part[start : start + _ROW_GROUP])


def _batch(rows: TrafficRows, at: NDArray[np.int64]) -> pa.RecordBatch:
    """The rows `at`, with the columns that recorders write."""
    event, late, message, partition = rows.event[at], rows.late[at], rows.message[at], rows.partition[at]
    published, sent, acked, joined = (event == kind for kind in (PUBLISHED, SENT, ACKED, JOINED))
    entry = published | sent
    key_number = np.full(at.size, 0, dtype=np.int64)
    starts = np.cumsum([0, *(keys.size for keys in rows.keys_of[:-1])])
    key_number[entry] = np.concatenate(rows.keys_of)[starts[partition[entry]] + message[entry]]
    distinct, key_at = np.unique(key_number, return_inverse=True)
    ledger, within = message // _LEDGER_ENTRIES, message % _LEDGER_ENTRIES
    of_consumer = ~published
    consumer, name = rows.consumer[at], rows.name[at]
    columns = {
        "event": _text(_EVENTS, event),
        "phase": _text(["start", "end"], late.astype(np.int8), ~published),
        "seq": pa.array(at + 1),
        "ts_us": pa.array(rows.ts_us[at]),
        "topic": _text([topic_of(n) for n in range(len(rows.keys_of))], partition),
        "subscription": _text(["ks"], np.zeros(at.size, dtype=np.int8), of_consumer),
        "ledger_id": _long(ledger, entry),
        "entry_id": _long(within, entry),
        "batch_size": pa.array(np.ones(at.size, dtype=np.int32), mask=~entry),
        "key": pa.DictionaryArray.from_arrays(
            pa.array(key_at, mask=~entry), pa.array([key_bytes(n) for n in distinct], pa.binary())
        ).cast(pa.binary()),
        "key_source": _text(["partition_key"], np.zeros(at.size, dtype=np.int8), entry),
        "producer_name": _text([f"producer-{n}" for n in range(4)], message % 4, published),
        "sequence_id": _long(message // 4, published),
        "publish_time_ms": _long(rows.ts_us[at] // 1000, published),
        "size_bytes": pa.array(np.full(at.size, 1024), mask=~published),
        "consumer": _long(consumer, of_consumer),
        "consumer_name": _text([name_of(n) for n in range(int(name.max()) + 1)], name, of_consumer),
        "consumer_id": _long(np.zeros(at.size, dtype=np.int64), of_consumer),
        "redelivery_count": pa.array(np.zeros(at.size, dtype=np.int32), mask=~(sent & ~late)),
        "ack_type": _text(["individual"], np.zeros(at.size, dtype=np.int8), acked),
        "positions": _positions(ledger, within, acked),
        "key_shared_mode": _text(["AUTO_SPLIT"], np.zeros(at.size, dtype=np.int8), joined),
        "reason": _text(["close_consumer"], np.zeros(at.size, dtype=np.int8), event == LEFT),
    }
    return pa.record_batch(list(columns.values()), schema=trace_schema())


def topic_of(partition: int) -> str:
    """The topic of a partition."""
    return f"persistent://public/default/generated-partition-{partition}"


def with_all_columns(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The columns that `pack` takes, of rows of `trace_schema`; the others are null."""
    columns = [
        batch.column(name) if name in batch.schema.names else pa.nulls(batch.num_rows, _TYPES[name]) for name in COLUMNS
    ]
    return pa.RecordBatch.from_arrays(columns, names=list(COLUMNS))


def _text(
    words: list[str],
    at: NDArray[np.signedinteger[Any]],
    where: NDArray[np.bool_] | None = None,
) -> pa.Array:
    indices = pa.array(np.maximum(at, 0), mask=None if where is None else ~where)
    return pa.DictionaryArray.from_arrays(indices, pa.array(words)).cast(pa.string())


def _long(values: NDArray[np.int64], where: NDArray[np.bool_]) -> pa.Array:
    return pa.array(values, pa.int64(), mask=~where)


def _positions(ledger: NDArray[np.int64], entry: NDArray[np.int64], acked: NDArray[np.bool_]) -> pa.Array:
    offsets = np.concatenate(([0], np.cumsum(acked))).astype(np.int32)
    columns = [pa.array(ledger[acked]), pa.array(entry[acked]), pa.nulls(int(acked.sum()), _POSITION.field(2).type)]
    values = pa.StructArray.from_arrays(columns, fields=list(_POSITION))
    return pa.ListArray.from_arrays(pa.array(offsets), values, type=pa.list_(_POSITION), mask=pa.array(~acked))


def trace_schema() -> pa.Schema:
    """The columns of the files, with the types that recorders write."""
    text, long, integer = pa.string(), pa.int64(), pa.int32()
    types = {"key": pa.binary(), "positions": pa.list_(_POSITION), "batch_size": integer, "redelivery_count": integer}
    longs = ("seq", "ts_us", "ledger_id", "entry_id", "sequence_id", "publish_time_ms", "size_bytes", "consumer")
    names = (
        "event phase seq ts_us topic subscription ledger_id entry_id batch_size key key_source producer_name "
        "sequence_id publish_time_ms size_bytes consumer consumer_name consumer_id redelivery_count ack_type positions "
        "key_shared_mode reason"
    )
    return pa.schema([(n, types.get(n, long if n in (*longs, "consumer_id") else text)) for n in names.split()])
