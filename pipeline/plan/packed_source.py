"""Reads a trace into staged packed batches, and prepares them for the replay."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from dispatch_audit.pipeline.contract.profile import Profile
from dispatch_audit.pipeline.engine.releases.batch_sizes import limit_batches
from dispatch_audit.pipeline.engine.task_number import task_number
from dispatch_audit.pipeline.packing.packed_batch import Group
from dispatch_audit.pipeline.plan.pack_on_spark import Packing, packed_publishes, packed_rows
from dispatch_audit.pipeline.plan.place_on_spark import Placed, batches_of, numbers_of, placed, placed_states
from dispatch_audit.pipeline.plan.recorders_on_spark import recorders_in
from dispatch_audit.pipeline.plan.staged_batches import STAGED_SCHEMA, StagedKind
from dispatch_audit.pipeline.settings import Settings
from dispatch_audit.pipeline.trace import Manifest, Trace
from dispatch_audit.pipeline.trace.chosen_rows import ChosenRows, sample_of
from dispatch_audit.pipeline.trace.quarantine.row_counts import Count, decoded
from dispatch_audit.pipeline.trace.workers.tasks import evaluated, in_tasks

# More tasks than cores, so that a large group delays few others.
_TASKS_A_PARTITION = 4
# About how long the replay of a group, that of a row, and the start of a task take (docs/FIGURES.md).
_GROUP_US, _ROW_US, _TASK_US = 15_000.0, 0.5, 100_000.0


class Carried(NamedTuple):
    """The state and rows that a window takes over from the windows before it."""

    state: DataFrame | None = None  # rows of table `state`; None: there are none
    groups: tuple[Group, ...] = ()  # the subscriptions in `state`
    earlier: Trace | None = None  # the rows before the window, which earlier windows have audited; None: there are none


NOTHING = Carried()
"""The audit of a whole log takes over nothing."""


def configure(spark: SparkSession, settings: Settings) -> None:
    """Sets the size of the batches in which rows come to Python."""
    # Each Arrow batch becomes packed batches: large ones keep the exchange small.
    limit_batches(spark, settings.spark.chunk_rows)


@dataclass(frozen=True)
class Reading:
    """The reading of a trace into packed batches."""

    spark: SparkSession  # the session
    trace: Trace  # the trace, or a window of it
    profile: Profile  # the profile of its broker
    settings: Settings  # the settings of the audit
    carried: Carried = NOTHING  # the state and rows that the window takes over

    def packed(self, keep: Callable[[DataFrame], DataFrame], files: str | None = None) -> DataFrame:
        """Returns the packed rows of the trace and what else was staged, evaluated, as `STAGED_SCHEMA`.

        `keep` evaluates a frame once and returns its rows, which may refer to files in the folder `files`; None: the
        workers have none in common.

        Raises:
            UsageError: a table or a remote path does not exist, or the engine cannot read it.
            TraceError: a file cannot be read.
        """
        return evaluated(self.spark, self.trace, packed_rows(self._packing, files), STAGED_SCHEMA, keep)

    def placed(self, staged: DataFrame, counts: Sequence[Count]) -> Placed:
        """Returns the input of the replay, from the result of `packed` and the counts in it.

        Raises:
            TraceError: two recorders wrote as owners of a topic at one time.
        """
        named = {Group(count.topic, count.subscription) for count in counts if count.topic and count.subscription}
        groups = sorted({*named, *self.carried.groups})
        numbers, batches = numbers_of(groups), batches_of(staged)
        recorders = recorders_in(batches, _brokers(counts), self.settings.trace.recorder_skew_us)
        # Gaps and settings may name no topic, and what a recorder says of itself names none.
        of_any_topic = any(count.topic is None and count.refused is None for count in counts)
        rows = placed(self.spark, batches, numbers, recorders, of_any_topic)
        if self.carried.state is not None:
            rows = rows.unionByName(placed_states(self.carried.state, numbers))
        new = {group: number for group, number in numbers.items() if group not in self.carried.groups}
        if self.carried.earlier is not None and new:
            # A publish belongs to every subscription of the topic, also to one that appears later.
            work = packed_publishes({group.topic for group in new}, self._packing)
            publishes = in_tasks(self.spark, self.carried.earlier, work, STAGED_SCHEMA)
            rows = rows.unionByName(placed(self.spark, batches_of(publishes), new))
        return Placed(rows, groups, self._tasks(groups, sum(count.rows for count in counts)), recorders)

    @property
    def _packing(self) -> Packing:
        return packing_of(self.trace.manifest, self.profile, self.settings)

    def _tasks(self, groups: Sequence[Group], rows: int) -> int:
        if self.settings.spark.replay_tasks != "auto":
            return self.settings.spark.replay_tasks
        work_us = len(groups) * _GROUP_US + rows * _ROW_US
        return task_number(self.spark, len(groups), work_us / _TASK_US, _TASKS_A_PARTITION)


def packing_of(manifest: Manifest, profile: Profile, settings: Settings) -> Packing:
    """Returns how the rows of a trace are packed.

    Raises:
        UsageError: the trace does not have the sample that is asked for.
    """
    choice = settings.choice
    return Packing(
        profile,
        settings.spark.chunk_rows,
        manifest.keys_digested,
        ChosenRows(choice.topics, choice.subscriptions),
        sample_of(manifest, choice),
    )


def counts_in(staged: DataFrame) -> list[Count]:
    """Returns the counts of the rows read, from evaluated rows of `STAGED_SCHEMA`."""
    payloads = staged.where(sf.col("kind") == int(StagedKind.COUNTS)).select("events").collect()
    return decoded(bytes(row["events"]) for row in payloads)


def _brokers(counts: Sequence[Count]) -> dict[str, list[str | None]]:
    found: dict[str, set[str | None]] = {}
    for count in counts:
        if count.topic is not None:
            found.setdefault(count.topic, set()).add(count.broker)
    return {topic: list(names) for topic, names in found.items()}
