"""What an audit says of a trace that was recorded outside of the broker, and what it refuses to do with one."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from embedded_commands import EmbeddedCommands

Run = Callable[..., tuple[int, str, str]]
WriteTrace = Callable[..., Path]
MANIFEST = {"trace_format": 1, "pulsar_version": "4.2.4", "recorded_by": "client", "complete_from_start": False}
OF_CONSUMER = {"topic": "t", "subscription": "s", "consumer": 1}
ENTRY = {"ledger_id": 1, "batch_size": 1, "key_b64": "YQ=="}

pytestmark = pytest.mark.e2e


def received(seq: int, entry: int) -> dict[str, Any]:
    return {"event": "dispatch", "phase": "end", "seq": seq, "ts_us": seq, **OF_CONSUMER, **ENTRY, "entry_id": entry}


@pytest.fixture
def run(run_embedded: EmbeddedCommands) -> Run:
    """Runs a command; returns its exit code, stdout and stderr."""

    def command(*arguments: object) -> tuple[int, str, str]:
        done = run_embedded(*arguments, "--quiet")
        return done.returncode, done.stdout, done.stderr

    return command


def refused(run: Run, command: str, *arguments: object) -> tuple[int, str]:
    code, _, err = run(command, *arguments)
    assert err.count("\n") == 1
    return code, err


def test_what_such_a_trace_cannot_do_is_refused_in_one_line(run: Run, write_trace: WriteTrace, tmp_path: Path) -> None:
    rows, tables = [received(1, 2), received(2, 1)], tmp_path / "tables"
    trace = write_trace(rows, manifest=MANIFEST)
    code, message = refused(run, "audit", trace, "--out", tables, "--to", "1")
    assert code == 2
    assert "was recorded by client, and such traces have no windows; leave --from, --to and --reaudit out" in message
    write_trace([row | {"broker": f"client-{row['seq']}"} for row in rows], manifest=MANIFEST)
    code, message = refused(run, "audit", trace, "--out", tables)
    assert (code, "has rows of 2 recorders outside of the broker, client-1 and others" in message) == (3, True)


def test_a_finding_is_shown_and_not_proven(run: Run, write_trace: WriteTrace, tmp_path: Path) -> None:
    tables = tmp_path / "tables"
    trace = write_trace([received(1, 2), received(2, 1)], manifest=MANIFEST)
    code, out, _ = run("audit", trace, "--out", tables, "--format", "json", "--fail-on", "violation")
    (audited,) = json.loads(out)["traces"]
    assert (code, audited["verdict"], audited["recorded_by"]) == (0, "not_provable", "client")
    (finding,) = DeltaTable(tables / "violations").to_pyarrow_table().to_pylist()
    assert (finding["rule"], finding["severity"], finding["key"]) == ("first_delivery_order", "not_provable", "a")
    code, message = refused(run, "explain", tables, "--violation", finding["finding_id"])
    assert code == 2
    assert "its trace was recorded by client; read the rows that the evidence of a finding names" in message


@pytest.mark.parametrize("recorded_by", ["admin_api", "client", "broker"])
def test_nothing_but_a_broker_makes_a_trace_clean(
    recorded_by: str, run: Run, write_trace: WriteTrace, tmp_path: Path
) -> None:
    at = {"topic": "t", "seq": 2, "ts_us": 2, "entry_id": 0}
    rows = [
        {"event": "join", "seq": 1, "ts_us": 1, **OF_CONSUMER, "consumer_name": "c"},
        {"event": "publish", **at, **ENTRY},
        received(3, 0),
    ]
    manifest: Mapping[str, Any] = {**MANIFEST, "recorded_by": recorded_by, "complete_from_start": True}
    code, out, _ = run("audit", write_trace(rows, manifest=manifest), "--out", tmp_path / "tables")
    assert code == 0
    assert f"\nORDER     {'KEPT' if recorded_by == 'broker' else 'NOT PROVABLE'}  " in out
    assert ("Source  recorded " in out) == (recorded_by != "broker")


def test_another_place_of_recording_is_refused(run: Run, write_trace: WriteTrace, tmp_path: Path) -> None:
    trace = write_trace([received(1, 0)], manifest={**MANIFEST, "recorded_by": "proxy"})
    code, message = refused(run, "audit", trace, "--out", tmp_path / "tables")
    assert (code, "trace.json: recorded_by is \"proxy\", not 'broker', 'client' or 'admin_api'" in message) == (3, True)
