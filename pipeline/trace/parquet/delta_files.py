"""Replaces local Delta tables by their Parquet files, where the files alone hold the rows."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from dispatch_audit.pipeline.trace.sources import Log, Trace

# Reader version 2 allows other column names in the files, version 3 deleted rows in a file (Delta's protocol, "Column
# Mapping", "Deletion Vectors").
_PLAIN_READER: Final = 1
_LOCAL: Final = "file:"


def as_files(spark: SparkSession, trace: Trace) -> Trace:
    """Returns the trace with each local table replaced by the files of its latest version, where these are all."""
    return replace(trace, logs=tuple(found for log in trace.logs for found in _logs(spark, log)))


def _logs(spark: SparkSession, log: Log) -> Iterator[Log]:
    files = _files(spark, log.path) if log.kind == "delta" and log.local else None
    if files is None:
        yield log
    else:
        yield from (Log("parquet", str(file)) for file in sorted(files))


def _files(spark: SparkSession, path: str) -> list[Path] | None:
    """Returns the files of a table; None if its rows depend on more than its files."""
    escaped = path.replace("`", "``")
    try:
        (detail,) = spark.sql(f"DESCRIBE DETAIL delta.`{escaped}`").collect()
        # The values of partition columns are in the log only.
        if detail["minReaderVersion"] != _PLAIN_READER or detail["partitionColumns"]:
            return None
        found = spark.read.format("delta").load(path).inputFiles()
    except AnalysisException:
        return None  # reading it as a table reports the error
    # Unlike those of Parquet, these are names of the file system and no URIs.
    files = [Path(name.removeprefix(_LOCAL)) for name in found]
    return files if all(name.startswith(_LOCAL) for name in found) and all(map(Path.is_file, files)) else None
