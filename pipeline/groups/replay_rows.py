"""Replays typed rows in this process, without Spark: for one finding at a time, and for tests.

The steps are those of the audit: `pack`, the recorders, one order, `replay_group`. Only the exchange is missing.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from dispatch_audit.pipeline.contract.recorded_by import BROKER
from dispatch_audit.pipeline.groups.columns import Columns, Rows
from dispatch_audit.pipeline.groups.replay_group import replay_group
from dispatch_audit.pipeline.packing.pack import pack
from dispatch_audit.pipeline.packing.packed_batch import ANY_TOPIC, Group, PackedBatch, merged, rows_for
from dispatch_audit.pipeline.recorders.one_order import Transfers, of_topics_in_one_order
from dispatch_audit.pipeline.recorders.ownership_terms import recorders_of, stretches
from dispatch_audit.pipeline.recorders.recorders import ONE, Recorders
from dispatch_audit.pipeline.replay.config import ReplayConfig
from dispatch_audit.pipeline.replay.subscription.step_loop import Observer
from dispatch_audit.pipeline.replay.subscription.subscription import Subscription
from dispatch_audit.pipeline.replay.trial.selector_trial import on_trial
from dispatch_audit.pipeline.replay.verdicts.finding import ALL


@dataclass(frozen=True)
class PackedRows:
    """The rows of a trace, packed and in one order."""

    of_group: dict[Group, list[PackedBatch]]  # the packed batches of each subscription, by their first seq
    recorders: dict[str, Recorders]  # of each topic whose rows name any

    def recorders_of(self, topic: str) -> Recorders:
        """The recorders of a topic."""
        return self.recorders.get(topic, ONE)


def packed_rows(
    batches: Iterable[pa.RecordBatch], config: ReplayConfig, groups: Sequence[Group] | None = None
) -> PackedRows:
    """Packs checked rows in any order, and puts those of several recorders in one order.

    Without `groups` the subscriptions are those that the rows name.

    Raises:
        TraceError: two recorders wrote as owners of a topic at one time.
    """
    packed = [part for batch in batches for part in pack(batch, config.profile, config.keys_digested, config.sample)]
    if groups is None:
        groups = sorted({Group(part.topic, part.subscription) for part in packed if part.subscription})
    recorders = recorders_in(packed, config.skew_us)
    topics = sorted({group.topic for group in groups})
    by_topic: dict[str, list[PackedBatch]] = defaultdict(list)
    for part in packed:
        for of_topic in of_topics_in_one_order(part, topics, recorders):
            by_topic[of_topic.topic].append(of_topic)
    of_group = {
        group: sorted(
            (own for part in by_topic[group.topic] if (own := rows_for(group.subscription, part)) is not None),
            key=lambda part: part.first_seq,
        )
        for group in groups
    }
    return PackedRows(of_group, recorders)


def recorders_in(packed: Sequence[PackedBatch], skew_us: int) -> dict[str, Recorders]:
    """The recorders of each topic whose rows name any, given all rows; clocks of two brokers may be `skew_us` apart.

    Raises:
        TraceError: two recorders wrote as owners of a topic at one time.
    """
    named: dict[str, set[str]] = defaultdict(set)
    for part in packed:
        if part.broker is not None and part.topic != ANY_TOPIC:
            named[part.topic].add(part.broker)
    found = {topic: Recorders(tuple(names)) for topic, names in named.items() if len(names) == 1}
    for topic in (topic for topic, names in named.items() if len(names) > 1):
        parts = [part for batch in packed if batch.topic == topic for part in stretches(batch, skew_us)]
        found[topic] = recorders_of(topic, parts, skew_us)
    return found


def with_shown_selector(packed: PackedRows, group: Group, config: ReplayConfig) -> ReplayConfig:
    """The configuration with which an audit replays one subscription: with the selector that its rows show."""
    if config.recorded_by != BROKER:
        return config
    parts = merged(Transfers(packed.recorders_of(group.topic)).among(packed.of_group[group]))
    replay, _ = on_trial(Subscription(config), parts, goes_on=False)
    return replay.config


def replayed_rows(
    packed: PackedRows, group: Group, config: ReplayConfig, observer: Observer | None = None
) -> dict[str, Rows]:
    """Replays one subscription; returns the rows of the tables by table, with all findings.

    An observer looks at the dispatcher between rows; the selector is then that of the configuration.

    Raises:
        LimitError: more entries are open at one time than the limit allows.
    """
    found: dict[str, Rows] = defaultdict(list)
    replayed = replay_group(
        group, packed.of_group[group], config, ALL, recorders=packed.recorders_of(group.topic), observer=observer
    )
    for table, columns in replayed:
        found[table] += rows_in(columns)
    return found


def rows_in(columns: Columns) -> Rows:
    """The rows of columns, with plain numbers."""
    values: list[Sequence[Any]] = [
        column.tolist() if isinstance(column, np.ndarray | pa.Array) else column for column in columns.values()
    ]
    return [dict(zip(columns, row, strict=True)) for row in zip(*values, strict=True)]
