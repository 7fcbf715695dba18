"""Hands the parts of a trace to tasks: files that workers open, and rows that Spark scans."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import reduce
from typing import TypeVar

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from dispatch_audit.pipeline.engine.functions import map_in_arrow
from dispatch_audit.pipeline.engine.limits import refuse_scan
from dispatch_audit.pipeline.engine.releases.batch_sizes import rows_of_a_trace
from dispatch_audit.pipeline.engine.task_number import task_number
from dispatch_audit.pipeline.spark_errors import trace_errors, worker_died, worker_killed
from dispatch_audit.pipeline.trace.scan.frames import frames_of
from dispatch_audit.pipeline.trace.scan.parts import parts_of
from dispatch_audit.pipeline.trace.seq_range import SeqRange
from dispatch_audit.pipeline.trace.sources import Log, Trace
from dispatch_audit.pipeline.trace.workers.file_part import FilePart
from dispatch_audit.pipeline.trace.workers.part import Part
from dispatch_audit.pipeline.trace.workers.shares import Share, shares_of

Work = Callable[[Iterator[Part]], Iterator[pa.RecordBatch]]
"""Runs in a task, and gets its parts."""

_Result = TypeVar("_Result")

# A worker reads so much about as fast as a task starts.
_TASK_BYTES = 2 << 20


def in_tasks(spark: SparkSession, trace: Trace, work: Work, schema: str, *, scanned: bool = False) -> DataFrame:
    """Returns the result of `work` on the parts of a trace, not yet evaluated.

    When the frame is evaluated, a damaged file may end a worker; `evaluated` handles that.

    Args:
        spark: the session.
        trace: the trace.
        work: what the tasks do.
        schema: of the result, as DDL.
        scanned: whether Spark also scans the files that workers could open.

    Raises:
        UsageError: a table or a remote path does not exist, or the engine cannot read it.
        TraceError: Parquet or Delta cannot be opened.
    """
    shares: list[Share] = []
    to_scan: list[Log] = []
    for log in trace.logs:
        of_log = None if scanned else shares_of(log, trace.seqs, trace.line_bytes_max)
        if of_log is None:
            to_scan.append(log)
        else:
            shares += of_log
    if to_scan:
        refuse_scan(spark, ", ".join(log.path for log in to_scan))
    frames = [_by_workers(spark, shares, work, schema)] if shares else []
    frames += [frame for log in to_scan for frame in _scanned(spark, log, trace.seqs, work, schema)]
    return reduce(lambda above, below: above.union(below), frames) if frames else spark.createDataFrame([], schema)


def evaluated(
    spark: SparkSession, trace: Trace, work: Work, schema: str, evaluate: Callable[[DataFrame], _Result]
) -> _Result:
    """Returns the evaluated result of `work` on the parts of a trace.

    Args:
        spark: the session.
        trace: the trace.
        work: what the tasks do.
        schema: of the result, as DDL.
        evaluate: evaluates the frame; called again if a damaged file ended a worker, because Spark's own reader
            survives it and reports the damage.

    Raises:
        UsageError: a table or a remote path does not exist, or the engine cannot read it.
        TraceError: a file cannot be read.
    """
    with trace_errors(), rows_of_a_trace(spark):
        try:
            return evaluate(in_tasks(spark, trace, work, schema))
        except Exception as error:
            if not worker_died(error) or worker_killed(error):
                raise
            return evaluate(in_tasks(spark, trace, work, schema, scanned=True))


def _by_workers(spark: SparkSession, shares: Sequence[Share], work: Work, schema: str) -> DataFrame:
    # The engine moves only the numbers of the shares.
    def run_task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return work(FilePart(shares[number]) for batch in batches for number in batch.column(0).to_pylist())

    tasks = task_number(spark, len(shares), sum(share.size for share in shares) / _TASK_BYTES)
    return map_in_arrow(spark.range(0, len(shares), 1, tasks), run_task, schema)


def _scanned(spark: SparkSession, log: Log, seqs: SeqRange, work: Work, schema: str) -> list[DataFrame]:
    def run_task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return work(parts_of(batches, log.path, seqs))

    return [map_in_arrow(frame, run_task, schema) for frame in frames_of(spark, log, seqs)]
