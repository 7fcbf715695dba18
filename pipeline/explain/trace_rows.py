"""Reads the good rows of one subscription, or of all, from a trace, by the reader of the audit.

Files are read in this process. Tables of a catalog and URIs are read through a session of Spark.
"""

from collections.abc import Iterator
from typing import Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from dispatch_audit.pipeline.errors import UsageError
from dispatch_audit.pipeline.packing.packed_batch import Group
from dispatch_audit.pipeline.trace import EVENT_SCHEMA, Trace
from dispatch_audit.pipeline.trace.schema import ARROW_TYPES
from dispatch_audit.pipeline.trace.workers.file_part import FilePart
from dispatch_audit.pipeline.trace.workers.part import Part
from dispatch_audit.pipeline.trace.workers.shares import shares_of
from dispatch_audit.pipeline.trace.workers.tasks import evaluated

_ROWS: Final = 1 << 16
_SCHEMA: Final = pa.schema(
    [(name, pa.string() if name == "snapshot" else ARROW_TYPES[name]) for name in EVENT_SCHEMA.names]
)
_Column: TypeAlias = pa.Array | pa.ChunkedArray


def needs_session(trace: Trace) -> bool:
    """Whether some log of a trace can be read through Spark only."""
    return any(shares_of(log, trace.seqs) is None for log in trace.logs)


def subscription_rows(trace: Trace, group: Group, spark: SparkSession | None = None) -> pa.Table:
    """Returns the good rows of a subscription and the publishes of its topic, in the order of time and seq.

    Args:
        trace: the trace; rows outside of its range of seq are left out.
        group: the subscription.
        spark: the session; needed where `needs_session` holds.

    Returns:
        The columns of `EVENT_SCHEMA`, `snapshot` as JSON text.

    Raises:
        UsageError: a log needs a session and there is none.
        TraceError: a file cannot be read.
    """
    return _read(trace, group, spark)


def all_rows(trace: Trace, spark: SparkSession | None = None) -> pa.Table:
    """Returns the good rows of all subscriptions of a trace, as `subscription_rows` does."""
    return _read(trace, None, spark)


def of_group(rows: pa.Table | pa.RecordBatch, group: Group) -> pa.Table | pa.RecordBatch:
    """The rows of a subscription and the publishes of its topic."""
    return rows.filter(_concerns(rows["topic"], rows["subscription"], rows["event"], group))


def _read(trace: Trace, group: Group | None, spark: SparkSession | None) -> pa.Table:
    if needs_session(trace):
        batches = _through_spark(trace, group, spark)
    else:
        shares = [share for log in trace.logs for share in shares_of(log, trace.seqs) or ()]
        batches = list(_rows_of(iter([FilePart(share) for share in shares]), group))
    return pa.Table.from_batches(batches, _SCHEMA).sort_by([("ts_us", "ascending"), ("seq", "ascending")])


def _rows_of(parts: Iterator[Part], group: Group | None) -> Iterator[pa.RecordBatch]:
    for part in parts:
        for found in part.read(_SCHEMA.names, _ROWS):
            rows = found.good if group is None else of_group(found.good, group)
            if rows.num_rows:
                yield pa.record_batch(
                    [rows.column(name).cast(_SCHEMA.field(name).type) for name in _SCHEMA.names], _SCHEMA
                )


def _concerns(topic: _Column, subscription: _Column, event: _Column, group: Group) -> _Column:
    topic, subscription, event = (column.cast(pa.string()) for column in (topic, subscription, event))
    concerned = pc.or_(pc.equal(event, "publish"), pc.fill_null(pc.equal(subscription, group.subscription), False))
    aside = pc.is_in(event, value_set=pa.array(["gap", "settings"]))
    concerned = pc.or_(concerned, pc.and_(aside, pc.is_null(subscription)))
    of_topic = pc.fill_null(pc.equal(topic, group.topic), False)
    return pc.and_(pc.or_(of_topic, pc.and_(aside, pc.is_null(topic))), concerned)


def _through_spark(trace: Trace, group: Group | None, spark: SparkSession | None) -> list[pa.RecordBatch]:
    if spark is None:
        raise UsageError(f"{trace.path} can be read through Spark only", "leave --engine out, or pass --engine spark")

    def read(parts: Iterator[Part]) -> Iterator[pa.RecordBatch]:
        for rows in _rows_of(parts, group):
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, _SCHEMA) as stream:
                stream.write_batch(rows)
            yield pa.record_batch([pa.array([sink.getvalue().to_pybytes()], pa.binary())], names=["rows"])

    found = evaluated(spark, trace, read, "rows BINARY", lambda frame: frame.collect())
    return [batch for row in found for batch in pa.ipc.open_stream(bytes(row["rows"]))]
