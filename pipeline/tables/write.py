"""How one run is written: its own rows are replaced, no other row is touched, and `runs` comes last.

A small audit spends much of its time in commits, so their number and kind are chosen by measurement (docs/FIGURES.md):
appends are cheaper than `overwrite`, so that only tables that may hold rows of this run are written the second way. A
table without rows, old or new, is not written. And several are written at one time.

Two attempts at one run may write at one time. Appends do not see each other, so Delta is made to order them: each write
is a transaction of the run (`txnAppId`) with a number that grows (`txnVersion`). Of two that overlap Delta refuses one,
and one that comes after a later attempt's it leaves out. Whoever finds that another attempt is under way (or was
killed: nobody can tell) overwrites, so that rows are never there twice. The one that does not write the row of `runs`
gives way. Nothing is locked, so nothing stays locked when an attempt is killed.
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

from pipeline.errors import DispatchAuditError, GaveWayError, UsageError
from pipeline.tables.payload import decode, record_batch, unpacked
from pipeline.tables.schemas import RUNS, TABLES, TRAVELLING
from pipeline.tables.staging import Staging
from pipeline.tables.table_schema import RUN_KEY, TableSchema
from pipeline.tables.target import Target
from pipeline.tables.threads import at_one_time

# Rows of a table that take no more go through the driver: a job for them would take longer than they do.
_SMALL_BYTES = 8 << 20
# Two attempts that meet may each be refused in a table that the other wrote first. One goes first, and tries again; as
# long as the other is about its last tables that may be refused once more.
_WAITS_S = (0.5, 2.0)
# What Delta says to the second of two attempts at one run; attempts at different runs do not meet.
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
        created: names of the tables that were not there before this attempt.
        staging: where it keeps what the replay returned.
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

    def stage(self, results: DataFrame) -> dict[str, DataFrame]:
        """Runs the replay, once, and keeps what it returned.

        Args:
            results: of `RESULT_SCHEMA`, not yet evaluated.

        Returns:
            By name of the table the rows that there are for it, without `run_key`.

        Raises:
            UsageError: workers wrote what is not found below the path.
        """
        staged, rows_written = self.staging.keep(results)
        # Added up here: an exchange would cost more than the few numbers that it saves.
        bytes_of: dict[str, int] = {}
        rows = staged.select("table", sf.length("payload").alias("bytes")).collect()
        # A worker that has a file system of its own writes there, and nobody else notices.
        if len(rows) < rows_written:
            way_out = "choose an --out on a shared file system or in object storage"
            raise UsageError(f"workers write to a {self.target} of their own, not to that of the driver", way_out)
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

    def write(self, frames: Mapping[str, DataFrame]) -> None:
        """Replaces the rows of this run in every table but `runs`.

        Args:
            frames: rows by name of the table, without `run_key`; nullable columns and timestamps that repeat a
                column of microseconds may be absent. A table that is not among them ends up without rows of this run.

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
        """Of attempts that met, whether this one tries again; not if the other has got through after all."""
        return self.staging.goes_first() and self._rows_of(RUNS).isEmpty()

    def _write(self, frames: Mapping[str, DataFrame]) -> None:
        # After a conflict the tables hold rows of both attempts.
        self._held = frozenset(TABLES) if self._number else self._tables_to_replace()
        # Later than the look at other attempts: whoever was not seen looks later, and has a higher number.
        self._number = time.time_ns() // 1000
        if RUNS.name in self._held:
            # From here until `finish` the tables hold a mixture, so the run has not happened.
            self._delete(RUNS)
        others = [table for table in TABLES.values() if table is not RUNS]
        at_one_time(lambda table: self._replace(table, frames.get(table.name)), others)

    def finish(self, run: Mapping[str, Any]) -> None:
        """Writes the row of `runs` and drops what attempts at this run kept.

        Args:
            run: the written columns of `runs` by name.

        Raises:
            GaveWayError: another attempt at this run wrote its row.
        """
        row = pa.Table.from_batches([record_batch(RUNS.name, {name: [value] for name, value in run.items()})])
        with self._giving_way():
            # Whatever stood there was deleted before the first row was written.
            if RUNS.name in self._held and not self._rows_of(RUNS).isEmpty():
                raise self._gave_way()
            self._replace(RUNS, self.spark.createDataFrame(row, RUNS.written_spark_schema))
            own = self._rows_of(RUNS).select("started_at_us").collect()
            if [found["started_at_us"] for found in own] != [run["started_at_us"]]:
                raise self._gave_way()
        self.staging.clear()

    def discard(self) -> None:
        """Drops what `stage` kept."""
        self.staging.discard()

    def _tables_to_replace(self) -> frozenset[str]:
        """Names of the tables that hold rows of this run, or may come to while this attempt writes."""
        if self.staging.others():
            return frozenset(TABLES)
        # A run that has happened may have rows in every table.
        if not self.target.holds_no_file(RUNS.name) and not self._rows_of(RUNS).isEmpty():
            return frozenset(TABLES)
        # Whoever wrote into a table that this attempt created has finished, or would have been seen above.
        asked = [table for table in TABLES.values() if table is not RUNS and table.name not in self.created]
        held = at_one_time(lambda table: not self._rows_of(table).isEmpty(), asked)
        return frozenset(table.name for table, is_held in zip(asked, held, strict=True) if is_held)

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
            "its answer stands there; audit again if it was broken off",
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
