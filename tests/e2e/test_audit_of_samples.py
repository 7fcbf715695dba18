"""The audit as users run it: samples in, exit code, report and Delta tables out.

Most tests run on the embedded engine, those with the marker `spark` on Spark.
"""

import gzip
import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from conftest import RunCli
from deltalake import write_deltalake
from embedded_commands import EmbeddedCommands
from pyspark.sql import SparkSession
from samples import SAMPLES, unzipped

from benchmarks.table_rows import rows_of_tables
from benchmarks.typed_rows import typed_rows
from dispatch_audit.jobs.engines.class_archive import class_archive_options
from dispatch_audit.jobs.engines.java import require_java
from dispatch_audit.jobs.engines.releases import delta_package
from dispatch_audit.pipeline.audit import audit
from dispatch_audit.pipeline.run.request import AuditRequest
from dispatch_audit.pipeline.settings import load_settings
from dispatch_audit.pipeline.tables.target import parse_target
from dispatch_audit.pipeline.tables.way import tables_of
from dispatch_audit.pipeline.trace import open_traces

RULES = ("single_holder", "early_duplicate", "first_delivery_order")
SAMPLE_NAMES = sorted(path.name for path in SAMPLES.iterdir() if path.is_dir())

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="session")
def run(run_embedded: EmbeddedCommands) -> RunCli:
    """Runs a command on the embedded engine; returns exit code, stdout and stderr."""

    def command(*arguments: object) -> tuple[int, str, str]:
        done = run_embedded(*arguments)
        return done.returncode, done.stdout, done.stderr

    return command


@pytest.fixture
def run_on_spark(spark: SparkSession, run_cli: RunCli) -> RunCli:
    """Runs the command line on the session of the tests; returns exit code, stdout and stderr."""
    return run_cli


