"""The rows of one process and their numbers: what producers and consumers record with."""

import itertools
import logging
import os
import time
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from dispatch_audit.recording.row_writer import RowWriter

_log = logging.getLogger(__name__)


class ClientRows:
    """Numbers rows and hands them to a writer; nothing that it does reaches the application.

    Args:
        writer: of the rows; None: nothing is recorded.

    Attributes:
        errors: number of calls that could not be recorded because of an error in the recording.
    """

    def __init__(self, writer: RowWriter | None) -> None:
        self.errors = 0
        self._process, self._writer = os.getpid(), writer
        self._seq, self._numbers = itertools.count(1), itertools.count(1)

    @property
    def dropped(self) -> int:
        """Number of rows that are not in the trace, because the disk was too slow, full or not there."""
        return 0 if self._writer is None else self._writer.dropped

    def number(self) -> int:
        """Returns the number of a new consumer."""
        return next(self._numbers)

    def write(self, event: str, row: Callable[[], Mapping[str, Any]] | Mapping[str, Any]) -> None:
        """Records a row; an error in making it is counted and goes no further.

        Args:
            event: of the row.
            row: its other columns but `seq` and `ts_us`, which are those of this moment, or what returns them.
        """
        if self._writer is None or self._is_forked():
            return
        seq, ts_us = next(self._seq), time.time_ns() // 1000
        with self.quietly():
            columns = row() if callable(row) else row
            self._writer.offer({"event": event, "seq": seq, "ts_us": ts_us, **columns})

    @contextmanager
    def quietly(self) -> Iterator[None]:
        """Counts an error of its body, and keeps it from the application."""
        try:
            yield
        except Exception:
            self.errors += 1
            _log.debug("a call could not be recorded", exc_info=True)

    def end(self, timeout_s: float) -> bool:
        """Writes what waits, and records nothing more; returns whether it was written in time."""
        writer, self._writer = self._writer, None
        return writer is None or self._is_forked() or writer.close(timeout_s)

    def _is_forked(self) -> bool:
        """Whether this process is a copy: it has no thread that writes, and a lock may be held for ever in it."""
        return os.getpid() != self._process


def key_columns(ordering_key: str | None, partition_key: str | None) -> dict[str, Any]:
    """Returns the columns of the sticky key of a message (contract 1.1). To the client an empty key is none."""
    for source, key in (("ordering_key", ordering_key), ("partition_key", partition_key)):
        if key:
            return {"key_b64": b64encode(key.encode()).decode(), "key_source": source}
    return {"key_source": "none"}
