"""Reads Parquet files in the workers, for plain traces.

Spark decodes Parquet to rows and encodes rows as Arrow, which costs more than the rest of the audit (docs/FIGURES.md).
So Spark only distributes the names of files, and each worker reads its share of them with pyarrow. Spark still reads
traces with rows that are not good beyond doubt (`dispatch_audit.pipeline.trace.checks.good_rows`), logs that are not
local files, and columns of other types than those of the format.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

from dispatch_audit.pipeline.engine.functions import map_in_arrow
from dispatch_audit.pipeline.trace.checks.good_rows import good_rows
from dispatch_audit.pipeline.trace.checks.snapshots import checked_structs
from dispatch_audit.pipeline.trace.manifest import FILE_NAME
from dispatch_audit.pipeline.trace.schema import EVENT_SCHEMA
from dispatch_audit.pipeline.trace.seq_range import ALL, SeqRange
from dispatch_audit.pipeline.trace.sources import PARQUET_ENDING, Log, Trace

# A worker reads a share of this size in seconds, and several workers share a file of many row groups.
_SHARE_BYTES: Final = 64 << 20
_TYPES: Final = {field.name: field.type for field in to_arrow_schema(EVENT_SCHEMA)}
_TEXTS: Final = [name for name, found in _TYPES.items() if found in (pa.string(), pa.binary())]
NAMES: Final = ("topic", "subscription", "broker")
"""The columns that name the order of a row; all rows are scanned for them before any is replayed."""
# Checked by the statistics of the file, so that they need not be read.
_NEVER_READ: Final = ("publish_time_ms", "size_bytes")
_Part = TypeVar("_Part")
# UnicodeDecodeError: a text that is not UTF-8; neither Arrow nor Parquet checks that.
_UNREADABLE: Final = (OSError, pa.ArrowException, UnicodeDecodeError)


class Share(NamedTuple):
    """A part of a file: the row groups whose number modulo `shares` is `remainder`.

    Attributes:
        path: the file.
        remainder: see above.
        shares: see above.
        seqs: the rows to read.
    """

    path: str
    remainder: int
    shares: int
    seqs: SeqRange = ALL


class _Opened(NamedTuple):
    """A file whose columns have the types of the format.

    Attributes:
        file: the open file.
        empty: its columns of another type, in which every value is null; they are not read.
    """

    file: pq.ParquetFile
    empty: frozenset[str]


class NotPlainError(Exception):
    """Raised for a file that is left to Spark; users never see it."""


def shares_of(trace: Trace) -> list[Share]:
    """Returns the shares of a trace; none unless all its logs are local Parquet files."""
    shares: list[Share] = []
    for log in trace.logs:
        files = _files(log)
        if not files:
            return []
        for file in files:
            count = max(file.stat().st_size // _SHARE_BYTES, 1)
            shares += [Share(str(file), remainder, count, trace.seqs) for remainder in range(count)]
    return shares


def by_workers(
    spark: SparkSession,
    shares: Sequence[_Part],
    work: Callable[[Iterator[_Part]], Iterator[pa.RecordBatch]],
    schema: str,
) -> DataFrame:
    """Returns the result of `work` on the shares, each in a task of its own.

    Args:
        spark: the session.
        shares: at least one.
        work: runs in the workers; gets the shares of a task and yields batches of `schema`.
        schema: of the result, as DDL.
    """

    def run_task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return work(shares[number] for batch in batches for number in batch.column(0).to_pylist())

    return map_in_arrow(spark.range(0, len(shares), 1, len(shares)), run_task, schema)


def _files(log: Log) -> list[Path]:
    path = Path(log.path)
    if log.kind != "parquet" or not log.local:
        return []
    if path.is_file():
        return [path]
    # As in Spark, hidden files are not part of the log, unless their name holds the value of a partition column.
    children = [child for child in sorted(path.iterdir()) if child.name != FILE_NAME]
    files = [child for child in children if "=" in child.name or not child.name.startswith(("_", "."))]
    # Spark reads files of any ending, and sub-folders as partitions: such logs are left to Spark.
    return files if all(map(_is_plain_file, files)) else []


def _is_plain_file(path: Path) -> bool:
    return path.is_file() and path.name.endswith(PARQUET_ENDING) and "=" not in path.name


def read_share(share: Share, columns: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
    """Yields the rows of a share, in batches of at most `rows`.

    Args:
        share: the share to read.
        columns: of `EVENT_SCHEMA`, or `refused`, which is null.
        rows: most rows of a batch.

    Raises:
        NotPlainError: Spark has to read the file.
    """
    try:
        file, empty = _opened(share.path)
        with file:
            for number in _row_groups(share, file):
                yield from _row_group(file, number, _filled(file, number, empty), share.seqs, columns, rows)
    except _UNREADABLE as error:
        # A damaged file, or no Parquet: Spark's reader reports what is wrong.
        raise NotPlainError(f"{share.path}: {error}") from error


def read_columns(share: Share, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yields some columns of a plain share, a batch for each row group; an absent column is null."""
    file, empty = _opened(share.path)
    with file:
        needed = {*columns, *(() if share.seqs == ALL else ("seq",))} - empty
        read = [name for name in file.schema_arrow.names if name in needed]
        for number in _row_groups(share, file):
            table = file.read_row_group(number, columns=read, use_threads=False).combine_chunks()
            for batch in table.to_batches():
                yield pa.record_batch(_completed(share.seqs.of(batch), columns))