@pytest.fixture(scope="module")
def audited_sample(run: RunCli, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tables of an audit of a sample, for tests that leave them alone."""
    out = tmp_path_factory.mktemp("audited") / "out"
    assert run("audit", SAMPLES / "join-leave-4.0.8", "--out", out, "--fail-on", "never", "--quiet")[0] == 0
    return out


@pytest.fixture(scope="module")
def audited_on_spark(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same tables as Spark makes them."""
    out = tmp_path_factory.mktemp("audited-on-spark") / "out"
    audit(spark, AuditRequest((str(SAMPLES / "join-leave-4.0.8"),), str(out), None, load_settings()), lambda _: None)
    return out


def table(out: Path, name: str) -> list[dict[str, Any]]:
    """Rows of a table, read without Spark, which takes longer and reads the same (tests/tables/test_both_ways.py)."""
    return tables_of(None, parse_target(str(out))).query(name, "*")


def contents(folder: Path) -> dict[str, bytes]:
    """Every file of the tables; `_replay` is scratch and none."""
    files = {path.relative_to(folder): path for path in folder.rglob("*") if path.is_file()}
    return {str(name): path.read_bytes() for name, path in files.items() if name.parts[0] != "_replay"}


def assert_as_expected(audited: Mapping[str, Mapping[str, Any]], out: Path) -> None:
    """Compares the reports on samples, and all that the tables have, with what lies beside the samples."""
    found = Counter((row["run_key"], row["rule"]) for row in table(out, "violations"))
    draining = Counter(row["run_key"] for row in table(out, "draining"))
    assert sorted(row["run_key"] for row in table(out, "runs")) == sorted(run["run_key"] for run in audited.values())
    violations: dict[tuple[str, str], int] = {}
    for sample, report in audited.items():
        expected = json.loads((SAMPLES / sample / "expect.json").read_text())
        # `violation` there counts whatever breaks the contract, with a known flaw behind it or without.
        broken = {rule: report["rules"][rule]["violation"] + report["rules"][rule]["known_bug"] for rule in RULES}
        assert broken == {rule: expected[rule]["violation"] for rule in RULES}
        assert report["rules"]["ownership"]["violation"] == 0
        assert report["verdict"] == ("known_bug" if any(broken.values()) else "clean")
        assert report["quarantined"] == 0
        violations |= {(report["run_key"], rule): count for rule, count in broken.items() if count}
        if expected["draining"]:
            assert draining[report["run_key"]] == expected["draining"]["hashes"]
    assert found == violations


@pytest.mark.parametrize("sample", SAMPLE_NAMES)
def test_a_sample_gives_the_verdict_that_lies_beside_it(sample: str, run: RunCli, tmp_path: Path) -> None:
    code, out, err = run("audit", SAMPLES / sample, "--out", tmp_path, "--format", "json", "--quiet")
    report = json.loads(out)
    (audited,) = report["traces"]
    assert_as_expected({sample: report | {"run_key": audited["run_key"]}}, tmp_path)
    assert (code, err) == (0 if report["verdict"] == "clean" else 1, "")


@pytest.mark.spark
def test_a_finding_names_entry_key_and_consumers(spark: SparkSession, audited_on_spark: Path) -> None:
    # As readers of the tables see it in Spark.
    (finding,) = spark.read.format("delta").load(str(audited_on_spark / "violations")).collect()
    # labels.json of the recording: seq 6853, consumer 6, entry 1:851.
    assert (finding["rule"], finding["seq"], finding["consumer"]) == ("early_duplicate", 6853, 6)
    assert (finding["ledger_id"], finding["entry_id"], finding["key"]) == (1, 851, "key-184")
    assert "entry 1:851" in finding["explanation"]


@pytest.mark.spark
@pytest.mark.slow
def test_a_second_run_leaves_equal_rows_and_no_others(
    run_on_spark: RunCli, audited_on_spark: Path, tmp_path: Path
) -> None:
    shutil.copytree(audited_on_spark, tmp_path, dirs_exist_ok=True)
    run_on_spark("audit", SAMPLES / "heavy-churn-3.0.7", "--out", tmp_path, "--quiet")
    before = rows_of_tables(tmp_path)
    run_on_spark("audit", SAMPLES / "join-leave-4.0.8", "--out", tmp_path, "--quiet")
    # As text every value with all its digits, after the name of its column, in the order of the columns.
    assert rows_of_tables(tmp_path) == before
    assert len(before["runs"]) == 2


@pytest.mark.spark
def test_all_samples_in_one_call(run_on_spark: RunCli, tmp_path: Path) -> None:
    code, out, err = run_on_spark("audit", SAMPLES, "--out", tmp_path, "--format", "json", "--quiet")
    report = json.loads(out)
    assert (code, report["verdict"], err) == (1, "known_bug", "")
    assert report["rules"]["single_holder"]["known_bug"] == 13
    assert [Path(*audited["inputs"]).name for audited in report["traces"]] == SAMPLE_NAMES
    assert all(audited["engine"].startswith("Spark ") for audited in report["traces"])
    assert_as_expected(dict(zip(SAMPLE_NAMES, report["traces"], strict=True)), tmp_path)


@pytest.mark.parametrize("kind", ["parquet", "delta"])
def test_columns_say_the_same_as_lines(kind: str, run: RunCli, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    trace.mkdir()
    shutil.copy(SAMPLES / "heavy-churn-3.0.7" / "trace.json", trace)
    (sample,) = open_traces([SAMPLES / "heavy-churn-3.0.7"])
    rows, events = typed_rows(sample), trace / "events"
    if kind == "delta":
        write_deltalake(events, rows)
    else:
        events.mkdir()
        pq.write_table(rows, events / "part-0.parquet")
    reports = []
    for source in (SAMPLES / "heavy-churn-3.0.7", trace):
        _, out, _ = run("audit", source, "--out", tmp_path / "out", "--format", "json", "--quiet")
        report = json.loads(out)
        reports.append((report["rules"], report["blocking"], report["events"]))
    assert reports[0] == reports[1]


def test_rows_that_cannot_be_used_are_set_aside(run: RunCli, tmp_path: Path) -> None:
    trace = unzipped("join-leave-4.0.8", tmp_path / "trace")
    messages = trace / "messages.jsonl"
    rows = messages.read_text().splitlines()
    sent = json.loads(next(row for row in rows if '"dispatch"' in row))
    refused = {
        "broken_json": '{"event": "dispatch", "seq": ',
        "impossible_value": json.dumps(sent | {"seq": 10**9, "ledger_id": -4}),
        "unknown_event": json.dumps(sent | {"seq": 10**9 + 1, "event": "teleport"}),
        "unknown_consumer": json.dumps(sent | {"seq": 10**9 + 2, "consumer": 4711}),
        "duplicate_seq": json.dumps(json.loads(rows[4001]) | {"ts_us": 10**15 * 2}),
        "repeated_row": rows[4000],
    }
    messages.write_text("\n".join([*rows, *refused.values()]) + "\n")
    _, out, _ = run("audit", trace, "--out", tmp_path / "out", "--format", "json", "--quiet")
    report = json.loads(out)
    quarantined = table(tmp_path / "out", "quarantine")
    first = len(rows) + 1
    assert {(row["reason"], row["line"], row["raw"]) for row in quarantined} == {
        (reason, first + at, raw) for at, (reason, raw) in enumerate(refused.items())
    }
    (kept,) = table(tmp_path / "out", "runs")
    assert report["quarantined"] == kept["events_quarantined"] == len(refused)
    assert kept["events_in"] == kept["events_audited"] + len(refused) == 22_082 + len(refused)
    assert report["rules"]["early_duplicate"]["known_bug"] == 1


def _garbage(trace: Path) -> None:
    for log in trace.glob("*.jsonl"):
        log.write_bytes(bytes(range(256)) * 40)


def _empty(trace: Path) -> None:
    for log in trace.glob("*.jsonl"):
        log.write_text("")


def _cut_off(trace: Path) -> None:
    log = trace / "messages.jsonl"
    log.write_bytes(log.read_bytes()[:-40])


def _cut_off_gzip(trace: Path) -> None:
    log = trace / "messages.jsonl"
    packed = gzip.compress(log.read_bytes())
    log.unlink()
    (trace / "messages.jsonl.gz").write_bytes(packed[: len(packed) // 2])


def _unknown_format(trace: Path) -> None:
    manifest = json.loads((trace / "trace.json").read_text())
    (trace / "trace.json").write_text(json.dumps(manifest | {"trace_format": 2}))


def _strangers(trace: Path) -> None:
    log = trace / "consumers.jsonl"
    log.write_text("".join(row + "\n" for row in log.read_text().splitlines() if '"join"' not in row))


def _missing(trace: Path) -> None:
    shutil.rmtree(trace)


def assert_refused_in_one_line(run: RunCli, code: int, spoil: Callable[[Path], None], folder: Path, out: Path) -> None:
    before = contents(out)
    trace = unzipped("join-leave-4.0.8", folder / "trace")
    spoil(trace)
    exit_code, report, errors = run("audit", trace, "--out", out, "--quiet")
    assert exit_code == code
    assert report == ""
    assert errors.count("\n") == 1
    assert errors.startswith("dispatch-audit: error: ")
    assert "Traceback" not in errors
    assert contents(out) == before


@pytest.mark.parametrize(
    ("spoil", "code"),
    [
        (_garbage, 3),
        (_empty, 3),
        (_cut_off, 3),
        (_cut_off_gzip, 3),
        (_unknown_format, 3),
        (_strangers, 3),
        (_missing, 2),
    ],
)
def test_an_unusable_trace_is_one_line_and_leaves_the_tables_alone(
    spoil: Callable[[Path], None], code: int, run: RunCli, audited_sample: Path, tmp_path: Path
) -> None:
    assert_refused_in_one_line(run, code, spoil, tmp_path, audited_sample)


@pytest.mark.spark
def test_an_unusable_trace_is_one_line_and_leaves_the_tables_alone_on_spark(
    run_on_spark: RunCli, audited_on_spark: Path, tmp_path: Path
) -> None:
    assert_refused_in_one_line(run_on_spark, 3, _garbage, tmp_path, audited_on_spark)


def run_process(*command: object) -> subprocess.CompletedProcess[str]:
    # The program spark-submit looks for PySpark with this interpreter, else with the first python3 on the PATH.
    env = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    words = [str(part) for part in command]
    return subprocess.run(words, capture_output=True, text=True, timeout=600, check=False, env=env)


@pytest.mark.spark
def test_the_installed_command_in_a_process_of_its_own(tmp_path: Path) -> None:
    command = Path(sys.executable).with_name("dispatch-audit")
    done = run_process(command, "audit", SAMPLES / "heavy-churn-3.0.7", "--out", tmp_path, "--format", "json")
    assert (done.returncode, done.stderr) == (1, "")
    report: dict[str, Any] = json.loads(done.stdout)
    assert report["rules"]["single_holder"]["known_bug"] == 13


@pytest.mark.spark
def test_the_same_as_a_spark_job(tmp_path: Path) -> None:
    submit = Path(sys.executable).with_name("spark-submit")
    job = SAMPLES.parents[1] / "jobs" / "nightly_audit.py"
    done = run_process(
        submit,
        "--packages",
        delta_package(),
        "--conf",
        f"spark.pyspark.python={sys.executable}",
        # What a session of the audit's own takes for few rows: compiling less saves two fifths of the CPU time, and
        # classes that are kept another part of it.
        "--driver-java-options",
        "-XX:+UseParallelGC -XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m "
        + class_archive_options(require_java()),
        "--conf",
        "spark.sql.codegen.wholeStage=false",
        "--conf",
        "spark.sql.codegen.factoryMode=NO_CODEGEN",
        "--conf",
        "spark.ui.enabled=false",
        job,
        "--",
        SAMPLES / "heavy-churn-3.0.7",
        "--out",
        tmp_path,
    )
    # Spark writes what Python says to its own output.
    assert done.returncode == 1, done.stdout[-1000:] + done.stderr[-2000:]
    assert "KNOWN BUG" in done.stdout
    assert "single_holder" in done.stdout
    assert re.search(r"^Took +[\d.]+ s to start up, [\d.]+ s to audit, [\d.]+ s to report$", done.stdout, re.MULTILINE)


@pytest.fixture
def bad_rows(tmp_path: Path) -> Path:
    """A trace without a good row."""
    trace = tmp_path / "trace"
    trace.mkdir()
    (trace / "trace.json").write_text('{"trace_format": 1, "pulsar_version": "4.0.8"}')
    (trace / "events.jsonl").write_text("no JSON\n" * 3 + '{"event": "flow"}\n' + '{"event": "fl')
    return trace


def assert_counts_bad_rows(trace: Path, code: int, out: str, err: str) -> None:
    assert code == 3
    assert err.startswith(
        f"dispatch-audit: error: {trace}: the checks refuse 5 of 5 rows, more than the allowed share of "
    )
    assert err.count("\n") == 1
    assert out.startswith(f"UNUSABLE  {trace}\nRead    5 events, 5 would be quarantined (100 %)\n")
    assert (
        "        broken_json: 3, first in events.jsonl, line 1: expecting value at character 1\n"
        "        cut_off: 1, first in events.jsonl, line 5\n"
        "        missing_field: 1, first in events.jsonl, line 4: seq\n"
    ) in out


def test_validation_says_how_much_is_wrong_with_an_unusable_trace(run: RunCli, bad_rows: Path) -> None:
    assert_counts_bad_rows(bad_rows, *run("validate", bad_rows, "--quiet"))


@pytest.mark.spark
def test_validation_says_how_much_is_wrong_with_an_unusable_trace_on_spark(
    run_on_spark: RunCli, bad_rows: Path
) -> None:
    assert_counts_bad_rows(bad_rows, *run_on_spark("validate", bad_rows, "--quiet"))


def test_validation_says_what_would_be_refused(run: RunCli, tmp_path: Path) -> None:
    trace = unzipped("join-leave-4.0.8", tmp_path / "trace")
    with (trace / "acks.jsonl").open("a") as log:
        log.write("no JSON\n")
    code, out, err = run("validate", trace, "--format", "json", "--quiet")
    assert (code, err) == (0, "")
    (checked,) = json.loads(out)["traces"]
    assert (checked["events"], checked["quarantined"]) == (22_083, 1)
    assert checked["quarantined_by_reason"] == {"broken_json": 1}
    assert checked["profile"] == "pulsar-4.0.7"


def test_hot_keys_have_names_and_a_trace_cut_in_the_middle_is_no_fault(run: RunCli, tmp_path: Path) -> None:
    _, out, _ = run("audit", SAMPLES / "join-leave-4.0.8", "--out", tmp_path / "whole", "--format", "json", "--quiet")
    (report,) = json.loads(out)["traces"]
    assert (report["completeness"], report["incomplete"]) == (1.0, [])
    assert all(key["key"].startswith("key-") for key in report["hot_keys"])
    assert len(table(tmp_path / "whole", "producers")) == 1

    trace = unzipped("join-leave-4.0.8", tmp_path / "trace")
    manifest = json.loads((trace / "trace.json").read_text())
    (trace / "trace.json").write_text(json.dumps(manifest | {"complete_from_start": False}))
    for log in trace.glob("*.jsonl"):
        rows = log.read_text().splitlines(keepends=True)
        log.write_text("".join(row for row in rows if json.loads(row)["seq"] > 10_000))
    code, out, err = run("audit", trace, "--out", tmp_path / "part", "--format", "json", "--quiet")
    (report,) = json.loads(out)["traces"]
    (partition,) = table(tmp_path / "part", "coverage")
    assert (code, err, report["quarantined"]) == (0, "", 0)
    assert 0.5 < report["completeness"] == partition["completeness"] < 1
    assert {row["completeness"] for row in table(tmp_path / "part", "metrics")} == {partition["completeness"]}
