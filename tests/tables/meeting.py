"""Attempts at one run that write at one time, by agreement instead of by luck."""

import threading
from typing import Any, cast

from dispatch_audit.pipeline.tables.tables import Tables

MEET_S_MAX = 300.0


class Meeting:
    """The tables of an attempt that waits for the other attempts before it replaces the first table.

    By then all of them have looked for earlier rows, so none finishes before the others have begun.
    """

    def __init__(self, tables: Tables, barrier: threading.Barrier) -> None:
        self._tables, self._barrier = tables, barrier
        self._lock, self._has_met = threading.Lock(), False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tables, name)

    def overwrite(self, *arguments: Any) -> None:
        with self._lock:
            if not self._has_met:
                self._barrier.wait(MEET_S_MAX)
                self._has_met = True
        self._tables.overwrite(*arguments)


def tables_that_meet(tables: Tables, barrier: threading.Barrier) -> Tables:
    """The tables, for an attempt that meets others at the barrier."""
    return cast(Tables, Meeting(tables, barrier))
