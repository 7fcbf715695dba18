"""Rows on the way from Spark to a worker, without nested columns.

Spark limits the bytes of an Arrow batch by measuring its columns after every row, and measures nested ones from their
beginning, which takes the square of the batch (docs/FIGURES.md). Without such columns a batch can be limited, and so
what a worker holds. Nearly every ack names one whole entry, which travels as two numbers; the rest travels as JSON.
"""

import json
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.pandas.types import to_arrow_type

from dispatch_audit.pipeline.trace.schema import EVENT_SCHEMA

_POSITIONS: Final = "positions"
_AS_JSON: Final = ("batch_keys", "ranges")
_ONE: Final = ("one_ledger_id", "one_entry_id")
_TYPES: Final = {name: to_arrow_type(EVENT_SCHEMA[name].dataType) for name in (_POSITIONS, *_AS_JSON)}


def flattened(events: DataFrame, columns: tuple[str, ...]) -> DataFrame:
    """Columns of `dispatch_audit.pipeline.trace.read_events` as they travel; `snapshot` as JSON.

    Args:
        events: the rows.
        columns: which of theirs; `positions`, `batch_keys` and `ranges` among them.
    """
    first, positions = sf.get(_POSITIONS, sf.lit(0)), sf.col(_POSITIONS)
    is_one = (sf.size(positions) == 1) & first["ledger_id"].isNotNull() & first["entry_id"].isNotNull()
    is_one = sf.coalesce(is_one & first["ack_set"].isNull(), sf.lit(False))
    flat = {name: sf.to_json(name) for name in (*_AS_JSON, "snapshot")}
    flat[_POSITIONS] = sf.when(~is_one & positions.isNotNull(), sf.to_json(positions))
    ones = {name: sf.when(is_one, first[field]) for name, field in zip(_ONE, ("ledger_id", "entry_id"), strict=True)}
    return events.select(*columns, *(one.alias(name) for name, one in ones.items())).withColumns(flat)


def restored(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Rows of `flattened` with the columns that they were made of; `snapshot` stays JSON."""
    for name in _AS_JSON:
        batch = _with(batch, name, _parsed(batch.column(name), _TYPES[name]))
    batch = _with(batch, _POSITIONS, _positions(batch))
    return batch.select([name for name in batch.schema.names if name not in _ONE])


def _positions(batch: pa.RecordBatch) -> pa.Array:
    kind = _TYPES[_POSITIONS]
    ledger, entry = (batch.column(name) for name in _ONE)
    is_one = pc.is_valid(ledger)
    ends = np.cumsum(is_one.to_numpy(zero_copy_only=False), dtype=np.int32)
    fields = list(kind.value_type)
    entries = [ledger.drop_null(), entry.drop_null(), pa.nulls(int(ends[-1]) if ends.size else 0, fields[2].type)]
    offsets = pa.array(np.concatenate(([np.int32(0)], ends)))
    whole = pa.StructArray.from_arrays(entries, fields=fields)
    ones = pa.ListArray.from_arrays(offsets, whole, mask=pc.invert(is_one)).cast(kind)
    texts = batch.column(_POSITIONS)
    return ones if texts.null_count == len(texts) else pc.coalesce(ones, _parsed(texts, kind))


def _parsed(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    if texts.null_count == len(texts):
        return pa.nulls(len(texts), kind)
    return pa.array([text and json.loads(text) for text in texts.to_pylist()], kind)


def _with(batch: pa.RecordBatch, name: str, column: pa.Array) -> pa.RecordBatch:
    return batch.set_column(batch.schema.get_field_index(name), pa.field(name, column.type), column)
