"""Reads Parquet, Delta and tables as typed rows, column by column.

Absent columns become null and unknown ones are left out, so that a later select of few columns reads only those. Types
may differ where nothing is lost: an integer of another width, bytes for a text, fields in another order, JSON text for
a nested column such as a snapshot. A row is refused if a number does not fit its narrower type. Floats are not accepted
for integers: they cannot hold every `ts_us` or word of an ack set. Parquet and Spark do not check texts, so bytes that
are not UTF-8 become U+FFFD, as in JSON.

A column or a nested field that is null throughout may have any type: a writer that saw no value has to invent one
(pyarrow writes null as INT32).
"""

from collections.abc import Iterator
from functools import reduce
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    ByteType,
    DataType,
    DecimalType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    ShortType,
    StringType,
    StructType,
)

from dispatch_audit.pipeline.errors import TraceError
from dispatch_audit.pipeline.spark_errors import columns_do_not_merge, plain_path, trace_errors
from dispatch_audit.pipeline.trace.schema import EVENT_SCHEMA
from dispatch_audit.pipeline.trace.sources import PARQUET_ENDING, Log, glob_of

_INTEGERS: tuple[type[DataType], ...] = (ByteType, ShortType, IntegerType, LongType)


def read_columns(spark: SparkSession, log: Log, *, origin: bool) -> DataFrame:
    """Returns the rows of a columnar log, typed but not yet validated.

    Args:
        spark: the session.
        log: of kind `parquet`, `delta` or `table`.
        origin: whether to add the origin of each row.

    Returns:
        The columns of `EVENT_SCHEMA`, `parse_reason` and `parse_detail` (null = typed). With `origin` also
        `raw` (the row as JSON), `file` (for a table its name) and `line` (1-based row number in the file;
        null for Delta and tables, where Spark does not report it).

    Raises:
        TraceError: a column has a type that cannot be converted to the type of the format.
    """
    with trace_errors(log.path):
        parts = [_typed(recorded, log, origin=origin) for recorded in _load(spark, log)]
    return reduce(DataFrame.unionByName, parts)


def _typed(recorded: DataFrame, log: Log, *, origin: bool) -> DataFrame:
    """Does the work of `read_columns` for files whose columns can be merged."""
    _refuse_other_types(recorded, log)
    kept = _origin(recorded, log) if origin else []
    columns = [_event_column(recorded, name) for name in EVENT_SCHEMA.names]
    return recorded.select(*kept, *columns, *_parse_verdict(recorded))


def with_valid_texts(rows: DataFrame) -> DataFrame:
    """Returns the rows with texts in valid UTF-8; other bytes become U+FFFD.

    Call it after the checks: before them, Spark's optimizer would derive every check again from each of these columns,
    as described in `_event_column`.
    """
    texts = {name: sf.make_valid_utf8(name) for name, data_type in rows.dtypes if data_type == "string"}
    return rows.withColumns({**texts, "batch_keys": sf.transform("batch_keys", sf.make_valid_utf8)})


def _load(spark: SparkSession, log: Log) -> Iterator[DataFrame]:
    """Yields the recorded rows: one frame, or, for Parquet files that cannot be merged, one for each set of columns."""
    if log.kind == "table":
        yield spark.read.table(log.path)
    elif log.kind == "delta":
        yield spark.read.format("delta").load(log.path)
    else:
        # The folder may also hold the manifest.
        reader = spark.read.option("pathGlobFilter", f"*{PARQUET_ENDING}")
        try:
            # Files of a folder may have different columns, and without this option Spark takes those of one file.
            merged = reader.option("mergeSchema", "true").parquet(log.glob)
            merged.schema.fieldNames()  # Spark Connect is lazy: this makes it read the columns.
        except Exception as error:
            if not columns_do_not_merge(error):
                raise
            files = reader.option("mergeSchema", "false").parquet(log.glob).inputFiles()
            yield from _by_columns(spark, log, [plain_path(file) for file in files])
        else:
            yield merged


