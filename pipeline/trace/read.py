"""All logs of a trace as one frame of typed events."""

from functools import reduce

from pyspark.sql import DataFrame, SparkSession

from pipeline.spark_errors import trace_errors
from pipeline.trace.columnar import read_columns, with_valid_texts
from pipeline.trace.json_lines import read_json_lines
from pipeline.trace.seq_range import ALL
from pipeline.trace.sources import Trace
from pipeline.trace.validate import validated


def read_events(spark: SparkSession, trace: Trace) -> DataFrame:
    """The rows of `trace` that lie in its range of seq, each with the verdict on it.

    Nothing is read before the frame is used.

    Where rows came from is not part of it: file, line and text are worked out by a second scan, and only if
    rows have to be set aside (`pipeline.trace.quarantine.quarantine`).

    Returns:
        The columns of `EVENT_SCHEMA`, and `refused` and `detail` of `pipeline.trace.validate`. The order of
        rows is undefined, their number is that of the recorded rows (blank lines are none).

    Raises:
        UsageError: a table or a remote path does not exist.
        TraceError: Parquet or Delta cannot be opened, or has a column of an impossible type.
    """
    with trace_errors():
        rows = reduce(DataFrame.unionByName, read_parts(spark, trace, origin=False))
    return rows if trace.seqs == ALL else rows.where(trace.seqs.sql)


def read_parts(spark: SparkSession, trace: Trace, *, origin: bool) -> list[DataFrame]:
    """The validated rows by kind of log, of whatever seq: first all JSON Lines as one scan, then each log of columns.

    Args:
        spark: the session.
        trace: what to read.
        origin: also tell where rows came from; see the readers, of which each tells it in its own way.
    """
    json_logs = [log for log in trace.logs if log.kind == "json"]
    parts = [validated(read_json_lines(spark, json_logs, origin=origin))] if json_logs else []
    of_columns = (read_columns(spark, log, origin=origin) for log in trace.logs if log.kind != "json")
    return [*parts, *(with_valid_texts(validated(part)) for part in of_columns)]
