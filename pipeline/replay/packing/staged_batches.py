"""Packed batches as rows of Spark, in which they are staged and exchanged.

The rows of a trace are read once, in a job of its own, and what becomes of them is staged: packed batches, and beside
them the counts of the rows read and the different keys. Only then all subscriptions and recorders are known, which the
replay needs.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum
from typing import Any, Final

import pyarrow as pa

from dispatch_audit.pipeline.engine.arrow_schema import arrow_schema
from dispatch_audit.pipeline.replay.event_file import Put, as_they_are, events_of
from dispatch_audit.pipeline.replay.packing.membership_rows import MembershipEvent
from dispatch_audit.pipeline.replay.packing.narrow_events import decode_events, encode_events
from dispatch_audit.pipeline.replay.packing.packed_batch import Detail, PackedBatch
from dispatch_audit.pipeline.replay.packing.producer_summary import MixedBatch, Published, SentByProducer
from dispatch_audit.pipeline.replay.packing.snapshot import StatsRow
from dispatch_audit.pipeline.replay.settings.settings_row import SettingsRow

BATCH_SCHEMA: Final = (
    "topic STRING, subscription STRING, broker STRING, shared BOOLEAN, first_seq LONG, events BINARY, details STRING"
)
"""A packed batch; its events are in the row or in a file (`event_file`)."""
STAGED_SCHEMA: Final = f"kind INT, {BATCH_SCHEMA}"
"""A packed batch, or something else in its column `events`."""

_BATCH_ARROW: Final = arrow_schema(BATCH_SCHEMA)
_STAGED_ARROW: Final = arrow_schema(STAGED_SCHEMA)
BATCH_COLUMNS: Final = tuple(_BATCH_ARROW.names)
_DETAILS: Final[tuple[type[Detail], ...]] = (MembershipEvent, StatsRow, SettingsRow)


class StagedKind(IntEnum):
    """What a staged row holds."""

    PACKED = 0
    COUNTS = 1  # of the rows that a task read (`dispatch_audit.pipeline.trace.quarantine.row_counts`)
    KEYS = 2  # different keys (`dispatch_audit.pipeline.replay.packing.distinct_keys`)
    TEXTS = 3  # rows with their texts, with the part of the file that they are in
    LINES = 4  # how many lines a part of a file has


def staged(packed: Sequence[PackedBatch], put: Put = as_they_are) -> pa.RecordBatch:
    """The rows of packed batches, of `STAGED_SCHEMA`, with what `put` returns for their events."""
    kind = pa.repeat(pa.scalar(int(StagedKind.PACKED), pa.int32()), len(packed))
    return pa.record_batch([kind, *encoded(packed, put).columns], schema=_STAGED_ARROW)


def staged_payload(
    kind: StagedKind, payload: bytes, file: str | None = None, begin: int | None = None
) -> pa.RecordBatch:
    """The row of something else than packed batches, of `STAGED_SCHEMA`.

    Args:
        kind: what it is.
        payload: it.
        file: the file that it is about.
        begin: where the part of the file begins that it is about.
    """
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
    for topic, subscription, broker, shared, _, events, details in rows:
        sent, mixed, *of_kinds = _tuples(json.loads(details))
        yield PackedBatch(
            topic,
            subscription,
            broker,
            shared,
            decode_events(events_of(events)),
            tuple(kind._make(row) for kind, rows in zip(_DETAILS, of_kinds, strict=True) for row in rows),
            Published(tuple(map(SentByProducer._make, sent)), tuple(map(MixedBatch._make, mixed))),
        )


def decoded_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[PackedBatch]:
    """The packed batches of rows with `BATCH_COLUMNS`."""
    for batch in batches:
        yield from decoded(zip(*(batch.column(name).to_pylist() for name in BATCH_COLUMNS), strict=True))


def _encode_details(batch: PackedBatch) -> str:
    """As JSON: `published` and the details of each kind, each of them a list of its values."""
    of_kinds = ([row for row in batch.details if type(row) is kind] for kind in _DETAILS)
    return json.dumps([*batch.published, *of_kinds])


def _tuples(values: list[Any]) -> tuple[Any, ...]:
    """A list from JSON with tuples in the place of lists, at any depth."""
    return tuple([_tuples(value) if type(value) is list else value for value in values])
