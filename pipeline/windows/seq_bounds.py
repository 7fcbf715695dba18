"""Where in the order of a log a moment lies, and how many rows lie between two such places: one look at three columns.

`seq` is the order of the trace and `ts_us` is only nearly so. A window that ends at a moment ends behind the last row
before the first one, in the order of seq, that has this time or a later one; the rest is left to the window after it,
whatever its time. Rows whose seq or time is impossible cut nothing.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyspark.sql import DataFrame, SparkSession

from pipeline.spark_errors import trace_errors, worker_died
from pipeline.trace.parquet.arrow_columns import integers
from pipeline.trace.parquet.delta_files import as_files
from pipeline.trace.parquet.worker_reader import NotPlainError, Share, by_workers, read_columns, shares_of
from pipeline.trace.read import read_events
from pipeline.trace.sources import Trace
from pipeline.trace.validate import TS_US_MAX

_SCHEMA = "what STRING, at INT, number LONG, name STRING"
_ARROW = pa.schema([("what", pa.string()), ("at", pa.int32()), ("number", pa.int64()), ("name", pa.string())])
_NUMBERS = ("seq", "ts_us")
_LOOKED_AT = (*_NUMBERS, "broker")
_NOT_PLAIN = "not plain"


class LogQuery(NamedTuple):
    """What is asked about a log.

    Attributes:
        moments_us: microseconds since 1970 UTC, ascending.
        since: only rows from this seq on can be the first of a moment; None: any can.
        places: seqs, ascending.
        within_us: a beginning and an end, itself not in it; None: nothing is asked about the time between two moments.
    """

    moments_us: tuple[int, ...]
    since: int | None = None
    places: tuple[int, ...] = ()
    within_us: tuple[int, int] | None = None


class SeqBounds(NamedTuple):
    """What was found.

    Attributes:
        seq_of: for each moment the lowest seq of a row that has this time or a later one; None: there is none.
        rows_until: rows below the first place, from there up to the second, ..., and from the last one on.
        without_seq: rows that have no readable seq.
        last_seq: the highest; None: no row has one.
        last_within: the highest, from `since` on, of a row whose time lies in `within_us`; None: there is none.
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
        """Recorded."""
        return sum(self.rows_until) + self.without_seq


def find_seq_bounds(spark: SparkSession, trace: Trace, question: LogQuery) -> SeqBounds:
    """Looks at the seq and the time of every row of a log.

    Raises:
        UsageError: a table or a remote path does not exist.
        TraceError: a file cannot be read.
    """
    with trace_errors():
        shares = shares_of(as_files(spark, trace))
        try:
            found = _together(_looked_at_by_workers(spark, shares, question), question) if shares else None
            if found is not None:
                return found
        except Exception as error:
            # Spark's own reader lives through a damaged file, and says what is wrong with it.
            if not worker_died(error):
                raise
        found = _together(_looked_at_by_spark(read_events(spark, trace), question), question)
    assert found is not None, "Spark reads whatever is not plain"
    return found


def _looked_at_by_spark(events: DataFrame, question: LogQuery) -> DataFrame:
    def look(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield _answers(batch, question)

    return events.select(*_LOOKED_AT).mapInArrow(look, _SCHEMA)


def _looked_at_by_workers(spark: SparkSession, shares: Sequence[Share], question: LogQuery) -> DataFrame:
    def look(own: Iterator[Share]) -> Iterator[pa.RecordBatch]:
        for share in own:
            try:
                for batch in read_columns(share, _LOOKED_AT):
                    yield _answers(batch, question)
            except (NotPlainError, OSError, pa.ArrowException):
                yield pa.RecordBatch.from_pylist([{"what": _NOT_PLAIN}], schema=_ARROW)

    return by_workers(spark, shares, look, _SCHEMA)


def _answers(batch: pa.RecordBatch, question: LogQuery) -> pa.RecordBatch:
    """What one batch has to say: numbers to add up, and seqs of which the lowest or highest counts."""
    known = pc.is_valid(batch.column("seq")).to_numpy(zero_copy_only=False)
    seq, ts_us = (integers(batch.column(name))[known] for name in _NUMBERS)
    answers = [("without_seq", 0, int(known.size - seq.size))]
    between = _counted(seq, question.places)
    answers += [("rows", at, int(rows)) for at, rows in enumerate(between) if rows]
    if seq.size:
        answers.append(("last_seq", 0, int(seq.max())))
    possible = (seq >= (question.since or 0)) & (ts_us <= TS_US_MAX)
    for at, moment in enumerate(question.moments_us):
        # An impossible time is below every moment, or above the last one that there can be.
        later = seq[possible & (ts_us >= moment) & (ts_us >= 0)]
        if later.size:
            answers.append(("seq_of", at, int(later.min())))
    if question.within_us is not None:
        begin_us, end_us = question.within_us
        within = seq[possible & (ts_us >= begin_us) & (ts_us < end_us)]
        if within.size:
            answers.append(("last_within", 0, int(within.max())))
    named = [("broker", 0, 0, name) for name in pc.unique(batch.column("broker")).to_pylist() if name is not None]
    rows = [*((*answer, None) for answer in answers), *named]
    return pa.record_batch([list(column) for column in zip(*rows, strict=True)], schema=_ARROW)


def _counted(seq: NDArray[np.int64], places: Sequence[int]) -> NDArray[np.int64]:
    """How many rows lie below the first place, between two, and from the last one on."""
    between = np.searchsorted(np.array(places, dtype=np.int64), seq, side="right")
    return np.bincount(between, minlength=len(places) + 1)


def _together(answers: DataFrame, question: LogQuery) -> SeqBounds | None:
    """The answers of all batches as one; None: a file is not plain."""
    numbers: dict[tuple[str, int], list[int]] = {}
    brokers: set[str] = set()
    for row in answers.collect():
        if row["what"] == _NOT_PLAIN:
            return None
        if row["name"] is not None:
            brokers.add(row["name"])
        numbers.setdefault((row["what"], row["at"]), []).append(row["number"])
    return SeqBounds(
        tuple(min(numbers.get(("seq_of", at), ()), default=None) for at in range(len(question.moments_us))),
        tuple(sum(numbers.get(("rows", at), ())) for at in range(len(question.places) + 1)),
        sum(numbers.get(("without_seq", 0), ())),
        max(numbers.get(("last_seq", 0), ()), default=None),
        max(numbers.get(("last_within", 0), ()), default=None),
        frozenset(brokers),
    )
