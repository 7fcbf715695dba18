"""The audit on the embedded engine as users run it: the tables of Apache Spark, and one line for what it cannot do."""

import json
from collections import Counter
from pathlib import Path

import pytest
from deltalake import DeltaTable
from embedded_commands import EmbeddedCommands
from parquet_recordings import as_parquet
from pyspark.sql import SparkSession
from samples import unzipped

from dispatch_audit.pipeline.audit import audit
from dispatch_audit.pipeline.run.request import AuditRequest
from dispatch_audit.pipeline.settings import load_settings
from dispatch_audit.pipeline.tables.schemas import TABLES
from dispatch_audit.pipeline.windows.window import window_of

# Of `runs`: times and the engine, which are no results.
CIRCUMSTANCES = {"started_at", "started_at_us", "ended_at", "ended_at_us", "stages", "engine"}

pytestmark = pytest.mark.e2e


def rows_of(target: Path, name: str) -> Counter[str]:
    table = DeltaTable(str(target / name)).to_pyarrow_table()
    return Counter(map(repr, table.select([c for c in table.column_names if c not in CIRCUMSTANCES]).to_pylist()))


@pytest.mark.spark
@pytest.mark.parametrize("name", ["crash-1-3.3.2", "four-partitions-4.0.8"])
def test_tables_are_those_of_spark(
    name: str, spark: SparkSession, run_embedded: EmbeddedCommands, tmp_path: Path
) -> None:
    trace = as_parquet(name, tmp_path / name)
    done = run_embedded("audit", trace, "--out", tmp_path / "embedded", "--format", "json", "--fail-on", "never")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["traces"][0]["engine"] == "Sail 0.7.2"
    audit(spark, AuditRequest((str(trace),), str(tmp_path / "spark"), None, load_settings()), lambda stage: None)
    for table in TABLES:
        assert rows_of(tmp_path / "embedded", table) == rows_of(tmp_path / "spark", table), table


def _spoilt(folder: Path) -> tuple[Path, int]:
    """A sample with rows that the checks refuse, and rows that only the replay refuses; and a moment in its middle."""
    trace = unzipped("join-leave-4.0.8", folder)
    messages = trace / "messages.jsonl"
    rows = messages.read_text().splitlines()
    sent = json.loads(next(row for row in rows if '"dispatch"' in row))
    middle = json.loads(rows[len(rows) // 2])
    again = [json.dumps(middle | {"ts_us": middle["ts_us"] + 1}), rows[40], rows[-40]]
    stranger = json.dumps(sent | {"seq": 10**9, "ts_us": middle["ts_us"] + 10**7, "consumer": 4711})
    messages.write_text("\n".join([*rows, "no JSON", json.dumps(sent | {"ledger_id": -4}), *again, stranger]) + "\n")
    return trace, int(middle["ts_us"])


@pytest.mark.spark
def test_refused_rows_and_windows_are_those_of_spark(
    spark: SparkSession, run_embedded: EmbeddedCommands, tmp_path: Path
) -> None:
    trace, moment_us = _spoilt(tmp_path / "trace")
    moment = str(moment_us)
    # The windows of one target continue each other.
    for out, begin, end in (("whole", None, None), ("windows", None, moment), ("windows", moment, None)):
        options = [*(("--from", begin) if begin else ()), *(("--to", end) if end else ())]
        done = run_embedded(
            "audit", trace, "--out", tmp_path / f"{out}-embedded", "--fail-on", "never", "--quiet", *options
        )
        assert (done.returncode, done.stderr) == (0, "")
        target, window = str(tmp_path / f"{out}-spark"), window_of(begin, end)
        audit(spark, AuditRequest((str(trace),), target, None, load_settings(), window), lambda stage: None)
        # A checkpoint has its sets in an order of the process; the window after it shows what is in it.
        for table in set(TABLES) - {"state"}:
            one, other = (rows_of(tmp_path / f"{out}-{engine}", table) for engine in ("embedded", "spark"))
            assert one == other, (options, table)
    reasons = DeltaTable(str(tmp_path / "whole-embedded" / "quarantine")).to_pyarrow_table().column("reason")
    assert Counter(reasons.to_pylist()) == {
        "broken_json": 1,
        "impossible_value": 1,
        "duplicate_seq": 1,
        "repeated_row": 2,
        "unknown_consumer": 1,
    }


@pytest.mark.parametrize("target", ["catalog.schema", "file:///tmp/tables"])
def test_tables_that_only_spark_reaches_are_refused_in_one_line(
    target: str, run_embedded: EmbeddedCommands, tmp_path: Path
) -> None:
    trace = as_parquet("crash-1-3.3.2", tmp_path / "trace")
    done = run_embedded("audit", trace, "--out", target)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "dispatch-audit: error: the embedded engine writes tables to folders and object stores, "
        f"not to {target}; choose one of these or use --engine spark\n"
    )


def test_a_table_of_a_catalog_is_refused_in_one_line(run_embedded: EmbeddedCommands, tmp_path: Path) -> None:
    done = run_embedded("audit", "catalog.schema.trace", "--profile", "pulsar-4.0.7", "--out", tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "dispatch-audit: error: the embedded engine cannot read catalog.schema.trace; use --engine spark\n"
    )
