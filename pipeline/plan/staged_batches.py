"""Packed batches as rows of Spark, in which they are staged and exchanged.

The rows of a trace are read once, in a job of its own, which stages packed batches, the counts of the rows read and the
different keys. Only then all subscriptions and recorders are known, which the replay needs.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum
from itertools import chain
from typing import Any, Final

import pyarrow as pa

from dispatch_audit.pipeline.engine.arrow_schema import arrow_schema
from dispatch_audit.pipeline.packing.membership_rows import MembershipEvent
from dispatch_audit.pipeline.packing.narrow_events import decode_events, encode_events
from dispatch_audit.pipeline.packing.packed_batch import PackedBatch
from dispatch_audit.pipeline.packing.producer_summary import MixedBatch, Published, SentByProducer
from dispatch_audit.pipeline.packing.rows_aside import RecorderRow, SettingsRow
from dispatch_audit.pipeline.packing.snapshot import StatsRow
from dispatch_audit.pipeline.plan.event_file import Put, as_they_are, events_of

BATCH_SCHEMA: Final = (
    "topic STRING, subscription STRING, broker STRING, shared BOOLEAN, first_seq LONG, events BINARY, details STRING"
)
"""A packed batch; its events are in the row or in a file (`event_file`)."""
STAGED_SCHEMA: Final = f"kind INT, {BATCH_SCHEMA}"
"""A packed batch, or something else in its column `events`."""

_BATCH_ARROW: Final = arrow_schema(BATCH_SCHEMA)
_STAGED_ARROW: Final = arrow_schema(STAGED_SCHEMA)
BATCH_COLUMNS: Final = tuple(_BATCH_ARROW.names)
_KINDS: Final = (SentByProducer, MixedBatch, MembershipEvent, StatsRow, SettingsRow, RecorderRow)


class StagedKind(IntEnum):
    """What a staged row holds."""

    PACKED = 0
    COUNTS = 1  # of the rows that a task read (`dispatch_audit.pipeline.trace.quarantine.row_counts`)
    KEYS = 2  # different keys (`dispatch_audit.pipeline.packing.distinct_keys`)
    TEXTS = 3  # rows with their texts, with the part of the file that they are in
    LINES = 4  # how many lines a part of a file has


def staged(packed: Sequence[PackedBatch], put: Put = as_they_are) -> pa.RecordBatch:
    """The rows of packed batches, of `STAGED_SCHEMA`, with what `put` returns for their events."""
    kind = pa.repeat(pa.scalar(int(StagedKind.PACKED), pa.int32()), len(packed))
    return pa.record_batch([kind, *encoded(packed, put).columns], schema=_STAGED_ARROW)


def staged_payload(
    kind: StagedKind, payload: bytes, file: str | None = None, begin: int | None = None
) -> pa.RecordBatch:
    """The row of something else, of `STAGED_SCHEMA`; it may be about a file, or the part of one that begins there."""
    row = {"kind": int(kind), "topic": file, "first_seq": begin, "events": payload}
    return pa.RecordBatch.from_pylist([row], schema=_STAGED_ARROW)


def encoded(packed: Sequence[PackedBatch], put: Put = as_they_are) -> pa.RecordBatch:
    """The rows of packed batches, of `BATCH_SCHEMA`, with what `put` returns for their events."""
    columns = [
        *([getattr(batch, name) for batch in packed] for name in BATCH_COLUMNS[:5]),
        [put(encode_events(batch.events)) for batch in packed],
        [_encode_details(batch) for batch in packed],
    ]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, _BATCH_ARROW, strict=True)]
    return pa.record_batch(arrays, schema=_BATCH_ARROW)


def decoded(rows: Iterable[Sequence[Any]]) -> Iterator[PackedBatch]:
    """The packed batches of rows, given as values in the order of `BATCH_COLUMNS`."""
    for topic, subscription, broker, shared, _, events, text in rows:
        sent, mixed, *details = map(_rows, _KINDS, json.loads(text))
        yield PackedBatch(
            topic,
            subscription,
            broker,
            shared,
            decode_events(events_of(events)),
            tuple(chain.from_iterable(details)),
            Published(sent, mixed),
        )


def decoded_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[PackedBatch]:
    """The packed batches of rows with `BATCH_COLUMNS`."""
    for batch in batches:
        yield from decoded(zip(*(batch.column(name).to_pylist() for name in BATCH_COLUMNS), strict=True))


def _encode_details(batch: PackedBatch) -> str:
    """What producers sent and the details of rows, as JSON: for each of `_KINDS` a list of rows, which are lists."""
    of_kinds = ([row for row in batch.details if type(row) is kind] for kind in _KINDS[2:])
    return json.dumps([*batch.published, *of_kinds])


def _rows(kind: type[Any], rows: list[list[Any]]) -> tuple[Any, ...]:
    """The named tuples of one kind from JSON, which has lists in the place of tuples."""
    of_tuples = [at for at, value in enumerate(rows[0]) if type(value) is list] if rows else []
    for row in rows:
        for at in of_tuples:
            row[at] = _tuples(row[at])
    return tuple(map(kind._make, rows))


def _tuples(values: list[Any]) -> tuple[Any, ...]:
    return tuple([_tuples(value) if type(value) is list else value for value in values])
