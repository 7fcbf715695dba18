"""Writes one run: replaces its own rows, leaves all other rows as they are, and writes `runs` last.

A small audit through Spark spends much of its time in commits, so their number and kind were chosen by measurement
(docs/TRIED.md). An append is cheaper than an overwrite, so only tables that may hold rows of this run are
overwritten. A table without rows, old or new, is not written. Several tables are written at one time.

Two attempts at one run may write at one time. Appends do not conflict in Delta, so each write is a transaction of the
run with a growing number: one of two writes that overlap is refused, and a write whose number is below that of a later
attempt is left out. An attempt that finds another one's staging area overwrites, so that no row is there twice; it
cannot know whether the other one is running or was killed. The attempt that does not write the row of `runs` gives way.
Nothing is locked, so no lock is left when an attempt is killed. All of this holds for both ways of writing
(`dispatch_audit.pipeline.tables.tables`), also for one attempt in each.
"""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame

from dispatch_audit.pipeline.errors import GaveWayError
from dispatch_audit.pipeline.tables.payload import record_batch
from dispatch_audit.pipeline.tables.rows import TableRows, held_rows
from dispatch_audit.pipeline.tables.schemas import RUNS, TABLES
from dispatch_audit.pipeline.tables.staging import Staging
from dispatch_audit.pipeline.tables.table_schema import TableSchema
from dispatch_audit.pipeline.tables.tables import ConflictError, Tables, is_held, of_run
from dispatch_audit.pipeline.tables.threads import at_one_time

# Each of two attempts may be refused in a table that the other wrote first. One of them retries; it may be refused
# again while the other writes its last tables.
_WAITS_S = (0.5, 2.0)


@dataclass
class RunTables:
    """The tables of a target, as one attempt at a run writes them; `open_tables` makes one.

    Attributes:
        tables: the tables.
        run_key: the run.
        created: names of the tables that this attempt created.
        staging: holds the packed rows of the trace, and the result of the replay.
    """

    tables: Tables
    run_key: str
    created: frozenset[str]
    staging: Staging = field(init=False)
    _number: int = field(init=False, default=0)
    _held: frozenset[str] = field(init=False, default=frozenset())

    def __post_init__(self) -> None:
        self.staging = self.tables.staging(self.run_key)

    def keep(self, rows: DataFrame, name: str = "packed") -> DataFrame:
        """Evaluates rows of a trace once, and returns them as staged.

        Args:
            rows: of any columns, in no order.
            name: under which they are staged; each may be used once.

        Raises:
            UsageError: rows that workers wrote are missing below the path.
        """
        return self.staging.keep_rows(rows, name)

    def stage(self, results: DataFrame) -> dict[str, TableRows]:
        """Runs the replay once and stages its result.

        Args:
            results: rows of `RESULT_SCHEMA`, not yet evaluated.

        Returns:
            The rows for each table that has any, by its name.

        Raises:
            UsageError: rows that workers wrote are missing below the path.
        """
        return self.staging.keep(results)

    def rows_of(self, table_name: str, frame: DataFrame) -> TableRows:
        """Returns the rows of a frame for a table; the frame has all columns but `run_key` and timestamps."""
        return self.staging.rows_of(TABLES[table_name], frame)

    def write(self, rows: Mapping[str, TableRows]) -> None:
        """Replaces the rows of this run in every table but `runs`.

        Args:
            rows: by name of the table. Tables that are not named end up without rows of this run.

        Raises:
            GaveWayError: another attempt at this run wrote at the same time.
        """
        with self._giving_way():
            for wait_s in (*_WAITS_S, None):
                try:
                    self._write(rows)
                    break
                except ConflictError:
                    if wait_s is None or not self._goes_first():
                        raise
                    time.sleep(wait_s)

    def _goes_first(self) -> bool:
        """Whether this attempt retries after a conflict; not if another attempt has written the row of `runs`."""
        return self.staging.goes_first() and not self._is_held(RUNS)

    def _write(self, rows: Mapping[str, TableRows]) -> None:
        is_first_try = not self._number
        # Taken before looking for other attempts: one that is not seen has staged nothing yet, and it takes its number
        # after that, so the number is higher.
        self._number = time.time_ns() // 1000
        if is_first_try:
            self._held = self._tables_to_replace()
            if RUNS.name in self._held:
                # From here until `finish` the tables hold old and new rows, so the run must not look complete.
                self.tables.delete(RUNS.name, self.run_key)
        else:
            # After a conflict the tables hold rows of both attempts. A row of `runs` is that of the other one, which is
            # complete; it stays, and `finish` gives way to it.
            self._held = frozenset(TABLES)
        others = [table for table in TABLES.values() if table is not RUNS]
        at_one_time(lambda table: self._replace(table, rows.get(table.name)), others)

    def finish(self, run: Mapping[str, Any]) -> None:
        """Writes the row of `runs` and drops what attempts at this run staged.

        Args:
            run: the written columns of `runs` by name.

        Raises:
            GaveWayError: another attempt at this run wrote its row.
        """
        row = record_batch(RUNS.name, {name: [value] for name, value in run.items()})
        with self._giving_way():
            # `_write` has deleted the old row, so a row here is that of another attempt.
            write = self.tables.write_absent if RUNS.name in self._held else self.tables.append
            write(RUNS, held_rows(RUNS, [row]), self.run_key, self._number)
            rows_of_run = self.tables.query(RUNS.name, "started_at_us", f"WHERE {of_run(self.run_key)}")
            if [found["started_at_us"] for found in rows_of_run] != [run["started_at_us"]]:
                raise self._gave_way()
        self.staging.clear()

    def discard(self) -> None:
        """Drops what `stage` staged."""
        self.staging.discard()

    def _tables_to_replace(self) -> frozenset[str]:
        """Names of the tables that hold rows of this run, or may get some while this attempt writes."""
        # A complete run may have rows in every table.
        if self.staging.others() or self._is_held(RUNS):
            return frozenset(TABLES)
        # Tables that this attempt created need no look: an attempt that wrote to them since was found above.
        existing = [table for table in TABLES.values() if table is not RUNS and table.name not in self.created]
        held = at_one_time(self._is_held, existing)
        return frozenset(table.name for table, is_one in zip(existing, held, strict=True) if is_one)

    def _is_held(self, table: TableSchema) -> bool:
        return is_held(self.tables, table.name, self.run_key)

    def _replace(self, table: TableSchema, rows: TableRows | None) -> None:
        if rows is not None:
            write = self.tables.overwrite if table.name in self._held else self.tables.append
            write(table, rows, self.run_key, self._number)
        elif table.name in self._held:
            self.tables.delete(table.name, self.run_key)

    @contextmanager
    def _giving_way(self) -> Iterator[None]:
        try:
            yield
        except ConflictError as error:
            self.discard()
            raise self._gave_way() from error
        except GaveWayError:
            self.discard()
            raise

    def _gave_way(self) -> GaveWayError:
        return GaveWayError(
            f"another audit of the same traces and settings wrote run {self.run_key} of {self.tables.target} at the "
            "same time",
            "use its tables, or audit again if it was interrupted",
        )
