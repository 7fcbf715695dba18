"""The audit over Spark Connect, where there is no SparkContext: equal tables, from a process of its own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from benchmarks.table_rows import rows_of_tables
from dispatch_audit.pipeline.audit import audit
from dispatch_audit.pipeline.run.request import AuditRequest
from dispatch_audit.pipeline.settings import load_settings

ROOT = Path(__file__).resolve().parents[2]
SAMPLE = ROOT / "data" / "samples" / "hung-consumer-4.0.8"


def audited_over_connect(remote: str, out: Path, timeout_s: float = 300) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "dispatch_audit.jobs.nightly_audit", str(SAMPLE), "--out", str(out), "--format", "json"],
        capture_output=True,
        text=True,
        env={**os.environ, "SPARK_REMOTE": remote},
        cwd=ROOT,
        timeout=timeout_s,
        check=False,
    )


@pytest.mark.spark
@pytest.mark.e2e
@pytest.mark.slow
def test_tables_are_those_of_the_classic_session(spark: SparkSession, tmp_path: Path) -> None:
    done = audited_over_connect("local[2]", tmp_path / "connect")
    assert (done.returncode, done.stderr) == (0, "")
    audit(spark, AuditRequest((str(SAMPLE),), str(tmp_path / "classic"), None, load_settings()), lambda stage: None)
    assert rows_of_tables(tmp_path / "connect") == rows_of_tables(tmp_path / "classic")


@pytest.mark.e2e
@pytest.mark.slow
def test_a_name_that_is_no_server_is_a_usage_error(tmp_path: Path) -> None:
    done = audited_over_connect("nowhere", tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("dispatch-audit: error: Spark Connect does not start: ")
    assert done.stderr.endswith("; check SPARK_REMOTE\n")
    assert done.stderr.count("\n") == 1
