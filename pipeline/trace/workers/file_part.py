"""Reads a share of a file, whatever its kind."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from dispatch_audit.pipeline.errors import TraceError, not_at_worker
from dispatch_audit.pipeline.storage.reasons import reason_of
from dispatch_audit.pipeline.trace.checks.asked import AskedRows
from dispatch_audit.pipeline.trace.checks.row_batches import UNCHECKED_ROWS, RowsRead, every_row
from dispatch_audit.pipeline.trace.columnar.checked_columns import ColumnReader
from dispatch_audit.pipeline.trace.columnar.read_parquet import ParquetRows
from dispatch_audit.pipeline.trace.lines.blocks import UnboundedFileError
from dispatch_audit.pipeline.trace.lines.open_lines import DAMAGED
from dispatch_audit.pipeline.trace.lines.read_lines import LineReader
from dispatch_audit.pipeline.trace.workers.shares import Share

# pyarrow decodes the names of columns in Python.
_UNREADABLE: Final = (*DAMAGED, pa.ArrowException, UnicodeDecodeError)


@dataclass(frozen=True)
class FilePart:
    """A share of a file, as `dispatch_audit.pipeline.trace.workers.part.Part`."""

    share: Share

    @property
    def file(self) -> str:
        """The file."""
        return self.share.path

    @property
    def begin(self) -> int:
        """The first byte of lines, or row group of Parquet."""
        return self.share.begin

    @property
    def has_lines(self) -> bool:
        """Whether the file is one of JSON Lines."""
        return self.share.kind == "json"

    def read(self, columns: Sequence[str], rows: int, asked: AskedRows | None = None) -> Iterator[RowsRead]:
        """Yields the rows of the share in its range of seq."""
        share = self.share
        with self._unreadable():
            if share.kind == "json":
                reader = LineReader(columns, rows, share.seqs, asked)
                yield from reader.file(share.place, share.begin, share.step or None, share.line_bytes_max)
            else:
                file, checks = self._opened(), ColumnReader(share.log, columns, rows, asked)
                yield from file.read(self._row_groups(file), share.seqs, checks)

    def unchecked(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yields columns of every row of the share in its range of seq."""
        if self.share.kind == "json":
            yield from every_row(self.read(columns, UNCHECKED_ROWS), columns)
            return
        with self._unreadable():
            file, types = self._opened(), ColumnReader(self.share.log, columns, UNCHECKED_ROWS)
            yield from file.unchecked(self._row_groups(file), self.share.seqs, types)

    @contextmanager
    def _unreadable(self) -> Iterator[None]:
        try:
            yield
        except UnboundedFileError as error:
            raise TraceError(
                f"cannot read {self.file}: {error}", "this is no log, or damaged: copy it again or leave it out"
            ) from None
        except FileNotFoundError as error:
            raise not_at_worker(self.file) from error
        except _UNREADABLE as error:
            raise TraceError(f"cannot read {self.file}: {self._why(error)}", "copy it again or leave it out") from error

    def _why(self, error: Exception) -> str:
        if self.share.store is not None:
            return reason_of(error)
        return str(error).splitlines()[0] if str(error) else type(error).__name__

    def _opened(self) -> ParquetRows:
        return ParquetRows(self.share.place, dict(self.share.values), numbered=self.share.kind == "parquet")

    def _row_groups(self, file: ParquetRows) -> list[int]:
        return [number for number in file.groups(self.share.seqs) if number % self.share.step == self.share.begin]
