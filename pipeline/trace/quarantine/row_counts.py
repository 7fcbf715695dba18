"""How many rows there are of which subscription and which kind, counted batch by batch.

The rows pass through Python once, and are counted there: a second scan for a count would cost as much as the rest.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

# What a batch must have to be counted.
COUNTED_BY: Final = (
    "topic",
    "subscription",
    "refused",
    "seq",
    "ts_us",
    "event",
    "consumer",
    "entry_bucket_dispatch",
)

NOT_PLAIN: Final = "not plain"
"""In the place of a reason: a file that only Spark can read (`pipeline.trace.parquet.row_checks`)."""

_GROUPED = ["topic", "subscription", "refused"]
_FOLDED = [
    ("rows", "sum"),
    ("first_seq", "min"),
    ("last_seq", "max"),
    ("first_ts_us", "min"),
    ("last_ts_us", "max"),
    ("entry_buckets", "max"),
]
_SCHEMA = pa.schema(
    [
        *((name, pa.string()) for name in _GROUPED),
        *((name, pa.int64()) for name, _ in _FOLDED),
    ]
)
# Counts of batches that are kept before they are added up.
_PARTS_MAX = 64


class Count(NamedTuple):
    """Rows of one subscription that were refused for one reason, or not at all.

    Attributes:
        topic: None where the rows name none.
        subscription: None of publishes, and where the rows name none.
        refused: the reason code; None: good rows.
        rows: recorded.
        first_seq: lowest; None where no row has one, as for the other three.
        last_seq: highest.
        first_ts_us: lowest wall clock, microseconds since 1970 UTC.
        last_ts_us: highest.
        entry_buckets: more than 0 if one is the join of a consumer that the broker took under entry-bucket dispatch.
    """

    topic: str | None
    subscription: str | None
    refused: str | None
    rows: int
    first_seq: int | None
    last_seq: int | None
    first_ts_us: int | None
    last_ts_us: int | None
    entry_buckets: int


class RowCounts:
    """Counts of the rows seen so far; as large as there are subscriptions, not rows."""

    def __init__(self) -> None:
        self._parts: list[pa.Table] = []

    def add(self, batch: pa.RecordBatch) -> None:
        """Takes validated rows with `COUNTED_BY`; texts may be dictionary-encoded."""
        if batch.num_rows == 0:
            return
        seq, ts_us = batch.column("seq"), batch.column("ts_us")
        columns = [*(batch.column(name) for name in _GROUPED), seq, ts_us, _joined_by_entry_buckets(batch)]
        table = pa.table(columns, names=[*_GROUPED, "seq", "ts_us", "entry_buckets"])
        asked = [("seq", "min"), ("seq", "max"), ("ts_us", "min"), ("ts_us", "max"), ("entry_buckets", "max")]
        counted = table.group_by(_GROUPED, use_threads=False).aggregate([([], "count_all"), *asked])
        named = ["count_all", *("_".join(what) for what in asked)]
        self._take(
            pa.table(
                [counted.column(name).cast(pa.string()) for name in _GROUPED]
                + [counted.column(name).cast(pa.int64()) for name in named],
                schema=_SCHEMA,
            )
        )

    def give_up(self) -> None:
        """Says that a file was left to Spark."""
        self._take(pa.Table.from_pylist([{"refused": NOT_PLAIN, "rows": 0, "entry_buckets": 0}], schema=_SCHEMA))

    def add_counts(self, counts: Iterable[Mapping[str, Any]]) -> None:
        """Takes what others have counted, by name of the attributes of `Count`."""
        self._take(pa.Table.from_pylist(list(counts), schema=_SCHEMA))

    def counts(self) -> list[Count]:
        """What was counted, in no order."""
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
                folded.select([*_GROUPED, *("_".join(what) for what in _FOLDED)]).rename_columns(_SCHEMA.names)
            ]


def _joined_by_entry_buckets(batch: pa.RecordBatch) -> pa.Array:
    """1 for the join of a consumer that the broker took under entry-bucket dispatch, else 0."""
    asked = batch.column("entry_bucket_dispatch")
    if asked.null_count == batch.num_rows:
        return pa.repeat(pa.scalar(0, pa.int8()), batch.num_rows)
    # Without a number the broker refused it.
    joined = pc.and_(pc.equal(batch.column("event").cast(pa.string()), "join"), pc.is_valid(batch.column("consumer")))
    return pc.fill_null(pc.and_(joined, asked), False).cast(pa.int8())


def counted(events: DataFrame) -> list[Count]:
    """Counts the rows of `pipeline.trace.read_events`, in a job of its own."""

    def count(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        counts = RowCounts()
        for batch in batches:
            counts.add(batch)
        yield pa.RecordBatch.from_pylist([found._asdict() for found in counts.counts()], schema=_SCHEMA)

    schema = ", ".join(f"{field.name} {'STRING' if field.type == pa.string() else 'LONG'}" for field in _SCHEMA)
    return together(row.asDict() for row in events.select(*COUNTED_BY).mapInArrow(count, schema).collect())


def together(rows: Iterable[Mapping[str, Any]]) -> list[Count]:
    """Counts by name of their attributes, each subscription and reason once."""
    counts = RowCounts()
    counts.add_counts(rows)
    return counts.counts()
