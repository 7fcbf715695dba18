"""The replay on Spark: pack, one exchange, one sort, one grouped function.

    rows of a trace -> mapInArrow(pack): a row a group and chunk -> exchange on the group -> sort of the chunk rows
                    -> applyInPandas: replay of one group -> rows of all tables, as payloads

The rows come from Spark, or the workers read them from their files
(`dispatch_audit.pipeline.trace.parquet.worker_reader`). Packing counts them too; the counts travel like packed batches,
with `NO_GROUP` as their group.

It uses only `pyspark.sql`, so that Spark Connect and serverless can run it. The functions that Spark sends to the
workers contain plain values only; the workers need this package and its dependencies.
"""

from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame

from dispatch_audit.pipeline.replay.pack_on_spark import NO_GROUP, NO_NAMES, STATE_SEQ
from dispatch_audit.pipeline.replay.packing.narrow_events import decode_events
from dispatch_audit.pipeline.replay.packing.packed_batch import (
    Group,
    PackedBatch,
    decode_membership,
    decode_snapshots,
)
from dispatch_audit.pipeline.replay.packing.producer_summary import decode_published
from dispatch_audit.pipeline.replay.recorders.recorders import ONE, Recorders
from dispatch_audit.pipeline.replay.replay_group import replay_group
from dispatch_audit.pipeline.replay.subscription.config import ReplayConfig
from dispatch_audit.pipeline.tables.payload import RESULT_SCHEMA, encode

_Replay = Callable[[tuple[Any, ...], Iterator[pd.DataFrame]], Iterator[pd.DataFrame]]


def replayed(
    chunks: DataFrame,
    groups: list[Group],
    config: ReplayConfig,
    findings_per_rule_max: int,
    tasks: int,
    *,
    keep_state: bool = False,
    recorders: Mapping[str, Recorders] = NO_NAMES,
) -> DataFrame:
    """The rows of all tables that the replay of a trace fills, and its counts.

    Args:
        chunks: from `packed_rows` or `packed_files`, perhaps with those from `packed_states`.
        groups: every subscription that the trace names, as given to those functions.
        config: the configuration of the replay.
        findings_per_rule_max: how many findings of a rule are kept for each group.
        tasks: the number of tasks that the groups are divided into.
        keep_state: whether the log goes on after these rows, so that a state is written for the next window.
        recorders: as given to those functions.

    Returns:
        `RESULT_SCHEMA`; evaluating it runs the replay, so it is written down once and read from there.
    """
    replay = _replayer(groups, config, findings_per_rule_max, keep_state, recorders)
    return in_order(chunks, tasks).groupBy("group").applyInPandas(replay, RESULT_SCHEMA)


def in_order(chunks: DataFrame, tasks: int) -> DataFrame:
    """The chunks of each group together, ordered by their first seq, divided into so many tasks."""
    # Without the sort the chunks of a group would come in any order: the exchange keeps none.
    # By the number and not by its hash, which puts several groups into one task and leaves others without any.
    return chunks.repartitionById(tasks, "group").sortWithinPartitions("group", "first_seq")


def _replayer(
    groups: list[Group],
    config: ReplayConfig,
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
            packed_batches_in(rest),
            config,
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


def packed_batches_in(frames: Iterator[pd.DataFrame]) -> Iterator[PackedBatch]:
    """The chunks of a group, as a grouped function is given them."""
    for frame in frames:
        for row in frame.itertuples(index=False, name=None):
            group, first_seq, last_seq, events, membership, snapshots, published = row
            details = decode_membership(membership), decode_snapshots(snapshots), decode_published(published)
            yield PackedBatch(group, first_seq, last_seq, decode_events(events), *details)
