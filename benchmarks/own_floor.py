"""The audit's own plan without the replay: all steps that move rows, and a grouped function that only counts them.

The time that an audit takes beyond it is the cost of the rules, not of Spark. Only this module of the benchmark uses
internals of the audit.
"""

import atexit
import shutil
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from dispatch_audit.pipeline.contract.profile import profile_for
from dispatch_audit.pipeline.engine.functions import map_groups
from dispatch_audit.pipeline.engine.worker_process import Function
from dispatch_audit.pipeline.packing.packed_batch import Group, merged
from dispatch_audit.pipeline.plan.packed_source import Reading, configure, counts_in
from dispatch_audit.pipeline.plan.place_on_spark import Placed
from dispatch_audit.pipeline.plan.replay_on_spark import by_group, packed_batches_in
from dispatch_audit.pipeline.settings import load_settings
from dispatch_audit.pipeline.tables.delta_rs.local_staging import LocalStaging
from dispatch_audit.pipeline.tables.target import parse_target
from dispatch_audit.pipeline.trace import open_traces

COUNTED = "group INT, rows LONG"


def placed(spark: SparkSession, folder: Path) -> Placed:
    """Returns the packed batches of a trace, its subscriptions and its tasks, as in the audit."""
    settings = load_settings()
    configure(spark, settings)
    (trace,) = open_traces([folder])
    profile = profile_for(trace.manifest.pulsar_version, trace.manifest.settings)
    reading = Reading(spark, trace, profile, settings)
    folder_of_stage = tempfile.mkdtemp(prefix="own-floor-")
    atexit.register(shutil.rmtree, folder_of_stage, ignore_errors=True)
    staging = LocalStaging(parse_target(folder_of_stage), "floor")
    staged = reading.packed(partial(staging.keep_rows, name="packed"), staging.files)
    return reading.placed(staged, counts_in(staged))


def own_floor(spark: SparkSession, folder: Path) -> DataFrame:
    """The rows of each group, counted where the audit replays them; `COUNTED`, not yet evaluated.

    Args:
        spark: the session.
        folder: the trace.
    """
    found = placed(spark, folder)
    return map_groups(found.batches, "group", "first_seq", found.tasks, _counter(found.groups), COUNTED)


def _counter(groups: list[Group]) -> Function:
    def count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number, of_group in by_group(batches):
            packed = packed_batches_in(of_group, groups[number])
            rows = sum(part.events.seq.size for part in merged(packed))
            yield pa.record_batch([pa.array([number], pa.int32()), pa.array([rows], pa.int64())], ["group", "rows"])

    return count
