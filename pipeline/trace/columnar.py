"""Parquet, Delta and tables to typed rows, column by column.

Absent columns become null and unknown ones are left out, so that a later select of few columns reads only
those. Types may differ where nothing is lost: an integer of another width, bytes for a text, fields in
another order, JSON text for what is nested (a snapshot, say). A number that does not fit its narrower type
refuses the row. Floats are no integers here: they hold neither every `ts_us` nor the words of an ack set.
Bytes of a text that are no UTF-8, which neither Parquet nor Spark look for, become U+FFFD, as in JSON.

What holds nothing but nulls may have any type, also a field within: a writer that saw no value has to invent one
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

from pipeline.errors import TraceError
from pipeline.spark_errors import columns_do_not_merge, plain_path, trace_errors
from pipeline.trace.schema import EVENT_SCHEMA
from pipeline.trace.sources import PARQUET_ENDING, Log, glob_of

_INTEGERS: tuple[type[DataType], ...] = (ByteType, ShortType, IntegerType, LongType)


def read_columns(spark: SparkSession, log: Log, *, origin: bool) -> DataFrame:
    """The rows of a log of columns, typed but not yet validated.

    Args:
        spark: the session.
        log: of kind `parquet`, `delta` or `table`.
        origin: also tell where each row came from.

    Returns:
        The columns of `EVENT_SCHEMA`, `parse_reason` and `parse_detail` (null = typed). With `origin` also
        `raw` (the row as JSON), `file` (for a table its name) and `line` (1-based row number in the file;
        null where Spark does not tell, as for Delta and tables).

    Raises:
        TraceError: a column has a type that cannot become the one of the format.
    """
    with trace_errors(log.path):
        parts = [_typed(recorded, log, origin=origin) for recorded in _load(spark, log)]
    return reduce(DataFrame.unionByName, parts)


def _typed(recorded: DataFrame, log: Log, *, origin: bool) -> DataFrame:
    """As `read_columns`, of files of which the columns go together."""
    _refuse_other_types(recorded, log)
    kept = _origin(recorded, log) if origin else []
    columns = [_event_column(recorded, name) for name in EVENT_SCHEMA.names]
    return recorded.select(*kept, *columns, *_parse_verdict(recorded))


def with_valid_texts(rows: DataFrame) -> DataFrame:
    """Rows whose texts are UTF-8; what is not becomes U+FFFD.

    To be called behind the checks: in front of them Spark's optimizer would derive every check once more from each of
    these columns, as described in `_event_column`.
    """
    texts = {name: sf.make_valid_utf8(name) for name, data_type in rows.dtypes if data_type == "string"}
    return rows.withColumns({**texts, "batch_keys": sf.transform("batch_keys", sf.make_valid_utf8)})


def _load(spark: SparkSession, log: Log) -> Iterator[DataFrame]:
    """What is recorded, as one frame; of Parquet files that do not go together one for all of the same columns."""
    if log.kind == "table":
        yield spark.read.table(log.path)
    elif log.kind == "delta":
        yield spark.read.format("delta").load(log.path)
    else:
        # Its manifest may lie among the files.
        reader = spark.read.option("pathGlobFilter", f"*{PARQUET_ENDING}")
        try:
            # A folder's files may have been written at different times, and Spark takes the columns of one of them.
            merged = reader.option("mergeSchema", "true").parquet(log.glob)
            merged.schema.fieldNames()  # Spark Connect looks at no file before it is asked.
        except Exception as error:
            if not columns_do_not_merge(error):
                raise
            files = reader.option("mergeSchema", "false").parquet(log.glob).inputFiles()
            yield from _by_columns(spark, log, [plain_path(file) for file in files])
        else:
            yield merged


def _by_columns(spark: SparkSession, log: Log, files: list[str]) -> Iterator[DataFrame]:
    """The files, those of the same columns together."""
    # Names of folders may hold values.
    folder = {"basePath": log.path} if log.local and Path(log.path).is_dir() else {}
    of_columns: dict[str, list[str]] = {}
    for file in sorted(files):
        glob = glob_of(file)
        of_columns.setdefault(spark.read.options(**folder).parquet(glob).schema.json(), []).append(glob)
    for globs in of_columns.values():
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
    """Looks whether what has an impossible type is null throughout; only then anything is read.

    Raises:
        TraceError: it is not.
    """
    wanted = {field.name: field.dataType for field in EVENT_SCHEMA} | {"key_b64": StringType()}
    asked = {field.name: wanted[field.name] for field in recorded.schema if field.name in wanted}
    found = {name: recorded.schema[name].dataType for name in asked}
    other = {name: _unlike(_quoted(name), found[name], asked[name]) for name in asked}
    filled = {name: unlike for name, unlike in other.items() if unlike is not None}
    if not filled:
        return
    (told,) = recorded.agg(*[sf.max(unlike).alias(name) for name, unlike in filled.items()]).collect()
    for name in filled:
        if told[name]:
            types = f"is {found[name].simpleString()}, and format 1 has {asked[name].simpleString()}"
            raise TraceError(f"{log.path}: column {name} {types}", "write the column with that type")


def _unlike(column: Column, found: DataType, wanted: DataType) -> Column | None:
    """Whether a row has a value where the types lose it; None: they lose nothing."""
    if conform(column, found, wanted) is not None:
        return None
    if isinstance(wanted, ArrayType) and isinstance(found, ArrayType):
        inner, of_element = found.elementType, wanted.elementType
        return sf.coalesce(sf.exists(column, lambda item: _filled(item, inner, of_element)), sf.lit(False))
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
    """The column `name` of `EVENT_SCHEMA`; null where the log has none."""
    if name == "key":
        text = sf.try_to_binary(_recorded_column(recorded, "key_b64", StringType()), sf.lit("base64"))
        return sf.coalesce(_recorded_column(recorded, "key", BinaryType()), text).alias(name)
    wanted = EVENT_SCHEMA[name].dataType
    if name in recorded.columns and recorded.schema[name].dataType.simpleString() == wanted.simpleString():
        # No alias that changes nothing: from each one Spark's optimizer derives every condition on the column once
        # more, so that a condition on n columns becomes two to the power of n.
        return _quoted(name)
    return _recorded_column(recorded, name, wanted).alias(name)


def _recorded_column(recorded: DataFrame, name: str, wanted: DataType) -> Column:
    if name not in recorded.columns:
        return sf.lit(None).cast(wanted)
    column = conform(_quoted(name), recorded.schema[name].dataType, wanted, nulls=True)
    assert column is not None, "of another type are nulls only"
    return column


def conform(column: Column, found: DataType, wanted: DataType, *, nulls: bool = False) -> Column | None:
    """`column` of type `found` as `wanted`, or None where that would lose something.

    Nested fields are matched by their names. A value that does not fit becomes null.

    Args:
        column: to convert.
        found: its type.
        wanted: the type to convert it to.
        nulls: what has an impossible type is known to be null.
    """
    # The column itself, so that a scan of it stays a plain scan; simpleString leaves nullability out.
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
    # Asked beforehand, because what `transform` calls has to return a column.
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
    """`parse_reason` and `parse_detail`: what got lost on the way, which typed columns cannot show."""
    reason = detail = sf.lit(None).cast(StringType())
    for field in EVENT_SCHEMA:
        if field.name in recorded.columns and isinstance(field.dataType, IntegerType | LongType):
            found = recorded.schema[field.name].dataType
            # What is no integer is null throughout.
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
    # A name of the writer's may hold a dot, which Spark would take for a field of a struct.
    return sf.col(f"`{name.replace('`', '``')}`")
