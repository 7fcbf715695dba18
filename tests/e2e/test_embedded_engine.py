"""The audit on the embedded engine as users run it: the tables of Apache Spark, and one line for what it cannot do."""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from deltalake import DeltaTable
from parquet_recordings import as_parquet
from pyspark.sql import SparkSession

from dispatch_audit.pipeline.audit import audit
from dispatch_audit.pipeline.run.request import AuditRequest
from dispatch_audit.pipeline.settings import load_settings
from dispatch_audit.pipeline.tables.schemas import TABLES

PROGRAM = Path(sys.executable).with_name("dispatch-audit")
# Of `runs`: times and the engine, which are no results.
CIRCUMSTANCES = {"started_at", "started_at_us", "ended_at", "ended_at_us", "stages", "engine"}

pytestmark = pytest.mark.e2e


def run(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [str(PROGRAM), *map(str, arguments), "--engine", "embedded"]
    # No Java, wherever the tests run.
    env = {**os.environ, "JAVA_HOME": "/nonexistent", **environment}
    return subprocess.run(command, capture_output=True, text=True, env=env, check=False, timeout=600)


def rows_of(target: Path, name: str) -> Counter[str]:
    table = DeltaTable(str(target / name)).to_pyarrow_table()
    return Counter(map(repr, table.select([c for c in table.column_names if c not in CIRCUMSTANCES]).to_pylist()))


@pytest.mark.spark
@pytest.mark.parametrize("name", ["crash-1-3.3.2", "four-partitions-4.0.8"])
def test_tables_are_those_of_spark(name: str, spark: SparkSession, tmp_path: Path) -> None:
    trace = as_parquet(name, tmp_path / name)
    done = run("audit", trace, "--out", tmp_path / "embedded", "--format", "json", "--fail-on", "never")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["traces"][0]["engine"] == "Sail 0.7.2"
    audit(spark, AuditRequest((str(trace),), str(tmp_path / "spark"), None, load_settings()), lambda stage: None)
    for table in TABLES:
        assert rows_of(tmp_path / "embedded", table) == rows_of(tmp_path / "spark", table), table


@pytest.mark.parametrize("target", ["catalog.schema", "file:///tmp/tables"])
def test_tables_that_only_spark_reaches_are_refused_in_one_line(target: str, tmp_path: Path) -> None:
    trace = as_parquet("crash-1-3.3.2", tmp_path / "trace")
    done = run("audit", trace, "--out", target)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "dispatch-audit: error: the embedded engine writes tables below a local path, "
        f"not to {target}; choose a folder or use --engine spark\n"
    )


def test_a_table_of_a_catalog_is_refused_in_one_line(tmp_path: Path) -> None:
    done = run("audit", "catalog.schema.trace", "--profile", "pulsar-4.0.7", "--out", tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "dispatch-audit: error: the embedded engine cannot read catalog.schema.trace; use --engine spark\n"
    )
