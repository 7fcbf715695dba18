"""Reads the rows of Parquet files: good rows as Arrow batches, refused rows with their reasons and texts."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from dispatch_audit.pipeline.errors import TraceError
from dispatch_audit.pipeline.storage.store_path import AnyPath, StorePath
from dispatch_audit.pipeline.trace.checks.row_batches import RowsRead
from dispatch_audit.pipeline.trace.columnar.checked_columns import ColumnReader, Texts, json_texts
from dispatch_audit.pipeline.trace.schema import ARROW_TYPES
from dispatch_audit.pipeline.trace.seq_range import SeqRange

_TEXTS: Final = (pa.string(), pa.binary())
# Not a name that a column could have.
_ROW: Final = "\0row"


class ParquetRows:
    """The rows of an open Parquet file.

    Args:
        path: the file.
        values: of the columns that the names of its folders or the log of its table hold; they count before columns of
            the file.
        numbered: whether rows have numbers; those of a Delta table have none.

    Raises:
        TraceError: the file has a column twice.
    """

    def __init__(self, path: AnyPath, values: Mapping[str, Any], *, numbered: bool) -> None:
        self._values, self._numbered = values, numbered
        # Many small reads, each of them a request, become few large ones.
        stored = isinstance(path, StorePath)
        opened = path.random_access() if isinstance(path, StorePath) else path
        metadata = pq.read_metadata(opened)
        self._schema = metadata.schema.to_arrow_schema()
        twice = [name for name in ARROW_TYPES if self._schema.names.count(name) > 1]
        if twice:
            raise TraceError(f"cannot read {path}: column {twice[0]} is there twice", "write each column once")
        encoded = [f.name for f in self._schema if f.type in _TEXTS and ARROW_TYPES.get(f.name) in _TEXTS]
        self._file = pq.ParquetFile(opened, metadata=metadata, read_dictionary=encoded, pre_buffer=stored)
        sizes = [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)]
        self._first_row = np.cumsum([0, *sizes])

    def groups(self, seqs: SeqRange) -> list[int]:
        """Returns the numbers of the row groups that may have rows in a range of seq."""
        return [number for number in range(self._file.num_row_groups) if self._may_meet(number, seqs)]

    def _may_meet(self, number: int, seqs: SeqRange) -> bool:
        group = self._file.metadata.row_group(number)
        chunks = (group.column(at) for at in range(group.num_columns))
        found = next((chunk.statistics for chunk in chunks if chunk.path_in_schema == "seq"), None)
        if found is None or not found.has_min_max or not isinstance(found.min, int):
            return True
        return seqs.meets(found.min, found.max)

    def read(self, groups: Sequence[int], seqs: SeqRange, reader: ColumnReader) -> Iterator[RowsRead]:
        """Yields the rows of some row groups in a range of seq.

        Raises:
            TraceError: a column has a value of a type that cannot be converted to the type of the format.
            pa.ArrowException: the file is damaged.
        """
        for number in groups:
            first = int(self._first_row[number])
            for part in self._batches(number, reader.needed, reader.rows):
                numbered = part.append_column(_ROW, pa.array(np.arange(first, first + part.num_rows)))
                first += part.num_rows
                inside = seqs.of(numbered)
                if inside.num_rows:
                    row = inside.column(_ROW).to_numpy()
                    lines = pa.array(row + 1) if self._numbered else pa.nulls(row.size, pa.int64())
                    yield from reader.read(inside.drop_columns([_ROW]), lines, self._texts_of(number, row))

    def unchecked(self, groups: Sequence[int], seqs: SeqRange, reader: ColumnReader) -> Iterator[pa.RecordBatch]:
        """Yields the columns of all rows in a range of seq, good or not; raises as `read` does."""
        for number in groups:
            for part in self._batches(number, (*reader.columns, "seq"), reader.rows):
                yield reader.unchecked(seqs.of(part))

    def _batches(self, group: int, columns: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
        """Yields columns of a row group, as far as they are there."""
        names = [name for name in dict.fromkeys(columns) if name in self._schema.names and name not in self._values]
        constant = {name: value for name, value in self._values.items() if name in columns}
        for part in self._file.iter_batches(rows, row_groups=[group], columns=names, use_threads=False):
            yield _with(part, constant)

    def _texts_of(self, group: int, row: NDArray[np.int64]) -> Texts:
        """Returns what returns the rows of a batch as JSON, with all columns of the file."""

        def texts(at: NDArray[np.int64]) -> list[str]:
            whole = self._file.read_row_group(group, use_threads=False)
            names = [name for name in whole.column_names if name not in self._values]
            wanted = whole.select(names).take(pa.array(row[at] - self._first_row[group]))
            return [
                text for part in wanted.combine_chunks().to_batches() for text in json_texts(_with(part, self._values))
            ]

        return texts


def _with(part: pa.RecordBatch, values: Mapping[str, Any]) -> pa.RecordBatch:
    """Returns a batch with columns of one value each."""
    for name, value in values.items():
        kind = ARROW_TYPES.get(name, pa.string())
        part = part.append_column(name, pa.repeat(pa.scalar(value, kind), part.num_rows))
    return part
