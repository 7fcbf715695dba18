"""Packed batches as rows of Spark, in which they are staged and exchanged.

The rows of a trace are read once, in a job of its own, and what becomes of them is staged: packed batches, and beside
them the counts of the rows read and the different keys. Only then all subscriptions and recorders are known, which the
replay needs.
"""

from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum
from typing import Any, Final

import pyarrow as pa

from dispatch_audit.pipeline.arrow_stream import stream_of
from dispatch_audit.pipeline.replay.event_file import Put, as_they_are, events_of
from dispatch_audit.pipeline.replay.packing.narrow_events import decode_events, encode_events
from dispatch_audit.pipeline.replay.packing.packed_batch import (
    PackedBatch,
    decode_membership,
    decode_snapshots,
    encode_membership,
    encode_snapshots,
)
from dispatch_audit.pipeline.replay.packing.producer_summary import decode_published, encode_published
from dispatch_audit.pipeline.replay.settings.settings_row import decode_settings, encode_settings

BATCH_SCHEMA: Final = (
    "topic STRING, subscription STRING, broker STRING, shared BOOLEAN, first_seq LONG, last_seq LONG, events BINARY, "
    "membership STRING, snapshots STRING, published STRING, settings STRING"
)
"""A packed batch; its events are in the row or in a file (`event_file`)."""
STAGED_SCHEMA: Final = f"kind INT, {BATCH_SCHEMA}"
"""A packed batch, or something else in its column `events`."""

_BATCH: Final = [
    *((name, pa.string()) for name in ("topic", "subscription", "broker")),
    ("shared", pa.bool_()),
    ("first_seq", pa.int64()),
    ("last_seq", pa.int64()),
    ("events", pa.binary()),
    *((name, pa.string()) for name in ("membership", "snapshots", "published", "settings")),
]
BATCH_COLUMNS: Final = tuple(name for name, _ in _BATCH)
BATCH_ARROW: Final = pa.schema(_BATCH)
STAGED_ARROW: Final = pa.schema([("kind", pa.int32()), *_BATCH])


class StagedKind(IntEnum):
    """What a staged row holds."""

    PACKED = 0
    COUNTS = 1  # of the rows that a task read (`dispatch_audit.pipeline.trace.quarantine.row_counts`)
    KEYS = 2  # different keys (`dispatch_audit.pipeline.replay.packing.distinct_keys`)
    TEXTS = 3  # rows with their texts, with the part of the file that they are in
    LINES = 4  # how many lines a part of a file has


def staged(packed: Sequence[PackedBatch], put: Put = as_they_are) -> pa.RecordBatch:
    """The rows of packed batches, of `STAGED_ARROW`, with what `put` returns for their events."""
    kind = pa.repeat(pa.scalar(int(StagedKind.PACKED), pa.int32()), len(packed))
    return pa.record_batch([kind, *encoded(packed, put).columns], schema=STAGED_ARROW)


def staged_payload(kind: StagedKind, payload: bytes) -> pa.RecordBatch:
    """The row of something else than packed batches, of `STAGED_ARROW`."""
    return pa.RecordBatch.from_pylist([{"kind": int(kind), "events": payload}], schema=STAGED_ARROW)


def staged_texts(file: str, begin: int, rows: pa.RecordBatch | pa.Table) -> pa.RecordBatch:
    """The row of rows with their texts, of `STAGED_ARROW`.

    Args:
        file: the file.
        begin: of its part.
        rows: of `dispatch_audit.pipeline.trace.checks.rows_with_texts.TEXT_SCHEMA`.
    """
    row = {"kind": int(StagedKind.TEXTS), "topic": file, "first_seq": begin, "events": bytes(stream_of(rows))}
    return pa.RecordBatch.from_pylist([row], schema=STAGED_ARROW)


def staged_lines(file: str, begin: int, lines: int) -> pa.RecordBatch:
    """The row of the number of lines in a part of a file, of `STAGED_ARROW`."""
    row = {"kind": int(StagedKind.LINES), "topic": file, "first_seq": begin, "last_seq": lines}
    return pa.RecordBatch.from_pylist([row], schema=STAGED_ARROW)


def encoded(packed: Sequence[PackedBatch], put: Put = as_they_are) -> pa.RecordBatch:
    """The rows of packed batches, of `BATCH_ARROW`, with what `put` returns for their events."""
    columns = [
        *([getattr(batch, name) for batch in packed] for name in BATCH_COLUMNS[:6]),
        [put(encode_events(batch.events)) for batch in packed],
        [encode_membership(batch.membership) for batch in packed],
        [encode_snapshots(batch.snapshots) for batch in packed],
        [encode_published(batch.published) for batch in packed],
        [encode_settings(batch.settings) for batch in packed],
    ]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, BATCH_ARROW, strict=True)]
    return pa.record_batch(arrays, schema=BATCH_ARROW)


def decoded(rows: Iterable[Sequence[Any]]) -> Iterator[PackedBatch]:
    """The packed batches of rows, given as values in the order of `BATCH_COLUMNS`."""
    for topic, subscription, broker, shared, first_seq, last_seq, events, *details in rows:
        membership, snapshots, published, settings = details
        yield PackedBatch(
            topic,
            subscription,
            broker,
            shared,
            first_seq,
            last_seq,
            decode_events(events_of(events)),
            decode_membership(membership),
            decode_snapshots(snapshots),
            decode_published(published),
            decode_settings(settings),
        )


def decoded_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[PackedBatch]:
    """The packed batches of rows with `BATCH_COLUMNS`."""
    for batch in batches:
        yield from decoded(zip(*(batch.column(name).to_pylist() for name in BATCH_COLUMNS), strict=True))
