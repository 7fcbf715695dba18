"""Rows of many tables in one DataFrame: as Arrow inside of a binary column.

The replay of a group yields findings, intervals, draining hashes and counts, which are rows of different tables, while
a function on Spark's groups returns one schema. So it returns `RESULT_SCHEMA`: the name of a table and rows of it as an
Arrow IPC stream. The replay therefore runs once for all tables, and no column is widened to fit another table's rows.

The stream is compressed as a whole: a quiet partition has two thousand rows of `assignments`, which repeat its names in
each of them. Arrow's own compression of each column takes five times as long for so few rows. A column that repeats a
few values may also be a dictionary of them and travels as such, which leaves less to compress; readers get it plain.

    payload   8 bytes   the length of the stream, least byte first
              stream    compressed with zstd
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from dispatch_audit.pipeline.arrow_stream import stream_of
from dispatch_audit.pipeline.errors import DispatchAuditError
from dispatch_audit.pipeline.tables.schemas import TRAVELLING

RESULT_SCHEMA = "table string, payload binary"

_LENGTH_BYTES = 8
_CODEC = "zstd"
_COMPRESSOR = pa.Codec(_CODEC, 1)


def record_batch(table_name: str, columns: Mapping[str, Sequence[Any] | NDArray[Any]]) -> pa.RecordBatch:
    """Returns rows of one table in its Arrow form.

    Args:
        table_name: a table of `dispatch_audit.pipeline.tables.schemas`.
        columns: sequences of one length (lists, numpy or Arrow arrays) by name of the column in the table's
            `arrow_schema`, which has neither `run_key` nor timestamps. A nullable column may be absent. A dictionary
            array stays one.

    Raises:
        DispatchAuditError: a column is unknown, absent, of another length or type, or NULL where it must not be.
    """
    table = TRAVELLING[table_name]
    fields = table.arrow_fields
    unknown = columns.keys() - fields.keys()
    if unknown:
        raise DispatchAuditError(f"{table_name} has no column {', '.join(sorted(unknown))}")
    rows = len(next(iter(columns.values()), ()))
    try:
        arrays = [_array(field.type, columns.get(name), rows) for name, field in fields.items()]
        batch = pa.record_batch(arrays, _with_types(table.arrow_schema, arrays))
    except (ValueError, pa.ArrowTypeError, OverflowError) as error:
        raise DispatchAuditError(f"rows for {table_name} do not fit its columns: {error}") from error
    for (name, field), array in zip(fields.items(), arrays, strict=True):
        if not field.nullable and _null_count(array):
            raise DispatchAuditError(f"{table_name}.{name} must not be NULL")
    return batch


def encode(table_name: str, columns: Mapping[str, Sequence[Any] | NDArray[Any]]) -> bytes:
    """Returns the rows as a payload; arguments and errors are those of `record_batch`."""
    written = stream_of(record_batch(table_name, columns))
    compressed: bytes = _COMPRESSOR.compress(written, asbytes=True)
    return len(written).to_bytes(_LENGTH_BYTES, "little") + compressed


def _array(of: pa.DataType, values: Sequence[Any] | NDArray[Any] | None, rows: int) -> pa.Array:
    if values is None:
        return pa.nulls(rows, of)
    if isinstance(values, pa.Array) and of in (values.type, getattr(values.type, "value_type", None)):
        return values
    return pa.array(values, of)


def _null_count(array: pa.Array) -> int:
    values = array.dictionary.null_count if isinstance(array, pa.DictionaryArray) else 0
    return int(array.null_count + values)


def _with_types(schema: pa.Schema, arrays: Sequence[pa.Array]) -> pa.Schema:
    """The schema with the types of these arrays."""
    fields = [
        field if field.type == array.type else field.with_type(array.type)
        for field, array in zip(schema, arrays, strict=True)
    ]
    return pa.schema(fields, schema.metadata)


def decode(results: DataFrame, table_name: str) -> DataFrame:
    """Returns the rows of one table from the result of the replay.

    Args:
        results: rows of `RESULT_SCHEMA`.
        table_name: a table of `dispatch_audit.pipeline.tables.schemas`.

    Returns:
        The table's columns without `run_key` and timestamps.
    """
    table = TRAVELLING[table_name]
    payloads = results.where(sf.col("table") == table_name).select("payload")
    return payloads.mapInArrow(_unpacked, table.written_spark_schema)


def batches_in(payload: bytes | pa.Buffer) -> Iterator[pa.RecordBatch]:
    """Yields the rows of a payload, without dictionaries."""
    view = memoryview(payload)
    length = int.from_bytes(view[:_LENGTH_BYTES], "little")
    with pa.ipc.open_stream(pa.Codec(_CODEC).decompress(view[_LENGTH_BYTES:], length)) as stream:
        for batch in stream:
            plain = [c.dictionary_decode() if isinstance(c, pa.DictionaryArray) else c for c in batch.columns]
            yield pa.record_batch(plain, _with_types(batch.schema, plain))


def _unpacked(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for payload in batch.column("payload"):
            yield from batches_in(payload.as_buffer())
