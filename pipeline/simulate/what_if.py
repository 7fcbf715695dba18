"""Compares dispatchers on one workload, on an engine: a task for each partition under each of them (Q23 to Q25)."""

import gc
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import count
from threading import Lock
from typing import Final, NamedTuple

import pyarrow as pa
from pyspark.sql import SparkSession

from dispatch_audit.pipeline.engine.functions import map_groups
from dispatch_audit.pipeline.engine.worker_process import Batches, Function
from dispatch_audit.pipeline.run.stages import Progress
from dispatch_audit.pipeline.settings import Settings
from dispatch_audit.pipeline.simulate.judge import judged_tables
from dispatch_audit.pipeline.simulate.measures import MeasuresRow, judged_row, measures_row, of_topic
from dispatch_audit.pipeline.simulate.partition import PartitionSimulation
from dispatch_audit.pipeline.simulate.series import Series, of_partitions
from dispatch_audit.pipeline.simulate.setup import Setup
from dispatch_audit.pipeline.simulate.work import Work, workload_of
from dispatch_audit.pipeline.tables.threads import at_one_time

_SCHEMA: Final = "task INT, result STRING"


class Simulated(NamedTuple):
    """The result of one topic under one setup: its measures, and what happened over time."""

    measures: MeasuresRow
    series: Series


class Searched(NamedTuple):
    """The result of a search for the smallest setting without a stall.

    Attributes:
        names: the settings, which all had the same value.
        value: the smallest one; None: even the largest value that was tried leaves a stall.
        tried: the values that were tried, each with the time without progress in seconds.
    """

    names: tuple[str, ...]
    value: int | None
    tried: dict[int, float]


def compared(
    spark: SparkSession,
    work: Sequence[Work],
    setups: Sequence[Setup],
    settings: Settings | None,
    progress: Progress = lambda _: None,
) -> list[Simulated]:
    """The result of the whole topic under each setup, of which several run at one time.

    Args:
        spark: the session.
        work: the partitions, at least one.
        setups: the dispatchers, at least one.
        settings: of an audit of what was simulated; None: it is not audited.
        progress: called with how many dispatchers are done, by threads, one after the other.
    """
    rows = [(partition, 0, part.payload()) for partition, part in enumerate(work)]
    done, telling = count(1), Lock()

    def of_setup(setup: Setup) -> Simulated:
        frame = spark.createDataFrame(rows, "group INT, first_seq BIGINT, work BINARY")
        results = map_groups(frame, "group", "first_seq", len(rows), _runner(setup, settings), _SCHEMA).collect()
        found = {row["task"]: json.loads(row["result"]) for row in results}
        parts = [found[partition] for partition in range(len(work))]
        with telling:
            progress(f"simulate: {next(done)} of {len(setups)} dispatchers done")
        return Simulated(
            of_topic([part["measures"] for part in parts]), of_partitions([Series(**part["series"]) for part in parts])
        )

    return at_one_time(of_setup, setups)


def smallest_without_stall(
    spark: SparkSession,
    work: Sequence[Work],
    setup: Setup,
    names: Sequence[str],
    most: int,
    progress: Progress = lambda _: None,
) -> Searched:
    """The smallest value of a setting with which every consumer makes progress, to a hundredth of it.

    The value is doubled from what the setup has until no stall is left, and then the interval is halved.

    Args:
        spark: the session.
        work: the partitions.
        setup: the dispatcher.
        names: the settings that get the value, all the same.
        most: the largest value to try.
        progress: called with what is tried, before it is.
    """
    tried: dict[int, float] = {}

    def stalls(value: int) -> bool:
        progress(f"search: try {len(tried) + 1}, with {value:,}")
        ((row, _),) = compared(spark, work, [setup.with_settings(dict.fromkeys(names, value))], None)
        tried[value] = row["no_progress_s"]
        return bool(row["no_progress_s"] > 0)

    low = 0
    high = max(_number(setup, names[0]), 1)
    while stalls(high):
        if high >= most:
            return Searched(tuple(names), None, tried)
        low, high = high, min(high * 2, most)
    while high - low > max(high // 100, 1):
        middle = (low + high) // 2
        low, high = (middle, high) if stalls(middle) else (low, middle)
    return Searched(tuple(names), high, tried)


def _number(setup: Setup, name: str) -> int:
    value = setup.broker.get(name, 0)
    return value if isinstance(value, int) else 0


def _runner(setup: Setup, settings: Settings | None) -> Function:
    def run(batches: Batches) -> Iterator[pa.RecordBatch]:
        # An engine may give a task the rows of several.
        for batch in batches:
            for row in batch.to_pylist():
                yield _result(row["group"], row["work"], setup, settings)

    return run


def _result(partition: int, payload: bytes, setup: Setup, settings: Settings | None) -> pa.RecordBatch:
    # The parts of a simulation refer to each other, so only this frees the one before in the same process.
    gc.collect()
    seeded = setup.with_seed_of(partition)
    simulation = PartitionSimulation(workload_of(payload, seeded), seeded)
    found: MeasuresRow = {}
    if settings is None:
        while not simulation.run(1_000_000):
            simulation.log.take()
    else:
        found = judged_row(judged_tables(simulation, settings))
    measures = {**found, **measures_row(simulation)}
    result = json.dumps({"measures": measures, "series": asdict(simulation.progress.series)})
    return pa.record_batch([pa.array([partition], pa.int32()), pa.array([result])], names=["task", "result"])
