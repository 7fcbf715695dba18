"""Delta tables taken for the Parquet files that they are made of, where those alone hold their rows."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from pipeline.trace.sources import Log, Trace

# From 2 on columns may have other names in the files, from 3 on rows of a file may be deleted (Delta's protocol,
# "Column Mapping", "Deletion Vectors").
_PLAIN_READER: Final = 1
_LOCAL: Final = "file:"


def as_files(spark: SparkSession, trace: Trace) -> Trace:
    """The trace with the files of the latest version in the place of each local table whose rows are just theirs."""
    return replace(trace, logs=tuple(found for log in trace.logs for found in _logs(spark, log)))


def _logs(spark: SparkSession, log: Log) -> Iterator[Log]:
    files = _files(spark, log.path) if log.kind == "delta" and log.local else None
    if files is None:
        yield log
    else:
        yield from (Log("parquet", str(file)) for file in sorted(files))


def _files(spark: SparkSession, path: str) -> list[Path] | None:
    """The files of a table; None if something else belongs to its rows."""
    escaped = path.replace("`", "``")
    try:
        (detail,) = spark.sql(f"DESCRIBE DETAIL delta.`{escaped}`").collect()
        # The value of a partition stands in the log only.
        if detail["minReaderVersion"] != _PLAIN_READER or detail["partitionColumns"]:
            return None
        found = spark.read.format("delta").load(path).inputFiles()
    except AnalysisException:
        return None  # whoever reads it as a table says what is wrong with it
    # Other than those of Parquet these names are as they stand in the file system, and no URIs.
    files = [Path(name.removeprefix(_LOCAL)) for name in found]
    return files if all(name.startswith(_LOCAL) for name in found) and all(map(Path.is_file, files)) else None
