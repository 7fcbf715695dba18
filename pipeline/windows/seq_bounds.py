"""Finds the seqs at which windows begin and end, and counts the rows between seqs, in one scan of three columns.

`seq` orders a trace, and `ts_us` is only nearly in that order. A window up to a moment ends before the lowest seq whose
row has that time or a later one; all rows from there on belong to the next window, whatever their times. Rows with an
impossible seq or time end no window.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyspark.sql import DataFrame, Row, SparkSession

from dispatch_audit.pipeline.engine.arrow_schema import arrow_schema
from dispatch_audit.pipeline.trace.arrow_columns import integers
from dispatch_audit.pipeline.trace.checks.one_row import TS_US_MAX
from dispatch_audit.pipeline.trace.sources import Trace
from dispatch_audit.pipeline.trace.workers.part import Part
from dispatch_audit.pipeline.trace.workers.tasks import evaluated

_SCHEMA = "kind STRING, at INT, number LONG, name STRING"
_ARROW = arrow_schema(_SCHEMA)
_NUMBERS = ("seq", "ts_us")
_LOOKED_AT = (*_NUMBERS, "broker")


class LogQuery(NamedTuple):
    """The moments and seqs to look for in a log.

    Attributes:
        moments_us: microseconds since 1970 UTC, ascending.
        since: only rows from this seq on can be the first of a moment; None: any row can.
        limits: seqs, ascending; the rows between two of them are counted.
        within_us: beginning (included) and end (excluded) of a time whose highest seq is wanted; None: no such time.
    """

    moments_us: tuple[int, ...]
    since: int | None = None
    limits: tuple[int, ...] = ()
    within_us: tuple[int, int] | None = None


class SeqBounds(NamedTuple):
    """The answer to a `LogQuery`.

    Attributes:
        seq_of: for each moment the lowest seq of a row that has this time or a later one; None: there is none.
        rows_until: numbers of rows below the first limit, from there up to the second, ..., and from the last one on.
        without_seq: number of rows that have no readable seq.
        last_seq: the highest seq; None: no row has one.
        last_within: the highest seq, from `since` on, of a row whose time lies in `within_us`; None: there is none.
        brokers: the recorders that rows name.
    """

    seq_of: tuple[int | None, ...]
    rows_until: tuple[int, ...]
    without_seq: int
    last_seq: int | None
    last_within: int | None = None
    brokers: frozenset[str] = frozenset()

    @property
    def rows(self) -> int:
        """Number of recorded rows."""
        return sum(self.rows_until) + self.without_seq


def find_seq_bounds(spark: SparkSession, trace: Trace, query: LogQuery) -> SeqBounds:
    """Returns the answer to `query` from the seq and the time of every row of a log.

    Raises:
        UsageError: a table or a remote path does not exist.
        TraceError: a file cannot be read.
    """

    def look(parts: Iterator[Part]) -> Iterator[pa.RecordBatch]:
        for part in parts:
            for batch in part.unchecked(_LOOKED_AT):
                yield _answers(batch, query)

    return _together(evaluated(spark, trace, look, _SCHEMA, DataFrame.collect), query)


def _answers(batch: pa.RecordBatch, query: LogQuery) -> pa.RecordBatch:
    """Returns the answers of one batch: numbers to add up, and seqs of which the lowest or highest is needed."""
    known = pc.is_valid(batch.column("seq")).to_numpy(zero_copy_only=False)
    seq, ts_us = (integers(batch.column(name))[known] for name in _NUMBERS)
    answers = [("without_seq", 0, int(known.size - seq.size))]
    between = _counted(seq, query.limits)
    answers += [("rows", at, int(rows)) for at, rows in enumerate(between) if rows]
    if seq.size:
        answers.append(("last_seq", 0, int(seq.max())))
    possible = (seq >= (query.since or 0)) & (ts_us <= TS_US_MAX)
    for at, moment in enumerate(query.moments_us):
        # Impossible times are negative, or above the last moment that a timestamp can show.
        later = seq[possible & (ts_us >= moment) & (ts_us >= 0)]
        if later.size:
            answers.append(("seq_of", at, int(later.min())))
    if query.within_us is not None:
        begin_us, end_us = query.within_us
        within = seq[possible & (ts_us >= begin_us) & (ts_us < end_us)]
        if within.size:
            answers.append(("last_within", 0, int(within.max())))
    named = [("broker", 0, 0, name) for name in pc.unique(batch.column("broker")).to_pylist() if name is not None]
    rows = [*((*answer, None) for answer in answers), *named]
    return pa.record_batch([list(column) for column in zip(*rows, strict=True)], schema=_ARROW)


def _counted(seq: NDArray[np.int64], limits: Sequence[int]) -> NDArray[np.int64]:
    """Returns how many rows lie below the first limit, between two, and from the last one on."""
    between = np.searchsorted(np.array(limits, dtype=np.int64), seq, side="right")
    return np.bincount(between, minlength=len(limits) + 1)


def _together(answers: Iterable[Row], query: LogQuery) -> SeqBounds:
    """Returns the answers of all batches as one."""
    numbers: dict[tuple[str, int], list[int]] = {}
    brokers: set[str] = set()
    for row in answers:
        if row["name"] is not None:
            brokers.add(row["name"])
        numbers.setdefault((row["kind"], row["at"]), []).append(row["number"])
    return SeqBounds(
        tuple(min(numbers.get(("seq_of", at), ()), default=None) for at in range(len(query.moments_us))),
        tuple(sum(numbers.get(("rows", at), ())) for at in range(len(query.limits) + 1)),
        sum(numbers.get(("without_seq", 0), ())),
        max(numbers.get(("last_seq", 0), ()), default=None),
        max(numbers.get(("last_within", 0), ()), default=None),
        frozenset(brokers),
    )
