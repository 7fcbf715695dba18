"""Reads JSON Lines as typed rows: one scan, and one parse of each line.

A line is parsed as the first element of an array inside of an object, `{"row":[<line>,<end>]}`. The parser by itself
stops after the first object and would lose the rest of the line, such as the second of two rows without a newline
between them. In the array it has to read up to the end. The end is an element too, because a line may hold brackets
that close the array (`{...}]}` and more text); then the end is not in the array. The result distinguishes the faults
without a second parse:

    elements  last is the end  corrupt  the line is
    2         yes              no       a row (null: the line says `null`)
    2         yes              yes      an object with a value of the wrong type; the other fields are there
    3 ...     yes              no       several objects
    ...       no               ...      not JSON, or not an object; or blank, which is no row
    null                       yes      the same

If an object has a field twice, the last one counts. Bytes that are not UTF-8 become U+FFFD.
"""

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import ArrayType, StringType, StructField, StructType

from dispatch_audit.pipeline.trace.schema import JSON_SCHEMA
from dispatch_audit.pipeline.trace.sources import JSON_ENDINGS, Log

# The marker stands in the field `event`, and no event has this name, so a line cannot contain it by chance.
_END = "end of the line"
_WRAPPED = StructType(
    [StructField("row", ArrayType(JSON_SCHEMA)), StructField("corrupt", StringType())]  # of the whole line
)
_OPTIONS = {
    "mode": "PERMISSIVE",
    "columnNameOfCorruptRecord": "corrupt",
    # The parser's default accepts Python's repr of a dict.
    "allowSingleQuotes": "false",
}


def read_json_lines(spark: SparkSession, logs: Sequence[Log], *, origin: bool) -> DataFrame:
    """Returns the rows of JSON Lines logs, parsed but not yet validated.

    Args:
        spark: the session.
        logs: of kind `json`; files or folders.
        origin: whether to add the origin of each row, and to keep blank lines, so that lines can be counted.

    Returns:
        The columns of `JSON_SCHEMA`, `key` (binary), `parse_reason` and `parse_detail` (null = parsed). With
        `origin` also `raw` (the line; null for a blank one, which is no row), `file`, `block` (offset of the
        split in its file, bytes) and `row_id` (ascending within a split, without gaps).
    """
    lines = (
        spark.read.option("lineSep", "\n")
        # A log may be a folder that also holds other files.
        .option("pathGlobFilter", f"*{{{','.join(JSON_ENDINGS)}}}")
        .text([log.glob for log in logs])
    )
    if origin:
        lines = lines.select(
            "value",
            sf.when(~_blank(), sf.col("value")).alias("raw"),
            sf.col("_metadata.file_path").alias("file"),
            sf.col("_metadata.file_block_start").alias("block"),
            sf.monotonically_increasing_id().alias("row_id"),
        )
    else:
        lines = lines.where(~_blank())
    kept = [sf.col(name) for name in lines.columns]
    wrapped = sf.concat(sf.lit('{"row":['), "value", sf.lit(f',{{"event":"{_END}"}}]}}'))
    parsed = lines.select(*kept, sf.from_json(wrapped, _WRAPPED, _OPTIONS).alias("parsed"))
    ended = sf.try_element_at("parsed.row", sf.lit(-1))["event"] == _END
    single = (sf.size("parsed.row") == 2) & ended
    # A generator, although it yields one row for one line: the optimizer would push a filter on the typed columns
    # below a projection and parse every line twice. It cannot push a filter below a generator.
    rows = parsed.select(*kept, "parsed", sf.inline_outer(sf.when(single, sf.slice("parsed.row", 1, 1))))
    return rows.select(
        *[sf.col(name) for name in rows.columns if name not in ("value", "parsed")],
        sf.try_to_binary("key_b64", sf.lit("base64")).alias("key"),
        *_parse_verdict(single, ended),
    )


def _parse_verdict(single: Column, ended: Column) -> tuple[Column, Column]:
    """Returns `parse_reason` and `parse_detail` of a row."""
    one_object = single & sf.get("parsed.row", sf.lit(0)).isNotNull()
    bad_key = sf.try_to_binary("key_b64", sf.lit("base64")).isNull() & sf.col("key_b64").isNotNull()
    # Spark evaluates this for refused rows only: a lost field is in the line, but not in the row.
    as_text = sf.from_json("value", "map<string,string>")
    lost = [sf.when(sf.col(name).isNull() & as_text[name].isNotNull(), sf.lit(name)) for name in JSON_SCHEMA.names]
    reason = (
        sf.when(~sf.coalesce(one_object, sf.lit(False)), "broken_json")
        .when(sf.col("parsed.corrupt").isNotNull(), "wrong_type")
        .when(bad_key, "bad_key")
    )
    detail = (
        sf.when((sf.size("parsed.row") > 2) & ended, "several objects in one line")
        .when(sf.col("parsed.corrupt").isNotNull() & one_object, sf.coalesce(*lost, sf.lit("a nested field")))
        .when(bad_key, sf.concat(sf.lit("key_b64 = "), "key_b64"))
    )
    return reason.alias("parse_reason"), detail.alias("parse_detail")


def _blank() -> Column:
    # The first test decides for nearly every line and costs nothing.
    return ~sf.startswith("value", sf.lit("{")) & (sf.trim("value", sf.lit(" \t\r")) == "")
