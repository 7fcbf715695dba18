"""The audit of a topic that moves from broker to broker: from JSON Lines on both engines, and from Parquet."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import MANIFEST, RunCli
from embedded_commands import EmbeddedCommands

from dispatch_audit.pipeline.tables.target import parse_target
from dispatch_audit.pipeline.tables.way import tables_of

pytestmark = pytest.mark.e2e

_S = 1_000_000
_ENTRY = {"ledger_id": 1, "batch_size": 1, "key_source": "partition_key"}
_KEY: Mapping[str, Mapping[str, Any]] = {"jsonl": {"key_b64": "a2V5LTI="}, "parquet": {"key": b"key-2"}}


def _owner(broker: str, now_us: int, entry_id: int, kind: str) -> list[dict[str, Any]]:
    """Rows of a broker that sends one entry twice: seqs and the consumer's number begin anew with each."""
    about = {"broker": broker, "topic": "t"}
    to = {**about, "subscription": "s", "consumer": 1, "consumer_name": f"c of {broker}"}
    entry = {**_ENTRY, "entry_id": entry_id, **_KEY[kind]}
    rows: list[dict[str, Any]] = [
        {"event": "join", "phase": "end", **to, "key_shared_mode": "AUTO_SPLIT"},
        {"event": "publish", **about, **entry},
        {"event": "dispatch", "phase": "start", **to, **entry},
        {"event": "dispatch", "phase": "end", **to, **entry},
        {"event": "dispatch", "phase": "start", **to, **entry},
        {"event": "dispatch", "phase": "end", **to, **entry},
    ]
    return [{"seq": n, "ts_us": now_us + n * 50_000, **row} for n, row in enumerate(rows, start=1)]


def _hours_apart(folder: Path) -> Path:
    """A trace of two owners of which the second has a clock an hour ahead, by the stamps of one producer."""
    logs = [_owner("a", 10 * _S, 0, "jsonl"), _owner("b", 20 * _S, 1, "jsonl")]
    for log, ahead_us in zip(logs, (0, 3_600 * _S), strict=True):
        for row in log:
            if row["event"] == "publish":
                row |= {"producer_name": "p", "publish_time_ms": row["ts_us"] // 1_000}
            row["ts_us"] += ahead_us
    return _written(folder, "jsonl", *logs)


def _written(folder: Path, kind: str, *logs: Sequence[Mapping[str, Any]]) -> Path:
    folder.mkdir()
    (folder / "trace.json").write_text(json.dumps(MANIFEST))
    for number, rows in enumerate(logs):
        path = folder / f"events-{number}.{kind}"
        if kind == "jsonl":
            path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        else:
            narrow = {"batch_size": pa.int32()}
            names = dict.fromkeys(name for row in rows for name in row)
            columns = {name: pa.array([row.get(name) for row in rows], narrow.get(name)) for name in names}
            pq.write_table(pa.table(columns), path)
    return folder


def _two_owners(folder: Path, kind: str) -> tuple[Path, int]:
    """A trace of two owners and a consumer that never joined, and the number of its rows."""
    before, after = _owner("a", 10 * _S, 0, kind), _owner("b", 20 * _S, 1, kind)
    # Of the second recorder only, and of a seq that the first has too.
    stranger = {**after[3], "seq": 7, "consumer": 9, "ts_us": 21 * _S}
    before.append({**before[3], "seq": 7, "ts_us": 11 * _S})
    return _written(folder, kind, [*after, stranger], before), len(before) + len(after) + 1


def _options(folder: Path) -> list[object]:
    """Options with which an audit accepts a large share of bad rows."""
    config = folder / "audit.toml"
    config.write_text("[trace]\nquarantine_ratio_max = 0.5\n")
    return ["--out", folder / "out", "--config", config, "--quiet"]


def _assert_found_once(target: Path, rows: int) -> None:
    tables = tables_of(None, parse_target(str(target)))
    violations, consumers, quarantine, coverage = (
        tables.query(name, "*") for name in ("violations", "consumers", "quarantine", "coverage")
    )
    found = sorted((row["broker"], row["seq"], row["consumer"], row["entry_id"]) for row in violations)
    assert found == [("a", 5, 1, 0), ("b", 5, 1, 1)]
    assert {row["key"] for row in violations} == {"key-2"}
    named = sorted((row["broker"], row["consumer"], row["consumer_name"]) for row in consumers)
    assert named == [("a", 1, "c of a"), ("b", 1, "c of b")]
    ((reason, raw, detail),) = [(row["reason"], row["raw"], row["detail"]) for row in quarantine]
    assert (reason, detail) == ("unknown_consumer", "consumer 9 of b has no join before this row")
    assert json.loads(raw)["broker"] == "b"
    assert [row["rows"] for row in coverage] == [rows]


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_each_violation_is_found_once_and_named_by_its_recorder(
    kind: str, run_embedded: EmbeddedCommands, tmp_path: Path
) -> None:
    trace, rows = _two_owners(tmp_path / "trace", kind)
    done = run_embedded("audit", trace, *_options(tmp_path))
    assert (done.returncode, done.stderr) == (1, "")
    _assert_found_once(tmp_path / "out", rows)


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_each_violation_is_found_once_and_named_by_its_recorder_on_spark(run_cli: RunCli, tmp_path: Path) -> None:
    trace, rows = _two_owners(tmp_path / "trace", "jsonl")
    code, text, err = run_cli("audit", trace, *_options(tmp_path), "--format", "json")
    assert (code, err) == (1, "")
    assert json.loads(text)["traces"][0]["engine"].startswith("Spark ")
    _assert_found_once(tmp_path / "out", rows)


def test_clocks_that_are_an_hour_apart_are_named_once(run_embedded: EmbeddedCommands, tmp_path: Path) -> None:
    done = run_embedded("audit", _hours_apart(tmp_path / "trace"), *_options(tmp_path))
    assert done.stdout.count("the clock of b is about 3,600 s ahead of that of a") == 1
    (coverage,) = tables_of(None, parse_target(str(tmp_path / "out"))).query("coverage", "*")
    assert (coverage["order_verdict"], coverage["progress"]) == ("broken", "not_provable")
    assert coverage["missing"] == ["clocks"]


def test_windows_and_two_owners_at_one_time_are_refused(run_embedded: EmbeddedCommands, tmp_path: Path) -> None:
    moved = _written(tmp_path / "moved", "jsonl", _owner("a", 10 * _S, 0, "jsonl"), _owner("b", 20 * _S, 1, "jsonl"))
    done = run_embedded("audit", moved, *_options(tmp_path), "--to", 15 * _S)
    assert (done.returncode, done.stdout) == (2, "")
    assert "the recorders a, b, but a window needs the seqs of one recorder; audit the whole log" in done.stderr
    both = _written(tmp_path / "both", "jsonl", _owner("a", 10 * _S, 0, "jsonl"), _owner("b", 10 * _S, 1, "jsonl"))
    done = run_embedded("audit", both, *_options(tmp_path))
    assert (done.returncode, done.stdout) == (3, "")
    assert "t: the recorders a and b both wrote as its owner between" in done.stderr
