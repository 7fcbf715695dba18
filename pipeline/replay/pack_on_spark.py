"""Rows of a trace to packed batches on Spark: the first half of the replay."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from dispatch_audit.pipeline.contract.profile import Profile
from dispatch_audit.pipeline.replay.packing.flat_rows import flattened, restored
from dispatch_audit.pipeline.replay.packing.narrow_events import encode_events
from dispatch_audit.pipeline.replay.packing.pack import COLUMNS, Groups, pack
from dispatch_audit.pipeline.replay.packing.packed_batch import (
    Group,
    PackedBatch,
    encode_membership,
    encode_snapshots,
)
from dispatch_audit.pipeline.replay.packing.producer_summary import encode_published
from dispatch_audit.pipeline.replay.recorders.one_order import in_one_order
from dispatch_audit.pipeline.replay.recorders.recorders import Recorders
from dispatch_audit.pipeline.tables.payload import encode
from dispatch_audit.pipeline.trace.parquet.worker_reader import (
    NAMES,
    NotPlainError,
    Share,
    by_workers,
    read_names,
    read_share,
)
from dispatch_audit.pipeline.trace.quarantine.row_counts import COUNTED_BY, Count, RowCounts

PACKED_SCHEMA = (
    "group INT, first_seq LONG, last_seq LONG, events BINARY, membership STRING, snapshots STRING, published STRING"
)


_PACKED_ARROW = pa.schema(
    [
        ("group", pa.int32()),
        ("first_seq", pa.int64()),
        ("last_seq", pa.int64()),
        ("events", pa.binary()),
        ("membership", pa.string()),
        ("snapshots", pa.string()),
        ("published", pa.string()),
    ]
)


_COLUMNS = (*COLUMNS, *(name for name in COUNTED_BY if name not in COLUMNS))


NO_NAMES: Mapping[str, Recorders] = {}
"""The recorders of a trace whose rows name none."""


NO_GROUP = -1
"""The group of the counts, which travel in the column of events."""


STATE_SEQ = -1
"""The first seq of a group's state from the window before, which travels in the column of events too."""


_Batches = Iterable[pa.RecordBatch]


_Pack = Callable[[_Batches], Iterator[pa.RecordBatch]]


class Named(NamedTuple):
    """The names in the rows of a trace, good or not.

    Attributes:
        groups: every subscription.
        brokers: the names in column `broker`, by topic; None stands for rows without one.
    """

    groups: list[Group]
    brokers: Mapping[str, Sequence[str | None]]


def named(events: DataFrame) -> Named:
    """The names in rows of `dispatch_audit.pipeline.trace.read_events`."""
    return _named(row.asDict() for row in events.select(*NAMES).where("topic IS NOT NULL").distinct().collect())


def named_in_files(spark: SparkSession, shares: Sequence[Share]) -> Named | None:
    """The names in files that the workers read; None: Spark has to read them."""

    def read(own: Iterator[Share]) -> Iterator[pa.RecordBatch]:
        for share in own:
            try:
                found = dict.fromkeys(read_names(share))
            except NotPlainError:
                found = {(None,) * len(NAMES): None}
            columns = zip(*found, strict=True) if found else [()] * len(NAMES)
            arrays = [pa.array(column, pa.string()) for column in columns]
            yield pa.record_batch(arrays, names=list(NAMES))

    rows = by_workers(spark, shares, read, ", ".join(f"{name} STRING" for name in NAMES)).collect()
    # A plain row has a topic.
    if any(row["topic"] is None for row in rows):
        return None
    return _named(row.asDict() for row in rows)


def _named(rows: Iterable[Mapping[str, str | None]]) -> Named:
    groups: set[Group] = set()
    brokers: dict[str, set[str | None]] = {}
    for row in rows:
        topic, subscription = row["topic"], row["subscription"]
        if topic and subscription:
            groups.add(Group(topic, subscription))
        brokers.setdefault(topic or "", set()).add(row["broker"])
    return Named(sorted(groups), {topic: list(names) for topic, names in brokers.items()})


def packed_rows(
    events: DataFrame, groups: list[Group], profile: Profile, recorders: Mapping[str, Recorders] = NO_NAMES
) -> DataFrame:
    """Packs the rows of `dispatch_audit.pipeline.trace.read_events`; `PACKED_SCHEMA`, in no order.

    Args:
        events: the rows.
        groups: every subscription that they name.
        profile: of the broker.
        recorders: of each topic of which rows name any.
    """
    moved = _moved(recorders)
    packed = _packer(_numbered(groups), profile, moved)

    def read(batches: _Batches) -> Iterator[pa.RecordBatch]:
        return packed(map(restored, batches))

    return flattened(events, _columns(moved)).mapInArrow(read, PACKED_SCHEMA)


