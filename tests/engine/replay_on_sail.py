"""Replays Parquet traces on the embedded engine and without an engine, and prints how many rows differ, as JSON.

    python tests/engine/replay_on_sail.py TRACE...

A process of its own, because PySpark has sessions of one kind in a process: of the classic client or of Connect.
"""

import gc
import json
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import get_args

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from dispatch_audit.jobs.engines.embedded import embedded
from dispatch_audit.jobs.engines.load import Load
from dispatch_audit.pipeline.contract.profile import profile_for
from dispatch_audit.pipeline.engine.functions import WORKERS, Workers, map_in_arrow
from dispatch_audit.pipeline.engine.name import engine_name
from dispatch_audit.pipeline.engine.worker_process import Batches
from dispatch_audit.pipeline.groups.replay_group import replay_group
from dispatch_audit.pipeline.packing.pack import COLUMNS, pack
from dispatch_audit.pipeline.packing.packed_batch import Group, rows_for
from dispatch_audit.pipeline.plan.packed_source import Reading, configure, counts_in
from dispatch_audit.pipeline.plan.replay_on_spark import replayed
from dispatch_audit.pipeline.plan.staged_batches import STAGED_SCHEMA
from dispatch_audit.pipeline.replay.config import ReplayConfig
from dispatch_audit.pipeline.run.replay_config import replay_config
from dispatch_audit.pipeline.settings import load_settings
from dispatch_audit.pipeline.tables.payload import batches_in, encode
from dispatch_audit.pipeline.trace import Trace, open_traces
from dispatch_audit.pipeline.trace.workers.file_part import FilePart
from dispatch_audit.pipeline.trace.workers.shares import shares_of

SETTINGS = load_settings()
KEPT = SETTINGS.report.findings_per_rule_max


def rows_in(payload: bytes) -> Iterator[str]:
    """The rows of a payload as text."""
    for batch in batches_in(payload):
        yield from map(repr, batch.to_pylist())


def on_sail(spark: SparkSession, trace: Trace, config: ReplayConfig, scratch: str) -> Counter[tuple[str, str]]:
    """The rows of all tables."""
    reading = Reading(spark, trace, config.profile, SETTINGS)

    def keep(packed: DataFrame) -> DataFrame:
        packed.write.mode("overwrite").parquet(scratch)
        return spark.read.schema(STAGED_SCHEMA).parquet(scratch)

    staged = reading.packed(keep)
    found = replayed(reading.placed(staged, counts_in(staged)), config, KEPT).toArrow()
    tables = zip(found["table"].to_pylist(), found["payload"].to_pylist(), strict=True)
    return Counter((table, row) for table, payload in tables for row in rows_in(payload))


def without_engine(trace: Trace, config: ReplayConfig) -> Counter[tuple[str, str]]:
    """The same rows, by the replay alone."""
    shares = (share for log in trace.logs for share in shares_of(log, trace.seqs) or ())
    read = (part.good for share in shares for part in FilePart(share).read(COLUMNS, SETTINGS.spark.chunk_rows))
    packed = [chunk for batch in read for chunk in pack(batch, config.profile)]
    packed.sort(key=lambda chunk: chunk.first_seq)
    rows: Counter[tuple[str, str]] = Counter()
    for group in {Group(chunk.topic, chunk.subscription) for chunk in packed if chunk.subscription is not None}:
        of_topic = [chunk for chunk in packed if chunk.topic == group.topic]
        own = [found for chunk in of_topic if (found := rows_for(group.subscription, chunk)) is not None]
        for table, columns in replay_group(group, own, config, KEPT):
            rows.update((table, row) for row in rows_in(encode(table, columns)))
    return rows


def frozen_objects(spark: SparkSession) -> int:
    """How many objects the collector of a worker leaves out."""

    def count(batches: Batches) -> Batches:
        list(batches)
        yield pa.record_batch([pa.array([gc.get_freeze_count()])], names=["frozen"])

    (row,) = map_in_arrow(spark.range(1), count, "frozen LONG").collect()
    return int(row["frozen"])


def main(*folders: str) -> None:
    """Prints the engine, what a brief load runs in, and what was found.

    That is by workers and trace the rows and how many of them differ, and how many objects a process left frozen.
    """
    spark = embedded(SparkSession.builder.appName("tests"), quiet=True, load=Load.BRIEF)
    brief = spark.conf.get(WORKERS)
    configure(spark, SETTINGS)
    compared: dict[str, dict[str, dict[str, int]]] = defaultdict(dict)
    for trace in open_traces(folders):
        manifest = trace.manifest
        profile = profile_for(manifest.pulsar_version or "", manifest.settings)
        config = replay_config(manifest, profile, SETTINGS, manifest.complete_from_start)
        alone = without_engine(trace, config)
        for workers in get_args(Workers):
            spark.conf.set(WORKERS, workers)
            with tempfile.TemporaryDirectory() as scratch:
                found = on_sail(spark, trace, config, scratch)
            differing = ((found - alone) + (alone - found)).total()
            compared[workers][trace.path] = {"rows": found.total(), "differing": differing}
    spark.conf.set(WORKERS, "processes")
    answer = {"engine": engine_name(spark), "brief": brief, "compared": compared, "frozen": frozen_objects(spark)}
    print(json.dumps(answer))


if __name__ == "__main__":
    main(*sys.argv[1:])
