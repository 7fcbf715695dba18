"""The staging area of a run: the packed rows of its trace, and the result of their replay, until the tables hold it.

Reading a trace and replaying it are too expensive to run once for each use of what they return. Every attempt at a run
has its own staging area, so that two attempts at one time do not overwrite each other and each sees the other: a
staging area of another attempt means that the attempt is running, or was killed.
"""

import math
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from uuid import uuid4

from pyspark.sql import DataFrame

from dispatch_audit.pipeline.errors import UsageError
from dispatch_audit.pipeline.tables.rows import TableRows
from dispatch_audit.pipeline.tables.table_schema import TableSchema
from dispatch_audit.pipeline.tables.target import Target

STAGED = "_replay"
"""The folder below a path, and the beginning of the names of tables in a catalog, that staged rows are in."""


@dataclass
class Staging(ABC):
    """The staging area of one attempt at a run.

    Attributes:
        target: the staging area is beside the tables of this target.
        run_key: the run.
        attempt: distinguishes attempts at the same run.
        begun_s: when the attempt began, seconds since 1970 UTC.
    """

    target: Target
    run_key: str
    attempt: str = field(default_factory=lambda: uuid4().hex, init=False)
    begun_s: float = field(default_factory=time.time, init=False)

    @property
    def files(self) -> str | None:
        """A folder for files of the workers, which all of them reach; None: they have none in common."""
        return None

    @abstractmethod
    def keep_rows(self, rows: DataFrame, name: str) -> DataFrame:
        """Evaluates and stages rows of a trace under a name; returns them as staged. Raises as `keep` does."""

    @abstractmethod
    def keep(self, results: DataFrame) -> dict[str, TableRows]:
        """Evaluates and stages `results`; returns the rows by table.

        Args:
            results: rows of `dispatch_audit.pipeline.tables.payload.RESULT_SCHEMA`, not yet evaluated.

        Raises:
            UsageError: the driver does not find all rows that workers wrote.
        """

    @abstractmethod
    def rows_of(self, table: TableSchema, frame: DataFrame) -> TableRows:
        """Returns the rows of a frame, which has the columns of `table.arrow_schema` in any order."""

    @abstractmethod
    def attempts(self, before_s: float = math.inf) -> set[str]:
        """Returns the attempts that staged something; where the time is known, only those begun before `before_s`."""

    @abstractmethod
    def drop(self, attempt: str) -> None:
        """Drops what an attempt at this run staged."""

    @abstractmethod
    def sweep(self) -> None:
        """Drops what killed attempts at any run staged long ago, where that is known."""

    def others(self) -> bool:
        """Whether another attempt at this run has staged something; it may be running or killed."""
        return any(attempt != self.attempt for attempt in self.attempts())

    def goes_first(self) -> bool:
        """Whether this attempt comes first among those at this run that have staged something."""
        return self.attempt == min({self.attempt, *self.attempts()})

    def discard(self) -> None:
        """Drops what this attempt staged."""
        self.drop(self.attempt)

    def clear(self) -> None:
        """Drops what this attempt and earlier ones at this run staged, each once."""
        for attempt in {self.attempt, *self.attempts(before_s=self.begun_s)}:
            self.drop(attempt)

    def check_all_arrived(self, rows_written: int, rows_found: int) -> None:
        """Raises a UsageError if the driver finds fewer rows than workers wrote."""
        # A worker with a file system of its own writes there without an error.
        if rows_found < rows_written:
            raise UsageError(
                f"workers wrote to {self.target} on their own disks, which the driver cannot read",
                "choose an --out on a shared file system or in object storage",
            )
