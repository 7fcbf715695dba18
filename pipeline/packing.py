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

# Chunks come to the replay in frames of so many bytes, which is what a worker holds of a group beside what is open.
_FRAME_BYTES = 8 << 20
# Where Spark reads the rows. Bytes, if they are limited, are counted anew after every row, which takes time in
# proportion to the square of the batch where columns are nested; so a worker may be given a group's chunks all at once.
_NO_LIMIT = 2**31 - 1


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
    _limit_bytes(spark, _NO_LIMIT)


def _limit_bytes(spark: SparkSession, bytes_max: int) -> None:
    spark.conf.set("spark.sql.execution.arrow.maxBytesPerBatch", str(bytes_max))


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
    if not _looks_back(carried, groups):
        _limit_bytes(spark, _FRAME_BYTES)
    chunks = chunks_of_files(spark, shares, groups, profile, settings.spark.chunk_rows)
    return Packed(_with(carried, spark, chunks, groups, profile), groups, _tasks(spark, settings, groups), shares)


def packed_by_spark(
    spark: SparkSession, trace: Trace, profile: Profile, settings: Settings, carried: Carried = NOTHING
) -> Packed:
    """Chunks of rows that Spark reads and validates. Raises as `pipeline.trace.read_events` does."""
    _limit_bytes(spark, _NO_LIMIT)
    events = read_events(spark, trace)
    groups = sorted({*named_groups(events), *carried.groups})
    chunks = _with(carried, spark, chunks_of(events, groups, profile), groups, profile)
    return Packed(chunks, groups, _tasks(spark, settings, groups), events)


def _with(carried: Carried, spark: SparkSession, chunks: DataFrame, groups: list[Group], profile: Profile) -> DataFrame:
    """The chunks of a window with what it takes over."""
    if carried.state is not None:
        chunks = chunks.unionByName(chunks_of_state(carried.state, groups))
    if carried.earlier is not None and _looks_back(carried, groups):
        # What is published belongs to every subscription of the topic, also to one that came up later.
        earlier, new = read_events(spark, carried.earlier), set(groups) - set(carried.groups)
        chunks = chunks.unionByName(chunks_of_earlier_publishes(earlier, groups, new, profile))
    return chunks


def _looks_back(carried: Carried, groups: list[Group]) -> bool:
    """Whether Spark reads rows before the window, for subscriptions that come up in it."""
    return carried.earlier is not None and bool(set(groups) - set(carried.groups))


def _tasks(spark: SparkSession, settings: Settings, groups: list[Group]) -> int:
    if settings.spark.replay_tasks != "auto":
        return settings.spark.replay_tasks
    # A group is never divided, so more tasks than groups would have nothing to do; the counts are one more.
    tasks_max = spark.conf.get("spark.sql.shuffle.partitions") or "1"
    # Databricks has "auto" for it.
    return min(len(groups) + 1, int(tasks_max)) if tasks_max.isdigit() else len(groups) + 1
