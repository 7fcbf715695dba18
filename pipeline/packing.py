"""From a trace to packed chunks: who reads it, and into how many tasks its groups are divided."""

from collections.abc import Sequence
from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession

from pipeline.profile import Profile
from pipeline.replay.group import Group
from pipeline.replay.spark import (
    chunks_of,
    chunks_of_earlier_publishes,
    chunks_of_files,
    chunks_of_state,
    named_groups,
    named_groups_of_files,
)
from pipeline.settings import Settings
from pipeline.trace import Trace, read_events
from pipeline.trace.parquet_files import Share, shares_of


class Packed(NamedTuple):
    """A trace as chunks.

    Attributes:
        chunks: `CHUNK_SCHEMA`, not yet evaluated.
        groups: the subscriptions that they are numbered by.
        tasks: into how many the groups are divided.
        source: the rows as `pipeline.trace.read_events` gives them, or the files that they are read from.
    """

    chunks: DataFrame
    groups: list[Group]
    tasks: int
    source: DataFrame | Sequence[Share]


class Carried(NamedTuple):
    """What a window takes over from those before it.

    Attributes:
        state: rows of table `state`; None: it starts from none.
        groups: the subscriptions in it.
        earlier: the rows before the window, which the windows before it have audited; None: there are none.
    """

    state: DataFrame | None = None
    groups: tuple[Group, ...] = ()
    earlier: Trace | None = None


NOTHING = Carried()
"""What the audit of a whole log takes over."""


def configure(spark: SparkSession, settings: Settings) -> None:
    """Sets how large the batches are in which rows come to Python."""
    # A chunk is an Arrow batch: large ones keep the exchange small.
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", str(settings.spark.chunk_rows))
    # The number of rows limits a batch; its bytes, where they are limited too, are counted anew after every row, which
    # takes time in proportion to the square of the batch where columns are nested.
    spark.conf.set("spark.sql.execution.arrow.maxBytesPerBatch", str(2**31 - 1))


def packed_by_workers(
    spark: SparkSession, trace: Trace, profile: Profile, settings: Settings, carried: Carried = NOTHING
) -> Packed | None:
    """Chunks of files that the workers read; None where Spark has to.

    That it has to may also show only when they are evaluated: then the counts among them say `NOT_PLAIN`.
    """
    shares = shares_of(trace)
    named = named_groups_of_files(spark, shares) if shares else None
    if named is None:
        return None
    groups = sorted({*named, *carried.groups})
    chunks = chunks_of_files(spark, shares, groups, profile, settings.spark.chunk_rows)
    return Packed(_with(carried, spark, chunks, groups, profile), groups, _tasks(spark, settings, groups), shares)


def packed_by_spark(
    spark: SparkSession, trace: Trace, profile: Profile, settings: Settings, carried: Carried = NOTHING
) -> Packed:
    """Chunks of rows that Spark reads and validates. Raises as `pipeline.trace.read_events` does."""
    events = read_events(spark, trace)
    groups = sorted({*named_groups(events), *carried.groups})
    chunks = _with(carried, spark, chunks_of(events, groups, profile), groups, profile)
    return Packed(chunks, groups, _tasks(spark, settings, groups), events)


def _with(carried: Carried, spark: SparkSession, chunks: DataFrame, groups: list[Group], profile: Profile) -> DataFrame:
    """The chunks of a window with what it takes over."""
    if carried.state is not None:
        chunks = chunks.unionByName(chunks_of_state(carried.state, groups))
    new = set(groups) - set(carried.groups)
    if carried.earlier is not None and new:
        # What is published belongs to every subscription of the topic, also to one that came up later.
        earlier = read_events(spark, carried.earlier)
        chunks = chunks.unionByName(chunks_of_earlier_publishes(earlier, groups, new, profile))
    return chunks


def _tasks(spark: SparkSession, settings: Settings, groups: list[Group]) -> int:
    if settings.spark.replay_tasks != "auto":
        return settings.spark.replay_tasks
    # A group is never divided, so more tasks than groups would have nothing to do; the counts are one more.
    tasks_max = spark.conf.get("spark.sql.shuffle.partitions") or "1"
    # Databricks has "auto" for it.
    return min(len(groups) + 1, int(tasks_max)) if tasks_max.isdigit() else len(groups) + 1
