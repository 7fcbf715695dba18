"""The replay on Spark: pack, one exchange, one sort, one grouped function.

    rows of a trace -> mapInArrow(pack): a row a group and chunk -> exchange on the group -> sort of the chunk rows
                    -> applyInPandas: replay of one group -> rows of all tables, as payloads

The rows come from Spark, or are read from their files by the workers (`pipeline.trace.parquet_files`). They are
counted on the way; the counts travel as chunks of a group that is none.

Only `pyspark.sql`, so that Spark Connect and serverless run it. The functions that travel to the workers are made
of plain values; the workers need this package and its dependencies.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from itertools import chain
from typing import Any, NamedTuple

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from pipeline.contract.profile import Profile
from pipeline.replay.basis import Rules
from pipeline.replay.chunk import (
    Chunk,
    decode_membership,
    decode_snapshots,
    encode_membership,
    encode_snapshots,
)
from pipeline.replay.flat import flattened, restored
from pipeline.replay.group import Group, replay_group
from pipeline.replay.joining import joined
from pipeline.replay.narrow import decode_events, encode_events
from pipeline.replay.pack import COLUMNS, Groups, pack
from pipeline.replay.producers import decode_published, encode_published
from pipeline.replay.recorders import ONE, Recorders
from pipeline.tables.payload import RESULT_SCHEMA, encode
from pipeline.trace.counting import COUNTED_BY, Count, RowCounts
from pipeline.trace.parquet_files import NAMES, NotPlainError, Share, by_workers, read_names, read_share

CHUNK_SCHEMA = (
    "group INT, first_seq LONG, last_seq LONG, events BINARY, membership STRING, snapshots STRING, published STRING"
)
_CHUNK_ARROW = pa.schema(
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
"""Of a trace whose rows name no recorder."""
NO_GROUP = -1
"""The group of the counts, which travel in the place of events."""
STATE_SEQ = -1
"""The first seq of a group's state at the end of the window before, which travels in the place of events too."""

_Batches = Iterable[pa.RecordBatch]
_Pack = Callable[[_Batches], Iterator[pa.RecordBatch]]
_Replay = Callable[[tuple[Any, ...], Iterator[pd.DataFrame]], Iterator[pd.DataFrame]]


class Named(NamedTuple):
    """What rows of a trace name, good or not.

    Attributes:
        groups: every subscription.
        brokers: the names in column `broker`, by topic; None: rows without one.
    """

    groups: list[Group]
    brokers: Mapping[str, Sequence[str | None]]


def named(events: DataFrame) -> Named:
    """What rows of `pipeline.trace.read_events` name."""
    return _named(row.asDict() for row in events.select(*NAMES).where("topic IS NOT NULL").distinct().collect())


def named_in_files(spark: SparkSession, shares: Sequence[Share]) -> Named | None:
    """The same of files that the workers read; None: Spark has to read them."""

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


