"""`convert` as users run it: nothing is lost, the audit of the result is the same, and nothing half-done is left."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from glob import glob
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest
from deltalake import DeltaTable
from embedded_commands import EmbeddedCommands
from pyspark.sql import SparkSession
from samples import SAMPLES, unzipped

from dispatch_audit.pipeline.convert.convert import convert
from dispatch_audit.pipeline.convert.request import ConvertRequest
from dispatch_audit.pipeline.run.request import AuditRequest
from dispatch_audit.pipeline.settings import load_settings
from dispatch_audit.pipeline.tables.schemas import TABLES
from dispatch_audit.pipeline.validation import validate

PROGRAM = Path(sys.executable).with_name("dispatch-audit")
SAMPLE = "join-leave-4.0.8"
RESTARTED = Path(__file__).resolve().parents[1] / "data/recorder/broker-restart-4.2.4"
# The key of a run is made of the paths of its trace.
OTHER_PATHS = {"run_key", "inputs"}
CIRCUMSTANCES = {"started_at", "started_at_us", "ended_at", "ended_at_us", "stages", "engine"}

pytestmark = pytest.mark.e2e


Run = Callable[..., "subprocess.CompletedProcess[str]"]
Converted = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module")
def run(run_embedded: EmbeddedCommands) -> Run:
    return lambda *arguments: run_embedded(*arguments, "--quiet")


@pytest.fixture(scope="module")
def converted(run: Run) -> Converted:
    """Converts, and returns the report."""

    def convert(*arguments: object) -> dict[str, Any]:
        done = run("convert", *arguments, "--format", "json")
        assert (done.returncode, done.stderr) == (0, "")
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    return convert


def rows_of(target: Path, name: str) -> Counter[str]:
    table = DeltaTable(str(target / name)).to_pyarrow_table()
    aside = OTHER_PATHS | CIRCUMSTANCES
    return Counter(map(repr, table.select([c for c in table.column_names if c not in aside]).to_pylist()))


def audited(run: Run, trace: Path, out: Path) -> Path:
    done = run("audit", trace, "--out", out, "--fail-on", "never")
    assert (done.returncode, done.stderr) == (0, "")
    return out


@pytest.fixture(scope="module")
def with_gap(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sample with a gap that names no topic."""
    trace = unzipped(SAMPLE, tmp_path_factory.mktemp("with-gap") / SAMPLE)
    first, *_ = (trace / "acks.jsonl").read_text().splitlines()
    gap = {"event": "gap", "dropped": 1, **{name: json.loads(first)[name] for name in ("seq", "ts_us")}}
    gap["seq_end"] = gap["seq"] + 9
    (trace / "events.jsonl").write_text(json.dumps(gap) + "\n")
    return trace


