"""Reads traces in tests: rows and counts without a JVM, the same rows through a scan, and what an audit sets aside."""

import json
import pickle
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql import DataFrame, Row, SparkSession

from dispatch_audit.pipeline.plan.pack_on_spark import checked_rows, rows_with_texts
from dispatch_audit.pipeline.plan.staged_batches import STAGED_SCHEMA, StagedKind
from dispatch_audit.pipeline.plan.staged_texts import rows_in
from dispatch_audit.pipeline.run.refused_by_replay import refused_by_replay
from dispatch_audit.pipeline.trace import EVENT_SCHEMA, Trace
from dispatch_audit.pipeline.trace.checks.asked import AskedRows
from dispatch_audit.pipeline.trace.quarantine.row_counts import Count, decoded
from dispatch_audit.pipeline.trace.workers.file_part import FilePart
from dispatch_audit.pipeline.trace.workers.part import Part
from dispatch_audit.pipeline.trace.workers.shares import Share, shares_of
from dispatch_audit.pipeline.trace.workers.tasks import evaluated, in_tasks

Rows = list[dict[str, Any]]

# Workers do not find modules of tests.
_by_value: Any = cloudpickle.register_pickle_by_value
_by_value(sys.modules[__name__])


def shares_in(trace: Trace) -> list[Share] | None:
    """The shares of all logs; None where workers cannot read one of them."""
    found = [shares_of(log, trace.seqs) for log in trace.logs]
    return None if None in found else [share for shares in found if shares for share in shares]


def parts_in(trace: Trace) -> list[FilePart]:
    """The parts of a trace that workers can read."""
    shares = shares_in(trace)
    assert shares is not None, "workers cannot read it"
    return [FilePart(share) for share in shares]


def read(trace: Trace, rows: int = 1_000) -> tuple[Rows, Rows]:
    """The good rows of a trace in the order of seq, and the refused ones in that of lines."""
    return rows_of_parts(parts_in(trace), rows)


def counts_in_parts(trace: Trace, rows: int = 1_000) -> list[Count]:
    """The counts of the rows of a trace, by the work of a task."""
    staged = [row for batch in checked_rows(rows)(iter(parts_in(trace))) for row in batch.to_pylist()]
    return decoded(row["events"] for row in staged if row["kind"] == StagedKind.COUNTS)


def scanned(spark: SparkSession, trace: Trace) -> tuple[Rows, Rows]:
    """The same through a scan of Spark."""

    def work(parts: Iterator[Part]) -> Iterator[pa.RecordBatch]:
        yield pa.record_batch([pa.array([pickle.dumps(rows_of_parts(list(parts), 1_000))])], names=["rows"])

    good: Rows = []
    refused: Rows = []
    for row in in_tasks(spark, trace, work, "rows BINARY", scanned=True).collect():
        some = pickle.loads(row["rows"])
        good, refused = good + some[0], refused + some[1]
    return _in_order(good, refused)


def rows_of_parts(parts: Sequence[Part], rows: int) -> tuple[Rows, Rows]:
    """The good rows of parts, and the refused ones, with their snapshots parsed."""
    found = [some for part in parts for some in part.read(EVENT_SCHEMA.names, rows)]
    good = [row for some in found for row in some.good.to_pylist(maps_as_pydicts="strict")]
    for row in good:
        row["snapshot"] = row["snapshot"] and json.loads(row["snapshot"])
    return _in_order(good, [row for some in found for row in some.refused.to_pylist()])


def _in_order(good: Rows, refused: Rows) -> tuple[Rows, Rows]:
    return sorted(good, key=lambda row: int(row["seq"])), sorted(refused, key=lambda row: int(row["line"] or 0))


def kept(frame: DataFrame) -> DataFrame:
    """The evaluated rows of a frame."""
    return frame.sparkSession.createDataFrame(frame.toArrow(), frame.schema)


def set_aside(spark: SparkSession, trace: Trace, late: DataFrame | None = None) -> list[Row]:
    """The rows of a trace that the checks refuse, and those that the replay refused."""
    work = rows_with_texts(lambda found: found.refused)
    rows = rows_in(evaluated(spark, trace, work, STAGED_SCHEMA, kept)).collect()
    if late is None:
        return rows
    asked = AskedRows.of(late.toArrow())
    return [*rows, *refused_by_replay(spark, trace, late, asked, kept).collect()]
