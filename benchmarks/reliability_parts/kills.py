"""Audits that are killed, and run again: do the tables end up as those of an audit that nothing disturbed?

The audit that is killed is a process of its own, as users start it; SIGKILL goes to it, its JVM and its workers.
Moments are spread over the time that an undisturbed one took. It is run again in a session that is warm, so that twenty
kills take minutes; the same request has the same run key wherever it is made.
"""

import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

import psutil
import typer
from pyspark.sql import SparkSession

from benchmarks.runs import ROOT
from jobs.session import spark_session
from pipeline.audit import audit
from pipeline.errors import DispatchAuditError
from pipeline.request import AuditRequest
from pipeline.settings import load_settings
from pipeline.tables.schemas import TABLES
from pipeline.tables.target import parse_target

SAMPLE = "data/samples/heavy-churn-3.0.7"
# Of `runs`; they say when, and not what.
_CLOCKS = ("started_at", "started_at_us", "ended_at", "ended_at_us", "stages")
_MAIN = "from jobs.cli import main; main()"

Tables = Mapping[str, list[str]]


def kills(number: int, seed: int) -> dict[str, int]:
    """Kills so many audits of a sample and runs each again.

    Args:
        number: how many.
        seed: of the moments.

    Returns:
        `kills_tried`: audits that were alive when they were killed; `kills_equal`: those after which the tables had the
        rows of an undisturbed audit and nothing else was left in the target; `kills_tables_begun`: those that had
        written something by then.

    Raises:
        DispatchAuditError: the undisturbed audit failed.
    """
    # The path of the trace is part of the run key, and is told as seen from here.
    os.chdir(ROOT)
    moments = random.Random(seed)
    tried = equal = begun = 0
    with tempfile.TemporaryDirectory(prefix="reliability-") as scratch:
        spark = spark_session("dispatch-audit reliability")
        undisturbed = Path(scratch, "undisturbed")
        seconds = _time_of(undisturbed)
        expected = _rows(spark, undisturbed)
        for at in range(number):
            target = Path(scratch, f"killed-{at}")
            after_s = seconds * (at + moments.random()) / number
            if not _killed(target, after_s):
                continue  # it was faster than the one before
            tried += 1
            begun += any(target.glob("*/*/*.parquet"))
            audit(spark, AuditRequest((SAMPLE,), str(target), None, load_settings()), lambda stage: None)
            nothing_else = {path.name for path in target.iterdir()} == TABLES.keys()
            same = nothing_else and _rows(spark, target) == expected
            equal += same
            typer.echo(f"killed after {after_s:.1f} of {seconds:.1f} s: {'equal' if same else 'DIFFERENT'}", err=True)
    return {"kills_tried": tried, "kills_equal": equal, "kills_tables_begun": begun}


def _started(target: Path) -> "subprocess.Popen[bytes]":
    arguments = ("audit", SAMPLE, "--out", str(target), "--fail-on", "never", "--quiet")
    return subprocess.Popen(
        [sys.executable, "-c", _MAIN, *arguments],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def _time_of(target: Path) -> float:
    """Wall seconds of an audit that nothing disturbs."""
    begin = time.monotonic()
    if code := _started(target).wait():
        raise DispatchAuditError(f"the undisturbed audit of {SAMPLE} ended with exit code {code}")
    return time.monotonic() - begin


def _killed(target: Path, after_s: float) -> bool:
    """Starts an audit and kills it after so many seconds; returns whether it was still alive."""
    process = _started(target)
    try:
        process.wait(after_s)
    except subprocess.TimeoutExpired:
        # By the tree, not by the process group alone: Spark's workers have one of their own.
        family = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
        for member in family:
            member.kill()
        psutil.wait_procs(family)
        process.wait()
        return True
    return False


def _rows(spark: SparkSession, target: Path) -> Tables:
    """The rows of all tables, in an order that does not depend on files; `runs` without its clocks."""
    place = parse_target(str(target))
    return {name: sorted(map(str, place.read(spark, name).drop(*_CLOCKS).collect())) for name in TABLES}
