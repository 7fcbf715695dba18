"""The replay on Spark: one exchange, one sort, one grouped function.

    rows of a trace -> mapInArrow(pack) -> staged packed batches (`dispatch_audit.pipeline.replay.pack_on_spark`)
                    -> each to the groups that need it (`dispatch_audit.pipeline.replay.place_on_spark`)
                    -> exchange on the group -> sort of the packed batches
                    -> applyInPandas: replay of one group -> rows of all tables, as payloads

It uses only `pyspark.sql`, so that Spark Connect and serverless can run it. The functions that Spark sends to the
workers contain plain values only; the workers need this package and its dependencies.
"""

from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame

from dispatch_audit.pipeline.replay.packing.packed_batch import Group, PackedBatch, rows_for
from dispatch_audit.pipeline.replay.packing.staged_batches import BATCH_COLUMNS, decoded
from dispatch_audit.pipeline.replay.place_on_spark import NO_RECORDERS, STATE_SEQ
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
    recorders: Mapping[str, Recorders] = NO_RECORDERS,
) -> DataFrame:
    """The rows of all tables that the replay of a trace fills.

    Args:
        chunks: from `placed`, perhaps with those from `placed_states`.
        groups: every subscription that the trace names, by its number.
        config: the configuration of the replay.
        findings_per_rule_max: how many findings of a rule are kept for each group.
        tasks: the number of tasks that the groups are divided into.
        keep_state: whether the log goes on after these rows, so that a state is written for the next window.
        recorders: of each topic of which rows name any.

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
        before, rest = _state_in(frames)
        group = groups[key[0]]
        found = replay_group(
            group,
            packed_batches_in(rest, group),
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


def packed_batches_in(frames: Iterator[pd.DataFrame], group: Group) -> Iterator[PackedBatch]:
    """The rows of a group, as a grouped function is given them."""
    for frame in frames:
        for packed in decoded(frame[list(BATCH_COLUMNS)].itertuples(index=False, name=None)):
            of_group = rows_for(group.subscription, packed)
            if of_group is not None:
                yield of_group
