"""Reads the rows of files of lines: good rows as Arrow batches, refused rows with their reasons."""

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dispatch_audit.pipeline.trace.checks.good_rows import CHECKED, Mask, good_rows
from dispatch_audit.pipeline.trace.checks.one_row import Fault, Values
from dispatch_audit.pipeline.trace.checks.refused import Refused
from dispatch_audit.pipeline.trace.checks.row_batches import RowsRead, batch_of_values, rows_read
from dispatch_audit.pipeline.trace.checks.snapshots import checked_texts
from dispatch_audit.pipeline.trace.lines.blocks import blocks_of
from dispatch_audit.pipeline.trace.lines.columns import ParsedColumns
from dispatch_audit.pipeline.trace.lines.layout import rows_for
from dispatch_audit.pipeline.trace.lines.one_line import read_line, snapshots_of
from dispatch_audit.pipeline.trace.lines.parse import DOUBTFUL, parse_block
from dispatch_audit.pipeline.trace.lines.truncated import begins_an_object

_NEWLINE: Final = b"\n"


def read_lines(path: str, begin: int, end: int | None, columns: Sequence[str], rows: int) -> Iterator[RowsRead]:
    """Yields the rows of a part of a file of JSON Lines.

    Args:
        path: the file.
        begin: first byte of the part.
        end: first byte behind it; None: the part is the whole file.
        columns: of `EVENT_SCHEMA`; `snapshot` is JSON.
        rows: most rows of a batch.

    Raises:
        OSError: the file cannot be read, or is damaged.
        EOFError: a compressed file ends too early.
    """
    line = 0
    for block in blocks_of(path, begin, end):
        whole = block.endswith(_NEWLINE)
        text = block if whole else block + _NEWLINE
        found, aside, lines = _read_block(text, columns, line, is_open=not whole)
        line += lines
        yield from rows_read(found, aside, lines, columns, rows)


def _read_block(
    text: bytes, columns: Sequence[str], before: int, *, is_open: bool
) -> tuple[list[pa.RecordBatch], list[Refused], int]:
    """Returns the good rows of a block, the refused rows, and the number of its lines.

    Args:
        text: whole lines.
        columns: to return.
        before: number of lines before the block.
        is_open: whether the last line had no newline.
    """
    lines = text.count(_NEWLINE)
    line_at, verdicts = np.empty(lines + 1, dtype=np.int64), np.empty(lines, dtype=np.int8)
    rows = rows_for(lines, len(text))
    array = np.frombuffer(_readable(text), dtype=np.uint8)
    count = parse_block(array, line_at, verdicts, rows)
    batch, good = _good(ParsedColumns(array, rows, count), count, columns)
    doubtful = np.concatenate((np.flatnonzero(verdicts == DOUBTFUL), rows.line[:count][~good]))
    doubtful.sort()
    late, refused = _one_by_one(text, line_at, doubtful, before, lines - 1 if is_open else -1)
    if not good.all():
        batch = batch.filter(pa.array(good))
    return [batch, batch_of_values(late, columns)], refused, lines


def _readable(text: bytes) -> bytes:
    """Returns the text in which no line that is not UTF-8 can be parsed."""
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


def _one_by_one(
    text: bytes, line_at: NDArray[np.int64], numbers: NDArray[np.int64], before: int, open_line: int
) -> tuple[list[Values], list[Refused]]:
    """Returns the values of the good ones among some lines, and the others with their faults."""
    good: list[Values] = []
    refused: list[Refused] = []
    for number in numbers.tolist():
        raw = text[line_at[number] : line_at[number + 1] - 1].decode(errors="replace")
        values, fault = read_line(raw)
        if fault is None:
            good.append(values)
        else:
            cut_off = number == open_line and fault.reason == "broken_json" and begins_an_object(raw)
            refused.append(Refused(Fault("cut_off", None) if cut_off else fault, values, before + number + 1, raw))
    return good, refused
