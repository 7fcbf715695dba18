"""The staging area of a run: the packed rows of its trace, and the result of their replay, until the tables hold it.

Reading a trace and replaying it are too expensive to run once for each use. What they return is staged as plain Parquet
below a path, and in a catalog as tables. Every attempt at a run has its own staging area, so that two attempts at one
time do not overwrite each other and each sees the other: a staging area of another attempt means that the attempt is
running, or was killed.
"""

import math
import shutil
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, get_args
from uuid import uuid4

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as sf

from dispatch_audit.pipeline.tables.target import Target

Part = Literal["packed", "results"]
"""The packed rows of a trace, and what their replay returns."""

_PREFIX = "_replay"
# The names of files are wanted, whatever their columns are.
_ANY = "kind INT"
# Much longer than an audit takes: older staging areas were left by audits that were killed and never run again.
_LEFT_BEHIND_S = 7 * 24 * 3600.0


@dataclass(frozen=True)
class Staging:
    """The staging area of one attempt at a run.

    Attributes:
        spark: the session.
        target: the staging area is beside the tables of this target.
        run_key: the run.
        attempt: distinguishes attempts at the same run.
        begun_s: when the attempt began, seconds since 1970 UTC.
    """

    spark: SparkSession
    target: Target
    run_key: str
    attempt: str = field(default_factory=lambda: uuid4().hex)
    begun_s: float = field(default_factory=time.time)

    def keep(self, rows: DataFrame, part: Part) -> tuple[DataFrame, int]:
        """Evaluates and stages rows; returns the staged rows and how many were written."""
        written, schema = Observation(), rows.schema
        # Columns are binary and already narrow; compressing them would take longer than writing them.
        writer = rows.observe(written, sf.count(sf.lit(1)).alias("rows")).write.option("compression", "none")
        if self.target.named:
            writer.mode("overwrite").saveAsTable(self._table(self.attempt, part))
            kept = self.spark.table(self._table(self.attempt, part))
        else:
            writer.mode("overwrite").parquet(self._folder(self.attempt, part))
            kept = self.spark.read.schema(schema).parquet(self._folder(self.attempt, part))
        return kept, int(written.get["rows"])

    def others(self) -> bool:
        """Whether another attempt at this run has staged something; it may be running or killed."""
        return any(attempt != self.attempt for attempt in self._attempts())

    def goes_first(self) -> bool:
        """Whether this attempt comes first among those at this run that have staged something."""
        return self.attempt == min({self.attempt, *self._attempts()})

    def discard(self) -> None:
        """Drops what this attempt staged."""
        self._drop(self.attempt)

    def clear(self) -> None:
        """Drops what this attempt and earlier ones at this run staged."""
        self.discard()
        for attempt in self._attempts(before_s=self.begun_s):
            self._drop(attempt)

    def sweep(self) -> None:
        """Drops what killed attempts at any run staged below a local path a week ago or earlier."""
        if self.target.local:
            for folder in _begun_before(Path(self.target.location, _PREFIX).glob("*/*"), time.time() - _LEFT_BEHIND_S):
                _remove(folder)

    def _attempts(self, before_s: float = math.inf) -> set[str]:
        """Attempts that staged something; where the time is known, only those that began before `before_s`."""
        if self.target.named:
            prefix = f"{_PREFIX}_{self.run_key}_"
            found = self.spark.sql(f"SHOW TABLES IN {self.target.quoted} LIKE '{prefix}*'").collect()
            return {row["tableName"].removeprefix(prefix).partition("_")[0] for row in found}
        if self.target.local:
            # The file system also shows attempts that were killed while they wrote; Spark does not.
            folders = Path(self.target.location, _PREFIX, self.run_key).glob("*")
            return {folder.name for folder in _begun_before(folders, before_s)}
        every = self.spark.read.schema(_ANY).option("recursiveFileLookup", "true")
        try:
            files = every.parquet(f"{self.target.location}/{_PREFIX}/{self.run_key}").inputFiles()
        except AnalysisException:  # there is no such folder
            return set()
        return {file.split("/")[-3] for file in files}

    def _drop(self, attempt: str) -> None:
        if self.target.local:
            _remove(Path(self.target.location, _PREFIX, self.run_key, attempt))
            return
        for part in get_args(Part):
            if self.target.named:
                self.spark.sql(f"DROP TABLE IF EXISTS {self._table(attempt, part)}")
            else:
                # `pyspark.sql` cannot remove a folder; overwriting it with no rows frees its space.
                nothing = self.spark.createDataFrame([], _ANY)
                nothing.write.mode("overwrite").parquet(self._folder(attempt, part))

    def _folder(self, attempt: str, part: Part) -> str:
        return f"{self.target.location}/{_PREFIX}/{self.run_key}/{attempt}/{part}"

    def _table(self, attempt: str, part: Part) -> str:
        return self.target.identifier(f"{_PREFIX}_{self.run_key}_{attempt}_{part}")


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
