"""How one run is written: its own rows are replaced, no other row is touched, and `runs` comes last.

A small audit spends much of its time in commits, so their number and kind are chosen by measurement (two quiet cores,
seven small tables, warm). Appends take 1.6 s and `replaceWhere` 5.2 s, so that only tables that hold rows of this run
already are written the second way. A table without rows, old or new, is not written. And several are written at one
time, which takes two thirds of the time of one after the other.

The replay is too expensive to run once a table. `stage` keeps what it returned until `finish`: as plain Parquet below
a path, where overwriting it with nothing frees the space at once, and as a table of its own in a catalog, where
dropping it does.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as sf

from pipeline.errors import DispatchAuditError, UsageError
from pipeline.tables.payload import RESULT_SCHEMA, decode, record_batch, unpacked
from pipeline.tables.schemas import RUNS, TABLES, TRAVELLING
from pipeline.tables.table_schema import RUN_KEY, TableSchema
from pipeline.tables.target import Target
from pipeline.tables.threads import at_one_time

# Rows of a table that take no more go through the driver: a job for them would take longer than they do.
_SMALL_BYTES = 8 << 20


@dataclass(frozen=True)
class RunTables:
    """The tables of a target, as one run writes them; `open_tables` makes one.

    Two audits with one `run_key` must not write at one time; those with different keys may.

    Attributes:
        spark: the session.
        target: where the tables are.
        run_key: the run.
        held: names of the tables that hold rows of this run from before.
    """

    spark: SparkSession
    target: Target
    run_key: str
    held: frozenset[str]

    def stage(self, results: DataFrame) -> dict[str, DataFrame]:
        """Runs the replay, once, and keeps what it returned.

        Args:
            results: of `RESULT_SCHEMA`, not yet evaluated.

        Returns:
            By name of the table the rows that there are for it, without `run_key`.

        Raises:
            UsageError: workers wrote what is not found below the path.
        """
        written = Observation()
        if self.target.named:
            results.write.mode("overwrite").saveAsTable(self._staging)
            staged = self.spark.table(self._staging)
        else:
            observed = results.observe(written, sf.count(sf.lit(1)).alias("rows"))
            observed.write.mode("overwrite").parquet(self._staging)
            staged = self.spark.read.schema(RESULT_SCHEMA).parquet(self._staging)
        told = sf.sum(sf.length("payload")).alias("bytes"), sf.count(sf.lit(1)).alias("rows")
        sizes = staged.groupBy("table").agg(*told).collect()
        # A worker that has a file system of its own writes there, and nobody else notices.
        if not self.target.named and sum(row["rows"] for row in sizes) < written.get["rows"]:
            way_out = "choose an --out on a shared file system or in object storage"
            raise UsageError(f"workers write to a {self.target} of their own, not to that of the driver", way_out)
        small = [row["table"] for row in sizes if row["bytes"] <= _SMALL_BYTES]
        payloads: dict[str, list[bytes]] = {}
        for row in staged.where(sf.col("table").isin(small)).collect():
            payloads.setdefault(row["table"], []).append(bytes(row["payload"]))
        frames = {row["table"]: decode(staged, row["table"]) for row in sizes if row["table"] not in small}
        for name, of_table in payloads.items():
            schema = TRAVELLING[name].written_spark_schema
            frames[name] = self.spark.createDataFrame(unpacked(name, of_table), schema)
        return dict(sorted(frames.items()))

    def write(self, frames: Mapping[str, DataFrame]) -> None:
        """Replaces the rows of this run in every table but `runs`.

        Args:
            frames: rows by name of the table, without `run_key`; nullable columns and timestamps that repeat a
                column of microseconds may be absent. A table that is not among them ends up without rows of this run.
        """
        if RUNS.name in self.held:
            # From here until `finish` the tables hold a mixture, so the run has not happened.
            self._delete(RUNS)
        others = [table for table in TABLES.values() if table is not RUNS]
        at_one_time(lambda table: self._replace(table, frames.get(table.name)), others)

    def finish(self, run: Mapping[str, Any]) -> None:
        """Writes the row of `runs` and drops what `stage` kept.

        Args:
            run: the written columns of `runs` by name.
        """
        row = pa.Table.from_batches([record_batch(RUNS.name, {name: [value] for name, value in run.items()})])
        self._append(RUNS, self.spark.createDataFrame(row, RUNS.written_spark_schema))
        self.discard()

    def discard(self) -> None:
        """Drops what `stage` kept."""
        if self.target.named:
            self.spark.sql(f"DROP TABLE IF EXISTS {self._staging}")
        else:
            self.spark.createDataFrame([], RESULT_SCHEMA).write.mode("overwrite").parquet(self._staging)

    @property
    def _staging(self) -> str:
        if self.target.named:
            return self.target.identifier(f"_replay_{self.run_key}")
        return f"{self.target.location}/_replay/{self.run_key}"

    def _replace(self, table: TableSchema, rows: DataFrame | None) -> None:
        if rows is not None and table.name in self.held:
            writer = self._complete(table, rows).writeTo(self.target.identifier(table.name))
            writer.overwrite(sf.col(RUN_KEY) == self.run_key)
        elif rows is not None:
            self._append(table, rows)
        elif table.name in self.held:
            self._delete(table)

    def _append(self, table: TableSchema, rows: DataFrame) -> None:
        self._complete(table, rows).writeTo(self.target.identifier(table.name)).append()

    def _delete(self, table: TableSchema) -> None:
        self.spark.sql(f"DELETE FROM {self.target.identifier(table.name)} WHERE {RUN_KEY} = '{self.run_key}'")

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
