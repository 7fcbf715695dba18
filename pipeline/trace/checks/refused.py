"""The rows that the checks refuse, as Arrow batches."""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import pyarrow as pa

from dispatch_audit.pipeline.trace.checks.one_row import Fault, Values
from dispatch_audit.pipeline.trace.schema import ARROW_TYPES

# What is known of a refused row, as far as it is readable: whose row it is, and what is counted of it.
_OF_ROW: Final = (
    "topic",
    "subscription",
    "broker",
    "seq",
    "ts_us",
    "event",
    "consumer",
    "entry_bucket_dispatch",
)
REFUSED_SCHEMA: Final = pa.schema(
    [
        *((name, ARROW_TYPES[name]) for name in _OF_ROW),
        ("refused", pa.string()),
        ("detail", pa.string()),
        ("line", pa.int64()),
        ("raw", pa.string()),
    ]
)
"""A refused row: its readable values, reason and detail, its line (or row) in the share, 1-based, and its text."""


class Refused(NamedTuple):
    """A row that the checks refuse.

    Attributes:
        fault: why.
        values: of its columns, as far as they are readable.
        line: its line in the share, or its row in a Parquet file, 1-based; None: rows of a Delta table have none.
        raw: the line, or the row as JSON.
    """

    fault: Fault
    values: Values
    line: int | None
    raw: str

    def row(self) -> dict[str, Any]:
        """Returns the columns of `REFUSED_SCHEMA`."""
        known = {name: self.values.get(name) for name in _OF_ROW}
        return {**known, "refused": self.fault.reason, "detail": self.fault.detail, "line": self.line, "raw": self.raw}


def refused_batch(refused: Sequence[Refused]) -> pa.RecordBatch:
    """Returns the rows as one batch of `REFUSED_SCHEMA`."""
    return pa.RecordBatch.from_pylist([row.row() for row in refused], schema=REFUSED_SCHEMA)