def _by_columns(spark: SparkSession, log: Log, files: list[str]) -> Iterator[DataFrame]:
    """Yields a frame for each set of columns, with all files that have it."""
    # Names of sub-folders may hold values of partition columns.
    folder = {"basePath": log.path} if log.local and Path(log.path).is_dir() else {}
    by_schema: dict[str, list[str]] = {}
    for file in sorted(files):
        glob = glob_of(file)
        by_schema.setdefault(spark.read.options(**folder).parquet(glob).schema.json(), []).append(glob)
    for globs in by_schema.values():
        yield spark.read.options(**folder).parquet(*globs)


def _origin(recorded: DataFrame, log: Log) -> list[Column]:
    raw = sf.to_json(sf.struct(*[_quoted(name) for name in recorded.columns])).alias("raw")
    no_line = sf.lit(None).cast(LongType())
    if log.kind == "table":
        # A table may be a view, which has no files.
        return [raw, sf.lit(log.path).alias("file"), no_line.alias("line")]
    line = sf.col("_metadata.row_index") + 1 if log.kind == "parquet" else no_line
    return [raw, sf.col("_metadata.file_path").alias("file"), line.alias("line")]


def _refuse_other_types(recorded: DataFrame, log: Log) -> None:
    """Refuses columns of an impossible type that have a value; reads rows only if such a column exists.

    Raises:
        TraceError: a column of an impossible type has a value.
    """
    wanted = {field.name: field.dataType for field in EVENT_SCHEMA} | {"key_b64": StringType()}
    known = {field.name: wanted[field.name] for field in recorded.schema if field.name in wanted}
    found = {name: recorded.schema[name].dataType for name in known}
    conditions = {name: _unlike(_quoted(name), found[name], known[name]) for name in known}
    to_check = {name: unlike for name, unlike in conditions.items() if unlike is not None}
    if not to_check:
        return
    (has_value,) = recorded.agg(*[sf.max(unlike).alias(name) for name, unlike in to_check.items()]).collect()
    for name in to_check:
        if has_value[name]:
            types = f"has type {found[name].simpleString()}, but format 1 has {known[name].simpleString()}"
            raise TraceError(f"{log.path}: column {name} {types}", "write the column with that type")


def _unlike(column: Column, found: DataType, wanted: DataType) -> Column | None:
    """Returns whether a row has a value that the wanted type cannot hold; None: the type holds every value."""
    if conform(column, found, wanted) is not None:
        return None
    if isinstance(wanted, ArrayType) and isinstance(found, ArrayType):
        inner, wanted_inner = found.elementType, wanted.elementType
        return sf.coalesce(sf.exists(column, lambda item: _filled(item, inner, wanted_inner)), sf.lit(False))
    if isinstance(wanted, StructType) and isinstance(found, StructType):
        fields = [
            _filled(column[name], found[name].dataType, wanted[name].dataType)
            for name in wanted.names
            if name in found.names
        ]
        return reduce(Column.__or__, fields, sf.lit(False))
    return column.isNotNull()


def _filled(column: Column, found: DataType, wanted: DataType) -> Column:
    unlike = _unlike(column, found, wanted)
    return sf.lit(False) if unlike is None else unlike


def _event_column(recorded: DataFrame, name: str) -> Column:
    """Returns the column `name` of `EVENT_SCHEMA`; null where the log lacks it."""
    if name == "key":
        text = sf.try_to_binary(_recorded_column(recorded, "key_b64", StringType()), sf.lit("base64"))
        return sf.coalesce(_recorded_column(recorded, "key", BinaryType()), text).alias(name)
    wanted = EVENT_SCHEMA[name].dataType
    if name in recorded.columns and recorded.schema[name].dataType.simpleString() == wanted.simpleString():
        # Without an alias: from each alias Spark's optimizer derives every condition on the column again, so that a
        # condition on n columns becomes two to the power of n.
        return _quoted(name)
    return _recorded_column(recorded, name, wanted).alias(name)


def _recorded_column(recorded: DataFrame, name: str, wanted: DataType) -> Column:
    if name not in recorded.columns:
        return sf.lit(None).cast(wanted)
    column = conform(_quoted(name), recorded.schema[name].dataType, wanted, nulls=True)
    assert column is not None, "_refuse_other_types let only nulls of another type pass"
    return column