@pytest.fixture(scope="module")
def original(run: Run, with_gap: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tables of an audit of the sample."""
    return audited(run, with_gap, tmp_path_factory.mktemp("original"))


@pytest.mark.parametrize("form", ["parquet", "delta"])
def test_an_audit_of_the_converted_trace_gives_the_same_rows(
    form: str, run: Run, converted: Converted, with_gap: Path, original: Path, tmp_path: Path
) -> None:
    found = converted(with_gap, "--to", tmp_path / "logs", "--as", form)
    assert found["events_in"] == found["events_converted"] > 20_000
    tables = audited(run, tmp_path / "logs", tmp_path / "out")
    for table in TABLES:
        assert rows_of(tables, table) == rows_of(original, table), table
    manifest = SAMPLES / SAMPLE / "trace.json"
    assert (tmp_path / "logs" / "trace.json").read_bytes() == manifest.read_bytes()
    assert (tmp_path / "logs" / "events" / "_delta_log").is_dir() == (form == "delta")


def test_the_starts_of_a_broker_become_one_trace(run: Run, converted: Converted, tmp_path: Path) -> None:
    starts = tmp_path / "starts"
    shutil.copytree(RESTARTED, starts)
    # Of the last one the beginning is missing: what the first one claims does not hold of all.
    last = max(starts.iterdir()) / "trace.json"
    last.write_text(last.read_text().replace('"complete_from_start" : true', '"complete_from_start" : false'))
    converted(starts, "--to", tmp_path / "logs")
    assert not json.loads((tmp_path / "logs" / "trace.json").read_text())["complete_from_start"]
    of_starts, of_one = audited(run, starts, tmp_path / "a"), audited(run, tmp_path / "logs", tmp_path / "b")
    for table in TABLES:
        assert rows_of(of_one, table) == rows_of(of_starts, table), table


def spoilt(folder: Path, *, lines_of_log: int | None = None) -> Path:
    """The sample with lines that the checks refuse, and rows of a second topic whose name is no name of a folder."""
    trace = unzipped(SAMPLE, folder)
    if lines_of_log is not None:
        for file in trace.glob("*.jsonl"):
            file.write_text("".join(file.read_text().splitlines(keepends=True)[:lines_of_log]))
    with (trace / "acks.jsonl").open("a") as log:
        log.write('no JSON\n{"event": "ack", "seq": -4}\n')
        for seq in (10**9, 10**9 + 1):
            row = {"event": "publish", "seq": seq, "ts_us": seq, "topic": "persistent://t/n/a b%=ü", "ledger_id": 1}
            log.write(json.dumps(row | {"entry_id": seq, "batch_size": 1, "key_source": "none"}) + "\n")
    return trace


@pytest.mark.parametrize("form", ["parquet", "delta"])
def test_refused_rows_go_along_with_their_places(form: str, run: Run, converted: Converted, tmp_path: Path) -> None:
    trace, logs = spoilt(tmp_path / "trace"), tmp_path / "logs"
    found = converted(trace, "--to", logs, "--as", form)
    assert (found["topics"], found["events_quarantined"]) == (2, 2)
    assert found["events_in"] == sum(1 for log in trace.glob("*.jsonl") for _ in log.open())
    assert found["events_in"] == found["events_converted"] + 2
    quarantine = logs / "quarantine"
    table = DeltaTable(quarantine).to_pyarrow_dataset() if form == "delta" else ds.dataset(quarantine)
    kept = [(row["file"], row["line"], row["reason"], row["raw"]) for row in table.to_table().to_pylist()]
    acks = (trace / "acks.jsonl").read_text().splitlines()
    places = [(len(acks) - 3, "broken_json"), (len(acks) - 2, "missing_field")]
    assert sorted(kept) == [(str(trace / "acks.jsonl"), line, why, acks[line - 1]) for line, why in places]
    done = run("validate", logs, "--format", "json")
    (of_trace,) = json.loads(done.stdout)["traces"]
    assert (of_trace["events"], of_trace["quarantined"]) == (found["events_converted"], 0)


def test_parquet_of_a_conversion_converts_to_the_same_rows(converted: Converted, tmp_path: Path) -> None:
    once = converted(spoilt(tmp_path / "trace"), "--to", tmp_path / "parquet")
    twice = converted(tmp_path / "parquet", "--to", tmp_path / "delta", "--as", "delta")
    assert twice["events_in"] == once["events_converted"]
    left = ds.dataset(tmp_path / "parquet" / "events", partitioning="hive").to_table()
    right = DeltaTable(tmp_path / "delta" / "events").to_pyarrow_table()
    names = sorted(right.schema.names)
    rows = [Counter(map(repr, table.select(names).to_pylist())) for table in (left, right)]
    assert rows[0] == rows[1]


@pytest.mark.parametrize(
    ("ending", "times", "message"),
    [
        ('{"event": "ack", "se', 1, "acks.jsonl, line "),
        ("no JSON\n", 20_000, "more than the allowed share of "),
    ],
)
def test_a_trace_that_an_audit_refuses_is_not_converted(
    ending: str, times: int, message: str, run: Run, tmp_path: Path
) -> None:
    trace = unzipped(SAMPLE, tmp_path / "trace")
    with (trace / "acks.jsonl").open("a") as log:
        log.write(ending * times)
    done = run("convert", trace, "--to", tmp_path / "logs")
    assert done.returncode == 3
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["trace"]


def test_a_filled_target_is_refused_or_replaced(run: Run, converted: Converted, tmp_path: Path) -> None:
    logs, other = tmp_path / "logs", tmp_path / "other"
    converted(spoilt(tmp_path / "trace"), "--to", logs)
    done = run("convert", SAMPLES / SAMPLE, "--to", logs)
    assert (done.returncode, done.stderr) == (
        2,
        f"dispatch-audit: error: {logs} is not empty; choose another --to, or pass --replace\n",
    )
    converted(SAMPLES / SAMPLE, "--to", logs, "--replace")
    assert not (logs / "quarantine").exists()
    done = run("convert", logs, "--to", logs, "--replace")
    assert (done.returncode, "is the folder of the trace" in done.stderr) == (2, True)
    other.mkdir()
    (other / "notes.txt").write_text("mine")
    done = run("convert", SAMPLES / SAMPLE, "--to", other, "--replace")
    assert (done.returncode, "holds notes.txt, which is no part of a conversion" in done.stderr) == (2, True)
    assert (other / "notes.txt").read_text() == "mine"


def test_a_killed_conversion_leaves_no_trace_and_the_next_one_is_whole(converted: Converted, tmp_path: Path) -> None:
    trace, logs = unzipped(SAMPLE, tmp_path / "trace"), tmp_path / "logs"
    lines = (trace / "messages.jsonl").read_bytes()
    made = tmp_path / ".logs.converting" / "made" / "events"
    command = [str(PROGRAM), "convert", str(trace), "--to", str(logs), "--engine", "embedded", "--quiet"]
    # With more rows if it was done before it was killed, as it may be if other work holds up this process.
    for times in (30, 120, 480):
        (trace / "messages.jsonl").write_bytes(lines * times)
        process = subprocess.Popen(command, start_new_session=True)
        while process.poll() is None and not glob(f"{made}/**/*.parquet", recursive=True):  # noqa: PTH207 - folders may go
            time.sleep(0.01)
        os.killpg(process.pid, signal.SIGKILL)
        if process.wait() == -signal.SIGKILL:
            break
        shutil.rmtree(logs)
    assert process.returncode == -signal.SIGKILL
    assert not logs.exists()
    (trace / "messages.jsonl").write_bytes(lines)
    found = converted(trace, "--to", logs)
    assert found["events_in"] == found["events_converted"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["logs", "trace"]


@pytest.mark.spark
def test_tables_below_a_uri_are_those_of_the_embedded_engine(
    spark: SparkSession, converted: Converted, tmp_path: Path
) -> None:
    trace, uri = spoilt(tmp_path / "trace", lines_of_log=200), f"file:{tmp_path}/uri"
    request = ConvertRequest((str(trace),), uri, None, False, None, load_settings())
    result = convert(spark, request, lambda stage: None)
    local = converted(trace, "--to", tmp_path / "local", "--as", "delta")
    assert (result.events_in, result.events_quarantined) == (local["events_in"], 2)
    for name in ("events", "quarantine"):
        left, right = (DeltaTable(tmp_path / where / name).to_pyarrow_table() for where in ("uri", "local"))
        assert Counter(map(repr, left.to_pylist())) == Counter(map(repr, right.to_pylist())), name
    below = ConvertRequest((str(trace),), str(tmp_path / "of spark"), "delta", False, None, load_settings())
    assert convert(spark, below, lambda stage: None).events_converted == result.events_converted
    for name in ("events", "quarantine"):
        left, right = (DeltaTable(tmp_path / where / name).to_pyarrow_table() for where in ("of spark", "local"))
        assert Counter(map(repr, left.to_pylist())) == Counter(map(repr, right.to_pylist())), name
    # Spark reads what delta-rs made, too.
    (checked,) = validate(spark, AuditRequest((f"{tmp_path}/local",), "", None, load_settings()), lambda stage: None)
    assert (checked.events_in, checked.events_quarantined) == (result.events_converted, 0)
    read = spark.read.format("delta").load(f"{tmp_path}/local/events")
    assert read.where("topic like '%a b%'").count() == 2
    with pytest.raises(Exception, match="has a table events; choose another --to, or pass --replace"):
        convert(spark, request, lambda stage: None)
