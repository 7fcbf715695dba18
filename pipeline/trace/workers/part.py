"""A part of a log, as a task reads it."""

from collections.abc import Iterator, Sequence
from typing import Protocol

import pyarrow as pa

from dispatch_audit.pipeline.trace.checks.asked import AskedRows
from dispatch_audit.pipeline.trace.checks.row_batches import RowsRead


class Part(Protocol):
    """A part of a log; parts of a file that have lines follow each other in the order of `begin`."""

    @property
    def file(self) -> str:
        """The file, or the name of a table."""

    @property
    def begin(self) -> int:
        """Where the part begins in its file."""

    @property
    def has_lines(self) -> bool:
        """Whether its rows are lines, whose numbers count from the beginning of the part."""

    def read(self, columns: Sequence[str], rows: int, asked: AskedRows | None = None) -> Iterator[RowsRead]:
        """Yields the rows of the trace in the part: good rows in batches, and rows with their texts.

        Args:
            columns: of `EVENT_SCHEMA`, to return; all are checked.
            rows: most rows of a batch.
            asked: good rows whose texts are wanted.

        Raises:
            TraceError: the file cannot be read, or has a column of an impossible type.
        """

    def unchecked(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yields a few columns of every row, good or not; null where they are not readable.

        Args:
            columns: of `dispatch_audit.pipeline.trace.checks.rows_with_texts.OF_ROW`.

        Raises:
            TraceError: the file cannot be read, or one of the columns has an impossible type.
        """
