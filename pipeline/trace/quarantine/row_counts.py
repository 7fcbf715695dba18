"""Counts rows by topic, subscription, recorder and reason, batch by batch.

The rows pass through Python once and are counted there, because a second scan would cost as much as all the rest.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dispatch_audit.pipeline.arrow_stream import stream_of
from dispatch_audit.pipeline.trace.arrow_columns import numbered

_GROUPED = ["topic", "subscription", "broker", "refused", "gap"]
_FOLDED = [
    ("rows", "sum"),
    ("first_seq", "min"),
    ("last_seq", "max"),
    ("first_ts_us", "min"),
    ("last_ts_us", "max"),
    ("entry_buckets", "max"),
    # A gap that was delivered twice is one gap.
    ("dropped", "max"),
]
_SCHEMA = pa.schema(
    [
        *((name, pa.string()) for name in _GROUPED),
        *((name, pa.int64()) for name, _ in _FOLDED),
    ]
)
# The different numbers of rows that 64 bits hold.
_NUMBERS_MAX = 1 << 62
# Number of counts that are collected before they are added up.
_PARTS_MAX = 64


class Count(NamedTuple):
    """The rows of one subscription and recorder that were refused for one reason, or were good, or report one gap.

    Attributes:
        topic: None where the rows name none.
        subscription: None for publishes, and where the rows name none.
        broker: None where the rows name none.
        refused: the reason code; None: good rows.
        gap: for rows that report dropped rows, what identifies the gap within the recorder; None: other rows.
        rows: number of recorded rows.
        first_seq: lowest seq; None where no row has one, and so for the next three.
        last_seq: highest seq.
        first_ts_us: lowest wall clock, microseconds since 1970 UTC.
        last_ts_us: highest wall clock.
        entry_buckets: more than 0 if a consumer joined under entry-bucket dispatch.
        dropped: how many rows were dropped, as the rows of the gap report it.
    """

    topic: str | None
    subscription: str | None
    broker: str | None
    refused: str | None
    gap: str | None
    rows: int
    first_seq: int | None
    last_seq: int | None
    first_ts_us: int | None
    last_ts_us: int | None
    entry_buckets: int
    dropped: int


class RowCounts:
    """Counts the rows of batches; its memory grows with subscriptions, not with rows."""

    def __init__(self) -> None:
        self._parts: list[pa.Table] = []

    def add(self, batch: pa.RecordBatch) -> None:
        """Adds checked rows with the columns `OF_ROW`; texts may be dictionary-encoded.

        Args:
            batch: refused rows with their reasons as column `refused`, or good rows without it.
        """
        if batch.num_rows == 0:
            return
        if "refused" not in batch.schema.names:
            batch = batch.append_column("refused", pa.nulls(batch.num_rows, pa.string()))
        gap, dropped = _gaps(batch)
        grouped_by = [*(batch.column(name) for name in _GROUPED[:-1]), gap]
        columns = {
            "number": pa.array(_numbers(grouped_by)),
            "row": pa.array(np.arange(batch.num_rows)),
            "seq": batch.column("seq"),
            "ts_us": batch.column("ts_us"),
            "entry_buckets": _joined_by_entry_buckets(batch),
            "dropped": dropped,
        }
        bounds = [("seq", "min"), ("seq", "max"), ("ts_us", "min"), ("ts_us", "max"), ("entry_buckets", "max")]
        bounds += [("dropped", "max")]
        grouped = pa.table(columns).group_by("number", use_threads=False)
        counted = grouped.aggregate([([], "count_all"), ("row", "min"), *bounds])
        named = ["count_all", *("_".join(bound) for bound in bounds)]
        one_of_each = counted.column("row_min").combine_chunks()
        self._take(
            pa.table(
                [column.take(one_of_each).cast(pa.string()) for column in grouped_by]
                + [counted.column(name).cast(pa.int64()) for name in named],
                schema=_SCHEMA,
            )
        )

    def add_counts(self, counts: Iterable[Mapping[str, Any]]) -> None:
        """Adds other counts, given as mappings with the attributes of `Count`."""
        self._take(pa.Table.from_pylist(list(counts), schema=_SCHEMA))

    def encode(self) -> bytes:
        """Returns the counts as an Arrow IPC stream, for `decoded`."""
        self._fold()
        return bytes(stream_of(pa.concat_tables([_SCHEMA.empty_table(), *self._parts])))

    def counts(self) -> list[Count]:
        """Returns the counts, in no order."""
        self._fold()
        return [Count(**row) for part in self._parts for row in part.to_pylist()]

    def _take(self, part: pa.Table) -> None:
        self._parts.append(part)
        if len(self._parts) > _PARTS_MAX:
            self._fold()

    def _fold(self) -> None:
        if self._parts:
            folded = pa.concat_tables(self._parts).group_by(_GROUPED, use_threads=False).aggregate(_FOLDED)
            self._parts = [
                folded.select([*_GROUPED, *("_".join(fold) for fold in _FOLDED)]).rename_columns(_SCHEMA.names)
            ]


def _numbers(columns: Sequence[pa.Array]) -> NDArray[np.int64]:
    """Returns a number for each row, equal where all columns are: Arrow groups by one faster than by five texts."""
    number = np.zeros(len(columns[0]), dtype=np.int64)
    numbers = 1
    for column in columns:
        if column.null_count == len(column):
            continue
        texts, index = numbered(column)
        if numbers * len(texts) > _NUMBERS_MAX:
            number = np.unique(number, return_inverse=True)[1]
            numbers = int(number.max()) + 1
        number = number * len(texts) + index
        numbers *= len(texts)
    return number


def _joined_by_entry_buckets(batch: pa.RecordBatch) -> pa.Array:
    """Returns 1 for each join under entry-bucket dispatch that the broker accepted, else 0."""
    requested = batch.column("entry_bucket_dispatch")
    if requested.null_count == batch.num_rows:
        return pa.repeat(pa.scalar(0, pa.int8()), batch.num_rows)
    # The broker refused a consumer that has no number.
    joined = pc.and_(pc.equal(batch.column("event").cast(pa.string()), "join"), pc.is_valid(batch.column("consumer")))
    return pc.fill_null(pc.and_(joined, requested), False).cast(pa.int8())


def _gaps(batch: pa.RecordBatch) -> tuple[pa.Array, pa.Array]:
    """Returns for each row what identifies its gap (null: it is no gap), and how many dropped rows it reports."""
    dropped = batch.column("dropped")
    if dropped.null_count == batch.num_rows:
        return pa.nulls(batch.num_rows, pa.string()), pa.repeat(pa.scalar(0, pa.int64()), batch.num_rows)
    is_gap = pc.fill_null(pc.equal(batch.column("event").cast(pa.string()), "gap"), False)
    number = pc.fill_null(dropped.cast(pa.int64()), 0)
    # The time and the seq are those of the first row lost.
    of_row = (batch.column("seq"), batch.column("ts_us"), number)
    texts = (pc.fill_null(column.cast(pa.string()), "") for column in of_row)
    gap = pc.binary_join_element_wise(*texts, " ")
    return pc.if_else(is_gap, gap, pa.scalar(None, pa.string())), pc.if_else(is_gap, number, 0)


def together(rows: Iterable[Mapping[str, Any]]) -> list[Count]:
    """Returns counts, given as mappings, added up so that each subscription, recorder and reason is there once."""
    counts = RowCounts()
    counts.add_counts(rows)
    return counts.counts()


def decoded(payloads: Iterable[bytes]) -> list[Count]:
    """Returns the counts that `RowCounts.encode` wrote, added up."""
    tables = (pa.ipc.open_stream(payload).read_all() for payload in payloads)
    return together(row for table in tables for row in table.to_pylist())
