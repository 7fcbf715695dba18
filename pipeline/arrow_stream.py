"""Rows as bytes that another process can read."""

import pyarrow as pa


def stream_of(rows: pa.RecordBatch | pa.Table) -> pa.Buffer:
    """Returns rows as an Arrow IPC stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write(rows)
    return sink.getvalue()
