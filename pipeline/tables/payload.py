"""Rows of many tables in one DataFrame: as Arrow inside of a binary column.

The replay of a group yields findings, intervals, draining hashes and counts, which are rows of different tables, while
a function on Spark's groups returns one schema. So it returns `RESULT_SCHEMA`: the name of a table and rows of it as an
Arrow IPC stream. The replay therefore runs once for all tables, and no column is widened to fit another table's rows.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from dispatch_audit.pipeline.errors import DispatchAuditError
from dispatch_audit.pipeline.tables.schemas import TRAVELLING

RESULT_SCHEMA = "table string, payload binary"


def record_batch(table_name: str, columns: Mapping[str, Sequence[Any]]) -> pa.RecordBatch:
    """Returns rows of one table in its Arrow form.

    Args:
        table_name: a table of `dispatch_audit.pipeline.tables.schemas`.
        columns: sequences of one length (lists, numpy or Arrow arrays) by name of the column in the table's
            `arrow_schema`, which has neither `run_key` nor timestamps. A nullable column may be absent.

    Raises:
        DispatchAuditError: a column is unknown, absent, of another length or type, or NULL where it must not be.
    """
    schema = TRAVELLING[table_name].arrow_schema
    unknown = columns.keys() - set(schema.names)
    if unknown:
        raise DispatchAuditError(f"{table_name} has no column {', '.join(sorted(unknown))}")
    rows = len(next(iter(columns.values()), ()))
    try:
        arrays = [_array(field, columns.get(field.name), rows) for field in schema]
        batch = pa.record_batch(arrays, schema=schema)
    except (ValueError, pa.ArrowTypeError, OverflowError) as error:
        raise DispatchAuditError(f"rows for {table_name} do not fit its columns: {error}") from error
    for field, array in zip(schema, batch.columns, strict=True):
        if array.null_count and not field.nullable:
            raise DispatchAuditError(f"{table_name}.{field.name} must not be NULL")
    return batch


def encode(table_name: str, columns: Mapping[str, Sequence[Any]]) -> bytes:
    """Returns the rows as an Arrow IPC stream; arguments and errors are those of `record_batch`."""
    batch = record_batch(table_name, columns)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    return bytes(sink.getvalue())


def _array(field: pa.Field, values: Sequence[Any] | None, rows: int) -> pa.Array:
    return pa.nulls(rows, field.type) if values is None else pa.array(values, field.type)


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
    return payloads.mapInArrow(_unpack(), table.written_spark_schema)


def batches_in(payload: pa.Buffer) -> Iterator[pa.RecordBatch]:
    """Yields the rows of a payload."""
    with pa.ipc.open_stream(payload) as stream:
        yield from stream


def _unpack() -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    # Spark sends a nested function by value, so that workers need no installation of this package to run it.
    def unpack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for payload in batch.column("payload"):
                with pa.ipc.open_stream(payload.as_buffer()) as stream:
                    yield from stream

    return unpack
