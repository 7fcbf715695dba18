"""Keeps what delta-rs prints of a write that fails apart from stderr: where a disk is full, its threads panic.

The error that the write raises says all of it.
"""

import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

_lock = threading.Lock()


class _Kept:
    """What is printed to stderr while threads write; the first one redirects it, and the last one puts it back."""

    def __init__(self) -> None:
        self.threads = 0
        self.failed = False
        self._file: IO[bytes] | None = None
        self._original = -1

    def begin(self) -> None:
        # In memory, because the disk may be the one that is full; other systems than Linux have no such file.
        if self.threads == 0 and hasattr(os, "memfd_create"):
            self.failed = False
            self._file = os.fdopen(os.memfd_create("stderr"), "w+b")
            self._original = os.dup(2)
            os.dup2(self._file.fileno(), 2)
        self.threads += 1

    def end(self) -> None:
        self.threads -= 1
        if self.threads or self._file is None:
            return
        os.dup2(self._original, 2)
        with self._file as printed, os.fdopen(self._original, "wb") as stderr:
            printed.seek(0)
            if not self.failed:
                shutil.copyfileobj(printed, stderr)
        self._file = None


_kept = _Kept()


@contextmanager
def panics_kept_apart() -> Iterator[None]:
    """Shows what is printed to stderr while its body runs only if the body raises nothing."""
    with _lock:
        _kept.begin()
    try:
        yield
    except BaseException:
        _kept.failed = True
        raise
    finally:
        with _lock:
            _kept.end()
