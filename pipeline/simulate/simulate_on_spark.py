"""Simulates the partitions of a workload on an engine, one task a partition, into a folder of format 1.

Only `pyspark.sql` is used. Each task writes the Parquet file of its partition into the folder, which all workers must
reach; `trace.json` comes last, so a folder that has it is complete.
"""

import gc
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from dispatch_audit.pipeline.engine.functions import map_groups
from dispatch_audit.pipeline.engine.worker_process import Batches, Function
from dispatch_audit.pipeline.errors import UsageError
from dispatch_audit.pipeline.simulate.judge import batches_of, manifest_of
from dispatch_audit.pipeline.simulate.measures import MeasuresRow, measures_row
from dispatch_audit.pipeline.simulate.output.rows import SCHEMA
from dispatch_audit.pipeline.simulate.partition import PartitionSimulation
from dispatch_audit.pipeline.simulate.setup import Setup
from dispatch_audit.pipeline.simulate.work import Work, workload_of
from dispatch_audit.pipeline.trace.manifest import FILE_NAME, TRACE_FORMAT

_SCHEMA: Final = "partition INT, measures STRING"
_OF_PARTITION: Final = re.compile(r"events-\d{5}\.parquet")


def simulate(spark: SparkSession, work: Sequence[Work], setup: Setup, folder: Path) -> list[MeasuresRow]:
    """Simulates every partition; returns their measures in the order of `work`.

    Args:
        spark: the session.
        work: the partitions, at least one.
        setup: the dispatcher; each partition has a seed of its own that follows from the setup's.
        folder: where the trace goes; it must be new or empty, or have what a simulation left that was cut.

    Raises:
        UsageError: the folder has something in it already, or cannot be written.
    """
    _prepare(folder)
    rows = [(number, 0, part.payload()) for number, part in enumerate(work)]
    frame = spark.createDataFrame(rows, "group INT, first_seq BIGINT, work BINARY")
    found = map_groups(frame, "group", "first_seq", len(work), _simulator(setup, str(folder)), _SCHEMA).collect()
    manifest = {"trace_format": TRACE_FORMAT, **manifest_of(setup).model_dump(mode="json")}
    manifest["recorder"] = {"name": "dispatch-audit simulate", "version": "1"}
    (folder / FILE_NAME).write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
    by_partition = {row["partition"]: json.loads(row["measures"]) for row in found}
    return [by_partition[number] for number in range(len(work))]


def _prepare(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        found = list(folder.iterdir())
        if all(_OF_PARTITION.fullmatch(file.name) for file in found):
            # A simulation that was cut left them: a whole one has a manifest too.
            for file in found:
                file.unlink()
        else:
            raise UsageError(f"{folder} is not empty", "name a new folder for the simulated trace")
    except OSError as error:
        raise UsageError(f"cannot write {folder}: {error.strerror}", "name another folder with --out") from None


def _simulator(setup: Setup, folder: str) -> Function:
    def run(batches: Batches) -> Iterator[pa.RecordBatch]:
        # An engine may give a task the rows of several.
        for batch in batches:
            for row in batch.to_pylist():
                yield _simulated(row["group"], row["work"], setup, folder)

    return run


def _simulated(number: int, payload: bytes, setup: Setup, folder: str) -> pa.RecordBatch:
    # The parts of a simulation refer to each other, so only this frees the one before in the same process.
    gc.collect()
    simulation = PartitionSimulation(workload_of(payload, setup), setup.with_seed_of(number))
    with pq.ParquetWriter(f"{folder}/events-{number:05d}.parquet", SCHEMA, compression="zstd") as file:
        for rows in batches_of(simulation):
            file.write_batch(rows)
    measures = json.dumps(measures_row(simulation))
    return pa.record_batch([pa.array([number], pa.int32()), pa.array([measures])], names=["partition", "measures"])
