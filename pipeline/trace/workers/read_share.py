"""Reads a share of a trace in a worker, whatever the kind of its file."""

import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import pyarrow as pa

from dispatch_audit.pipeline.errors import TraceError
from dispatch_audit.pipeline.trace.checks.row_batches import RowsRead
from dispatch_audit.pipeline.trace.lines.read_lines import read_lines
from dispatch_audit.pipeline.trace.parquet.read_parquet import ParquetRows
from dispatch_audit.pipeline.trace.seq_range import ALL
from dispatch_audit.pipeline.trace.workers.shares import Share

_ROWS: Final = 1 << 16
_UNREADABLE: Final = (OSError, EOFError, zlib.error, pa.ArrowException)


def read_share(share: Share, columns: Sequence[str], rows: int) -> Iterator[RowsRead]:
    """Yields the rows of a share in its range of seq: good rows in batches of at most `rows`, and refused rows.

    Args:
        share: the share to read.
        columns: of `EVENT_SCHEMA`, to return; all are checked.
        rows: most rows of a batch.

    Raises:
        TraceError: the file cannot be read, or has a column of an impossible type.
    """
    with _unreadable(share):
        yield from _read(share, columns, rows)


def read_unchecked(share: Share, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yields a few columns of every row of a share in its range of seq, good or not; null where they are not readable.

    Args:
        share: the share to read.
        columns: of `EVENT_SCHEMA` and of `dispatch_audit.pipeline.trace.checks.refused.REFUSED_SCHEMA`.

    Raises:
        TraceError: the file cannot be read, or one of the columns has an impossible type.
    """
    with _unreadable(share):
        if share.kind == "json":
            for part in _read(share, columns, _ROWS):
                yield part.good
                yield part.refused.select(list(columns))
        else:
            file = _opened(share)
            yield from file.unchecked(_row_groups(share, file), share.seqs, columns)


@contextmanager
def _unreadable(share: Share) -> Iterator[None]:
    try:
        yield
    except _UNREADABLE as error:
        why = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise TraceError(f"cannot read {share.path}: {why}", "copy it again or leave it out") from error


def _read(share: Share, columns: Sequence[str], rows: int) -> Iterator[RowsRead]:
    if share.kind == "json":
        # The seq of a row decides whether it is in the range.
        named = [*columns, *(() if share.seqs == ALL or "seq" in columns else ("seq",))]
        for part in read_lines(share.path, share.begin, share.step or None, named, rows):
            good, refused = share.seqs.of(part.good), share.seqs.of(part.refused)
            yield RowsRead(good.select(list(columns)), refused, part.lines)
        return
    file = _opened(share)
    yield from file.read(_row_groups(share, file), share.seqs, columns, rows)


def _opened(share: Share) -> ParquetRows:
    return ParquetRows(share.path, share.log, numbered=share.kind == "parquet")


def _row_groups(share: Share, file: ParquetRows) -> list[int]:
    return [number for number in file.groups(share.seqs) if number % share.step == share.begin]
