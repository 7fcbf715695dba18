"""Rows as Arrow batches, as the workers read them from Parquet."""

import base64
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema

from dispatch_audit.pipeline.trace.schema import EVENT_SCHEMA

ARROW_SCHEMA: pa.Schema = to_arrow_schema(EVENT_SCHEMA)
TEXTS = tuple(field.name for field in ARROW_SCHEMA if field.type in (pa.string(), pa.binary()))


def typed(row: Mapping[str, Any]) -> dict[str, Any]:
    """A recorded row with its key as bytes, and with pairs in place of a map."""
    encoded = row.get("key_b64")
    key = row.get("key") if encoded is None else base64.b64decode(encoded + "==")
    snapshot = row.get("snapshot")
    if snapshot is not None and snapshot.get("consumers_after_mark_delete_position") is not None:
        pairs = [*dict(snapshot["consumers_after_mark_delete_position"]).items()]
        snapshot = {**snapshot, "consumers_after_mark_delete_position": pairs}
    return {**row, "key": key, "snapshot": snapshot}


def batch_of(rows: Sequence[Mapping[str, Any]]) -> pa.RecordBatch:
    """The rows with all columns of `EVENT_SCHEMA`; absent fields are null."""
    reported = [typed(row) for row in rows]
    columns = [pa.array([row.get(field.name) for row in reported], field.type) for field in ARROW_SCHEMA]
    return pa.record_batch(columns, schema=ARROW_SCHEMA)


def encoded(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The same rows with dictionary-encoded texts."""
    names = batch.schema.names
    columns = (batch.column(name) for name in names)
    return pa.record_batch(
        [c.dictionary_encode() if name in TEXTS else c for name, c in zip(names, columns, strict=True)], names=names
    )
