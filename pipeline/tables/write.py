"""Writes one run: replaces its own rows, leaves all other rows as they are, and writes `runs` last.

A small audit spends much of its time in commits, so their number and kind were chosen by measurement (docs/FIGURES.md).
An append is cheaper than an overwrite, so only tables that may hold rows of this run are overwritten. A table without
rows, old or new, is not written. Several tables are written at one time.

Two attempts at one run may write at one time. Appends do not conflict in Delta, so each write is a transaction of the
run (`txnAppId`) with a growing number (`txnVersion`): Delta refuses one of two writes that overlap, and skips a write
whose number is below that of a later attempt. An attempt that finds another one's staging area overwrites, so that no
row is there twice; it cannot know whether the other one is running or was killed. The attempt that does not write the
row of `runs` gives way. Nothing is locked, so no lock is left when an attempt is killed.
"""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from delta import exceptions as conflicts
from pyspark.sql import Column, DataFrame, DataFrameWriterV2, SparkSession
from pyspark.sql import functions as sf

from dispatch_audit.pipeline.errors import DispatchAuditError, GaveWayError, UsageError
from dispatch_audit.pipeline.tables.payload import decode, record_batch, unpacked
from dispatch_audit.pipeline.tables.schemas import RUNS, TABLES, TRAVELLING
from dispatch_audit.pipeline.tables.staging import Staging
from dispatch_audit.pipeline.tables.table_schema import RUN_KEY, TableSchema
from dispatch_audit.pipeline.tables.target import Target
from dispatch_audit.pipeline.tables.threads import at_one_time

# Tables with no more than this go through the driver: a Spark job would take longer than sending the rows.
_SMALL_BYTES = 8 << 20
# Each of two attempts may be refused in a table that the other wrote first. One of them retries; it may be refused
# again while the other writes its last tables.
_WAITS_S = (0.5, 2.0)
# Delta raises these in the second of two attempts at one run; attempts at different runs do not conflict.
_CONFLICTS = (
    conflicts.ConcurrentAppendException,
    conflicts.ConcurrentDeleteDeleteException,
    conflicts.ConcurrentDeleteReadException,
    conflicts.ConcurrentTransactionException,
)


