"""The rows with texts that tasks staged while they read a trace: refused ones, and those that were asked for.

A task counts lines from the beginning of its part of a file. Parts of one file follow each other, so the lines of the
parts before are added here.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from dispatch_audit.pipeline.plan.staged_batches import StagedKind
from dispatch_audit.pipeline.spark_errors import plain_path

_ROWS: Final = (
    "topic STRING, subscription STRING, broker STRING, event STRING, seq LONG, ts_us LONG, reason STRING, "
    "detail STRING, file STRING, line LONG, raw STRING"
)
_NAMES: Final = [column.split()[0] for column in _ROWS.split(", ")]


def rows_in(staged: DataFrame) -> DataFrame:
    """Returns the rows with texts, from evaluated rows of `STAGED_SCHEMA`.

    Returns:
        Topic, subscription, broker, event, seq, ts_us, reason (null: a good row), detail, file, line and raw. `line` is
        1-based, in Parquet the row's number in its file, and null for Delta and tables. `raw` is the line, or the row
        as JSON.
    """
    before = _lines_before(staged)

    def unpack(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for file, begin, payload in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                for rows in pa.ipc.open_stream(payload):
                    yield _of_file(rows, plain_path(file), before.get((file, begin), 0))

    texts = staged.where(sf.col("kind") == int(StagedKind.TEXTS)).select("topic", "first_seq", "events")
    return texts.mapInArrow(unpack, _ROWS)


def _of_file(rows: pa.RecordBatch, file: str, lines_before: int) -> pa.RecordBatch:
    columns = {
        **{name: rows.column(name) for name in rows.schema.names},
        "reason": rows.column("refused"),
        "file": pa.repeat(pa.scalar(file), rows.num_rows),
        "line": pc.add(rows.column("line"), lines_before),
    }
    return pa.record_batch([columns[name] for name in _NAMES], names=_NAMES)


def _lines_before(staged: DataFrame) -> Mapping[tuple[str, int], int]:
    """Returns for each part of a file of lines how many lines the file has before it."""
    lines_of: dict[tuple[str, int], int] = {}
    counted = staged.where(sf.col("kind") == int(StagedKind.LINES)).select("topic", "first_seq", "events")
    for file, begin, lines in counted.collect():
        # Spark hands over a part in several batches.
        lines_of[file, begin] = lines_of.get((file, begin), 0) + int(lines)
    before: dict[tuple[str, int], int] = {}
    of_file: dict[str, int] = {}
    for (file, begin), lines in sorted(lines_of.items()):
        before[file, begin] = of_file.get(file, 0)
        of_file[file] = before[file, begin] + lines
    return before
