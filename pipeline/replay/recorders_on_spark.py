"""Finds the recorders of each topic of a trace, and their terms where a topic has several.

If every topic has one recorder, the trace is not read again. Otherwise only a few columns are read, and Spark exchanges
stretches of rows (`dispatch_audit.pipeline.replay.recorders.ownership_terms`): one for each time in which a recorder
wrote without a pause.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import pandas as pd
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from dispatch_audit.pipeline.errors import TraceError
from dispatch_audit.pipeline.replay.recorders.ownership_terms import LOOKED_AT, Stretch, recorders_of, stretches
from dispatch_audit.pipeline.replay.recorders.recorders import Recorders, Term
from dispatch_audit.pipeline.trace.parquet.worker_reader import NotPlainError, Share, by_workers, read_share

_STRETCHES: Final = (
    "topic STRING, broker STRING, kind INT, first_seq LONG, last_seq LONG, first_us LONG, last_us LONG, consumer LONG"
)
_ARROW: Final = pa.schema(
    [
        ("topic", pa.string()),
        ("broker", pa.string()),
        ("kind", pa.int32()),
        *((name, pa.int64()) for name in Stretch._fields[3:]),
    ]
)
_FOUND: Final = "topic STRING, recorders STRING, way_out STRING"

Named = Mapping[str, Sequence[str | None]]
"""The different names in column `broker`, by topic; None: rows without one."""


def recorders_in(
    spark: SparkSession, trace: DataFrame | Sequence[Share], named: Named, skew_us: int, chunk_rows: int
) -> dict[str, Recorders] | None:
    """The recorders of each topic of which rows name any.

    Args:
        spark: the session.
        trace: rows of `dispatch_audit.pipeline.trace.read_events`, or files that are plain.
        named: the recorders that its rows name, good or not. If other rows name one, rows without a name belong to it.
        skew_us: how far the clocks of two brokers may be apart, in microseconds.
        chunk_rows: how many rows of a file are read at a time.

    Returns:
        None where a file turns out not to be plain.

    Raises:
        TraceError: two recorders wrote as owners of a topic at one time.
    """
    known = {topic: [name for name in names if name is not None] for topic, names in named.items()}
    found = {topic: Recorders((names[0],)) for topic, names in known.items() if len(names) == 1}
    several = {topic: sorted(name or "" for name in named[topic]) for topic, names in known.items() if len(names) > 1}
    if not several:
        return found

    def look(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield _rows_of(stretches(batch, several, skew_us))

    def read(own: Iterator[Share]) -> Iterator[pa.RecordBatch]:
        try:
            yield from look(batch for share in own for batch in read_share(share, LOOKED_AT, chunk_rows))
        except NotPlainError:
            yield pa.RecordBatch.from_pylist([{}], schema=_ARROW)

    if isinstance(trace, DataFrame):
        parts = trace.where("refused IS NULL").select(*LOOKED_AT).mapInArrow(look, _STRETCHES)
    else:
        parts = by_workers(spark, trace, read, _STRETCHES)
    rows = parts.groupBy("topic").applyInPandas(_finder(skew_us), _FOUND).collect()
    if any(row["topic"] is None for row in rows):
        return None
    for row in sorted(rows):
        if row["way_out"] is not None:
            raise TraceError(row["recorders"], row["way_out"])
        names, terms = json.loads(row["recorders"])
        found[row["topic"]] = Recorders(tuple(names), tuple(Term(*term) for term in terms))
    return found


def _finder(skew_us: int):  # type: ignore[no-untyped-def]  # Spark takes hints of pandas frames for another kind
    def find(parts: pd.DataFrame) -> pd.DataFrame:
        topic = parts["topic"].iloc[0]
        if topic is None:
            return pd.DataFrame({"topic": [None], "recorders": [None], "way_out": [None]})
        try:
            found = recorders_of(topic, (Stretch(*row) for row in parts.itertuples(index=False, name=None)), skew_us)
        except TraceError as error:
            return pd.DataFrame({"topic": [topic], "recorders": [error.args[0]], "way_out": [error.way_out]})
        return pd.DataFrame({"topic": [topic], "recorders": [json.dumps(found)], "way_out": [None]})

    return find


def _rows_of(parts: Sequence[Stretch]) -> pa.RecordBatch:
    columns = zip(*parts, strict=True) if parts else [()] * len(_ARROW)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, _ARROW, strict=True)]
    return pa.record_batch(arrays, schema=_ARROW)