@dataclass
class RunTables:
    """The tables of a target, as one attempt at a run writes them; `open_tables` makes one.

    Attributes:
        spark: the session.
        target: where the tables are.
        run_key: the run.
        created: names of the tables that this attempt created.
        staging: holds the result of the replay.
    """

    spark: SparkSession
    target: Target
    run_key: str
    created: frozenset[str]
    staging: Staging = field(init=False)
    _number: int = field(init=False, default=0)
    _held: frozenset[str] = field(init=False, default=frozenset())

    def __post_init__(self) -> None:
        self.staging = Staging(self.spark, self.target, self.run_key)

    def keep(self, packed: DataFrame) -> DataFrame:
        """Evaluates the packed rows of a trace once, and returns them as staged.

        Raises:
            UsageError: rows that workers wrote are missing below the path.
        """
        staged, rows_written = self.staging.keep(packed, "packed")
        self._refuse_lost(staged.count(), rows_written)
        return staged

    def stage(self, results: DataFrame) -> dict[str, DataFrame]:
        """Runs the replay once and stages its result.

        Args:
            results: rows of `RESULT_SCHEMA`, not yet evaluated.

        Returns:
            The rows for each table that has any, by its name, without `run_key`.

        Raises:
            UsageError: rows that workers wrote are missing below the path.
        """
        staged, rows_written = self.staging.keep(results, "results")
        # Added up on the driver: an exchange would cost more than collecting the few numbers.
        bytes_of: dict[str, int] = {}
        rows = staged.select("table", sf.length("payload").alias("bytes")).collect()
        self._refuse_lost(len(rows), rows_written)
        for row in rows:
            bytes_of[row["table"]] = bytes_of.get(row["table"], 0) + row["bytes"]
        small = [table for table, size in bytes_of.items() if size <= _SMALL_BYTES]
        payloads: dict[str, list[bytes]] = {}
        for row in staged.where(sf.col("table").isin(small)).collect():
            payloads.setdefault(row["table"], []).append(bytes(row["payload"]))
        frames = {table: decode(staged, table) for table in bytes_of if table not in small}
        for name, of_table in payloads.items():
            schema = TRAVELLING[name].written_spark_schema
            # One file: Spark would write one for each of its cores.
            frames[name] = self.spark.createDataFrame(unpacked(name, of_table), schema).coalesce(1)
        return dict(sorted(frames.items()))

    def _refuse_lost(self, rows: int, rows_written: int) -> None:
        # A worker with a file system of its own writes there without an error.
        if rows < rows_written:
            raise UsageError(
                f"workers wrote to {self.target} on their own disks, which the driver cannot read",
                "choose an --out on a shared file system or in object storage",
            )

    def write(self, frames: Mapping[str, DataFrame]) -> None:
        """Replaces the rows of this run in every table but `runs`.

        Args:
            frames: rows by name of the table, without `run_key`; nullable columns and derived timestamps may be absent.
                Tables that are not named end up without rows of this run.

        Raises:
            GaveWayError: another attempt at this run wrote at the same time.
        """
        with self._giving_way():
            for wait_s in (*_WAITS_S, None):
                try:
                    self._write(frames)
                    break
                except _CONFLICTS:
                    if wait_s is None or not self._goes_first():
                        raise
                    time.sleep(wait_s)

    def _goes_first(self) -> bool:
        """Whether this attempt retries after a conflict; not if another attempt has written the row of `runs`."""
        return self.staging.goes_first() and self._rows_of(RUNS).isEmpty()

    def _write(self, frames: Mapping[str, DataFrame]) -> None:
        # After a conflict the tables hold rows of both attempts.
        self._held = frozenset(TABLES) if self._number else self._tables_to_replace()
        # Taken after looking for other attempts: an attempt that was not seen looks later and gets a higher number.
        self._number = time.time_ns() // 1000
        if RUNS.name in self._held:
            # From here until `finish` the tables hold old and new rows, so the run must not look complete.
            self._delete(RUNS)
        others = [table for table in TABLES.values() if table is not RUNS]
        at_one_time(lambda table: self._replace(table, frames.get(table.name)), others)

    def finish(self, run: Mapping[str, Any]) -> None:
        """Writes the row of `runs` and drops what attempts at this run staged.

        Args:
            run: the written columns of `runs` by name.

        Raises:
            GaveWayError: another attempt at this run wrote its row.
        """
        row = pa.Table.from_batches([record_batch(RUNS.name, {name: [value] for name, value in run.items()})])
        with self._giving_way():
            # `_write` has deleted the old row, so a row here is that of another attempt.
            if RUNS.name in self._held and not self._rows_of(RUNS).isEmpty():
                raise self._gave_way()
            self._replace(RUNS, self.spark.createDataFrame(row, RUNS.written_spark_schema))
            rows_of_run = self._rows_of(RUNS).select("started_at_us").collect()
            if [found["started_at_us"] for found in rows_of_run] != [run["started_at_us"]]:
                raise self._gave_way()
        self.staging.clear()

    def discard(self) -> None:
        """Drops what `stage` staged."""
        self.staging.discard()

    def _tables_to_replace(self) -> frozenset[str]:
        """Names of the tables that hold rows of this run, or may get some while this attempt writes."""
        if self.staging.others():
            return frozenset(TABLES)
        # A complete run may have rows in every table.
        if not self.target.holds_no_file(RUNS.name) and not self._rows_of(RUNS).isEmpty():
            return frozenset(TABLES)
        # Tables that this attempt created need no look: an attempt that wrote to them since was found above.
        existing = [table for table in TABLES.values() if table is not RUNS and table.name not in self.created]
        held = at_one_time(lambda table: not self._rows_of(table).isEmpty(), existing)
        return frozenset(table.name for table, is_held in zip(existing, held, strict=True) if is_held)

    def _rows_of(self, table: TableSchema) -> DataFrame:
        return self.target.read(self.spark, table.name).where(sf.col(RUN_KEY) == self.run_key)

    def _replace(self, table: TableSchema, rows: DataFrame | None) -> None:
        if rows is not None and table.name in self._held:
            self._writer(table, rows).overwrite(sf.col(RUN_KEY) == self.run_key)
        elif rows is not None:
            self._writer(table, rows).append()
        elif table.name in self._held:
            self._delete(table)

    def _writer(self, table: TableSchema, rows: DataFrame) -> DataFrameWriterV2:
        writer = self._complete(table, rows).writeTo(self.target.identifier(table.name))
        return writer.option("txnAppId", self.run_key).option("txnVersion", str(self._number))

    def _delete(self, table: TableSchema) -> None:
        self.spark.sql(f"DELETE FROM {self.target.identifier(table.name)} WHERE {RUN_KEY} = '{self.run_key}'")

    @contextmanager
    def _giving_way(self) -> Iterator[None]:
        try:
            yield
        except _CONFLICTS as error:
            self.discard()
            raise self._gave_way() from error
        except GaveWayError:
            self.discard()
            raise

    def _gave_way(self) -> GaveWayError:
        return GaveWayError(
            f"another audit of the same traces and settings wrote run {self.run_key} of {self.target} at the same time",
            "use its tables, or audit again if it was interrupted",
        )

    def _complete(self, table: TableSchema, rows: DataFrame) -> DataFrame:
        unknown = set(rows.columns) - {column.name for column in table.columns}
        if unknown:
            raise DispatchAuditError(f"{table.name} has no column {', '.join(sorted(unknown))}")

        def value(name: str, derived_from: str | None) -> Column:
            if name == RUN_KEY:
                return sf.lit(self.run_key)
            if derived_from is not None:
                return sf.timestamp_micros(derived_from)
            return sf.col(name) if name in rows.columns else sf.lit(None)

        fields = zip(table.columns, table.spark_schema, strict=True)
        return rows.select(*(value(c.name, c.derived_from).cast(field.dataType).alias(c.name) for c, field in fields))
