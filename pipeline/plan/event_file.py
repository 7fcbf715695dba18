"""Files with the events of packed batches, beside the staged rows that refer to them.

Where the workers have a folder in common, events need not pass through the engine, which copies them a dozen times from
the worker that packs them to the one that replays them. The worker that packs them appends them to a file, and the
staged row has a reference instead:

    8 bytes    -1; events begin with the number of their rows
    16 bytes   where they begin in the file, and how many bytes they have
    the rest   path of the file, as `os.fsencode` writes it
"""

import os
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from io import FileIO
from pathlib import Path
from struct import Struct
from typing import Final
from uuid import uuid4

from dispatch_audit.pipeline.errors import DispatchAuditError

Put = Callable[[bytes], bytes]
"""Takes the encoded events of a packed batch and returns what its staged row has in their place."""

_HEAD: Final = Struct("=3q")
_REFERENCE: Final = -1
# Opening a file for fewer bytes is not worth it, least of all on a network.
_SMALL_BYTES: Final = 1 << 14


def as_they_are(events: bytes) -> bytes:
    """Returns events as they are: their staged row has them."""
    return events


@contextmanager
def event_file(folder: str | None) -> Iterator[Put]:
    """Yields a function that puts the events of a task into its own file in the folder; None: into the staged rows."""
    if folder is None:
        yield as_they_are
        return
    with closing(_EventFile(folder)) as file:
        yield file.put


def events_of(cell: bytes) -> bytes:
    """Returns the encoded events of a packed batch from what its staged row has in their place.

    Raises:
        DispatchAuditError: their file ends before them.
        OSError: their file cannot be read.
    """
    kind, begin, size = _HEAD.unpack_from(cell)
    if kind != _REFERENCE:
        return cell
    path = os.fsdecode(cell[_HEAD.size :])
    with FileIO(path) as file:
        events = os.pread(file.fileno(), size, begin)
    if len(events) < size:
        raise DispatchAuditError(f"{path} ends before the events that a staged row refers to")
    return events


class _EventFile:
    """The file of one task. It has a name of its own, because an engine may start a task twice."""

    def __init__(self, folder: str) -> None:
        self._path = Path(folder, uuid4().hex)
        self._file: FileIO | None = None
        self._size = 0
        self._is_writable = True

    def put(self, events: bytes) -> bytes:
        """Appends events and returns a reference to them; returns small ones, and all once it cannot write."""
        if len(events) < _SMALL_BYTES or not self._is_writable:
            return events
        try:
            self._append(events)
        except OSError:
            # Some engines let functions open no files, and a disk may be full: then the engine moves the events.
            self._is_writable = False
            return events
        begin, self._size = self._size, self._size + len(events)
        return _HEAD.pack(_REFERENCE, begin, len(events)) + os.fsencode(self._path)

    def _append(self, events: bytes) -> None:
        if self._file is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._file = FileIO(self._path, "x")
        left = memoryview(events)
        while left:
            left = left[self._file.write(left) :]

    def close(self) -> None:
        """Closes the file."""
        if self._file is not None:
            self._file.close()