def read_names(share: Share) -> Iterator[tuple[str | None, ...]]:
    """Yields the different `NAMES` in a share. Raises as `read_share` does."""
    try:
        for batch in read_columns(share, NAMES):
            # Grouping by an absent column would cost as much as by a present one.
            filled = [name for name in NAMES if batch.column(name).null_count < batch.num_rows]
            if not filled:
                yield from [(None,) * len(NAMES)][: batch.num_rows]
                continue
            different = pa.table(batch).group_by(filled, use_threads=False).aggregate([])
            absent = [None] * different.num_rows
            columns = (different.column(name).to_pylist() if name in filled else absent for name in NAMES)
            yield from zip(*columns, strict=True)
    except _UNREADABLE as error:
        raise NotPlainError(f"{share.path}: {error}") from error


def _opened(path: str) -> _Opened:
    metadata = pq.read_metadata(path)
    schema = metadata.schema.to_arrow_schema()
    others = _of_other_types(schema)
    # Texts stay dictionary-encoded, because few of them are different.
    encoded = [name for name in _TEXTS if name in schema.names and name not in others]
    file = pq.ParquetFile(path, metadata=metadata, read_dictionary=encoded)
    for name in others:
        if not _is_empty(file, name):
            raise NotPlainError(f"{name} is {schema.field(name).type}")
    return _Opened(file, frozenset(others))


def _of_other_types(found: pa.Schema) -> list[str]:
    """Returns the columns of the format that have another type; the file is readable if they are null throughout."""
    # Spark ignores the case of names, and in the statistics of a file a dot in a name looks like a nested field.
    if len({name.lower() for name in found.names}) < len(found.names) or any("." in name for name in found.names):
        raise NotPlainError(f"the columns are {', '.join(found.names)}")
    for field in found:
        # A file that Spark would refuse must be refused here too.
        if field.name == "key_b64" or not _is_known_to_spark(field.type):
            raise NotPlainError(f"{field.name} is {field.type}")
    known = [field for field in found if field.name in _TYPES]
    return [f.name for f in known if pa.types.is_null(f.type) or not _fits(f.type, _TYPES[f.name])]


def _is_empty(file: pq.ParquetFile, name: str) -> bool:
    """Whether every value of a column is null."""
    if pa.types.is_null(file.schema_arrow.field(name).type):
        return True
    for number in range(file.num_row_groups):
        stats = _statistics(file, number, name)
        if stats is not None and stats.has_null_count and stats.null_count < file.metadata.row_group(number).num_rows:
            return False
        # The statistics do not distinguish an empty list from an absent one.
        column = file.read_row_group(number, columns=[name], use_threads=False).column(name)
        if column.null_count < len(column):
            return False
    return True


def _is_known_to_spark(found: pa.DataType) -> bool:
    nanoseconds = pa.types.is_timestamp(found) and found.unit == "ns"
    known = not (pa.types.is_time(found) or pa.types.is_float16(found) or pa.types.is_decimal256(found) or nanoseconds)
    return known and all(_is_known_to_spark(found.field(at).type) for at in range(found.num_fields))


