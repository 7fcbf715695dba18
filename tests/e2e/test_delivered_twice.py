"""Users audit a log that contains some rows twice: the report is the one for the log that contains them once.

The audits run on the embedded engine, and one of them on Spark too.
"""

import gzip
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from conftest import RunCli
from deltalake import write_deltalake
from embedded_commands import EmbeddedCommands

from benchmarks.table_rows import rows_of_tables
from benchmarks.typed_rows import typed_rows
from dispatch_audit.pipeline.tables.target import parse_target
from dispatch_audit.pipeline.tables.way import tables_of
from dispatch_audit.pipeline.trace import open_traces

SAMPLE = Path(__file__).resolve().parents[2] / "data" / "samples" / "join-leave-4.0.8"
# What counts deliveries; all other tables are about what happened. Producers are counted before rows are compared.
OF_DELIVERIES = ("runs", "quarantine", "producers")

Deliver = Callable[[Path], None]

pytestmark = pytest.mark.e2e


def _lines() -> list[str]:
    """The rows of all logs of the sample, in the order of seq."""
    logs = sorted(SAMPLE.glob("*.jsonl.gz"))
    rows = [line for log in logs for line in gzip.decompress(log.read_bytes()).decode().splitlines()]
    return sorted(rows, key=lambda row: int(json.loads(row)["seq"]))


def _third() -> list[str]:
    """A third of them, from the middle."""
    rows = _lines()
    return rows[len(rows) // 3 : 2 * len(rows) // 3]


def _second_file(trace: Path) -> None:
    (trace / "messages-again.jsonl").write_text("\n".join(_third()) + "\n")


def _second_file_in_another_order(trace: Path) -> None:
    (trace / "acks-again.jsonl.gz").write_bytes(gzip.compress(("\n".join(reversed(_third())) + "\n").encode()))


def _same_file(trace: Path) -> None:
    _remove_logs(trace)
    rows = _lines()
    third = len(rows) // 3
    # After the rows of the next third, as a recorder writes that was started again from an older place.
    at_last = [*rows[: 2 * third], *_third(), *rows[2 * third :]]
    (trace / "events.jsonl").write_text("\n".join(at_last) + "\n")


def _parquet(trace: Path) -> None:
    _remove_logs(trace)
    folder = trace / "events"
    folder.mkdir()
    for number, rows in enumerate(_typed_deliveries()):
        pq.write_table(rows, folder / f"part-{number}.parquet")


def _delta(trace: Path) -> None:
    _remove_logs(trace)
    for rows in _typed_deliveries():
        write_deltalake(trace / "events", rows, mode="append")


def _typed_deliveries() -> tuple[pa.Table, pa.Table]:
    """All rows, and a third of them again."""
    (sample,) = open_traces([SAMPLE])
    rows = typed_rows(sample)
    seqs = [json.loads(row)["seq"] for row in _third()]
    return rows, rows.filter((pc.field("seq") >= seqs[0]) & (pc.field("seq") <= seqs[-1]))


def _remove_logs(trace: Path) -> None:
    for log in trace.glob("*.jsonl.gz"):
        log.unlink()


def _tables(out: Path) -> dict[str, list[str]]:
    """What the audit wrote about what happened, by table."""
    run = _run(out)
    tables = rows_of_tables(out)
    return {n: [row.replace(run["run_key"], "") for row in tables[n]] for n in tables if n not in OF_DELIVERIES}


def _run(out: Path) -> dict[str, Any]:
    (run,) = tables_of(None, parse_target(str(out))).query("runs", "*")
    return run


@pytest.fixture(scope="module")
def once(run_embedded: EmbeddedCommands, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """The tables of an audit of the unchanged sample."""
    out = tmp_path_factory.mktemp("once")
    done = run_embedded("audit", SAMPLE, "--out", out, "--fail-on", "never", "--quiet")
    assert (done.returncode, done.stderr) == (0, "")
    return _tables(out)


def _copy(folder: Path, deliver: Deliver) -> Path:
    """A copy of the sample with what is delivered again."""
    trace = folder / "trace"
    shutil.copytree(SAMPLE, trace)
    deliver(trace)
    return trace


def _assert_nothing_changed(code: int, text: str, out: Path, once: dict[str, list[str]]) -> None:
    report = json.loads(text)
    # As without the repetitions: the sample shows a known bug.
    assert (code, report["verdict"], report["completeness"]) == (1, "known_bug", 1.0)
    rows, again = len(_lines()), len(_third())
    (run,) = report["traces"]
    assert (run["events"], run["quarantined_by_reason"]) == (rows + again, {"repeated_row": again})
    kept = _run(out)
    assert (kept["events_audited"], kept["events_quarantined"]) == (rows, again)
    assert _tables(out) == once


@pytest.mark.parametrize(
    "deliver",
    [_second_file, _second_file_in_another_order, _same_file, _parquet, _delta],
    ids=["a second file", "in another order", "the same file", "parquet", "delta"],
)
def test_a_third_delivered_twice_changes_nothing(
    deliver: Deliver, once: dict[str, list[str]], run_embedded: EmbeddedCommands, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    done = run_embedded("audit", _copy(tmp_path, deliver), "--out", out, "--format", "json", "--quiet")
    _assert_nothing_changed(done.returncode, done.stdout, out, once)


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.usefixtures("spark")
def test_a_third_delivered_twice_changes_nothing_on_spark(
    once: dict[str, list[str]], run_cli: RunCli, tmp_path: Path
) -> None:
    trace, out = _copy(tmp_path, _second_file_in_another_order), tmp_path / "out"
    code, text, _ = run_cli("audit", trace, "--out", out, "--format", "json", "--quiet")
    assert json.loads(text)["traces"][0]["engine"].startswith("Spark ")
    _assert_nothing_changed(code, text, out, once)


def test_validation_finds_such_a_log_usable_and_counts_what_is_repeated(
    run_embedded: EmbeddedCommands, tmp_path: Path
) -> None:
    done = run_embedded("validate", _copy(tmp_path, _second_file), "--format", "json", "--quiet")
    (checked,) = json.loads(done.stdout)["traces"]
    assert (done.returncode, checked["usable"]) == (0, True)
    assert checked["quarantined"] == len(_third())
    assert checked["events"] == len(_lines()) + len(_third())


def _second_file_with_other_times(trace: Path) -> None:
    later = [{**row, "ts_us": row["ts_us"] + 1} for row in map(json.loads, _third())]
    (trace / "messages-again.jsonl").write_text("".join(json.dumps(row) + "\n" for row in later))


def test_rows_of_one_seq_that_differ_are_bad_as_ever(run_embedded: EmbeddedCommands, tmp_path: Path) -> None:
    trace = _copy(tmp_path, _second_file_with_other_times)
    done = run_embedded("audit", trace, "--out", tmp_path / "out", "--quiet")
    assert (done.returncode, done.stdout) == (3, "")
    rows, again = len(_lines()), len(_third())
    assert f"the replay refuses {again} of {rows + again} rows, which do not fit the rows" in done.stderr
