"""Reads a trace into packed batches, by Spark or by the workers, and divides its groups into tasks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession

from dispatch_audit.pipeline.contract.profile import Profile
from dispatch_audit.pipeline.replay.pack_on_spark import (
    Named,
    named,
    named_in_files,
    packed_earlier_publishes,
    packed_files,
    packed_rows,
    packed_states,
)
from dispatch_audit.pipeline.replay.packing.packed_batch import Group
from dispatch_audit.pipeline.replay.recorders.recorders import Recorders
from dispatch_audit.pipeline.replay.recorders_on_spark import recorders_in
from dispatch_audit.pipeline.settings import Settings
from dispatch_audit.pipeline.spark_errors import worker_died
from dispatch_audit.pipeline.trace import Trace, read_events, trace_errors
from dispatch_audit.pipeline.trace.parquet.delta_files import as_files
from dispatch_audit.pipeline.trace.parquet.worker_reader import Share, shares_of

# The bytes of rows or packed batches that a worker is given at a time, which it needs besides the open state.
_FRAME_BYTES = 8 << 20
# More tasks than cores, so that a large group delays few others.
_TASKS_A_PARTITION = 4


class Packed(NamedTuple):
    """A trace as chunks.

    Attributes:
        chunks: `CHUNK_SCHEMA`, not yet evaluated.
        groups: the subscriptions that they are numbered by.
        tasks: into how many the groups are divided.
        recorders: of each topic of which rows name any.
        source: the rows as `dispatch_audit.pipeline.trace.read_events` gives them, or the files that they are read
            from.
    """

    chunks: DataFrame
    groups: list[Group]
    tasks: int
    recorders: Mapping[str, Recorders]
    source: DataFrame | Sequence[Share]


class Carried(NamedTuple):
    """The state and rows that a window takes over from the windows before it.

    Attributes:
        state: rows of table `state`; None: there are none.
        groups: the subscriptions in `state`.
        earlier: the rows before the window, which earlier windows have audited; None: there are none.
    """

    state: DataFrame | None = None
    groups: tuple[Group, ...] = ()
    earlier: Trace | None = None


NOTHING = Carried()
"""The audit of a whole log takes over nothing."""


def configure(spark: SparkSession, settings: Settings) -> None:
    """Sets the size of the batches in which rows come to Python."""
    # Each Arrow batch becomes packed batches: large ones keep the exchange small.
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", str(settings.spark.chunk_rows))
    spark.conf.set("spark.sql.execution.arrow.maxBytesPerBatch", str(_FRAME_BYTES))


@dataclass(frozen=True)
class Reading:
    """The reading of a trace into packed batches.

    Attributes:
        spark: the session.
        trace: the trace, or a window of it.
        profile: the profile of its broker.
        settings: the settings of the audit.
        carried: the state and rows that the window takes over.
    """

    spark: SparkSession
    trace: Trace
    profile: Profile
    settings: Settings
    carried: Carried = NOTHING

    def packed(self) -> Packed:
        """The chunks, of the files if the workers can read them.

        That Spark has to read them may also show only when they are evaluated: then the counts among them say
        `NOT_PLAIN`, or a worker dies. Raises as `dispatch_audit.pipeline.trace.read_events` does.
        """
        with trace_errors():
            try:
                packed = self.packed_by_workers()
            except Exception as error:
                if not worker_died(error):
                    raise
                packed = None
        return self.packed_by_spark() if packed is None else packed

    def packed_by_spark(self) -> Packed:
        """The chunks of rows that Spark reads and validates."""
        with trace_errors():
            events = read_events(self.spark, self.trace)
            found = named(events)
            groups = sorted({*found.groups, *self.carried.groups})
            recorders = self._recorders(events, found)
            assert recorders is not None, "Spark reads whatever is not plain"
            return self._with_carried(packed_rows(events, groups, self.profile, recorders), groups, recorders, events)

    def packed_by_workers(self) -> Packed | None:
        """The chunks of files that the workers read; None where Spark has to."""
        shares = shares_of(as_files(self.spark, self.trace))
        found = named_in_files(self.spark, shares) if shares else None
        recorders = None if found is None else self._recorders(shares, found)
        if found is None or recorders is None:
            return None
        groups = sorted({*found.groups, *self.carried.groups})
        chunk_rows = self.settings.spark.chunk_rows
        chunks = packed_files(self.spark, shares, groups, self.profile, chunk_rows, recorders)
        return self._with_carried(chunks, groups, recorders, shares)

    def _recorders(self, source: DataFrame | Sequence[Share], found: Named) -> dict[str, Recorders] | None:
        skew_us, chunk_rows = self.settings.trace.recorder_skew_us, self.settings.spark.chunk_rows
        return recorders_in(self.spark, source, found.brokers, skew_us, chunk_rows)

    def _with_carried(
        self,
        chunks: DataFrame,
        groups: list[Group],
        recorders: Mapping[str, Recorders],
        source: DataFrame | Sequence[Share],
    ) -> Packed:
        """The chunks of a window with what it takes over."""
        if self.carried.state is not None:
            chunks = chunks.unionByName(packed_states(self.carried.state, groups))
        come_up = set(groups) - set(self.carried.groups)
        if self.carried.earlier is not None and come_up:
            # A publish belongs to every subscription of the topic, also to one that appears later.
            earlier = read_events(self.spark, self.carried.earlier)
            chunks = chunks.unionByName(packed_earlier_publishes(earlier, groups, come_up, self.profile))
        return Packed(chunks, groups, _tasks(self.spark, self.settings, groups), recorders, source)


def _tasks(spark: SparkSession, settings: Settings, groups: list[Group]) -> int:
    if settings.spark.replay_tasks != "auto":
        return settings.spark.replay_tasks
    # A group is never divided, so there are at most as many tasks as groups, and one for the counts.
    partitions = spark.conf.get("spark.sql.shuffle.partitions") or "1"
    # On Databricks the value may be "auto".
    return min(len(groups) + 1, _TASKS_A_PARTITION * int(partitions)) if partitions.isdigit() else len(groups) + 1
