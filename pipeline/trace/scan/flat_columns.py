"""Recorded columns on the way from Spark to a worker, without nested ones.

Spark limits the bytes of an Arrow batch by measuring its columns after every row. It measures nested columns from
their beginning each time, in time that grows with the square of the batch (docs/TRIED.md). Nearly every ack names one
whole entry, which is sent as two numbers; other nested values are sent as JSON.
"""

import json
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import ArrayType, MapType, StructType

from dispatch_audit.pipeline.trace.columnar.conform import conform
from dispatch_audit.pipeline.trace.schema import ARROW_TYPES, EVENT_SCHEMA

_POSITIONS: Final = "positions"
# No recorder has columns of such names.
_ONE: Final = ("ledger_id of the only position", "entry_id of the only position")
_JSON: Final = "JSON of "
_NESTED: Final = {
    field.name: field.dataType.simpleString()
    for field in EVENT_SCHEMA
    if isinstance(field.dataType, ArrayType | MapType | StructType)
}


def flattened(recorded: DataFrame) -> DataFrame:
    """Returns the rows without nested columns of the format; nested columns of other types stay as they are."""
    nested = {name for name, kind in recorded.dtypes if _NESTED.get(name) == kind}
    columns = [sf.to_json(name).alias(_JSON + name) if name in nested else quoted(name) for name in recorded.columns]
    if _POSITIONS not in nested:
        return recorded.select(*columns)
    first, positions = sf.get(_POSITIONS, sf.lit(0)), sf.col(_POSITIONS)
    is_one = (sf.size(positions) == 1) & first["ledger_id"].isNotNull() & first["entry_id"].isNotNull()
    is_one = sf.coalesce(is_one & first["ack_set"].isNull(), sf.lit(False))
    at = recorded.columns.index(_POSITIONS)
    columns[at] = sf.when(~is_one & positions.isNotNull(), sf.to_json(positions)).alias(_JSON + _POSITIONS)
    ones = zip(_ONE, ("ledger_id", "entry_id"), strict=True)
    return recorded.select(*columns, *(sf.when(is_one, first[field]).alias(name) for name, field in ones))


def restored(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Returns rows of `flattened` as they were recorded, but nested columns other than positions stay JSON."""
    arrays = {name.removeprefix(_JSON): column for name, column in zip(batch.schema.names, batch.columns, strict=True)}
    if _ONE[0] in arrays:
        arrays[_POSITIONS] = _positions(arrays[_POSITIONS], *(arrays.pop(name) for name in _ONE))
    return pa.record_batch(list(arrays.values()), names=list(arrays))


def restored_whole(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Returns rows of `flattened` as they were recorded; slow, for few rows."""
    rows = restored(batch)
    for name in (name.removeprefix(_JSON) for name in batch.schema.names if name.startswith(_JSON)):
        at, column = rows.schema.get_field_index(name), conform(rows.column(name), ARROW_TYPES[name])
        rows = rows.set_column(at, pa.field(name, column.type), column)
    return rows


def _positions(texts: pa.Array, ledger: pa.Array, entry: pa.Array) -> pa.Array:
    kind = ARROW_TYPES[_POSITIONS]
    is_one = pc.is_valid(ledger)
    ends = np.cumsum(is_one.to_numpy(zero_copy_only=False), dtype=np.int32)
    fields = list(kind.value_type)
    entries = [ledger.drop_null(), entry.drop_null(), pa.nulls(int(ends[-1]) if ends.size else 0, fields[2].type)]
    offsets = pa.array(np.concatenate(([np.int32(0)], ends)))
    whole = pa.StructArray.from_arrays(entries, fields=fields)
    ones = pa.ListArray.from_arrays(offsets, whole, mask=pc.invert(is_one)).cast(kind)
    if texts.null_count == len(texts):
        return ones
    return pc.coalesce(ones, pa.array([text and json.loads(text) for text in texts.to_pylist()], kind))


def quoted(name: str) -> str:
    """Returns the name of a column as Spark's SQL takes every name."""
    return "`" + name.replace("`", "``") + "`"
