"""The spark-submit command that runs an audit on a cluster."""

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from cluster.standalone import SPARK_HOME
from dispatch_audit.jobs.engines.releases import delta_package

_ROOT = Path(__file__).resolve().parents[1]


def submit_command(master: str, arguments: Sequence[str], settings: Mapping[str, str]) -> list[str]:
    """Returns the command; the driver runs on this machine.

    The environment must have the same path on every worker: a wheel for `--py-files` cannot hold numba and pyarrow, and
    would hide the sources that name the folder of compiled code (`dispatch_audit.pipeline.replay.state.compiled`).

    Args:
        master: URL of the cluster.
        arguments: of `dispatch-audit audit`.
        settings: of Spark, besides those with the paths of Python and the audit.
    """
    paths = {"spark.pyspark.python": sys.executable, "spark.executorEnv.PYTHONPATH": str(_ROOT)}
    named = [f"--conf={name}={value}" for name, value in {**paths, **settings}.items()]
    submit, job = str(SPARK_HOME / "bin" / "spark-submit"), str(_ROOT / "jobs" / "nightly_audit.py")
    return [submit, "--master", master, "--packages", delta_package(), *named, job, "--", *arguments]


def submit_environment() -> dict[str, str]:
    """Returns the environment of the driver, with this Spark and the audit of this folder."""
    return {**os.environ, "SPARK_HOME": str(SPARK_HOME), "PYTHONPATH": str(_ROOT)}
