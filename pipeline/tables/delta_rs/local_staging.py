"""The staging area below a local path: plain Parquet, which Spark writes once and the driver reads with Arrow.

Rows of small tables are held by the driver. Those of large ones are read again each time, a few payloads at a time, so
that the driver never holds all of them.
"""

import math
import shutil
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame

from dispatch_audit.pipeline.engine.counting import written_by_workers
from dispatch_audit.pipeline.tables.payload import batches_in
from dispatch_audit.pipeline.tables.rows import ArrowRows, TableRows, held_rows
from dispatch_audit.pipeline.tables.schemas import TRAVELLING
from dispatch_audit.pipeline.tables.staging import STAGED, Staging
from dispatch_audit.pipeline.tables.table_schema import TableSchema
from dispatch_audit.pipeline.trace.sources import glob_of

# Much longer than an audit takes: older staging areas were left by audits that were killed and never run again.
LEFT_BEHIND_S = 7 * 24 * 3600.0
# Rows of a table that take no more than this are held by the driver. Those of a larger one are decoded while they are
# written: `assignments`, the largest table of many quiet partitions, is not used for anything else.
SMALL_BYTES = 1 << 20
# A payload has rows of one table, for one busy partition or several quiet ones: hundreds of kilobytes.
_PAYLOADS = 16
_FRAME_ROWS = 8192


class LocalStaging(Staging):
    """The staging area of one attempt at a run, below a local path."""

    @property
    def files(self) -> str:
        """A folder for files of the workers, which need not exist."""
        return str(self._folder("files"))

    def keep_rows(self, rows: DataFrame, name: str) -> DataFrame:
        """Evaluates and stages rows of a trace; returns them as staged."""
        self._all_written(rows, name)
        folder = glob_of(str(self._folder(name)))
        return rows.sparkSession.read.schema(rows.schema).parquet(f"file://{folder}")

    def keep(self, results: DataFrame) -> dict[str, TableRows]:
        """Evaluates and stages the result of a replay; returns the rows by table."""
        files = self._all_written(results, "result")
        held: dict[str, list[pa.RecordBatch]] = {}
        bytes_of: dict[str, int] = {}
        files_of: dict[str, list[Path]] = {}
        for file in files:
            for name, payload in _payloads(file):
                bytes_of[name] = bytes_of.get(name, 0) + len(payload)
                of_table = files_of.setdefault(name, [])
                if file not in of_table[-1:]:
                    of_table.append(file)
                if bytes_of[name] <= SMALL_BYTES:
                    held.setdefault(name, []).extend(batches_in(payload))
                else:
                    held.pop(name, None)
        return {
            name: held_rows(TRAVELLING[name], held[name]) if name in held else _read_again(name, files_of[name])
            for name in sorted(bytes_of)
        }

    def rows_of(self, table: TableSchema, frame: DataFrame) -> TableRows:
        """Stages the rows of a frame, because workers make them and the driver writes them."""
        self._write(frame, table.name)
        files = self._files(table.name)

        def read() -> Iterator[pa.RecordBatch]:
            for file in files:
                for batch in pq.ParquetFile(file, memory_map=True).iter_batches(_FRAME_ROWS):
                    yield batch.select(table.arrow_schema.names).cast(table.arrow_schema)

        return ArrowRows(table, read)

    def attempts(self, before_s: float = math.inf) -> set[str]:
        """Returns the attempts that staged something and began before `before_s`, also those killed while writing."""
        return {folder.name for folder in _begun_before(Path(self._run).glob("*"), before_s)}

    def drop(self, attempt: str) -> None:
        """Drops what an attempt at this run staged."""
        _remove(self._run / attempt)

    def sweep(self) -> None:
        """Drops what killed attempts at any run staged a week ago or earlier."""
        for folder in _begun_before(self._run.parent.glob("*/*"), time.time() - LEFT_BEHIND_S):
            _remove(folder)

    @property
    def _run(self) -> Path:
        return Path(self.target.location, STAGED, self.run_key)

    def _all_written(self, frame: DataFrame, name: str) -> list[Path]:
        """Writes a frame and returns its files. Raises a UsageError if the driver does not find all rows."""
        written = written_by_workers(frame, lambda rows: self._write(rows, name))
        files = self._files(name)
        if written is not None:
            self.check_all_arrived(written, sum(pq.read_metadata(file).num_rows for file in files))
        return files

    def _write(self, frame: DataFrame, name: str) -> None:
        # With the scheme, because Spark's own file system need not be that of this machine.
        # Its columns are binary and already narrow; compressing them would take longer than writing them.
        frame.write.mode("overwrite").option("compression", "none").parquet(f"file://{self._folder(name)}")

    def _files(self, name: str) -> list[Path]:
        """The files of a written frame, in the order of its partitions."""
        return sorted(self._folder(name).glob("*.parquet"))

    def _folder(self, name: str) -> Path:
        return self._run / self.attempt / name


def _payloads(file: Path) -> Iterator[tuple[str, pa.Buffer]]:
    """Yields the payloads of a staged file with the names of their tables."""
    for batch in pq.ParquetFile(file, memory_map=True).iter_batches(_PAYLOADS, columns=["table", "payload"]):
        for name, payload in zip(batch["table"].to_pylist(), batch["payload"], strict=True):
            yield name, payload.as_buffer()


def _read_again(name: str, files: Sequence[Path]) -> ArrowRows:
    def read() -> Iterator[pa.RecordBatch]:
        for file in files:
            for table, payload in _payloads(file):
                if table == name:
                    yield from batches_in(payload)

    return ArrowRows(TRAVELLING[name], read)


def _begun_before(folders: Iterable[Path], time_s: float) -> list[Path]:
    found = []
    for folder in folders:
        with suppress(FileNotFoundError):  # the attempt that made it has dropped it meanwhile
            if folder.stat().st_mtime < time_s:
                found.append(folder)
    return found


def _remove(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    for parent in (folder.parent, folder.parent.parent):
        with suppress(OSError):  # another attempt is in it
            parent.rmdir()
