"""A log of which a part is delivered twice, as users audit it: the audit reports the same as of the log as it was."""

import gzip
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import RunCli
from pyspark.sql import SparkSession

from benchmarks.table_rows import rows_of_tables
from benchmarks.typed_rows import typed_rows
from dispatch_audit.pipeline.audit import audit
from dispatch_audit.pipeline.run.request import AuditRequest
from dispatch_audit.pipeline.settings import load_settings
from dispatch_audit.pipeline.tables.target import parse_target
from dispatch_audit.pipeline.tables.way import tables_of
from dispatch_audit.pipeline.trace import open_traces

SAMPLE = Path(__file__).resolve().parents[2] / "data" / "samples" / "join-leave-4.0.8"
# What counts deliveries; all other tables are about what happened. Producers are counted before rows are compared.
OF_DELIVERIES = ("runs", "quarantine", "producers")

pytestmark = [pytest.mark.spark, pytest.mark.e2e]


def _lines() -> list[str]:
    """The rows of all logs of the sample, in the order of seq."""
    logs = sorted(SAMPLE.glob("*.jsonl.gz"))
    rows = [line for log in logs for line in gzip.decompress(log.read_bytes()).decode().splitlines()]
    return sorted(rows, key=lambda row: int(json.loads(row)["seq"]))


def _third() -> list[str]:
    """A third of them, from the middle."""
    rows = _lines()
    return rows[len(rows) // 3 : 2 * len(rows) // 3]


def _second_file(trace: Path, _: SparkSession) -> None:
    (trace / "messages-again.jsonl").write_text("\n".join(_third()) + "\n")


def _second_file_in_another_order(trace: Path, _: SparkSession) -> None:
    (trace / "acks-again.jsonl.gz").write_bytes(gzip.compress(("\n".join(reversed(_third())) + "\n").encode()))


def _same_file(trace: Path, _: SparkSession) -> None:
    for log in trace.glob("*.jsonl.gz"):
        log.unlink()
    rows = _lines()
    third = len(rows) // 3
    # Behind the rows of the next third, as a recorder writes that was started again from an older place.
    at_last = [*rows[: 2 * third], *_third(), *rows[2 * third :]]
    (trace / "events.jsonl").write_text("\n".join(at_last) + "\n")


def _as(kind: str) -> Callable[[Path, SparkSession], None]:
    def write(trace: Path, spark: SparkSession) -> None:
        (sample,) = open_traces([SAMPLE])
        rows = spark.createDataFrame(typed_rows(sample))
        seqs = [json.loads(row)["seq"] for row in _third()]
        for log in trace.glob("*.jsonl.gz"):
            log.unlink()
        frame = rows.coalesce(1)
        for part in (frame, frame.where(f"seq BETWEEN {seqs[0]} AND {seqs[-1]}")):
            part.write.format(kind).mode("append").save(str(trace / "events"))

    return write


def _tables(out: Path) -> dict[str, list[str]]:
    """What the audit wrote about what happened, by table."""
    run = _run(out)
    tables = rows_of_tables(out)
    return {n: [row.replace(run["run_key"], "") for row in tables[n]] for n in tables if n not in OF_DELIVERIES}


def _run(out: Path) -> dict[str, Any]:
    (run,) = tables_of(None, parse_target(str(out))).query("runs", "*")
    return run


@pytest.fixture(scope="module")
def once(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """Returns the report on the unchanged sample."""
    out = tmp_path_factory.mktemp("once")
    audit(spark, AuditRequest((str(SAMPLE),), str(out), None, load_settings()), lambda _: None)
    return _tables(out)


@pytest.mark.parametrize(
    "deliver",
    [_second_file, _second_file_in_another_order, _same_file, _as("parquet"), _as("delta")],
    ids=["a second file", "in another order", "the same file", "parquet", "delta"],
)
def test_a_third_delivered_twice_changes_nothing(
    deliver: Callable[[Path, SparkSession], None],
    once: dict[str, list[str]],
    spark: SparkSession,
    run_cli: RunCli,
    tmp_path: Path,
) -> None:
    trace = tmp_path / "trace"
    shutil.copytree(SAMPLE, trace)
    deliver(trace, spark)
    code, text, _ = run_cli("audit", trace, "--out", tmp_path / "out", "--format", "json", "--quiet")
    report = json.loads(text)
    # As without the repetitions: the sample shows a known bug.
    assert (code, report["verdict"], report["completeness"]) == (1, "known_bug", 1.0)
    rows, again = len(_lines()), len(_third())
    (run,) = report["traces"]
    assert (run["events"], run["quarantined_by_reason"]) == (rows + again, {"repeated_row": again})
    kept = _run(tmp_path / "out")
    assert (kept["events_audited"], kept["events_quarantined"]) == (rows, again)
    assert _tables(tmp_path / "out") == once


def test_validation_finds_such_a_log_usable_and_counts_no_repetition(run_cli: RunCli, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    shutil.copytree(SAMPLE, trace)
    (trace / "messages-again.jsonl").write_text("\n".join(_third()) + "\n")
    code, text, _ = run_cli("validate", trace, "--format", "json", "--quiet")
    (checked,) = json.loads(text)["traces"]
    assert (code, checked["usable"], checked["quarantined"]) == (0, True, 0)
    assert checked["events"] == len(_lines()) + len(_third())


def test_rows_of_one_seq_that_differ_are_bad_as_ever(run_cli: RunCli, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    shutil.copytree(SAMPLE, trace)
    later = [{**row, "ts_us": row["ts_us"] + 1} for row in map(json.loads, _third())]
    (trace / "messages-again.jsonl").write_text("".join(json.dumps(row) + "\n" for row in later))
    code, out, err = run_cli("audit", trace, "--out", tmp_path / "out", "--quiet")
    assert (code, out) == (3, "")
    assert f"the replay refuses {len(later)} of {len(_lines()) + len(later)} rows, which do not fit the rows" in err
