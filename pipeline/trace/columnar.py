"""Parquet, Delta and tables to typed rows, column by column.

Absent columns become null and unknown ones are left out, so that a later select of few columns reads only
those. Types may differ where nothing is lost: an integer of another width, bytes for a text, fields in
another order, JSON text for what is nested (a snapshot, say). A number that does not fit its narrower type
refuses the row. Floats are no integers here: they hold neither every `ts_us` nor the words of an ack set.
Bytes of a text that are no UTF-8, which neither Parquet nor Spark look for, become U+FFFD, as in JSON.
"""

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
from pipeline.trace.schema import EVENT_SCHEMA
from pipeline.trace.sources import PARQUET_ENDING, Log
from pipeline.trace.spark_errors import trace_errors

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
    recorded = _load(spark, log)
    kept = _origin(recorded, log) if origin else []
    columns = [_event_column(recorded, log, name) for name in EVENT_SCHEMA.names]
    return recorded.select(*kept, *columns, *_parse_verdict(recorded))


def with_valid_texts(rows: DataFrame) -> DataFrame:
    """Rows whose texts are UTF-8; what is not becomes U+FFFD.

    To be called behind the checks: in front of them Spark's optimizer would derive every check once more from each of
    these columns, as described in `_event_column`.
    """
    texts = {name: sf.make_valid_utf8(name) for name, data_type in rows.dtypes if data_type == "string"}
    return rows.withColumns({**texts, "batch_keys": sf.transform("batch_keys", sf.make_valid_utf8)})


def _load(spark: SparkSession, log: Log) -> DataFrame:
    if log.kind == "table":
        return spark.read.table(log.path)
    if log.kind == "delta":
        return spark.read.format("delta").load(log.path)
    with trace_errors(log.path):
        # A folder's files may have been written at different times, and Spark takes the columns of one of them. Its
        # manifest may lie among them.
        reader = spark.read.option("mergeSchema", "true").option("pathGlobFilter", f"*{PARQUET_ENDING}")
        return reader.parquet(log.glob)


def _origin(recorded: DataFrame, log: Log) -> list[Column]:
    raw = sf.to_json(sf.struct(*[_quoted(name) for name in recorded.columns])).alias("raw")
    no_line = sf.lit(None).cast(LongType())
    if log.kind == "table":
        # A table may be a view, which has no files.
        return [raw, sf.lit(log.path).alias("file"), no_line.alias("line")]
    line = sf.col("_metadata.row_index") + 1 if log.kind == "parquet" else no_line
    return [raw, sf.col("_metadata.file_path").alias("file"), line.alias("line")]


def _event_column(recorded: DataFrame, log: Log, name: str) -> Column:
    """The column `name` of `EVENT_SCHEMA`; null where the log has none.

    Raises:
        TraceError: its type cannot become the one of the format.
    """
    if name == "key":
        text = sf.try_to_binary(_recorded_column(recorded, log, "key_b64", StringType()), sf.lit("base64"))
        return sf.coalesce(_recorded_column(recorded, log, "key", BinaryType()), text).alias(name)
    wanted = EVENT_SCHEMA[name].dataType
    if name in recorded.columns and recorded.schema[name].dataType.simpleString() == wanted.simpleString():
        # No alias that changes nothing: from each one Spark's optimizer derives every condition on the column once
        # more, so that a condition on n columns becomes two to the power of n.
        return _quoted(name)
    return _recorded_column(recorded, log, name, wanted).alias(name)


def _recorded_column(recorded: DataFrame, log: Log, name: str, wanted: DataType) -> Column:
    if name not in recorded.columns:
        return sf.lit(None).cast(wanted)
    found = recorded.schema[name].dataType
    column = conform(_quoted(name), found, wanted)
    if column is None:
        types = f"is {found.simpleString()}, and format 1 has {wanted.simpleString()}"
        raise TraceError(f"{log.path}: column {name} {types}", "write the column with that type")
    return column


def conform(column: Column, found: DataType, wanted: DataType) -> Column | None:
    """`column` of type `found` as `wanted`, or None where that would lose something.

    Nested fields are matched by their names. A value that does not fit becomes null.
    """
    # The column itself, so that a scan of it stays a plain scan; simpleString leaves nullability out.
    if found.simpleString() == wanted.simpleString():
        return column
    bytes_for_text = isinstance(wanted, StringType) and isinstance(found, BinaryType)
    if bytes_for_text or isinstance(found, NullType):
        return column.cast(wanted)
    if isinstance(wanted, IntegerType | LongType) and _is_integer(found):
        return column.try_cast(wanted)
    if isinstance(wanted, StructType | ArrayType | MapType):
        return _conform_nested(column, found, wanted)
    return None


def _conform_nested(column: Column, found: DataType, wanted: StructType | ArrayType | MapType) -> Column | None:
    if isinstance(found, StringType):
        return sf.from_json(column, wanted.simpleString())
    if isinstance(wanted, MapType) and isinstance(found, StructType):
        return sf.from_json(sf.to_json(column), wanted.simpleString())
    if isinstance(wanted, ArrayType) and isinstance(found, ArrayType):
        return _conform_array(column, found.elementType, wanted.elementType)
    if isinstance(wanted, StructType) and isinstance(found, StructType):
        return _conform_struct(column, found, wanted)
    return None


def _conform_array(column: Column, found: DataType, wanted: DataType) -> Column | None:
    # Asked beforehand, because what `transform` calls has to return a column.
    if conform(sf.lit(None), found, wanted) is None:
        return None

    def element(item: Column) -> Column:
        conformed = conform(item, found, wanted)
        assert conformed is not None, "whether a type conforms depends on the types only"
        return conformed

    return sf.transform(column, element)


def _conform_struct(column: Column, found: StructType, wanted: StructType) -> Column | None:
    fields = []
    for name in wanted.names:
        data_type = wanted[name].dataType
        if name in found.names:
            field = conform(column[name], found[name].dataType, data_type)
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
            if recorded.schema[field.name].dataType.simpleString() == field.dataType.simpleString():
                continue
            given = _quoted(field.name)
            lost = given.isNotNull() & given.try_cast(field.dataType).isNull()
            reason = sf.coalesce(reason, sf.when(lost, "wrong_type"))
            detail = sf.coalesce(detail, sf.when(lost, field.name))
    if "key_b64" in recorded.columns:
        given = sf.col("key_b64")
        lost = given.isNotNull() & sf.try_to_binary(given, sf.lit("base64")).isNull()
        reason = sf.coalesce(reason, sf.when(lost, "bad_key"))
        detail = sf.coalesce(detail, sf.when(lost, sf.concat(sf.lit("key_b64 = "), given)))
    return reason.alias("parse_reason"), detail.alias("parse_detail")


def _quoted(name: str) -> Column:
    # A name of the writer's may hold a dot, which Spark would take for a field of a struct.
    return sf.col(f"`{name.replace('`', '``')}`")
