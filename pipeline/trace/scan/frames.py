"""Frames of the logs that Spark has to scan: tables of a catalog, URIs, and tables that are more than their files.

A frame has lines as they are, or the recorded columns, and where each row comes from. The executors check the rows
(`dispatch_audit.pipeline.trace.scan.parts`).
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from dispatch_audit.pipeline.spark_errors import columns_do_not_merge, plain_path, trace_errors
from dispatch_audit.pipeline.trace.scan.flat_columns import flattened, quoted
from dispatch_audit.pipeline.trace.seq_range import ALL, SeqRange
from dispatch_audit.pipeline.trace.sources import JSON_ENDINGS, PARQUET_ENDING, Log, glob_of

# No recorder has columns of these names.
TEXT: Final = "text of the line"
FILE: Final = "file of the row"
BEGIN: Final = "begin of the split"
LINE: Final = "number of the row"

_INTEGERS: Final = ("tinyint", "smallint", "int", "bigint")


def frames_of(spark: SparkSession, log: Log, seqs: SeqRange) -> list[DataFrame]:
    """Returns the rows of a log: one frame, or, for Parquet files that cannot be merged, one for each set of columns.

    Args:
        spark: the session.
        log: the log.
        seqs: the rows that are needed; a frame may have others.

    Returns:
        For JSON Lines `TEXT` (bytes), `FILE` and `BEGIN` (bytes), in the order of the lines. For others the recorded
        columns, `FILE` (for a table its name) and `LINE` (1-based row in the file; null for Delta and tables, where
        Spark does not report it).

    Raises:
        UsageError: a path or a table does not exist, or Spark cannot reach it.
        TraceError: Parquet or Delta cannot be opened.
    """
    with trace_errors(log.path):
        if log.kind == "json":
            return [_lines(spark, log)]
        return [_columns(recorded, log, seqs) for recorded in _load(spark, log)]


def _lines(spark: SparkSession, log: Log) -> DataFrame:
    # A log may be a folder that also holds other files.
    reader = spark.read.option("lineSep", "\n").option("pathGlobFilter", f"*{{{','.join(JSON_ENDINGS)}}}")
    return reader.text(log.glob).select(
        sf.col("value").cast("binary").alias(TEXT),
        sf.col("_metadata.file_path").alias(FILE),
        sf.col("_metadata.file_block_start").alias(BEGIN),
    )


def _columns(recorded: DataFrame, log: Log, seqs: SeqRange) -> DataFrame:
    if log.kind == "table":
        # A table may be a view, which has no files.
        file, line = sf.lit(log.path), sf.lit(None).cast("bigint")
    else:
        file = sf.col("_metadata.file_path")
        line = sf.col("_metadata.row_index") + 1 if log.kind == "parquet" else sf.lit(None).cast("bigint")
    rows = recorded.select(*(quoted(name) for name in recorded.columns), file.alias(FILE), line.alias(LINE))
    if seqs != ALL and dict(recorded.dtypes).get("seq") in _INTEGERS:
        # Spark passes over files without such rows.
        rows = rows.where(seqs.sql)
    return flattened(rows)


def _load(spark: SparkSession, log: Log) -> Iterator[DataFrame]:
    """Yields the recorded rows."""
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
