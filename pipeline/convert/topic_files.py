"""Writes the rows that a worker reads to Parquet files, a folder for each topic, with bounded memory.

Rows of a topic keep their order: the name of a file begins with that of its source and the place in it.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import quote
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dispatch_audit.pipeline.errors import TraceError
from dispatch_audit.pipeline.trace.arrow_columns import numbered
from dispatch_audit.pipeline.trace.workers.shares import NULL_FOLDER

# Of a topic: a reader skips row groups by their seqs, and needs one at a time.
_GROUP_ROWS: Final = 1 << 16
# Of all topics that wait for rows: the memory of a worker.
_WAITING_BYTES: Final = 64 << 20
# Open files hold the metadata of their row groups.
_OPEN_FILES_MAX: Final = 64
_NAME_BYTES_MAX: Final = 255
_STATISTICS: Final = ("seq", "ts_us")


class TopicFile(NamedTuple):
    """A written file.

    Attributes:
        path: below the log.
        topic: of all its rows; None: of no topic, as gaps in everything that a recorder wrote.
        rows: their number.
        bytes: its size.
        statistics: as the log of a Delta table has them, as JSON.
    """

    path: str
    topic: str | None
    rows: int
    bytes: int
    statistics: str


TOPIC_FILE_SCHEMA: Final = "path STRING, topic STRING, rows LONG, bytes LONG, statistics STRING"
"""`TopicFile` as rows of Spark."""


class _Open:
    """An open file, and the lowest and highest values of its rows."""

    def __init__(self, folder: Path, path: str, schema: pa.Schema) -> None:
        self.path, self.rows = path, 0
        self._bounds: dict[str, tuple[int, int]] = {}
        self._file = folder / path
        self._file.parent.mkdir(parents=True, exist_ok=True)
        self._writer = pq.ParquetWriter(self._file, schema, compression="zstd")

    def write(self, rows: pa.Table) -> None:
        self._writer.write_table(rows, row_group_size=_GROUP_ROWS)
        self.rows += rows.num_rows
        for name in _STATISTICS:
            low, high = pc.min_max(rows.column(name)).as_py().values()
            before = self._bounds.get(name, (low, high))
            self._bounds[name] = min(low, before[0]), max(high, before[1])

    def close(self, topic: str | None) -> TopicFile:
        self._writer.close()
        bounds = zip(("minValues", "maxValues"), zip(*self._bounds.values(), strict=True), strict=True)
        found = {
            "numRecords": self.rows,
            **{end: dict(zip(_STATISTICS, values, strict=True)) for end, values in bounds},
        }
        return TopicFile(self.path, topic, self.rows, self._file.stat().st_size, json.dumps(found))


class TopicFiles:
    """Writes rows below a folder.

    Args:
        folder: of the log.
        schema: of the files, without the topic, which the names of their folders hold.
    """

    def __init__(self, folder: Path, schema: pa.Schema) -> None:
        self._folder, self._schema = folder, schema
        self._waiting: dict[str | None, list[pa.RecordBatch]] = {}
        self._waiting_rows: dict[str | None, int] = {}
        self._waiting_bytes = 0
        self._open: dict[str | None, _Open] = {}
        self._closed: list[TopicFile] = []
        # Two attempts at a task write files of their own: those of one that failed are named nowhere.
        self._attempt, self._files = uuid4().hex[:12], 0

    def add(self, topics: pa.Array, rows: pa.RecordBatch, source: str) -> None:
        """Adds rows.

        Args:
            topics: of the rows.
            rows: of the schema.
            source: where the rows come from, as the beginning of a file's name.
        """
        names, of_row = numbered(topics)
        order = np.argsort(of_row, kind="stable")
        ends = np.searchsorted(of_row[order], np.arange(len(names) + 1))
        for number, name in enumerate(names):
            at = order[ends[number] : ends[number + 1]]
            if not at.size:
                continue
            part = rows if at.size == rows.num_rows else rows.take(pa.array(at))
            self._waiting.setdefault(name, []).append(part)
            self._waiting_rows[name] = self._waiting_rows.get(name, 0) + part.num_rows
            self._waiting_bytes += part.nbytes
            if self._waiting_rows[name] >= _GROUP_ROWS:
                self._write(name, source)
        while self._waiting_bytes > _WAITING_BYTES:
            self._write(max(self._waiting_rows, key=self._waiting_rows.__getitem__), source)

    def done(self, source: str) -> Iterator[TopicFile]:
        """Writes all rows of a source; yields the files that were closed."""
        for topic in list(self._waiting):
            self._write(topic, source)
        for topic in list(self._open):
            self._close(topic)
        yield from self._closed
        self._closed = []

    def _write(self, topic: str | None, source: str) -> None:
        batches = self._waiting.pop(topic)
        del self._waiting_rows[topic]
        self._waiting_bytes -= sum(batch.nbytes for batch in batches)
        opened = self._open.pop(topic, None)
        if opened is None:
            if len(self._open) >= _OPEN_FILES_MAX:
                self._close(next(iter(self._open)))
            opened = _Open(self._folder, self._path(topic, source), self._schema)
        # The last one written to is the last one that is closed.
        self._open[topic] = opened
        opened.write(pa.Table.from_batches(batches, self._schema))

    def _close(self, topic: str | None) -> None:
        self._closed.append(self._open.pop(topic).close(topic))

    def _path(self, topic: str | None, source: str) -> str:
        folder = f"topic={NULL_FOLDER if topic is None else quote(topic, safe='')}"
        if len(folder) > _NAME_BYTES_MAX:
            raise TraceError(f"the name of topic {topic} is too long for a folder", "convert to a table of a catalog")
        self._files += 1
        return f"{folder}/{source}-{self._files:05d}-{self._attempt}.parquet"
