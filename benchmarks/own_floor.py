"""The audit's own plan without the replay: all that moves rows, and a grouped function that only counts them.

What an audit takes beyond it is the cost of the rules, not of Spark. This is the only module of the benchmark that
looks inside of the audit.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from pipeline.audit import _replay_tasks
from pipeline.profile import profile_for
from pipeline.replay.chunk import merged
from pipeline.replay.group import Group
from pipeline.replay.pack import COLUMNS
from pipeline.replay.spark import CHUNK_SCHEMA, _chunks, _numbered, _packer
from pipeline.settings import load_settings
from pipeline.trace import open_traces, read_events

COUNTED = "group INT, rows LONG"


def groups_of(spark: SparkSession, folder: Path) -> list[Group]:
    """The subscriptions of a trace in the order in which the audit numbers them."""
    (trace,) = open_traces([folder])
    named = read_events(spark, trace).where("subscription IS NOT NULL").select("topic", "subscription").distinct()
    return sorted(Group(row["topic"], row["subscription"]) for row in named.collect())


def replay_tasks(spark: SparkSession, groups: list[Group]) -> int:
    """Into how many tasks the audit divides its replay."""
    return _replay_tasks(spark, load_settings().spark.replay_tasks, len(groups))


def use_batches_of_the_audit(spark: SparkSession) -> None:
    """Sets the rows of an Arrow batch as the audit does, which makes moving rows as cheap."""
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", str(load_settings().spark.chunk_rows))


def own_floor(spark: SparkSession, folder: Path, groups: list[Group]) -> DataFrame:
    """The rows of each group, counted where the audit replays them; `COUNTED`, not yet evaluated.

    Args:
        spark: the session, with the batches of the audit.
        folder: the trace.
        groups: of `groups_of`.
    """
    (trace,) = open_traces([folder])
    profile = profile_for(trace.manifest.pulsar_version, trace.manifest.settings)
    good = read_events(spark, trace).where(sf.col("refused").isNull())
    narrow = good.withColumn("snapshot", sf.to_json("snapshot")).select(*COLUMNS)
    chunks = narrow.mapInArrow(_packer(_numbered(groups), profile), CHUNK_SCHEMA)
    ordered = chunks.repartition(replay_tasks(spark, groups), "group").sortWithinPartitions("group", "first_seq")
    return ordered.groupBy("group").applyInPandas(_counted, COUNTED)


# The type hints are what makes Spark hand over the frames one by one, as to the replay.
def _counted(key: tuple[Any, ...], frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    rows = sum(part.events.seq.size for part in merged(_chunks(frames)))
    yield pd.DataFrame({"group": [key[0]], "rows": [rows]})
