"""The replay on Spark: pack, one exchange, one sort, one grouped function.

    events -> mapInArrow(pack): a row a group and chunk -> exchange on the group -> sort of the chunk rows
           -> applyInPandas: replay of one group -> rows of all tables, as payloads

Only `pyspark.sql`, so that Spark Connect and serverless run it. The functions that travel to the workers are made
of plain values; the workers need this package and its dependencies.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pandas as pd
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from pipeline.profile import Profile
from pipeline.replay.basis import Rules
from pipeline.replay.chunk import (
    Chunk,
    decode_events,
    decode_membership,
    decode_snapshots,
    encode_events,
    encode_membership,
    encode_snapshots,
)
from pipeline.replay.group import Group, replay_group
from pipeline.replay.pack import COLUMNS, Groups, pack
from pipeline.replay.producers import decode_published, encode_published
from pipeline.tables.payload import RESULT_SCHEMA, encode

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

_Pack = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]
_Replay = Callable[[tuple[Any, ...], Iterator[pd.DataFrame]], Iterator[pd.DataFrame]]


def replayed(events: DataFrame, groups: list[Group], rules: Rules, findings_per_rule_max: int, tasks: int) -> DataFrame:
    """The rows of all tables that the replay of a trace fills.

    Args:
        events: of `pipeline.trace.read_events`; refused rows are left out here.
        groups: every subscription that the trace names.
        rules: what the replay depends on.
        findings_per_rule_max: how many findings of a rule are kept a group.
        tasks: into how many the groups are divided.

    Returns:
        `RESULT_SCHEMA`; evaluating it runs the replay, so it is written down once and read from there.
    """
    good = events.where(sf.col("refused").isNull())
    narrow = good.withColumn("snapshot", sf.to_json("snapshot")).select(*COLUMNS)
    chunks = narrow.mapInArrow(_packer(_numbered(groups), rules.profile), CHUNK_SCHEMA)
    # Without the sort the chunks of a group would come in any order: the exchange keeps none.
    ordered = chunks.repartition(tasks, "group").sortWithinPartitions("group", "first_seq")
    replay = _replayer(groups, rules, findings_per_rule_max)
    return ordered.groupBy("group").applyInPandas(replay, RESULT_SCHEMA)


def _numbered(groups: list[Group]) -> Groups:
    numbers: dict[str, dict[str, int]] = {}
    for number, group in enumerate(groups):
        numbers.setdefault(group.topic, {})[group.subscription] = number
    return numbers


def _packer(groups: Groups, profile: Profile) -> _Pack:
    def packed(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            chunks = pack(batch, groups, profile)
            yield pa.record_batch(
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

    return packed


def _replayer(groups: list[Group], rules: Rules, findings_per_rule_max: int) -> _Replay:
    # The type hints are what makes Spark hand over the frames one by one, instead of the group as a whole.
    def replay(key: tuple[Any, ...], frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        for table, columns in replay_group(groups[key[0]], _chunks(frames), rules, findings_per_rule_max):
            yield pd.DataFrame({"table": [table], "payload": [encode(table, columns)]})

    return replay


def _chunks(frames: Iterator[pd.DataFrame]) -> Iterator[Chunk]:
    for frame in frames:
        for row in frame.itertuples(index=False, name=None):
            group, first_seq, last_seq, events, membership, snapshots, published = row
            told = decode_membership(membership), decode_snapshots(snapshots), decode_published(published)
            yield Chunk(group, first_seq, last_seq, decode_events(events), *told)
