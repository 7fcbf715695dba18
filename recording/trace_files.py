"""Writes the logs of a trace: gzip JSON Lines that are closed whole, and `trace.json`.

The file that is being written is hidden (`.stats-00001.jsonl.gz`), and gets its name when it is closed, so a visible
file is complete. Only one thread may write.

Source: TRACE_FORMAT, "A trace".
"""

import gzip
import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

MANIFEST: Final = "trace.json"
TRACE_FORMAT: Final = 1

Row = Mapping[str, Any]


class Rotation(NamedTuple):
    """When a file is closed and the next one begun.

    Attributes:
        bytes_max: of JSON, before it is compressed.
        seconds_max: since its first row.
    """

    bytes_max: int = 64 << 20
    seconds_max: float = 60.0


DEFAULT_ROTATION: Final = Rotation()


class TraceFiles:
    """The logs of one trace.

    Args:
        folder: of the trace; made if it is not there.
        stem: of the names of the files; one of `messages`, `acks`, `consumers`, `stats` and `events`.
        manifest: the content of `trace.json`, without `trace_format`.
        rotation: when files are closed.
        clock: seconds that only grow.

    Attributes:
        closed: number of files that are complete.

    Raises:
        FileExistsError: the folder has a trace already.
        OSError: it cannot be written.
    """

    def __init__(
        self,
        folder: Path,
        stem: str,
        manifest: Mapping[str, Any],
        rotation: Rotation = DEFAULT_ROTATION,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        # Exclusively: two recorders in one folder would write one trace with two rows of each seq.
        with (folder / MANIFEST).open("x", encoding="utf-8") as file:
            json.dump({"trace_format": TRACE_FORMAT, **manifest}, file, indent=1)
        self.closed = 0
        self._folder, self._stem, self._rotation, self._clock = folder, stem, rotation, clock
        self._number, self._bytes, self._begun = 0, 0, 0.0
        self._file: gzip.GzipFile | None = None

    def write(self, row: Row) -> None:
        """Writes a row.

        Raises:
            OSError: it cannot be written; the row may be torn, and the next one begins a new file.
        """
        line = json.dumps(row, separators=(",", ":")).encode() + b"\n"
        self.close_old()
        if self._file is None:
            self._number += 1
            self._file = gzip.open(self._open_path, "wb", compresslevel=5)  # noqa: SIM115 - open over many rows
            self._bytes, self._begun = 0, self._clock()
        try:
            self._file.write(line)
        except OSError:
            self._abandon()
            raise
        self._bytes += len(line)

    def close_old(self) -> None:
        """Closes the open file if it is large or old enough; a recorder without rows calls this from time to time."""
        if self._file is None:
            return
        if self._bytes >= self._rotation.bytes_max or self._clock() - self._begun >= self._rotation.seconds_max:
            self.close()

    def close(self) -> None:
        """Closes the open file and gives it its name.

        Raises:
            OSError: it cannot be written.
        """
        if self._file is None:
            return
        try:
            self._file.close()
            self._open_path.replace(self._open_path.with_name(self._open_path.name.removeprefix(".")))
            self.closed += 1
        finally:
            self._file = None

    @property
    def _open_path(self) -> Path:
        return self._folder / f".{self._stem}-{self._number:05d}.jsonl.gz"

    def _abandon(self) -> None:
        """Leaves a file that cannot be written as it is: hidden, so that no audit reads a torn row."""
        self._file = None
