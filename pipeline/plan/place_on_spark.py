"""Gives packed batches to the groups that need them: the middle of the replay.

Each group is numbered, and gets the packed batches of its subscription, the publishes of its topic, and in a window the
state that the window before left. The rows of several recorders are brought into one order here.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from dispatch_audit.pipeline.engine.arrow_schema import arrow_schema
from dispatch_audit.pipeline.packing.packed_batch import ANY_TOPIC, Group
from dispatch_audit.pipeline.plan.staged_batches import (
    BATCH_COLUMNS,
    BATCH_SCHEMA,
    StagedKind,
    decoded_batches,
    encoded,
)
from dispatch_audit.pipeline.recorders.one_order import of_topics_in_one_order
from dispatch_audit.pipeline.recorders.recorders import Recorders

PLACED_SCHEMA: Final = f"group INT, {BATCH_SCHEMA}"

NO_RECORDERS: Final[Mapping[str, Recorders]] = {}
"""The recorders of a trace whose rows name none."""

STATE_SEQ: Final = -1
"""The first seq of a group's state from the window before, which travels in the column of events."""

_PLACED_ARROW: Final = arrow_schema(PLACED_SCHEMA)


class Placed(NamedTuple):
    """The input of the replay."""

    batches: DataFrame  # `PLACED_SCHEMA`, not yet evaluated
    groups: list[Group]  # the subscriptions, by their numbers
    tasks: int  # into how many the groups are divided
    recorders: Mapping[str, Recorders]  # of each topic whose rows name any


def batches_of(staged: DataFrame) -> DataFrame:
    """The packed batches among staged rows, of `BATCH_SCHEMA`."""
    return staged.where(sf.col("kind") == int(StagedKind.PACKED)).select(*BATCH_COLUMNS)


def numbers_of(groups: Sequence[Group]) -> dict[Group, int]:
    """The number of each group."""
    return {group: number for number, group in enumerate(groups)}


def placed(
    spark: SparkSession,
    batches: DataFrame,
    numbers: Mapping[Group, int],
    recorders: Mapping[str, Recorders] = NO_RECORDERS,
    of_any_topic: bool = False,
) -> DataFrame:
    """The packed batches that each group needs, of `PLACED_SCHEMA`, from those of `BATCH_SCHEMA`.

    `of_any_topic` says whether there are rows that hold for all topics of a recorder.
    """
    moved = [topic for topic, of_topic in recorders.items() if of_topic.terms]
    if moved or of_any_topic:
        is_changed = sf.col("topic").isin(sorted([*moved, ANY_TOPIC]))
        topics = sorted({group.topic for group in numbers})
        batches = batches.where(~is_changed).unionByName(_in_one_order(batches.where(is_changed), topics, recorders))
    rows = [(group.topic, group.subscription, number) for group, number in numbers.items()]
    groups = spark.createDataFrame(rows, "of_topic STRING, of_subscription STRING, group INT")
    its_own = sf.col("subscription").isNull() | (sf.col("subscription") == sf.col("of_subscription"))
    needed = (sf.col("topic") == sf.col("of_topic")) & (its_own | sf.col("shared"))
    return batches.join(sf.broadcast(groups), needed).select("group", *BATCH_COLUMNS)


def placed_states(state: DataFrame, numbers: Mapping[Group, int]) -> DataFrame:
    """Rows of table `state` as `PLACED_SCHEMA`, ordered before all packed batches of their group."""

    def place(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rows = [
                {
                    "group": numbers[Group(row["topic"], row["subscription"])],
                    "first_seq": STATE_SEQ,
                    "events": row["payload"],
                }
                for row in batch.to_pylist()
            ]
            yield pa.RecordBatch.from_pylist(rows, schema=_PLACED_ARROW)

    return state.select("topic", "subscription", "payload").mapInArrow(place, PLACED_SCHEMA)


def _in_one_order(batches: DataFrame, topics: Sequence[str], recorders: Mapping[str, Recorders]) -> DataFrame:
    def order(rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for packed in decoded_batches(rows):
            yield encoded(list(of_topics_in_one_order(packed, topics, recorders)))

    return batches.mapInArrow(order, BATCH_SCHEMA)
