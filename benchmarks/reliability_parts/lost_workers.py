"""An audit on a cluster of processes that loses a worker: do the tables end up as those of a local audit?

The cluster has two workers; the one that is killed takes its executor and their Python workers with it. Audits lose
theirs in turns while the replay runs, and while what it found is written.
"""

import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeAlias

import typer
from pyspark.sql import SparkSession

from benchmarks.runs import ROOT
from benchmarks.table_rows import rows_of_tables
from benchmarks.typed_rows import typed_rows
from cluster.standalone import StandaloneCluster
from cluster.submit import submit_command, submit_environment
from dispatch_audit.pipeline.audit import audit
from dispatch_audit.pipeline.errors import DispatchAuditError
from dispatch_audit.pipeline.run.request import AuditRequest
from dispatch_audit.pipeline.settings import load_settings
from dispatch_audit.pipeline.trace import open_traces

Job: TypeAlias = "subprocess.Popen[bytes]"

STAGES: Final = ("replay", "write tables")
"""In which a worker is lost, in turns."""

_SAMPLES: Final = (("heavy-churn-3.0.7", "parquet"), ("hung-consumer-4.0.8", "delta"))
_SMALL: Final = {
    "spark.driver.memory": "700m",
    "spark.executor.memory": "700m",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.databricks.delta.snapshotPartitions": "1",
}
# A busy machine takes several times what a quiet one does.
_JOB_S_MAX: Final = 900
_FINDINGS: Final = 1  # the exit code of an audit that finds what the samples hold


def lost_workers(spark: SparkSession, folder: Path, number: int) -> dict[str, Any]:
    """Audits so many times on a cluster of its own that loses a worker.

    Args:
        spark: the local session.
        folder: for traces, tables and logs.
        number: how many.

    Returns:
        `workers_killed`; `workers_killed_equal`: audits after which the tables had the rows of a local one;
        `workers_killed_by_stage`: how many were lost in each stage.

    Raises:
        DispatchAuditError: a job ended in another way than with its verdict, or never missed the worker.
    """
    traces = traces_for_both_readers(spark, folder)
    audit(spark, AuditRequest(tuple(traces), str(folder / "local"), None, load_settings()), lambda stage: None)
    expected = rows_of_tables(folder / "local")
    by_stage: Counter[str] = Counter()
    equal = 0
    for at in range(number):
        stage, out, log = STAGES[at % len(STAGES)], folder / f"out-{at}", folder / f"job-{at}.log"
        with (
            StandaloneCluster(folder / f"cluster-{at}") as cluster,
            submitted(cluster, log, *traces, "--out", str(out), "--quiet") as job,
        ):
            _wait_for(stage, out, log, job)
            cluster.kill_worker(0)
            code = job.wait(_JOB_S_MAX)
        logged = log.read_text(errors="replace")
        if code != _FINDINGS or "Lost executor" not in logged:
            raise DispatchAuditError(f"an audit that lost a worker ended with exit code {code}: {logged[-3000:]}")
        by_stage[stage] += 1
        same = rows_of_tables(out) == expected
        equal += same
        typer.echo(f"worker killed in {stage!r}: {'equal' if same else 'DIFFERENT'}", err=True)
    return {"workers_killed": number, "workers_killed_equal": equal, "workers_killed_by_stage": dict(by_stage)}


def traces_for_both_readers(spark: SparkSession, folder: Path) -> list[str]:
    """A sample in Parquet, which the workers read, and another in Delta, which Spark does."""
    made = []
    for sample, kind in _SAMPLES:
        trace = folder / f"{sample}-{kind}"
        trace.mkdir()
        shutil.copy(ROOT / "data" / "samples" / sample / "trace.json", trace)
        (recorded,) = open_traces([ROOT / "data" / "samples" / sample])
        spark.createDataFrame(typed_rows(recorded)).write.format(kind).save(str(trace / "events"))
        made.append(str(trace))
    return made


@contextmanager
def submitted(cluster: StandaloneCluster, log: Path, *arguments: str, cwd: Path = ROOT) -> Iterator[Job]:
    """A job on the cluster, which does not outlive the `with`."""
    with log.open("wb") as output:
        job = subprocess.Popen(
            submit_command(cluster.url, arguments, _SMALL),
            stdout=output,
            stderr=subprocess.STDOUT,
            env=submit_environment() | {"SPARK_LOCAL_IP": "127.0.0.1"},
            cwd=cwd,
        )
    try:
        yield job
    finally:
        job.kill()
        job.wait()


def _wait_for(stage: str, out: Path, log: Path, job: Job) -> None:
    """Until tasks of the replay write what they found; or until the first rows of a table are there."""
    begun = "_replay/*/*/result/_temporary/0/_temporary" if stage == "replay" else "*/run_key=*/*.parquet"
    while not any(out.glob(begun)):
        if job.poll() is not None:
            raise DispatchAuditError(f"the job ended before {stage!r}: {log.read_text(errors='replace')[-3000:]}")
        time.sleep(0.05)
