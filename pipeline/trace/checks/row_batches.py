"""The rows that a reader returns: good rows in batches, and rows with their texts."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

import pyarrow as pa

from dispatch_audit.pipeline.trace.checks.one_row import Values
from dispatch_audit.pipeline.trace.checks.rows_with_texts import NO_TEXTS, WithTexts
from dispatch_audit.pipeline.trace.checks.snapshots import snapshot_text
from dispatch_audit.pipeline.trace.schema import ARROW_TYPES

UNCHECKED_ROWS: Final = 1 << 16
"""Rows of a batch for readers that want a few columns of all rows, good or not."""


class RowsRead(NamedTuple):
    """Some rows of a part of a log.

    Attributes:
        good: the rows that pass all checks; texts may be dictionary-encoded, `snapshot` is JSON.
        refused: the other rows, as `TEXT_SCHEMA`. Their lines count from the beginning of the part.
        asked: the good rows that the caller asked for, once more, as `TEXT_SCHEMA`.
        lines: number of lines (in Parquet: rows) that were read for them, blank ones too.
    """

    good: pa.RecordBatch
    refused: pa.RecordBatch
    asked: pa.Table
    lines: int


def rows_read(
    good: Iterable[pa.RecordBatch], with_texts: WithTexts, lines: int, columns: Sequence[str], rows: int
) -> Iterator[RowsRead]:
    """Yields batches of at most `rows` good rows; the rows with texts and the number of lines come with the first."""
    parts = [part.slice(at, rows) for part in good for at in range(0, part.num_rows, rows)]
    if not parts and (lines or with_texts.refused.num_rows):
        parts = [batch_of_values([], columns)]
    for number, part in enumerate(parts):
        yield RowsRead(part, *NO_TEXTS, 0) if number else RowsRead(part, *with_texts, lines)


def every_row(found: Iterable[RowsRead], columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yields columns of `TEXT_SCHEMA` of all rows, good or not."""
    for rows in found:
        yield rows.good
        yield rows.refused.select(list(columns))


def batch_of_values(rows: Sequence[Values], columns: Sequence[str]) -> pa.RecordBatch:
    """Returns rows as Arrow columns; `snapshot` as JSON."""
    return pa.record_batch([_column(rows, name) for name in columns], names=list(columns))


def _column(rows: Sequence[Values], name: str) -> pa.Array:
    if name == "snapshot":
        snapshots = [row.get(name) for row in rows]
        return pa.array([None if found is None else snapshot_text(found) for found in snapshots], pa.string())
    return pa.array([row.get(name) for row in rows], ARROW_TYPES[name])