def _fits(found: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether a column of type `found` can be read as `wanted`; fields of structs may be absent or null."""
    if pa.types.is_null(found):
        return True
    if pa.types.is_dictionary(found):
        found = found.value_type
    if pa.types.is_struct(wanted) and pa.types.is_struct(found):
        known = {field.name: field.type for field in wanted}
        return all(field.name in known and _fits(field.type, known[field.name]) for field in found)
    if pa.types.is_list(wanted) and pa.types.is_list(found):
        return _fits(found.value_type, wanted.value_type)
    if pa.types.is_map(wanted) and pa.types.is_map(found):
        return _fits(found.item_type, wanted.item_type)
    return bool(found == wanted)


def _row_groups(share: Share, file: pq.ParquetFile) -> Iterator[int]:
    """Yields the numbers of the row groups of a share that may have rows of its range of seq."""
    for number in range(share.remainder, file.num_row_groups, share.shares):
        stats = _statistics(file, number, "seq")
        if stats is None or not stats.has_min_max or share.seqs.meets(stats.min, stats.max):
            yield number


def _statistics(file: pq.ParquetFile, number: int, name: str) -> pq.Statistics | None:
    group = file.metadata.row_group(number)
    chunks = (group.column(at) for at in range(group.num_columns))
    return next((chunk.statistics for chunk in chunks if chunk.path_in_schema == name), None)


def _row_group(
    file: pq.ParquetFile, number: int, filled: Iterable[str], seqs: SeqRange, columns: Sequence[str], rows: int
) -> Iterator[pa.RecordBatch]:
    read = [name for name in filled if name in _TYPES and name not in _NEVER_READ]
    if not read:
        raise NotPlainError(f"rows {number} are null")
    for read_batch in file.iter_batches(rows, row_groups=[number], columns=read, use_threads=False):
        batch = seqs.of(read_batch)
        if batch.num_rows == 0:
            continue
        # Arrow and Parquet accept texts that are not UTF-8, which would fail later, when they are printed.
        batch.validate(full=True)
        whole = _completed(batch, _TYPES)
        whole["snapshot"], bad_snapshots = checked_structs(whole["snapshot"])
        if bad_snapshots.any() or not good_rows(pa.record_batch(whole)).all():
            raise NotPlainError(f"rows {number}")
        whole["refused"] = pa.nulls(batch.num_rows, pa.string())
        yield pa.record_batch([whole[name] for name in columns], names=list(columns))


def _completed(batch: pa.RecordBatch, columns: Iterable[str]) -> dict[str, pa.Array]:
    """Returns columns of the format; those that the batch lacks are null."""
    found = {field.name: _typed(batch.column(field.name), _TYPES[field.name]) for field in batch.schema}
    return {n: found[n] if n in found else pa.nulls(batch.num_rows, _TYPES[n]) for n in columns}


def _typed(column: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Returns the column with nested fields of type null cast to the type of the format."""
    typed = _type_of(column.type, wanted)
    return column if typed == column.type else column.cast(typed)


def _type_of(found: pa.DataType, wanted: pa.DataType) -> pa.DataType:
    if pa.types.is_null(found):
        return wanted
    if pa.types.is_struct(found):
        return pa.struct([field.with_type(_type_of(field.type, wanted.field(field.name).type)) for field in found])
    if pa.types.is_list(found):
        return pa.list_(found.value_field.with_type(_type_of(found.value_type, wanted.value_type)))
    if pa.types.is_map(found):
        return pa.map_(found.key_type, found.item_field.with_type(_type_of(found.item_type, wanted.item_type)))
    return found


def _filled(file: pq.ParquetFile, number: int, null: Set[str]) -> list[str]:
    """Returns the columns that have values in a row group, without those that are null in the whole file.

    Raises:
        NotPlainError: a column that is never read may hold an invalid value.
    """
    group = file.metadata.row_group(number)
    filled: dict[str, None] = {}
    for at in range(group.num_columns):
        chunk = group.column(at)
        name, *within = chunk.path_in_schema.split(".")
        if name in null:
            continue
        stats = chunk.statistics
        empty = stats is not None and stats.has_null_count and stats.null_count == chunk.num_values
        if name in _NEVER_READ and not empty and not (stats is not None and stats.has_min_max and stats.min >= 0):
            raise NotPlainError(f"{name} has no statistics, or is negative")
        # The statistics of a list do not distinguish an empty list from an absent one, so lists are always read.
        is_list = bool(within) and not pa.types.is_struct(_TYPES.get(name, pa.null()))
        if is_list or not empty:
            filled[name] = None
    return list(filled)
