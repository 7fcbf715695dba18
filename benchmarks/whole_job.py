"""Times the whole audit on copies of a sample, each copy a partition of its own.

    .venv/bin/python -m benchmarks.whole_job --copies 50 --runs 3

Prints one JSON object: events, and for each stage and the whole the seconds of each run with their median. The first
run of a session also pays for what starts once (workers, compiled code, Delta); it is told apart.
"""

import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import Annotated

import typer
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from jobs.session import spark_session
from pipeline.audit import audit
from pipeline.request import AuditRequest
from pipeline.settings import load_settings
from pipeline.tables.target import parse_target
from pipeline.trace import open_traces, read_events

SAMPLES = Path(__file__).resolve().parents[1] / "data" / "samples"


def write_copies(spark: SparkSession, sample: Path, copies: int, folder: Path) -> None:
    """The rows of a sample once for each partition, in Parquet, in no order."""
    (trace,) = open_traces([sample])
    rows = read_events(spark, trace).drop("refused", "detail")
    partitions = spark.range(copies).withColumnRenamed("id", "partition")
    name = sf.concat(sf.col("topic"), sf.lit("-partition-"), sf.col("partition"))
    copied = rows.crossJoin(partitions).withColumn("topic", name).drop("partition")
    copied.write.parquet(str(folder / "events.parquet"))
    (folder / "trace.json").write_text((sample / "trace.json").read_text())


def run_once(spark: SparkSession, folder: Path, target: Path) -> dict[str, float]:
    """Seconds of each stage of one audit, and of the whole."""
    start = time.monotonic()
    result = audit(spark, AuditRequest((str(folder),), str(target), None, load_settings()), lambda _: None)
    whole = time.monotonic() - start
    run = parse_target(str(target)).read(spark, "runs").where(sf.col("run_key") == result.run_keys[0]).collect()[0]
    return {stage["stage"]: stage["seconds"] for stage in run["stages"]} | {"whole": whole}


def main(
    sample: Annotated[str, typer.Option(help="Folder in data/samples.")] = "join-leave-4.0.8",
    copies: Annotated[int, typer.Option(help="Partitions, each a copy of the sample.")] = 50,
    runs: Annotated[int, typer.Option(help="Runs after the first.")] = 3,
) -> None:
    """Times the whole audit."""
    spark = spark_session("dispatch-audit benchmark")
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "trace"
        folder.mkdir()
        write_copies(spark, SAMPLES / sample, copies, folder)
        (trace,) = open_traces([folder])
        events = read_events(spark, trace).count()
        timed = [run_once(spark, folder, Path(scratch) / f"tables-{run}") for run in range(runs + 1)]
    first, others = timed[0], timed[1:]
    stages = {
        name: {"first_s": first[name], "runs_s": [t[name] for t in others], "median_s": _median(others, name)}
        for name in first
    }
    print(json.dumps({"sample": sample, "copies": copies, "events": events, "stages": stages}, indent=1))  # noqa: T201 - its output


def _median(timed: list[dict[str, float]], name: str) -> float:
    return statistics.median(t[name] for t in timed)


if __name__ == "__main__":
    typer.run(main)
