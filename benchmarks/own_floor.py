"""The audit's own plan without the replay: all steps that move rows, and a grouped function that only counts them.

The time that an audit takes beyond it is the cost of the rules, not of Spark. Only this module of the benchmark uses
internals of the audit.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame, SparkSession

from dispatch_audit.pipeline.contract.profile import profile_for
from dispatch_audit.pipeline.replay.pack_on_spark import NO_GROUP
from dispatch_audit.pipeline.replay.packed_source import Packed, Reading, configure
from dispatch_audit.pipeline.replay.packing.packed_batch import merged
from dispatch_audit.pipeline.replay.replay_on_spark import in_order, packed_batches_in
from dispatch_audit.pipeline.settings import load_settings
from dispatch_audit.pipeline.trace import open_traces

COUNTED = "group INT, rows LONG"


def packed(spark: SparkSession, folder: Path) -> Packed:
    """Returns the packed batches of a trace, its subscriptions and its tasks, as in the audit."""
    settings = load_settings()
    configure(spark, settings)
    (trace,) = open_traces([folder])
    profile = profile_for(trace.manifest.pulsar_version, trace.manifest.settings)
    return Reading(spark, trace, profile, settings).packed()


def own_floor(spark: SparkSession, folder: Path) -> DataFrame:
    """The rows of each group, counted where the audit replays them; `COUNTED`, not yet evaluated.

    Args:
        spark: the session.
        folder: the trace.
    """
    found = packed(spark, folder)
    return in_order(found.chunks, found.tasks).groupBy("group").applyInPandas(_counted, COUNTED)


# The type hints are what makes Spark hand over the frames one by one, as to the replay.
def _counted(key: tuple[Any, ...], frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    if key[0] == NO_GROUP:
        rows = 0 * sum(map(len, frames))  # read to the end, as the protocol asks
    else:
        rows = sum(part.events.seq.size for part in merged(packed_batches_in(frames)))
    yield pd.DataFrame({"group": [key[0]], "rows": [rows]})