def chunks_of(
    events: DataFrame, groups: list[Group], profile: Profile, recorders: Mapping[str, Recorders] = NO_NAMES
) -> DataFrame:
    """Packs the rows of `pipeline.trace.read_events`; `CHUNK_SCHEMA`, in no order.

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

    return flattened(events, _columns(moved)).mapInArrow(read, CHUNK_SCHEMA)


def chunks_of_earlier_publishes(events: DataFrame, groups: list[Group], new: Set[Group], profile: Profile) -> DataFrame:
    """Packs what was published before a window, for the subscriptions that come up in it; nothing is counted.

    Args:
        events: rows of `pipeline.trace.read_events` before the window.
        groups: every subscription of the window, as given to `chunks_of`.
        new: those of them that no row before the window names.
        profile: of the broker.
    """
    numbers = _numbered(groups, new)

    def packed(batches: _Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield _rows_of(pack(restored(batch), numbers, profile))

    published = events.where("refused IS NULL AND event = 'publish'").where(sf.col("topic").isin(sorted(numbers)))
    return flattened(published, COLUMNS).mapInArrow(packed, CHUNK_SCHEMA)


def chunks_of_state(state: DataFrame, groups: list[Group]) -> DataFrame:
    """Rows of table `state` as `CHUNK_SCHEMA`: each comes to its group before all chunks."""
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
            yield pa.RecordBatch.from_pylist(rows, schema=_CHUNK_ARROW)

    return state.select("topic", "subscription", "payload").mapInArrow(placed, CHUNK_SCHEMA)


def chunks_of_files(
    spark: SparkSession,
    shares: Sequence[Share],
    groups: list[Group],
    profile: Profile,
    chunk_rows: int,
    recorders: Mapping[str, Recorders] = NO_NAMES,
) -> DataFrame:
    """Packs files that the workers read, as `chunks_of` does. Where one is not plain the counts say so."""
    moved = _moved(recorders)
    packed = _packer(_numbered(groups), profile, moved)
    columns = _columns(moved)

    def read(own: Iterator[Share]) -> Iterator[pa.RecordBatch]:
        return packed(batch for share in own for batch in read_share(share, columns, chunk_rows))

    return by_workers(spark, shares, read, CHUNK_SCHEMA)


def replayed(
    chunks: DataFrame,
    groups: list[Group],
    rules: Rules,
    findings_per_rule_max: int,
    tasks: int,
    *,
    keep_state: bool = False,
    recorders: Mapping[str, Recorders] = NO_NAMES,
) -> DataFrame:
    """The rows of all tables that the replay of a trace fills, and what it counted.

    Args:
        chunks: of `chunks_of` or `chunks_of_files`, perhaps with those of `chunks_of_state`.
        groups: every subscription that the trace names, as given to those.
        rules: what the replay depends on.
        findings_per_rule_max: how many findings of a rule are kept a group.
        tasks: into how many the groups are divided.
        keep_state: whether the log goes on behind these rows, so that what is open is handed on.
        recorders: as given to those.

    Returns:
        `RESULT_SCHEMA`; evaluating it runs the replay, so it is written down once and read from there.
    """
    replay = _replayer(groups, rules, findings_per_rule_max, keep_state, recorders)
    return in_order(chunks, tasks).groupBy("group").applyInPandas(replay, RESULT_SCHEMA)


def in_order(chunks: DataFrame, tasks: int) -> DataFrame:
    """The chunks of each group together, ordered by their first seq, divided into so many tasks."""
    # Without the sort the chunks of a group would come in any order: the exchange keeps none.
    # By the number and not by its hash, which puts several groups into one task and leaves others without any.
    return chunks.repartitionById(tasks, "group").sortWithinPartitions("group", "first_seq")


def _numbered(groups: list[Group], among: Set[Group] | None = None) -> Groups:
    """The number of each group, or of those that are among others."""
    numbers: dict[str, dict[str, int]] = {}
    for number, group in enumerate(groups):
        if among is None or group in among:
            numbers.setdefault(group.topic, {})[group.subscription] = number
    return numbers


def _moved(recorders: Mapping[str, Recorders]) -> dict[str, Recorders]:
    """The topics that several recorders wrote about."""
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
            return _rows_of([chunk for part in joined(good, moved) for chunk in pack(part, groups, profile)])

        try:
            # No variable here, which would hold the last batch while memory is given back.
            yield from map(counted, batches)
        except NotPlainError:
            counts.give_up()
        # The worker lives on: what it replays next should not come on top of what packing took.
        pa.default_memory_pool().release_unused()
        yield _row_of(counts.counts())

    return packed


def _rows_of(chunks: Sequence[Chunk]) -> pa.RecordBatch:
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
        schema=_CHUNK_ARROW,
    )


def _row_of(counts: Sequence[Count]) -> pa.RecordBatch:
    columns = {name: [getattr(count, name) for count in counts] for name in Count._fields}
    row = {"group": NO_GROUP, "first_seq": 0, "last_seq": 0, "events": encode("counted", columns)}
    return pa.RecordBatch.from_pylist([row], schema=_CHUNK_ARROW)


def _replayer(
    groups: list[Group],
    rules: Rules,
    findings_per_rule_max: int,
    keep_state: bool,
    recorders: Mapping[str, Recorders],
) -> _Replay:
    # The type hints are what makes Spark hand over the frames one by one, instead of the group as a whole.
    def replay(key: tuple[Any, ...], frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        if key[0] == NO_GROUP:
            for frame in frames:
                yield pd.DataFrame({"table": "counted", "payload": frame["events"]})
            return
        before, rest = _state_in(frames)
        group = groups[key[0]]
        found = replay_group(
            group,
            chunks_in(rest),
            rules,
            findings_per_rule_max,
            before=before,
            keep_state=keep_state,
            recorders=recorders.get(group.topic, ONE),
        )
        for table, columns in found:
            yield pd.DataFrame({"table": [table], "payload": [encode(table, columns)]})

    return replay


def _state_in(frames: Iterator[pd.DataFrame]) -> tuple[bytes | None, Iterator[pd.DataFrame]]:
    """The state that a group starts from, which is its first row if it has one; and the rows behind it."""
    first = next(frames)
    if first["first_seq"].iloc[0] != STATE_SEQ:
        return None, chain([first], frames)
    return bytes(first["events"].iloc[0]), chain([first.iloc[1:]], frames)


def chunks_in(frames: Iterator[pd.DataFrame]) -> Iterator[Chunk]:
    """The chunks of a group, as a grouped function is given them."""
    for frame in frames:
        for row in frame.itertuples(index=False, name=None):
            group, first_seq, last_seq, events, membership, snapshots, published = row
            told = decode_membership(membership), decode_snapshots(snapshots), decode_published(published)
            yield Chunk(group, first_seq, last_seq, decode_events(events), *told)
