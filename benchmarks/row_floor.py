"""The plain plan of rows that a replay on Spark would have: hash, exchange, sort, and a function that only counts.

Every row of the trace goes through the exchange by itself, as narrow as a replay could use it, where the audit packs
rows into chunks. What the audit takes beyond it, it takes for the replay and its tables; less shows what packing saves.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from benchmarks.own_floor import COUNTED
from benchmarks.plan import log_in
from dispatch_audit.pipeline.packing.events import Code
from dispatch_audit.pipeline.packing.packed_batch import Group
from dispatch_audit.udfs.sticky_key_hash import sticky_hash_udf

# The events of generated traces: the code of their start, and of their end.
_CODES = {
    "dispatch": (Code.DISPATCH_START, Code.DISPATCH_END),
    "ack": (Code.ACK_START, Code.ACK_END),
    "join": (Code.JOIN_START, Code.JOIN_END),
    "leave": (Code.LEAVE_START, Code.LEAVE_END),
}


def row_floor(spark: SparkSession, folder: Path, groups: list[Group], tasks: int) -> DataFrame:
    """The rows of each topic, counted one by one; `COUNTED`, not yet evaluated.

    Args:
        spark: the session.
        folder: a trace with one subscription a topic, so that the topic is the group of a publish too.
        groups: the subscriptions, in the order by which the audit numbers them, so that tasks get the same ones.
        tasks: into how many the groups are divided.
    """
    events = spark.read.format("delta" if log_in(folder).suffix == ".delta" else "parquet").load(str(log_in(folder)))
    numbers = spark.createDataFrame(
        pa.table({"topic": [g.topic for g in groups], "group": pa.array(range(len(groups)), pa.int32())})
    )
    acked = sf.get("positions", sf.lit(0))
    narrow = events.join(sf.broadcast(numbers), "topic").select(
        "group",
        "seq",
        "ts_us",
        _code().cast("byte").alias("code"),
        sf.coalesce("ledger_id", acked["ledger_id"]).alias("ledger"),
        sf.coalesce("entry_id", acked["entry_id"]).alias("entry"),
        sf.col("consumer").cast("int").alias("consumer"),
        sticky_hash_udf("consistent_hashing")("key").cast("int").alias("hash"),
    )
    ordered = narrow.repartition(tasks, "group").sortWithinPartitions("group", "seq")
    return ordered.groupBy("group").applyInPandas(_counted, COUNTED)


def _code() -> Column:
    code = sf.when(sf.col("event") == "publish", sf.lit(int(Code.PUBLISH)))
    for event, (start, end) in _CODES.items():
        of_phase = sf.when(sf.col("phase") == "start", sf.lit(int(start))).otherwise(sf.lit(int(end)))
        code = code.when(sf.col("event") == event, of_phase)
    return code.otherwise(sf.lit(int(Code.OTHER)))


# The type hints are what makes Spark hand over the frames one by one, as to the audit's replay.
def _counted(key: tuple[Any, ...], frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    yield pd.DataFrame({"group": [key[0]], "rows": [sum(len(frame) for frame in frames)]})
