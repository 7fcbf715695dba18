"""The rows that a reader returns: good rows in batches, and refused rows."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa

from dispatch_audit.pipeline.trace.checks.one_row import Values
from dispatch_audit.pipeline.trace.checks.refused import Refused, refused_batch
from dispatch_audit.pipeline.trace.checks.snapshots import snapshot_text
from dispatch_audit.pipeline.trace.schema import ARROW_TYPES


class RowsRead(NamedTuple):
    """Some rows of a share.

    Attributes:
        good: the rows that pass all checks; texts may be dictionary-encoded, `snapshot` is JSON.
        refused: the other rows, as `REFUSED_SCHEMA`.
        lines: number of lines (in Parquet: rows) that were read for them, blank ones too. The lines of refused rows
            count from the beginning of the share.
    """

    good: pa.RecordBatch
    refused: pa.RecordBatch
    lines: int


def rows_read(
    good: Iterable[pa.RecordBatch], refused: Sequence[Refused], lines: int, columns: Sequence[str], rows: int
) -> Iterator[RowsRead]:
    """Yields batches of at most `rows` good rows, and refused rows and the number of lines once among them."""
    aside, none = refused_batch(refused), refused_batch([])
    parts = [part.slice(at, rows) for part in good for at in range(0, part.num_rows, rows)]
    if not parts and (lines or aside.num_rows):
        parts = [batch_of_values([], columns)]
    for number, part in enumerate(parts):
        yield RowsRead(part, none if number else aside, 0 if number else lines)


def batch_of_values(rows: Sequence[Values], columns: Sequence[str]) -> pa.RecordBatch:
    """Returns rows as Arrow columns; `snapshot` as JSON."""
    return pa.record_batch([_column(rows, name) for name in columns], names=list(columns))


def _column(rows: Sequence[Values], name: str) -> pa.Array:
    if name == "snapshot":
        snapshots = [row.get(name) for row in rows]
        return pa.array([None if found is None else snapshot_text(found) for found in snapshots], pa.string())
    return pa.array([row.get(name) for row in rows], ARROW_TYPES[name])
