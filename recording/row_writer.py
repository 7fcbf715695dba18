"""Writes rows in a thread of its own, so that no one who hands over a row waits for a disk.

The queue between them is bounded. A row that finds it full is dropped and counted, and so are the rows of a file that
could not be written to its end; rows of event `gap` say so in the trace.
"""

import logging
from collections.abc import Mapping
from queue import Empty, Full, Queue
from threading import Thread
from typing import Any, Final

from dispatch_audit.recording.gaps import Gaps
from dispatch_audit.recording.trace_files import TraceFiles

_TICK_S: Final = 0.5

Row = Mapping[str, Any]

_log = logging.getLogger(__name__)


class RowWriter:
    """Writes the rows of one trace.

    Args:
        files: of the trace; used by the thread only.
        rows_max: most rows that wait to be written.

    Attributes:
        dropped: number of rows that are not in the trace.
    """

    def __init__(self, files: TraceFiles, rows_max: int) -> None:
        self.dropped = 0
        self._files = files
        self._queue: Queue[Row | None] = Queue(rows_max)
        self._gaps = Gaps()
        # The rows of the open file, which are lost if it cannot be closed.
        self._open = Gaps()
        self._failing, self._closed = False, 0
        self._thread = Thread(target=self._run, name="dispatch-audit-recording", daemon=True)
        self._thread.start()

    def offer(self, row: Row) -> None:
        """Takes a row to write, or drops it; never waits for the disk."""
        try:
            self._queue.put_nowait(row)
        except Full:
            self.dropped += 1
            self._gaps.add(row)

    def close(self, timeout_s: float) -> bool:
        """Writes what waits and closes the file; returns whether that was done in time."""
        try:
            self._queue.put(None, timeout=timeout_s)
        except Full:
            return False
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while True:
            try:
                row = self._queue.get(timeout=_TICK_S)
            except Empty:
                self._quietly(self._files.close_old)
                self._note_closed()
                continue
            if row is None:
                break
            self._write(row)
        self._write_gaps()
        self._quietly(self._files.close)
        self._note_closed()

    def _write(self, row: Row) -> None:
        self._write_gaps()
        if self._quietly(lambda: self._files.write(row)):
            self._note_closed()
            self._open.add(row)
        else:
            self.dropped += 1
            self._gaps.add(row)

    def _write_gaps(self) -> None:
        if self._failing:
            return  # they would be lost too
        for row in self._gaps.take():
            if not self._quietly(lambda row=row: self._files.write(row)):
                self._gaps.add(row, row["dropped"], row["seq_end"])

    def _note_closed(self) -> None:
        """Forgets the rows of files that are complete."""
        if self._closed != self._files.closed:
            self._closed = self._files.closed
            self._open.take()

    def _quietly(self, work: Any) -> bool:
        """Does what may fail; returns whether it was done. The rows of a file that failed are lost."""
        try:
            work()
        except Exception as error:
            self._note_closed()
            for row in self._open.take():
                self.dropped += row["dropped"]
                self._gaps.add(row, row["dropped"], row["seq_end"])
            if not self._failing:
                self._failing = True
                _log.warning("cannot write the recorded trace: %s", error)
            return False
        self._failing = False
        return True
