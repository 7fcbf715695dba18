"""Rows for one table, before the table has them: in the driver as Arrow, or in Spark.

What an audit needs of such rows is the same for both: a few columns, the number of rows by value, and another column.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from dispatch_audit.pipeline.engine.gathered import gathered
from dispatch_audit.pipeline.tables.table_schema import TableSchema

# Small batches are joined up to this size: each costs a check of the constraints and a call into the writer.
_BATCH_BYTES = 4 << 20

Values = Callable[[pa.RecordBatch], pa.Array]
"""Computes a column from a batch of rows."""


class TableRows(Protocol):
    """Rows for one table, without `run_key` and timestamps."""

    def select(self, *columns: str) -> pa.Table:
        """Returns columns of all rows; for tables of few rows, or columns of few bytes."""

    def counts(self, column: str) -> dict[Any, int]:
        """Returns the number of rows by the value of a column."""

    def with_column(self, name: str, values: Values) -> "TableRows":
        """Returns the rows with other values in one column."""


@dataclass(frozen=True)
class ArrowRows:
    """Rows that the driver holds, or reads again each time.

    Attributes:
        table: the table that they are for.
        read: returns their batches, of `table.arrow_schema`.
    """

    table: TableSchema
    read: Callable[[], Iterator[pa.RecordBatch]]

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Returns the rows in batches of a few megabytes."""
        return map(pa.concat_batches, gathered(self.read(), attrgetter("nbytes"), _BATCH_BYTES))

    def select(self, *columns: str) -> pa.Table:
        """Returns columns of all rows."""
        schema = pa.schema([self.table.arrow_schema.field(name) for name in columns])
        return pa.Table.from_batches([batch.select(columns) for batch in self.batches()], schema)

    def counts(self, column: str) -> dict[Any, int]:
        """Returns the number of rows by the value of a column."""
        counts: Counter[Any] = Counter()
        for batch in self.batches():
            for found in pc.value_counts(batch[column]).to_pylist():
                counts[found["values"]] += found["counts"]
        return dict(counts)

    def with_column(self, name: str, values: Values) -> "ArrowRows":
        """Returns the rows with other values in one column."""

        def read() -> Iterator[pa.RecordBatch]:
            return (replaced(batch, name, values) for batch in self.read())

        return ArrowRows(self.table, read)


def replaced(batch: pa.RecordBatch, name: str, values: Values) -> pa.RecordBatch:
    """Returns a batch with other values in one column."""
    at = batch.schema.get_field_index(name)
    return batch.set_column(at, batch.schema.field(at), values(batch))


def held_rows(table: TableSchema, batches: Sequence[pa.RecordBatch]) -> ArrowRows:
    """Returns rows that the driver holds."""
    return ArrowRows(table, lambda: iter(batches))
