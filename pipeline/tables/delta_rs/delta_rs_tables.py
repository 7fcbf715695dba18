"""Tables below a local path or in an object store, read and written by delta-rs.

delta-rs refuses one of two overlapping writes as Spark does, if both carry a transaction of the same run or one removes
rows that the other could have read. In two points it differs, which `_write` makes up for:

- It does not leave out a transaction with a lower number than the last one of its run.
- It refuses an append during which any rows were removed, those of other runs too. Such a write is made again.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Field, QueryBuilder, Schema, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from dispatch_audit.pipeline.engine.releases.arrow_frames import frame_of_table
from dispatch_audit.pipeline.errors import DispatchAuditError, UsageError
from dispatch_audit.pipeline.storage.delta import opened_table, options_of, path_of
from dispatch_audit.pipeline.storage.reasons import WAY_OUT, reason_of
from dispatch_audit.pipeline.storage.store_path import AnyPath
from dispatch_audit.pipeline.tables.delta_rs.local_staging import LocalStaging
from dispatch_audit.pipeline.tables.delta_rs.panics import panics_kept_apart
from dispatch_audit.pipeline.tables.delta_rs.store_staging import StoreStaging
from dispatch_audit.pipeline.tables.rows import ArrowRows, TableRows
from dispatch_audit.pipeline.tables.schemas import TABLES
from dispatch_audit.pipeline.tables.staging import Staging
from dispatch_audit.pipeline.tables.table_schema import RUN_KEY, TableSchema
from dispatch_audit.pipeline.tables.tables import ConflictError, of_run, of_runs
from dispatch_audit.pipeline.tables.target import Target
from dispatch_audit.pipeline.trace.sources import glob_of

# delta-rs writes version 2 of the protocol, but CHECK constraints need version 3; Spark keeps the property as it is.
_PROTOCOL = {"delta.minWriterVersion": "3"}
# Names that an audit may leave in the log of a table if it is killed before the first commit: Delta on Spark makes the
# folder in every log and begins its files with a dot, and delta-rs ends them with `#` and a number.
_OF_COORDINATORS = "_staged_commits"
# Other runs may remove rows several times during one write.
_TRIES = 20
# The writer holds the open file in memory; with its default of 100 MB it takes twice as much.
_FILE_BYTES = 32 << 20
_BROKEN = "Invalid data found"
_RESTORE = "restore the folder from a copy, or audit the trace again into another --out"


@dataclass(frozen=True)
class DeltaRsTables:
    """The tables of a target that has a place.

    Attributes:
        target: a local path, or one in an object store.
        spark: the session that hands rows to workers; only `frame` needs one.
    """

    target: Target
    spark: SparkSession | None = None

    def create_schema(self) -> None:
        """Does nothing: creating a table creates the folder."""

    def columns(self, table_name: str) -> dict[str, str] | None:
        """Returns the types of the columns by name; None: there is no such table."""
        try:
            schema = self._opened(table_name).schema()
        except TableNotFoundError:
            return None
        # Spark writes types in the JSON of Delta, so it also reads them.
        return {
            field.name: field.dataType.simpleString() for field in StructType.fromJson(json.loads(schema.to_json()))
        }

    def create(self, table: TableSchema) -> None:
        """Creates a table, which may replace what a killed creation left."""
        folder = self._folder(table.name)
        if _is_foreign(folder):
            raise FileExistsError(f"{folder} holds something else")
        DeltaTable.create(
            path_of(folder),
            Schema.from_json(table.spark_schema.json()),
            partition_by=[RUN_KEY],
            description=table.comment,
            configuration={**_PROTOCOL, **table.properties},
            raise_if_key_not_exists=False,  # it does not know the properties of constraints
            storage_options=options_of(folder),
        )

    def add_columns(self, table: TableSchema, lacking: Sequence[str]) -> None:
        """Adds nullable columns, and the constraints that the table lacks."""
        fields = [
            Field.from_json(json.dumps(field.jsonValue())) for field in table.spark_schema if field.name in lacking
        ]
        self._altered(table.name, lambda found: found.alter.add_columns(fields))
        held = self._opened(table.name).metadata().configuration.keys()
        for name, check in table.constraints.items():
            if f"delta.constraints.{name}" not in held:
                self._altered(table.name, partial(_add_constraint, {name: check}))

    def query(self, table_name: str, select: str, rest: str = "") -> list[dict[str, Any]]:
        """Returns the rows of a query, by name of the column."""
        return self._found(table_name, select, rest).to_pylist()  # type: ignore[no-any-return]  # Arrow has no stubs

    def arrow(self, table: TableSchema, run_keys: Sequence[str]) -> pa.Table:
        """Returns the rows of some runs as Arrow."""
        held = self.columns(table.name) or {}
        names = (name if name in held else f"NULL AS {name}" for name in table.stored_arrow_schema.names)
        return self._found(table.name, ", ".join(names), f"WHERE {of_runs(run_keys)}").cast(table.stored_arrow_schema)

    def _found(self, table_name: str, select: str, rest: str) -> pa.Table:
        try:
            found = QueryBuilder().register(table_name, self._opened(table_name))
            # Not `pa.table`, which imports pandas: 0.3 s.
            return pa.RecordBatchReader.from_stream(
                found.execute(f"SELECT {select} FROM {table_name} {rest}")
            ).read_all()
        except TableNotFoundError as error:
            raise UsageError(f"{self.target} has no table {table_name}, or not its log", _RESTORE) from error
        # Arrow raises what is wrong with a file of the table.
        except (DeltaError, OSError, pa.ArrowException) as error:
            raise self._unreadable(table_name, error, _RESTORE) from error

    def frame(self, table_name: str, columns: Sequence[str], run_key: str) -> DataFrame:
        """Returns the rows of a run; workers read the files of the table."""
        assert self.spark is not None, "workers read it"
        fields = [field for field in TABLES[table_name].spark_schema if field.name in columns]
        schema = StructType(fields)
        if not self.target.local:
            # The engine has no way to the store.
            found = self._found(table_name, ", ".join(schema.names), f"WHERE {of_run(run_key)}")
            return frame_of_table(self.spark, found, schema)
        files = self._opened(table_name).file_uris(file_pruning_predicate=of_run(run_key))
        if not files:
            return self.spark.createDataFrame([], schema)
        frame = self.spark.read.schema(schema).parquet(*(f"file://{glob_of(unquote(file))}" for file in files))
        return frame.select(*columns)

    def append(self, table: TableSchema, rows: TableRows, run_key: str, number: int) -> None:
        """Adds rows of a run."""
        self._write(table, rows, run_key, number, mode="append")

    def overwrite(self, table: TableSchema, rows: TableRows, run_key: str, number: int) -> None:
        """Replaces the rows of a run."""
        self._write(table, rows, run_key, number, mode="overwrite", predicate=of_run(run_key))

    def write_absent(self, table: TableSchema, rows: TableRows, run_key: str, number: int) -> None:
        """Writes rows of a run that the table has none of."""
        found = self._opened(table.name)
        # The write is refused if anything of the run comes after this version of the table.
        if found.file_uris(file_pruning_predicate=of_run(run_key)):
            raise ConflictError(f"{table.name} has rows of run {run_key}")
        self._write(table, rows, run_key, number, found, mode="append")

    def delete(self, table_name: str, run_key: str) -> None:
        """Deletes the rows of a run."""
        try:
            self._opened(table_name).delete(of_run(run_key))
        except CommitFailedError as error:
            raise ConflictError(str(error)) from error
        except (DeltaError, OSError) as error:
            raise self._unwritable(table_name, error) from error

    def staging(self, run_key: str) -> Staging:
        """Returns the staging area of a new attempt at a run."""
        return LocalStaging(self.target, run_key) if self.target.local else StoreStaging(self.target, run_key)

    def _write(
        self,
        table: TableSchema,
        rows: TableRows,
        run_key: str,
        number: int,
        found: DeltaTable | None = None,
        **how: Any,
    ) -> None:
        """Writes rows on top of a version of a table; None: the newest."""
        assert isinstance(rows, ArrowRows), "rows are staged for the driver"
        found = self._opened(table.name) if found is None else found
        last = found.transaction_version(run_key)
        for _ in range(_TRIES):
            if last is not None and last >= number:
                return
            source = _Source(_complete(table, rows, run_key))
            reader = pa.RecordBatchReader.from_batches(table.stored_arrow_schema, source)
            commit = CommitProperties(app_transactions=[Transaction(run_key, number)])
            try:
                with panics_kept_apart():
                    write_deltalake(found, reader, target_file_size=_FILE_BYTES, commit_properties=commit, **how)
                return
            except CommitFailedError as error:
                found = self._opened(table.name)
                if found.transaction_version(run_key) != last:
                    raise ConflictError(str(error)) from error
            except (DeltaError, OSError) as error:
                if source.error is not None:
                    raise source.error from None
                if _BROKEN in str(error):
                    checks = ", ".join(table.constraints)
                    raise DispatchAuditError(f"rows for {table.name} break a CHECK constraint ({checks})") from error
                raise self._unwritable(table.name, error) from error
        raise ConflictError(f"{table.name} was written by others all the time")

    def _altered(self, table_name: str, alter: Callable[[DeltaTable], None]) -> None:
        try:
            alter(self._opened(table_name))
        except CommitFailedError:
            # Another audit may have made the same change; a second refusal is an error.
            alter(self._opened(table_name))

    def _opened(self, table_name: str) -> DeltaTable:
        """Returns the newest version of a table.

        Raises:
            TableNotFoundError: there is none.
            UsageError: it cannot be read.
        """
        try:
            return opened_table(self._folder(table_name))
        except TableNotFoundError:
            raise
        except (DeltaError, OSError) as error:  # for example a log that lacks a commit
            raise self._unreadable(table_name, error) from error

    def _folder(self, table_name: str) -> AnyPath:
        assert self.target.place is not None, "`tables_of` leaves other targets to Spark"
        return self.target.place / table_name

    def _unreadable(self, table_name: str, error: Exception, way_out: str = "choose another --out") -> UsageError:
        way_out = way_out if self.target.local else WAY_OUT
        return UsageError(f"cannot read the table {table_name} in {self.target}: {reason_of(error)}", way_out)

    def _unwritable(self, table_name: str, error: Exception) -> UsageError:
        way_out = "check its free space and who may write to it, then audit again" if self.target.local else WAY_OUT
        return UsageError(f"cannot write the table {table_name} in {self.target}: {reason_of(error)}", way_out)


def _add_constraint(constraint: dict[str, str], found: DeltaTable) -> None:
    found.alter.add_constraint(constraint)


class _Source:
    """Rows for the writer, with the error that ended them; the writer has it only as a text with a stack trace."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches = batches
        self.error: Exception | None = None

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        try:
            yield from self._batches
        except Exception as error:
            self.error = error
            raise


def _complete(table: TableSchema, rows: ArrowRows, run_key: str) -> Iterator[pa.RecordBatch]:
    """Yields the rows with all columns of the table.

    Raises:
        DispatchAuditError: a value is absent that must not be.
    """
    for batch in rows.batches():
        arrays = []
        for column, field in zip(table.columns, table.stored_arrow_schema, strict=True):
            if column.name == RUN_KEY:
                array = pa.repeat(run_key, batch.num_rows)
            else:
                array = batch[column.derived_from or column.name].cast(field.type)
            if array.null_count and not column.nullable:
                raise DispatchAuditError(f"{table.name}.{column.name} must not be NULL")
            arrays.append(array)
        yield pa.record_batch(arrays, schema=table.stored_arrow_schema)


def _is_foreign(folder: AnyPath) -> bool:
    """Whether a folder holds more than what an audit that is killed before its first commit leaves of a table."""
    if not folder.exists():
        return False
    log = folder / "_delta_log"
    return [*folder.iterdir()] not in ([], [log]) or (log.exists() and not all(map(_is_left, log.iterdir())))


def _is_left(path: AnyPath) -> bool:
    if path.name == _OF_COORDINATORS:
        return not any(path.iterdir())
    return path.name.startswith(".") or "#" in path.name
