"""The good rows of a trace as a table with the columns of the format, to be written in another form."""

from collections.abc import Sequence

import pyarrow as pa

from dispatch_audit.pipeline.trace import EVENT_SCHEMA, Trace
from dispatch_audit.pipeline.trace.columnar.conform import conform
from dispatch_audit.pipeline.trace.schema import ARROW_TYPES
from dispatch_audit.pipeline.trace.workers.file_part import FilePart
from dispatch_audit.pipeline.trace.workers.shares import shares_of

_ROWS = 1 << 16


def typed_rows(trace: Trace, columns: Sequence[str] = EVENT_SCHEMA.names) -> pa.Table:
    """Returns the good rows of the files of a trace in the order of seq.

    Args:
        trace: the trace.
        columns: of `EVENT_SCHEMA`, `seq` among them.
    """
    shares = [share for log in trace.logs for share in shares_of(log, trace.seqs) or ()]
    batches = [found.good for share in shares for found in FilePart(share).read(columns, _ROWS)]
    parts = [pa.record_batch([_typed(batch, name) for name in columns], names=list(columns)) for batch in batches]
    return pa.Table.from_batches(parts).sort_by("seq")


def _typed(batch: pa.RecordBatch, name: str) -> pa.Array:
    column = batch.column(name)
    return conform(column.dictionary_decode() if pa.types.is_dictionary(column.type) else column, ARROW_TYPES[name])
