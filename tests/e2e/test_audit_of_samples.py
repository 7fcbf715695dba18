"""The audit as users run it: samples in, exit code, report and Delta tables out."""

import gzip
import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from samples import SAMPLES, unzipped

from benchmarks.table_rows import rows_of_tables
from benchmarks.typed_rows import typed_rows
from dispatch_audit.jobs.cli import main
from dispatch_audit.jobs.engines.class_archive import class_archive_options
from dispatch_audit.jobs.engines.java import require_java
from dispatch_audit.pipeline.audit import audit
from dispatch_audit.pipeline.run.request import AuditRequest
from dispatch_audit.pipeline.settings import load_settings
from dispatch_audit.pipeline.tables.target import parse_target
from dispatch_audit.pipeline.tables.way import tables_of
from dispatch_audit.pipeline.trace import open_traces

RULES = ("single_holder", "early_duplicate", "first_delivery_order")

pytestmark = [pytest.mark.spark, pytest.mark.e2e]

RunCli = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run_cli(spark: SparkSession, capfd: pytest.CaptureFixture[str]) -> RunCli:
    """Runs the command line on the session of the tests; returns exit code, stdout and stderr."""

    def run(*arguments: object) -> tuple[int, str, str]:
        capfd.readouterr()
        with pytest.raises(SystemExit) as exited:
            main([str(argument) for argument in arguments])
        captured = capfd.readouterr()
        assert isinstance(exited.value.code, int)
        return exited.value.code, captured.out, captured.err

    return run


