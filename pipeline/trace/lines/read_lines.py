"""Reads the rows of lines: good rows as Arrow batches, refused rows with their reasons and texts."""

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dispatch_audit.pipeline.storage.store_path import AnyPath
from dispatch_audit.pipeline.trace.checks.asked import AskedRows
from dispatch_audit.pipeline.trace.checks.good_rows import CHECKED, Mask, good_rows
from dispatch_audit.pipeline.trace.checks.one_row import Fault
from dispatch_audit.pipeline.trace.checks.row_batches import RowsRead, batch_of_values, rows_read
from dispatch_audit.pipeline.trace.checks.rows_with_texts import (
    NO_TEXTS,
    OF_ROW,
    RowWithText,
    WithTexts,
    batch_with_texts,
    good_with_texts,
)
from dispatch_audit.pipeline.trace.checks.snapshots import checked_texts
from dispatch_audit.pipeline.trace.line_limit import LINE_BYTES_MAX
from dispatch_audit.pipeline.trace.lines.blocks import TornFileError, UnboundedFileError, blocks_of
from dispatch_audit.pipeline.trace.lines.columns import ParsedColumns
from dispatch_audit.pipeline.trace.lines.layout import Room
from dispatch_audit.pipeline.trace.lines.one_line import read_line, snapshots_of
from dispatch_audit.pipeline.trace.lines.parse import DOUBTFUL, parse_block
from dispatch_audit.pipeline.trace.lines.truncated import begins_an_object
from dispatch_audit.pipeline.trace.seq_range import ALL, SeqRange

_NEWLINE: Final = b"\n"


class LineReader:
    """Reads blocks of lines that follow each other.

    Args:
        columns: of `EVENT_SCHEMA`, to return; `snapshot` is JSON.
        rows: most rows of a batch.
        seqs: the rows to return.
        asked: good rows whose texts are wanted.
        before: number of lines before the first block.
    """

    def __init__(
        self,
        columns: Sequence[str],
        rows: int,
        seqs: SeqRange = ALL,
        asked: AskedRows | None = None,
        before: int = 0,
    ) -> None:
        self._columns, self._rows, self._seqs, self._asked, self._before = list(columns), rows, seqs, asked, before
        self._room = Room()
        # The seq of a row decides whether it is in the range.
        self._parsed = tuple(dict.fromkeys((*columns, "seq", *(() if asked is None else OF_ROW))))

    def file(
        self, path: AnyPath, begin: int, end: int | None, line_bytes_max: int = LINE_BYTES_MAX
    ) -> Iterator[RowsRead]:
        """Yields the rows of a part of a file.

        Args:
            path: the file.
            begin: first byte of the part.
            end: first byte after it; None: the part is the whole file.
            line_bytes_max: the longest line.

        Raises:
            UnboundedFileError: a line is longer, or hundreds of megabytes are blank.
            OSError: the file cannot be read, or is damaged.
        """
        try:
            for block in blocks_of(path, begin, end, line_bytes_max):
                if not block.text:
                    yield from self._blank(block.newlines)
                    continue
                whole = block.text.endswith(_NEWLINE)
                text = block.text if whole else block.text + _NEWLINE
                yield from self.block(text, block.newlines + (not whole), is_open=not whole)
        except TornFileError as torn:
            yield from self._cut_off(torn.text.decode(errors="replace"))
        except UnboundedFileError as error:
            after = f"after byte {begin:,} and {self._before:,} lines" if begin else f"after line {self._before:,}"
            raise UnboundedFileError(f"{after} {error}") from None

    def block(self, text: bytes, lines: int, *, is_open: bool = False) -> Iterator[RowsRead]:
        """Yields the rows of a block.

        Args:
            text: whole lines, each with its newline.
            lines: how many.
            is_open: whether the last line had no newline, so that the log may end in the middle of a row.
        """
        block = _Block(text, lines, self._before, lines - 1 if is_open else -1)
        array, rows = np.frombuffer(_readable(text), dtype=np.uint8), self._room.rows(lines, len(text))
        count = parse_block(array, block.line_at, block.verdicts, rows)
        batch, good = _good(ParsedColumns(array, rows, count), count, self._parsed)
        line = rows.line[:count]
        late, refused = block.one_by_one(np.concatenate((np.flatnonzero(block.verdicts == DOUBTFUL), line[~good])))
        if not good.all():
            batch, line = batch.filter(pa.array(good)), line[good]
        asked = NO_TEXTS.asked
        if self._asked is not None:
            at = np.flatnonzero(self._asked.among(batch))
            of_late = batch_with_texts([row for row in late if self._asked.has(row.values)])
            asked = pa.Table.from_batches([block.with_texts(batch.take(pa.array(at)), line[at]), of_late])
        self._before += lines
        both = [batch.select(self._parsed), batch_of_values([row.values for row in late], self._parsed)]
        found = [self._seqs.of(part).select(self._columns) for part in both]
        with_texts = WithTexts(self._seqs.of(batch_with_texts(refused)), asked)
        yield from rows_read(found, with_texts, lines, self._columns, self._rows)

    def _blank(self, lines: int) -> Iterator[RowsRead]:
        """Yields no row of lines that are all blank, which are only counted."""
        self._before += lines
        nothing = batch_of_values([], self._parsed).select(self._columns)
        yield from rows_read([nothing], NO_TEXTS, lines, self._columns, self._rows)

    def _cut_off(self, text: str) -> Iterator[RowsRead]:
        """Yields the row in which a compressed file ends too early; its text may be empty."""
        row = RowWithText(Fault("cut_off", None), {}, self._before + 1, text)
        nothing = batch_of_values([], self._parsed).select(self._columns)
        found = WithTexts(self._seqs.of(batch_with_texts([row])), NO_TEXTS.asked)
        yield from rows_read([nothing], found, 1, self._columns, self._rows)


