"""Reads all logs of a trace as one frame of typed events."""

from functools import reduce

from pyspark.sql import DataFrame, SparkSession

from dispatch_audit.pipeline.engine.limits import refuse_scan
from dispatch_audit.pipeline.spark_errors import trace_errors
from dispatch_audit.pipeline.trace.columnar import read_columns, with_valid_texts
from dispatch_audit.pipeline.trace.json_lines import read_json_lines
from dispatch_audit.pipeline.trace.seq_range import ALL
from dispatch_audit.pipeline.trace.sources import Trace
from dispatch_audit.pipeline.trace.validate import validated


def read_events(spark: SparkSession, trace: Trace) -> DataFrame:
    """Returns the rows of `trace` in its range of seq, each with the result of its checks.

    The frame is lazy: Spark reads the logs when the frame is used. It lacks the origin of rows: a second scan finds
    file, line and text, and only if rows have to be quarantined
    (`dispatch_audit.pipeline.trace.quarantine.quarantine`).

    Returns:
        The columns of `EVENT_SCHEMA`, and `refused` and `detail` of `dispatch_audit.pipeline.trace.validate`. The order
        of rows is undefined; there is one row for each recorded row, and none for a blank line.

    Raises:
        UsageError: a table or a remote path does not exist, or the engine cannot read it.
        TraceError: Parquet or Delta cannot be opened, or has a column of an impossible type.
    """
    refuse_scan(spark, trace.path)
    with trace_errors():
        rows = reduce(DataFrame.unionByName, read_parts(spark, trace, origin=False))
    return rows if trace.seqs == ALL else rows.where(trace.seqs.sql)


def read_parts(spark: SparkSession, trace: Trace, *, origin: bool) -> list[DataFrame]:
    """Returns the validated rows of every seq in parts: first all JSON Lines as one scan, then each columnar log.

    Args:
        spark: the session.
        trace: the trace to read.
        origin: whether to add the origin of rows; its columns differ by reader.
    """
    json_logs = [log for log in trace.logs if log.kind == "json"]
    parts = [validated(read_json_lines(spark, json_logs, origin=origin))] if json_logs else []
    columnar = (read_columns(spark, log, origin=origin) for log in trace.logs if log.kind != "json")
    return [*parts, *(with_valid_texts(validated(part)) for part in columnar)]
