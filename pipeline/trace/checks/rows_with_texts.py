"""Rows with their texts, as Arrow batches: those that the checks refuse, and good ones that a caller asked for."""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import pyarrow as pa

from dispatch_audit.pipeline.trace.checks.one_row import Fault, Values
from dispatch_audit.pipeline.trace.schema import ARROW_TYPES

OF_ROW: Final = (
    "topic",
    "subscription",
    "broker",
    "seq",
    "ts_us",
    "event",
    "consumer",
    "entry_bucket_dispatch",
    "dropped",
)
"""The columns of a row that are counted and travel with its text: whose row it is, and what else a count needs."""

TEXT_SCHEMA: Final = pa.schema(
    [
        *((name, ARROW_TYPES[name]) for name in OF_ROW),
        ("refused", pa.string()),
        ("detail", pa.string()),
        ("line", pa.int64()),
        ("raw", pa.string()),
    ]
)
"""`OF_ROW` as far as they are readable, reason and detail (null: a good row), line in the part (1-based), and text."""


class RowWithText(NamedTuple):
    """A row with its text.

    Attributes:
        fault: why the checks refuse it; None: it is good.
        values: of its columns, as far as they are readable.
        line: its line in the part of the log, or its row in a Parquet file, 1-based; None: rows of a table have none.
        raw: the line, or the row as JSON.
    """

    fault: Fault | None
    values: Values
    line: int | None
    raw: str

    def row(self) -> dict[str, Any]:
        """Returns the columns of `TEXT_SCHEMA`."""
        known = {name: self.values.get(name) for name in OF_ROW}
        reason, detail = (None, None) if self.fault is None else self.fault
        return {**known, "refused": reason, "detail": detail, "line": self.line, "raw": self.raw}


class WithTexts(NamedTuple):
    """Rows with their texts, both of `TEXT_SCHEMA`.

    Attributes:
        refused: rows that the checks refuse.
        asked: good rows that were asked for.
    """

    refused: pa.RecordBatch
    asked: pa.Table


def batch_with_texts(rows: Sequence[RowWithText]) -> pa.RecordBatch:
    """Returns the rows as one batch of `TEXT_SCHEMA`."""
    return pa.RecordBatch.from_pylist([row.row() for row in rows], schema=TEXT_SCHEMA)


NO_TEXTS: Final = WithTexts(batch_with_texts([]), TEXT_SCHEMA.empty_table())
"""No rows."""


def good_with_texts(columns: pa.RecordBatch, lines: pa.Array, texts: Sequence[str]) -> pa.RecordBatch:
    """Returns good rows as one batch of `TEXT_SCHEMA`.

    Args:
        columns: `OF_ROW`, of these rows; texts may be dictionary-encoded.
        lines: of the rows; null where they have none.
        texts: of the rows.
    """
    nothing = pa.nulls(len(texts), pa.string())
    known = [columns.column(name).cast(ARROW_TYPES[name]) for name in OF_ROW]
    return pa.record_batch([*known, nothing, nothing, lines, pa.array(texts, pa.string())], schema=TEXT_SCHEMA)
