"""The staging area of tables in an object store: rows on this machine, and a mark of the attempt beside the tables.

The mark shows the attempt to others, which may run on other machines. Its name says when the attempt began, because the
times of a store are whole seconds, and of its own clock.
"""

import math
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from pyspark.sql import DataFrame

from dispatch_audit.pipeline.storage.store_path import StorePath
from dispatch_audit.pipeline.tables.delta_rs.local_staging import LEFT_BEHIND_S, LocalStaging
from dispatch_audit.pipeline.tables.staging import STAGED


class _Mark(NamedTuple):
    attempt: str
    begun_s: float
    file: StorePath


@dataclass
class StoreStaging(LocalStaging):
    """The staging area of one attempt at a run whose tables are in an object store."""

    _rows: TemporaryDirectory[str] = field(init=False)
    _is_marked: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        self._rows = TemporaryDirectory(prefix="dispatch-audit-", ignore_cleanup_errors=True)

    def attempts(self, before_s: float = math.inf) -> set[str]:
        """Returns the attempts that staged something and began before `before_s`."""
        return {mark.attempt for mark in self._marks() if mark.begun_s < before_s}

    def drop(self, attempt: str) -> None:
        """Drops the mark of an attempt at this run, and what this one staged."""
        for mark in self._marks():
            if mark.attempt == attempt:
                mark.file.remove_all()
        if attempt == self.attempt:
            self._rows.cleanup()

    def sweep(self) -> None:
        """Drops the marks of killed attempts at any run that began a week ago or earlier."""
        for mark in _marks_of(self._marks_of_runs.rglob()):
            if mark.begun_s < time.time() - LEFT_BEHIND_S:
                mark.file.remove_all()

    @property
    def _marks_of_runs(self) -> StorePath:
        assert self.target.store is not None, "others have a staging area of another kind"
        return self.target.store / STAGED

    def _marks(self) -> Iterator[_Mark]:
        return _marks_of((self._marks_of_runs / self.run_key).iterdir())

    def _write(self, frame: DataFrame, name: str) -> None:
        if not self._is_marked:
            mark = f"{self.attempt}.{self.begun_s:.6f}"
            (self._marks_of_runs / self.run_key / mark).write_bytes(b"begun")
            self._is_marked = True
        super()._write(frame, name)

    def _folder(self, name: str) -> Path:
        return Path(self._rows.name, name)


def _marks_of(files: Iterable[StorePath]) -> Iterator[_Mark]:
    for file in files:
        attempt, _, begun = file.name.partition(".")
        try:
            yield _Mark(attempt, float(begun), file)
        except ValueError:  # a folder
            continue
