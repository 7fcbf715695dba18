"""The recording of one process: its folder, and what records in it."""

import atexit
import logging
import os
import socket
import time
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from dispatch_audit.recording.client.client_rows import ClientRows
from dispatch_audit.recording.client.recorded_client import RecordedClient
from dispatch_audit.recording.client.recorded_consumer import RecordedConsumer
from dispatch_audit.recording.client.recorded_producer import RecordedProducer
from dispatch_audit.recording.row_writer import RowWriter
from dispatch_audit.recording.trace_files import DEFAULT_ROTATION, Rotation, TraceFiles

RECORDED_BY: Final = "client"
_NOTE: Final = "Calls of an application to Pulsar's client: what it received, after the dispatch, and when it asked."
_ROWS_MAX: Final = 100_000
_CLOSE_S: Final = 10.0

_log = logging.getLogger(__name__)


class ClientRecording:
    """Records the clients, producers and consumers of one process as one trace.

    A folder that cannot be written does not stop the application: it is logged, and nothing is recorded.

    Args:
        folder: the trace is a folder below it, named by host, process and time.
        pulsar_version: of the broker, such as `4.0.8`; it decides which rules an audit applies.
        settings: of broker.conf, those that differ from the defaults of the version, as far as they are known.
        rows_max: most rows that wait for the disk; more are dropped and counted.
        rotation: when files are closed.

    Attributes:
        folder: of the trace.
    """

    def __init__(
        self,
        folder: str | Path,
        *,
        pulsar_version: str,
        settings: Mapping[str, Any] | None = None,
        rows_max: int = _ROWS_MAX,
        rotation: Rotation = DEFAULT_ROTATION,
    ) -> None:
        self.folder = Path(folder) / f"{socket.gethostname()}-{os.getpid()}-{time.time_ns() // 1000}"
        manifest = {
            "pulsar_version": pulsar_version,
            "settings": dict(settings or {}),
            "recorder": {"name": "pulsar-client wrapper", "version": _own_version()},
            "recorded_by": RECORDED_BY,
            "complete_from_start": False,
            "note": _NOTE,
        }
        writer = None
        try:
            writer = RowWriter(TraceFiles(self.folder, "events", manifest, rotation), rows_max)
        except (OSError, TypeError, ValueError) as error:
            _log.warning("nothing is recorded below %s: %s", folder, error)
        self._rows = ClientRows(writer)
        # The thread that writes ends with the interpreter.
        atexit.register(self.close)

    def client(self, client: Any) -> RecordedClient:
        """Returns a client whose producers and Key_Shared consumers are recorded; it does what `client` does."""
        return RecordedClient(client, self._rows)

    def consumer(self, consumer: Any) -> RecordedConsumer:
        """Returns a recorded consumer, of a consumer of a Key_Shared subscription that is there already."""
        return RecordedConsumer(consumer, self._rows)

    def producer(self, producer: Any) -> RecordedProducer:
        """Returns a recorded producer, of a producer that is there already."""
        return RecordedProducer(producer, self._rows)

    @property
    def dropped(self) -> int:
        """Number of rows that are not in the trace, because the disk was too slow, full or not there."""
        return self._rows.dropped

    @property
    def errors(self) -> int:
        """Number of calls that could not be recorded because of an error in the recording."""
        return self._rows.errors

    def close(self, timeout_s: float = _CLOSE_S) -> bool:
        """Writes what waits and closes the file; returns whether that was done in time. Call it at the end."""
        atexit.unregister(self.close)
        return self._rows.end(timeout_s)

    def __enter__(self) -> "ClientRecording":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def _own_version() -> str:
    try:
        return version("pulsar-dispatch-audit")
    except PackageNotFoundError:
        return ""
