"""Reads rows that Spark scans: batches of lines or of recorded columns, with the same checks as files."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dispatch_audit.pipeline.trace.arrow_columns import numbered
from dispatch_audit.pipeline.trace.checks.asked import AskedRows
from dispatch_audit.pipeline.trace.checks.row_batches import UNCHECKED_ROWS, RowsRead, every_row
from dispatch_audit.pipeline.trace.columnar.checked_columns import ColumnReader, json_texts
from dispatch_audit.pipeline.trace.lines.read_lines import LineReader
from dispatch_audit.pipeline.trace.scan.flat_columns import restored, restored_whole
from dispatch_audit.pipeline.trace.scan.frames import BEGIN, FILE, LINE, TEXT
from dispatch_audit.pipeline.trace.seq_range import SeqRange


def parts_of(batches: Iterable[pa.RecordBatch], log: str, seqs: SeqRange) -> Iterator["LinesPart | ColumnsPart"]:
    """Yields the rows of a scanned log that a task gets, cut where the file or its split changes.

    Args:
        batches: rows of a frame of `dispatch_audit.pipeline.trace.scan.frames`, in its order.
        log: its name, for messages.
        seqs: the rows to read.
    """
    lines_of: dict[tuple[str, int], int] = {}
    for batch in batches:
        if TEXT not in batch.schema.names:
            yield from (ColumnsPart(log, file, rows, seqs) for file, rows in _by_file(batch))
            continue
        for file, rows in _by_file(batch):
            for begin, lines in _by_split(rows):
                before = lines_of.get((file, begin), 0)
                lines_of[file, begin] = before + lines.num_rows
                yield LinesPart(file, begin, before, lines.column(TEXT), seqs)


def _by_file(batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
    _, of_row = numbered(batch.column(FILE))
    for rows in _runs(batch, of_row):
        yield str(rows.column(FILE)[0]), rows


def _by_split(batch: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
    for rows in _runs(batch, batch.column(BEGIN).to_numpy()):
        yield rows.column(BEGIN)[0].as_py(), rows


def _runs(batch: pa.RecordBatch, values: NDArray[np.int64]) -> Iterator[pa.RecordBatch]:
    """Yields the rows of a batch, cut where the value changes."""
    cuts = [0, *(np.flatnonzero(np.diff(values)) + 1).tolist(), batch.num_rows]
    yield from (batch.slice(at, end - at) for at, end in pairwise(cuts) if end > at)


@dataclass(frozen=True)
class LinesPart:
    """Some lines of a split of a file, as `dispatch_audit.pipeline.trace.workers.part.Part`.

    Spark drops newlines, so a last row that is cut off is refused as broken, like any other.

    Attributes:
        file: the file.
        begin: where the split begins, bytes.
        before: number of lines of the split before these.
        texts: the lines, as bytes.
        seqs: the rows to read.
    """

    file: str
    begin: int
    before: int
    texts: pa.Array
    seqs: SeqRange
    has_lines = True

    def read(self, columns: Sequence[str], rows: int, asked: AskedRows | None = None) -> Iterator[RowsRead]:
        """Yields the rows in the range of seq."""
        reader = LineReader(columns, rows, self.seqs, asked, self.before)
        yield from reader.block(b"\n".join([*self.texts.to_pylist(), b""]), len(self.texts))

    def unchecked(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yields columns of every row in the range of seq."""
        yield from every_row(self.read(columns, UNCHECKED_ROWS), columns)


@dataclass(frozen=True)
class ColumnsPart:
    """Some rows of recorded columns, as `dispatch_audit.pipeline.trace.workers.part.Part`.

    Attributes:
        log: the name of the log, for messages.
        file: the file, or the name of a table.
        rows: the rows.
        seqs: the rows to read.
    """

    log: str
    file: str
    rows: pa.RecordBatch
    seqs: SeqRange
    begin = 0
    has_lines = False

    def read(self, columns: Sequence[str], rows: int, asked: AskedRows | None = None) -> Iterator[RowsRead]:
        """Yields the rows in the range of seq."""
        inside = self.seqs.of(self.rows)
        recorded = inside.drop_columns([FILE, LINE])

        def texts(at: NDArray[np.int64]) -> list[str]:
            return json_texts(restored_whole(recorded.take(pa.array(at))))

        yield from ColumnReader(self.log, columns, rows, asked).read(restored(recorded), inside.column(LINE), texts)

    def unchecked(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yields columns of every row in the range of seq."""
        yield ColumnReader(self.log, columns, UNCHECKED_ROWS).unchecked(self.seqs.of(self.rows))
