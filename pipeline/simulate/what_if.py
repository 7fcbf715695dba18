"""Compares dispatchers on one workload, on an engine: a task for each partition under each of them (Q23 to Q25)."""

import gc
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
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
    spark: SparkSession, work: Sequence[Work], setups: Sequence[Setup], settings: Settings | None
) -> list[Simulated]:
    """The result of the whole topic under each setup.

    Args:
        spark: the session.
        work: the partitions, at least one.
        setups: the dispatchers, at least one.
        settings: of an audit of what was simulated; None: it is not audited.
    """
    rows = [
        (number * len(work) + partition, 0, number, partition, part.payload())
        for number in range(len(setups))
        for partition, part in enumerate(work)
    ]
    frame = spark.createDataFrame(rows, "group INT, first_seq BIGINT, setup INT, partition INT, work BINARY")
    run = _runner(list(setups), settings)
    found = {
        row["task"]: json.loads(row["result"])
        for row in map_groups(frame, "group", "first_seq", len(rows), run, _SCHEMA).collect()
    }
    parts = ([found[number * len(work) + partition] for partition in range(len(work))] for number in range(len(setups)))
    return [
        Simulated(
            of_topic([part["measures"] for part in of_setup]),
            of_partitions([Series(**part["series"]) for part in of_setup]),
        )
        for of_setup in parts
    ]


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


def _runner(setups: list[Setup], settings: Settings | None) -> Function:
    def run(batches: Batches) -> Iterator[pa.RecordBatch]:
        # The parts of a simulation refer to each other, so only this frees the one before in the same process.
        gc.collect()
        first = next(batches)
        task, number, partition = (first[name][0].as_py() for name in ("group", "setup", "partition"))
        setup = setups[number].with_seed_of(partition)
        simulation = PartitionSimulation(workload_of(first["work"][0].as_py(), setup), setup)
        found: MeasuresRow = {}
        if settings is None:
            while not simulation.run(1_000_000):
                simulation.log.take()
        else:
            found = judged_row(judged_tables(simulation, settings))
        measures = {**found, **measures_row(simulation)}
        result = json.dumps({"measures": measures, "series": asdict(simulation.progress.series)})
        yield pa.record_batch([pa.array([task], pa.int32()), pa.array([result])], names=["task", "result"])

    return run