def packed_earlier_publishes(events: DataFrame, groups: list[Group], new: Set[Group], profile: Profile) -> DataFrame:
    """Packs the publishes before a window, for the subscriptions that first appear in it; nothing is counted.

    Args:
        events: rows of `dispatch_audit.pipeline.trace.read_events` before the window.
        groups: every subscription of the window, as given to `packed_rows`.
        new: those of them that no row before the window names.
        profile: of the broker.
    """
    numbers = _numbered(groups, new)

    def packed(batches: _Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield _rows_of(pack(restored(batch), numbers, profile))

    published = events.where("refused IS NULL AND event = 'publish'").where(sf.col("topic").isin(sorted(numbers)))
    return flattened(published, COLUMNS).mapInArrow(packed, PACKED_SCHEMA)


def packed_states(state: DataFrame, groups: list[Group]) -> DataFrame:
    """Rows of table `state` as `PACKED_SCHEMA`, ordered before all packed batches of their group."""
    numbers = _numbered(groups)

    def placed(batches: _Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rows = [
                {
                    "group": numbers[row["topic"]][row["subscription"]],
                    "first_seq": STATE_SEQ,
                    "last_seq": STATE_SEQ,
                    "events": row["payload"],
                }
                for row in batch.to_pylist()
            ]
            yield pa.RecordBatch.from_pylist(rows, schema=_PACKED_ARROW)

    return state.select("topic", "subscription", "payload").mapInArrow(placed, PACKED_SCHEMA)


def packed_files(
    spark: SparkSession,
    shares: Sequence[Share],
    groups: list[Group],
    profile: Profile,
    chunk_rows: int,
    recorders: Mapping[str, Recorders] = NO_NAMES,
) -> DataFrame:
    """Packs files that the workers read, as `packed_rows` does; the counts report a file that is not plain."""
    moved = _moved(recorders)
    packed = _packer(_numbered(groups), profile, moved)
    columns = _columns(moved)

    def read(own: Iterator[Share]) -> Iterator[pa.RecordBatch]:
        return packed(batch for share in own for batch in read_share(share, columns, chunk_rows))

    return by_workers(spark, shares, read, PACKED_SCHEMA)


def _numbered(groups: list[Group], among: Set[Group] | None = None) -> Groups:
    """The number of each group, or only of those in `among`."""
    numbers: dict[str, dict[str, int]] = {}
    for number, group in enumerate(groups):
        if among is None or group in among:
            numbers.setdefault(group.topic, {})[group.subscription] = number
    return numbers


def _moved(recorders: Mapping[str, Recorders]) -> dict[str, Recorders]:
    """The topics with several recorders."""
    return {topic: of_topic for topic, of_topic in recorders.items() if of_topic.terms}


def _columns(moved: Mapping[str, Recorders]) -> tuple[str, ...]:
    return (*_COLUMNS, "broker") if moved else _COLUMNS


def _packer(groups: Groups, profile: Profile, moved: Mapping[str, Recorders]) -> _Pack:
    def packed(batches: _Batches) -> Iterator[pa.RecordBatch]:
        counts = RowCounts()

        def counted(batch: pa.RecordBatch) -> pa.RecordBatch:
            counts.add(batch)
            refused = batch.column("refused")
            good = batch if refused.null_count == batch.num_rows else batch.filter(pc.is_null(refused))
            if not moved:
                return _rows_of(pack(good, groups, profile))
            return _rows_of([chunk for part in in_one_order(good, moved) for chunk in pack(part, groups, profile)])

        try:
            # No variable, because it would keep the last batch while memory is released.
            yield from map(counted, batches)
        except NotPlainError:
            counts.give_up()
        # The worker is used again: release the memory of packing before it replays.
        pa.default_memory_pool().release_unused()
        yield _row_of(counts.counts())

    return packed


def _rows_of(chunks: Sequence[PackedBatch]) -> pa.RecordBatch:
    return pa.record_batch(
        [
            pa.array([chunk.group for chunk in chunks], pa.int32()),
            pa.array([chunk.first_seq for chunk in chunks], pa.int64()),
            pa.array([chunk.last_seq for chunk in chunks], pa.int64()),
            pa.array([encode_events(chunk.events) for chunk in chunks], pa.binary()),
            pa.array([encode_membership(chunk.membership) for chunk in chunks], pa.string()),
            pa.array([encode_snapshots(chunk.snapshots) for chunk in chunks], pa.string()),
            pa.array([encode_published(chunk.published) for chunk in chunks], pa.string()),
        ],
        schema=_PACKED_ARROW,
    )


def _row_of(counts: Sequence[Count]) -> pa.RecordBatch:
    columns = {name: [getattr(count, name) for count in counts] for name in Count._fields}
    row = {"group": NO_GROUP, "first_seq": 0, "last_seq": 0, "events": encode("counted", columns)}
    return pa.RecordBatch.from_pylist([row], schema=_PACKED_ARROW)