class _Block:
    """The lines of a block.

    Attributes:
        line_at: where each line begins, filled by the parser.
        verdicts: of each line, filled by the parser.
    """

    def __init__(self, text: bytes, lines: int, before: int, open_line: int) -> None:
        self.line_at = np.empty(lines + 1, dtype=np.int64)
        self.verdicts = np.empty(lines, dtype=np.int8)
        self._text, self._before, self._open_line = text, before, open_line

    def with_texts(self, good: pa.RecordBatch, lines: NDArray[np.int64]) -> pa.RecordBatch:
        """Returns good rows, parsed from these lines, with their texts."""
        texts = [self._raw(line) for line in lines.tolist()]
        return good_with_texts(good, pa.array(lines + (self._before + 1)), texts)

    def one_by_one(self, lines: NDArray[np.int64]) -> tuple[list[RowWithText], list[RowWithText]]:
        """Returns the good rows among some lines, and the refused ones, both in the order of their lines."""
        good: list[RowWithText] = []
        refused: list[RowWithText] = []
        for number in np.sort(lines).tolist():
            raw = self._raw(number)
            values, fault = read_line(raw)
            if number == self._open_line and fault is not None and fault.reason == "broken_json":
                fault = Fault("cut_off", None) if begins_an_object(raw) else fault
            row = RowWithText(fault, values, self._before + number + 1, raw)
            (good if fault is None else refused).append(row)
        return good, refused

    def _raw(self, number: int) -> str:
        return self._text[self.line_at[number] : self.line_at[number + 1] - 1].decode(errors="replace")


def _readable(text: bytes) -> bytes:
    """Returns the text, with a byte in each line that is not UTF-8 replaced so that the parser refuses the line."""
    try:
        if not text.isascii():
            text.decode()
    except UnicodeDecodeError:
        return b"".join(line if _is_utf8(line) else b"\0" + line[1:] for line in text.splitlines(keepends=True))
    return text


def _is_utf8(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True


def _good(parsed: ParsedColumns, count: int, columns: Sequence[str]) -> tuple[pa.RecordBatch, Mask]:
    """Returns the parsed rows, and which of them are good beyond doubt."""
    found = {name: parsed.column(name) for name in dict.fromkeys((*columns, *CHECKED))}
    known = found["snapshot"].is_valid().to_numpy(zero_copy_only=False)
    bad = parsed.unread_keys
    if known.any():
        at = np.flatnonzero(known)
        found["snapshot"], bad_snapshots = _snapshots(found["snapshot"], at)
        bad = bad | bad_snapshots
    good = good_rows(pa.record_batch([found[name] for name in CHECKED], names=list(CHECKED))) & ~bad
    return pa.record_batch([found[name] for name in columns], names=list(columns)), good


def _snapshots(texts: pa.Array, at: NDArray[np.int64]) -> tuple[pa.Array, Mask]:
    """Returns the snapshots at these rows as the replay reads them, and which of them are doubtful."""
    typed = snapshots_of(texts.take(pa.array(at)).to_pylist())
    checked, bad = checked_texts(len(texts), at, [snapshot.value for snapshot in typed])
    bad[at] |= [snapshot.partial for snapshot in typed]
    return checked, bad
