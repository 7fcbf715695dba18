"""The audit of a topic that moves from broker to broker, on Spark, from JSON Lines and from Parquet."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import MANIFEST
from pyspark.sql import SparkSession

from dispatch_audit.pipeline.audit import audit
from dispatch_audit.pipeline.errors import TraceError, UsageError
from dispatch_audit.pipeline.run.request import AuditRequest
from dispatch_audit.pipeline.settings import load_settings
from dispatch_audit.pipeline.tables.target import parse_target
from dispatch_audit.pipeline.windows.window import WHOLE, Window

pytestmark = pytest.mark.spark

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


def _audited(spark: SparkSession, folder: Path, target: Path, window: Window = WHOLE) -> dict[str, list[Any]]:
    settings = load_settings()
    settings = settings.model_copy(update={"trace": settings.trace.model_copy(update={"quarantine_ratio_max": 0.5})})
    request = AuditRequest((str(folder),), str(target), None, settings, window)
    (run_key,) = audit(spark, request, lambda stage: None).run_keys
    place = parse_target(str(target))
    tables = ("violations", "consumers", "quarantine", "coverage")
    return {t: [row for row in place.read(spark, t).collect() if row["run_key"] == run_key] for t in tables}


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_each_violation_is_found_once_and_named_by_its_recorder(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    before, behind = _owner("a", 10 * _S, 0, kind), _owner("b", 20 * _S, 1, kind)
    # Of the second recorder only, and of a seq that the first has too.
    stranger = {**behind[3], "seq": 7, "consumer": 9, "ts_us": 21 * _S}
    before.append({**before[3], "seq": 7, "ts_us": 11 * _S})
    found = _audited(spark, _written(tmp_path / "trace", kind, [*behind, stranger], before), tmp_path / "out")
    told = sorted((row["broker"], row["seq"], row["consumer"], row["entry_id"]) for row in found["violations"])
    assert told == [("a", 5, 1, 0), ("b", 5, 1, 1)]
    assert {row["key"] for row in found["violations"]} == {"key-2"}
    consumers = sorted((row["broker"], row["consumer"], row["consumer_name"]) for row in found["consumers"])
    assert consumers == [("a", 1, "c of a"), ("b", 1, "c of b")]
    ((reason, raw, detail),) = [(row["reason"], row["raw"], row["detail"]) for row in found["quarantine"]]
    assert (reason, detail) == ("unknown_consumer", "consumer 9 of b has no join before this row")
    assert json.loads(raw)["broker"] == "b"
    assert [row["rows"] for row in found["coverage"]] == [len(before) + len(behind) + 1]


def test_windows_and_two_owners_at_one_time_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    moved = _written(tmp_path / "moved", "jsonl", _owner("a", 10 * _S, 0, "jsonl"), _owner("b", 20 * _S, 1, "jsonl"))
    with pytest.raises(
        UsageError, match="the recorders a, b, but a window needs the seqs of one recorder; audit the whole log"
    ):
        _audited(spark, moved, tmp_path / "out", Window(None, 15 * _S))
    both = _written(tmp_path / "both", "jsonl", _owner("a", 10 * _S, 0, "jsonl"), _owner("b", 10 * _S, 1, "jsonl"))
    with pytest.raises(TraceError, match="t: the recorders a and b both wrote as its owner between"):
        _audited(spark, both, tmp_path / "out")