def conform(column: Column, found: DataType, wanted: DataType, *, nulls: bool = False) -> Column | None:
    """Returns `column` of type `found` as `wanted`, or None where that would lose values.

    Nested fields are matched by their names. A value that does not fit becomes null.

    Args:
        column: the column to convert.
        found: its type.
        wanted: the type to convert it to.
        nulls: whether fields of an impossible type are known to be null.
    """
    # Returned unchanged, so that its scan stays a plain scan; simpleString leaves nullability out.
    if found.simpleString() == wanted.simpleString():
        return column
    bytes_for_text = isinstance(wanted, StringType) and isinstance(found, BinaryType)
    if bytes_for_text or isinstance(found, NullType):
        return column.cast(wanted)
    if isinstance(wanted, IntegerType | LongType) and _is_integer(found):
        return column.try_cast(wanted)
    conformed = None
    if isinstance(wanted, StructType | ArrayType | MapType):
        conformed = _conform_nested(column, found, wanted, nulls)
    return sf.lit(None).cast(wanted) if nulls and conformed is None else conformed


def _conform_nested(
    column: Column, found: DataType, wanted: StructType | ArrayType | MapType, nulls: bool
) -> Column | None:
    if isinstance(found, StringType):
        return sf.from_json(column, wanted.simpleString())
    if isinstance(wanted, MapType) and isinstance(found, StructType):
        return sf.from_json(sf.to_json(column), wanted.simpleString())
    if isinstance(wanted, ArrayType) and isinstance(found, ArrayType):
        return _conform_array(column, found.elementType, wanted.elementType, nulls)
    if isinstance(wanted, StructType) and isinstance(found, StructType):
        return _conform_struct(column, found, wanted, nulls)
    return None


def _conform_array(column: Column, found: DataType, wanted: DataType, nulls: bool) -> Column | None:
    # Checked beforehand, because the function in `transform` must return a column.
    if conform(sf.lit(None), found, wanted, nulls=nulls) is None:
        return None

    def element(item: Column) -> Column:
        conformed = conform(item, found, wanted, nulls=nulls)
        assert conformed is not None, "whether a type conforms depends on the types only"
        return conformed

    return sf.transform(column, element)


def _conform_struct(column: Column, found: StructType, wanted: StructType, nulls: bool) -> Column | None:
    fields = []
    for name in wanted.names:
        data_type = wanted[name].dataType
        if name in found.names:
            field = conform(column[name], found[name].dataType, data_type, nulls=nulls)
        else:
            field = sf.lit(None).cast(data_type)
        if field is None:
            return None
        fields.append(field.alias(name))
    return sf.when(column.isNotNull(), sf.struct(*fields))


def _is_integer(data_type: DataType) -> bool:
    return isinstance(data_type, _INTEGERS) or (isinstance(data_type, DecimalType) and data_type.scale == 0)


def _parse_verdict(recorded: DataFrame) -> tuple[Column, Column]:
    """Returns `parse_reason` and `parse_detail`: the values lost by typing, which the typed columns cannot show."""
    reason = detail = sf.lit(None).cast(StringType())
    for field in EVENT_SCHEMA:
        if field.name in recorded.columns and isinstance(field.dataType, IntegerType | LongType):
            found = recorded.schema[field.name].dataType
            # A column of another type than an integer is null throughout.
            if found.simpleString() == field.dataType.simpleString() or not _is_integer(found):
                continue
            given = _quoted(field.name)
            lost = given.isNotNull() & given.try_cast(field.dataType).isNull()
            reason = sf.coalesce(reason, sf.when(lost, "wrong_type"))
            detail = sf.coalesce(detail, sf.when(lost, field.name))
    if "key_b64" in recorded.columns:
        given = _recorded_column(recorded, "key_b64", StringType())
        lost = given.isNotNull() & sf.try_to_binary(given, sf.lit("base64")).isNull()
        reason = sf.coalesce(reason, sf.when(lost, "bad_key"))
        detail = sf.coalesce(detail, sf.when(lost, sf.concat(sf.lit("key_b64 = "), given)))
    return reason.alias("parse_reason"), detail.alias("parse_detail")


def _quoted(name: str) -> Column:
    # Spark would take a dot in a writer's column name for a field of a struct.
    return sf.col(f"`{name.replace('`', '``')}`")