@pytest.fixture(scope="module")
def audited_sample(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tables of an audit of a sample, for tests that leave them alone."""
    out = tmp_path_factory.mktemp("audited") / "out"
    audit(spark, AuditRequest((str(SAMPLES / "join-leave-4.0.8"),), str(out), None, load_settings()), lambda _: None)
    return out


def table(out: Path, name: str) -> list[dict[str, Any]]:
    """Rows of a table, read without Spark, which takes longer and reads the same (tests/tables/test_both_ways.py)."""
    return tables_of(None, parse_target(str(out))).query(name, "*")


def contents(folder: Path) -> dict[str, bytes]:
    """Every file of the tables; `_replay` is scratch and none."""
    files = {path.relative_to(folder): path for path in folder.rglob("*") if path.is_file()}
    return {str(name): path.read_bytes() for name, path in files.items() if name.parts[0] != "_replay"}


@pytest.mark.parametrize("sample", sorted(path.name for path in SAMPLES.iterdir() if path.is_dir()))
def test_a_sample_gives_the_verdict_that_lies_beside_it(
    sample: str, spark: SparkSession, run_cli: RunCli, tmp_path: Path
) -> None:
    code, out, err = run_cli("audit", SAMPLES / sample, "--out", tmp_path, "--format", "json", "--quiet")
    expected = json.loads((SAMPLES / sample / "expect.json").read_text())
    report = json.loads(out)
    # `violation` there counts whatever breaks the contract, with a known flaw behind it or without.
    told_of = {rule: report["rules"][rule]["violation"] + report["rules"][rule]["known_bug"] for rule in RULES}
    assert told_of == {rule: expected[rule]["violation"] for rule in RULES}
    assert report["rules"]["ownership"]["violation"] == 0
    broken = any(expected[rule]["violation"] for rule in RULES)
    assert (code, report["verdict"], err) == ((1, "known_bug", "") if broken else (0, "clean", ""))
    assert report["quarantined"] == 0
    found = Counter(row["rule"] for row in table(tmp_path, "violations"))
    assert found == {rule: expected[rule]["violation"] for rule in RULES if expected[rule]["violation"]}
    if expected["draining"]:
        assert len(table(tmp_path, "draining")) == expected["draining"]["hashes"]


def test_a_finding_names_entry_key_and_consumers(spark: SparkSession, audited_sample: Path) -> None:
    # As readers of the tables see it in Spark.
    (finding,) = spark.read.format("delta").load(str(audited_sample / "violations")).collect()
    # labels.json of the recording: seq 6853, consumer 6, entry 1:851.
    assert (finding["rule"], finding["seq"], finding["consumer"]) == ("early_duplicate", 6853, 6)
    assert (finding["ledger_id"], finding["entry_id"], finding["key"]) == (1, 851, "key-184")
    assert "entry 1:851" in finding["explanation"]


def test_a_second_run_leaves_equal_rows_and_no_others(run_cli: RunCli, audited_sample: Path, tmp_path: Path) -> None:
    shutil.copytree(audited_sample, tmp_path, dirs_exist_ok=True)
    run_cli("audit", SAMPLES / "heavy-churn-3.0.7", "--out", tmp_path, "--quiet")
    before = rows_of_tables(tmp_path)
    run_cli("audit", SAMPLES / "join-leave-4.0.8", "--out", tmp_path, "--quiet")
    # As text every value with all its digits, behind the name of its column, in the order of the columns.
    assert rows_of_tables(tmp_path) == before
    assert len(before["runs"]) == 2


def test_all_samples_in_one_call(run_cli: RunCli, tmp_path: Path) -> None:
    code, out, _ = run_cli("audit", SAMPLES, "--out", tmp_path, "--format", "json", "--quiet")
    assert code == 1
    assert json.loads(out)["verdict"] == "known_bug"
    assert json.loads(out)["rules"]["single_holder"]["known_bug"] == 13


@pytest.mark.parametrize("kind", ["parquet", "delta"])
def test_columns_say_the_same_as_lines(kind: str, spark: SparkSession, run_cli: RunCli, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    trace.mkdir()
    shutil.copy(SAMPLES / "heavy-churn-3.0.7" / "trace.json", trace)
    (sample,) = open_traces([SAMPLES / "heavy-churn-3.0.7"])
    spark.createDataFrame(typed_rows(sample)).write.format(kind).save(str(trace / "events"))
    reports = []
    for source in (SAMPLES / "heavy-churn-3.0.7", trace):
        _, out, _ = run_cli("audit", source, "--out", tmp_path / "out", "--format", "json", "--quiet")
        report = json.loads(out)
        reports.append((report["rules"], report["blocking"], report["events"]))
    assert reports[0] == reports[1]


def test_rows_that_cannot_be_used_are_set_aside(spark: SparkSession, run_cli: RunCli, tmp_path: Path) -> None:
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
    _, out, _ = run_cli("audit", trace, "--out", tmp_path / "out", "--format", "json", "--quiet")
    report = json.loads(out)
    quarantined = table(tmp_path / "out", "quarantine")
    first = len(rows) + 1
    assert {(row["reason"], row["line"], row["raw"]) for row in quarantined} == {
        (reason, first + at, raw) for at, (reason, raw) in enumerate(refused.items())
    }
    (run,) = table(tmp_path / "out", "runs")
    assert report["quarantined"] == run["events_quarantined"] == len(refused)
    assert run["events_in"] == run["events_audited"] + len(refused) == 22_082 + len(refused)
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
    spoil: Callable[[Path], None], code: int, run_cli: RunCli, audited_sample: Path, tmp_path: Path
) -> None:
    out = audited_sample
    before = contents(out)
    trace = unzipped("join-leave-4.0.8", tmp_path / "trace")
    spoil(trace)
    exit_code, report, errors = run_cli("audit", trace, "--out", out, "--quiet")
    assert exit_code == code
    assert report == ""
    assert errors.count("\n") == 1
    assert errors.startswith("dispatch-audit: error: ")
    assert "Traceback" not in errors
    assert contents(out) == before


def run_process(*command: object) -> subprocess.CompletedProcess[str]:
    # The program spark-submit looks for PySpark with this interpreter, else with the first python3 on the PATH.
    env = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    words = [str(part) for part in command]
    return subprocess.run(words, capture_output=True, text=True, timeout=600, check=False, env=env)


def test_the_installed_command_in_a_process_of_its_own(tmp_path: Path) -> None:
    command = Path(sys.executable).with_name("dispatch-audit")
    done = run_process(command, "audit", SAMPLES / "heavy-churn-3.0.7", "--out", tmp_path, "--format", "json")
    assert (done.returncode, done.stderr) == (1, "")
    report: dict[str, Any] = json.loads(done.stdout)
    assert report["rules"]["single_holder"]["known_bug"] == 13


def test_the_same_as_a_spark_job(tmp_path: Path) -> None:
    submit = Path(sys.executable).with_name("spark-submit")
    job = SAMPLES.parents[1] / "jobs" / "nightly_audit.py"
    done = run_process(
        submit,
        "--packages",
        "io.delta:delta-spark_4.2_2.13:4.4.0",
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
    assert done.returncode == 1, done.stderr[-2000:]
    assert "KNOWN BUG" in done.stdout
    assert "single_holder" in done.stdout
    assert re.search(r"^Took +[\d.]+ s to start up, [\d.]+ s to audit, [\d.]+ s to report$", done.stdout, re.MULTILINE)


def test_validation_says_how_much_is_wrong_with_an_unusable_trace(run_cli: RunCli, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    trace.mkdir()
    (trace / "trace.json").write_text('{"trace_format": 1, "pulsar_version": "4.0.8"}')
    (trace / "events.jsonl").write_text("no JSON\n" * 3 + '{"event": "flow"}\n' + '{"event": "fl')
    code, out, err = run_cli("validate", trace, "--quiet")
    assert code == 3
    assert err.startswith(
        f"dispatch-audit: error: {trace}: the checks refuse 5 of 5 rows, more than the allowed share of "
    )
    assert err.count("\n") == 1
    assert out.startswith(f"UNUSABLE  {trace}\nRead    5 events, 5 would be quarantined (100 %)\n")
    assert "        broken_json: 3\n        cut_off: 1\n        missing_field: 1\n" in out


def test_validation_says_what_would_be_refused(run_cli: RunCli, tmp_path: Path) -> None:
    trace = unzipped("join-leave-4.0.8", tmp_path / "trace")
    with (trace / "acks.jsonl").open("a") as log:
        log.write("no JSON\n")
    code, out, err = run_cli("validate", trace, "--format", "json", "--quiet")
    assert (code, err) == (0, "")
    (checked,) = json.loads(out)["traces"]
    assert (checked["events"], checked["quarantined"]) == (22_083, 1)
    assert checked["quarantined_by_reason"] == {"broken_json": 1}
    assert checked["profile"] == "pulsar-4.0.7"


def test_hot_keys_have_names_and_a_trace_cut_in_the_middle_is_no_fault(
    spark: SparkSession, run_cli: RunCli, tmp_path: Path
) -> None:
    _, out, _ = run_cli(
        "audit", SAMPLES / "join-leave-4.0.8", "--out", tmp_path / "whole", "--format", "json", "--quiet"
    )
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
    code, out, err = run_cli("audit", trace, "--out", tmp_path / "part", "--format", "json", "--quiet")
    (report,) = json.loads(out)["traces"]
    (partition,) = table(tmp_path / "part", "coverage")
    assert (code, err, report["quarantined"]) == (0, "", 0)
    assert 0.5 < report["completeness"] == partition["completeness"] < 1
    assert {row["completeness"] for row in table(tmp_path / "part", "metrics")} == {partition["completeness"]}
