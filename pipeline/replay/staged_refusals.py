"""The rows that the checks refused while workers read a trace, from what the workers staged.

A worker counts lines from the beginning of its share of a file. Shares of one file follow each other, so the lines of
the shares before are added here.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from dispatch_audit.pipeline.replay.packing.staged_batches import Kind

_REFUSED: Final = (
    "topic STRING, subscription STRING, seq LONG, reason STRING, detail STRING, file STRING, line LONG, raw STRING, "
    "last_line BOOLEAN"
)
_NAMES: Final = [column.split()[0] for column in _REFUSED.split(", ")]


def refused_in(staged: DataFrame) -> DataFrame:
    """Returns the refused rows with reason, detail, file, line and text, from evaluated rows of `STAGED_SCHEMA`.

    Returns:
        The columns of `dispatch_audit.pipeline.trace.quarantine.quarantine.refused_rows`. `last_line` is false: a row
        at which a log ends too early has the reason `cut_off` already.
    """
    before = _lines_before(staged)

    def unpack(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for file, begin, payload in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                for refused in pa.ipc.open_stream(payload):
                    yield _rows(refused, file, before.get((file, begin), 0))

    rows = staged.where(sf.col("kind") == int(Kind.REFUSED)).select("topic", "first_seq", "events")
    return rows.mapInArrow(unpack, _REFUSED)


def _rows(refused: pa.RecordBatch, file: str, lines_before: int) -> pa.RecordBatch:
    columns = {
        **{name: refused.column(name) for name in ("topic", "subscription", "seq", "detail", "raw")},
        "reason": refused.column("refused"),
        "file": pa.repeat(pa.scalar(file), refused.num_rows),
        "line": pc.add(refused.column("line"), lines_before),
        "last_line": pa.repeat(pa.scalar(False), refused.num_rows),
    }
    return pa.record_batch([columns[name] for name in _NAMES], names=_NAMES)


def _lines_before(staged: DataFrame) -> Mapping[tuple[str, int], int]:
    """Returns for each share of a file of lines how many lines the file has before it."""
    rows = staged.where(sf.col("kind") == int(Kind.LINES)).select("topic", "first_seq", "last_seq").collect()
    before: dict[tuple[str, int], int] = {}
    lines_of: dict[str, int] = {}
    for file, begin, lines in sorted(rows):
        before[file, begin] = lines_of.get(file, 0)
        lines_of[file] = before[file, begin] + lines
    return before
