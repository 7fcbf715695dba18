"""The staging area through Spark: in a catalog a table, below a URI plain Parquet."""

import math
from contextlib import suppress
from pathlib import PurePosixPath

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from dispatch_audit.pipeline.engine.releases.row_counts import rows_written
from dispatch_audit.pipeline.tables.payload import RESULT_SCHEMA, batches_in, decode
from dispatch_audit.pipeline.tables.rows import TableRows, held_rows
from dispatch_audit.pipeline.tables.schemas import TRAVELLING
from dispatch_audit.pipeline.tables.staging import STAGED, Staging
from dispatch_audit.pipeline.tables.table_schema import TableSchema
from dispatch_audit.pipeline.tables.target import Target
from dispatch_audit.pipeline.tables.through_spark.spark_rows import SparkRows

# Rows of a table that take no more than this are held by the driver: another job that reads them would take longer.
SMALL_BYTES = 8 << 20


class SparkStaging(Staging):
    """The staging area of one attempt at a run, in a catalog or below a URI."""

    def __init__(self, spark: SparkSession, target: Target, run_key: str) -> None:
        super().__init__(target, run_key)
        self._spark = spark
        self._has_staged = False

    def keep_rows(self, rows: DataFrame, name: str) -> DataFrame:
        """Evaluates and stages rows of a trace; returns them as staged."""
        staged, rows_written = self._staged(rows, name)
        self.check_all_arrived(rows_written, staged.count())
        return staged

    def keep(self, results: DataFrame) -> dict[str, TableRows]:
        """Evaluates and stages the result of a replay; returns the rows by table."""
        staged, rows_written = self._staged(results, "result")
        # Added up on the driver: an exchange would cost more than collecting the few numbers.
        sizes = staged.select("table", sf.length("payload").alias("bytes")).collect()
        self.check_all_arrived(rows_written, len(sizes))
        bytes_of: dict[str, int] = {}
        for row in sizes:
            bytes_of[row["table"]] = bytes_of.get(row["table"], 0) + row["bytes"]
        small = [name for name, size in bytes_of.items() if size <= SMALL_BYTES]
        payloads: dict[str, list[bytes]] = {}
        for row in staged.where(sf.col("table").isin(small)).collect():
            payloads.setdefault(row["table"], []).append(bytes(row["payload"]))
        found: dict[str, TableRows] = {}
        for name in sorted(bytes_of):
            if name in payloads:
                batches = [batch for payload in payloads[name] for batch in batches_in(payload)]
                found[name] = held_rows(TRAVELLING[name], batches)
            else:
                found[name] = SparkRows(TRAVELLING[name], decode(staged, name))
        return found

    def rows_of(self, table: TableSchema, frame: DataFrame) -> TableRows:
        """Returns the rows of a frame, which stay in Spark."""
        return SparkRows(table, frame.select(*table.written_spark_schema.names))

    def attempts(self, before_s: float = math.inf) -> set[str]:
        """Returns the attempts that staged something; neither a catalog nor a URI shows when they began."""
        if self.target.named:
            prefix = f"{STAGED}_{self.run_key}_"
            return {name.removeprefix(prefix).partition("_")[0] for name in self._tables(prefix)}
        every = self._spark.read.schema(RESULT_SCHEMA).option("recursiveFileLookup", "true")
        run = f"{self.target.location}/{STAGED}/{self.run_key}"
        try:
            files = every.parquet(run).inputFiles()
        except AnalysisException:  # there is no such folder
            return set()
        return {_attempt_of(file, self.run_key) for file in files}

    def drop(self, attempt: str) -> None:
        """Drops what an attempt at this run staged."""
        if attempt == self.attempt and not self._has_staged:
            return
        # Two attempts may drop the same rows at one time, and an audit must not fail because space was not freed.
        # PySpark does not convert all errors of the file system, so they have no class in common.
        with suppress(Exception):
            if self.target.named:
                for name in self._tables(f"{STAGED}_{self.run_key}_{attempt}_"):
                    self._spark.sql(f"DROP TABLE IF EXISTS {self.target.identifier(name)}")
            else:
                # `pyspark.sql` cannot remove a folder; overwriting it with no rows frees its space. A partition
                # without rows has no file, so that nobody finds the attempt again.
                nothing = self._spark.createDataFrame([], RESULT_SCHEMA).write.partitionBy("table")
                # Whatever the session says, all partitions are overwritten.
                nothing = nothing.option("partitionOverwriteMode", "static")
                nothing.mode("overwrite").parquet(self._folder(attempt))
        if attempt == self.attempt:
            self._has_staged = False

    def sweep(self) -> None:
        """Does nothing: it is not known when an attempt staged something."""

    def _staged(self, rows: DataFrame, part: str) -> tuple[DataFrame, int]:
        """Evaluates and stages rows; returns them as staged, and how many were written."""
        # Before they are written, because a write that fails leaves something behind, too.
        self._has_staged = True
        table = self.target.identifier(f"{STAGED}_{self.run_key}_{self.attempt}_{part}") if self.target.named else None
        folder = f"{self._folder(self.attempt)}/{part}"

        def write(counted: DataFrame) -> None:
            # Its columns are binary and already narrow; compressing them would take longer than writing them.
            writer = counted.write.option("compression", "none").mode("overwrite")
            if table is None:
                writer.parquet(folder)
            else:
                writer.saveAsTable(table)

        number = rows_written(rows, write)
        if table is None:
            return self._spark.read.schema(rows.schema).parquet(folder), number
        return self._spark.table(table), number

    def _folder(self, attempt: str) -> str:
        return f"{self.target.location}/{STAGED}/{self.run_key}/{attempt}"

    def _tables(self, prefix: str) -> list[str]:
        """Names of the tables of a catalog that begin with a prefix."""
        found = self._spark.sql(f"SHOW TABLES IN {self.target.quoted} LIKE '{prefix}*'").collect()
        return [row["tableName"] for row in found]


def _attempt_of(file: str, run_key: str) -> str:
    """Returns the attempt that staged a file: the folder below that of the run."""
    parts = PurePosixPath(file).parts
    return parts[len(parts) - parts[::-1].index(run_key)]
