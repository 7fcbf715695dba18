"""Recordings of this project's own recorder, in `tests/data/recorder`: README.md there says what happened in which."""

import gzip
import json
from pathlib import Path
from typing import Any, Final

import pytest
from embedded_commands import EmbeddedCommands

DATA: Final = Path(__file__).resolve().parents[1] / "data" / "recorder"
LAST_US: Final = 1_795_859_484_079_291
"""The time of the last row of the deadlock."""

pytestmark = [pytest.mark.e2e, pytest.mark.heavy]


def audited(run: EmbeddedCommands, out: Path, *traces: Path) -> tuple[dict[str, Any], str]:
    """The report on traces as JSON, and as text."""
    as_json, as_text = out / "report.json", out / "report.txt"
    reports = ["--report", f"json={as_json}", "--report", f"text={as_text}"]
    done = run("audit", *traces, "--out", out / "tables", "--fail-on", "never", *reports)
    assert done.returncode == 0, done.stderr
    report: dict[str, Any] = json.loads(as_json.read_text())
    return report, as_text.read_text()


def test_the_starts_of_one_broker_are_one_trace(run_embedded: EmbeddedCommands, tmp_path: Path) -> None:
    report, text = audited(run_embedded, tmp_path, DATA / "broker-restart-4.2.4")
    (trace,) = report["traces"]
    assert (trace["order"], trace["progress"]) == ("kept", "flowing")
    assert report["rules"]["acknowledged_before_reset"]["info"] > 0
    assert "Read    26,407 events" in text


def test_a_late_acknowledgement_while_a_read_is_in_flight_is_no_duplicate(
    run_embedded: EmbeddedCommands, tmp_path: Path
) -> None:
    second = DATA / "broker-restart-4.2.4" / "127.0.0.1-20261128T095206.520Z"
    report, _ = audited(run_embedded, tmp_path, second)
    assert (report["order"], report["progress"]) == ("kept", "flowing")


def test_a_log_that_a_deadlock_cut_off_is_not_called_flowing(run_embedded: EmbeddedCommands, tmp_path: Path) -> None:
    report, text = audited(run_embedded, tmp_path, DATA / "tx-deadlock-4.2.4")
    assert (report["order"], report["progress"]) == ("kept", "not_provable")
    assert "the log ends at 2026-11-28 09:51:24.079291" in text
    assert "known bug pending_ack_deadlock" in text


def gone_on(folder: Path) -> Path:
    """The recording of the deadlock, as a recorder that writes heartbeats would have gone on for twenty seconds."""
    (folder / "events").mkdir(parents=True)
    recorded = DATA / "tx-deadlock-4.2.4"
    (folder / "trace.json").write_bytes((recorded / "trace.json").read_bytes())
    lines = gzip.decompress((recorded / "events" / "000001.jsonl.gz").read_bytes()).splitlines()
    rows = [json.loads(line) for line in lines]
    of = {name: rows[-1][name] for name in ("broker", "topic", "subscription")}
    seq = max(row["seq"] for row in rows)
    for number in range(1, 11):
        at = {"seq": seq + 2 * number, "ts_us": LAST_US + 2_000_000 * number}
        rows.append({"event": "heartbeat", "broker": of["broker"], **at})
    dispatcher = "org.apache.pulsar.broker.service.persistent.PersistentStickyKeyDispatcherMultipleConsumers"
    pending = "org.apache.pulsar.broker.transaction.pendingack.impl.PendingAckHandleImpl"
    waits = f"a lock of {dispatcher}, held by thread a, which waits for a lock of {pending}, held by thread b"
    hang = {"seq_begin": seq, "begun_us": LAST_US + 500_000, "waits_for": waits}
    at = {"seq": seq + 7, "ts_us": LAST_US + 6_000_001}
    rows.append({"event": "hang", "phase": "start", **of, **at, **hang})
    with gzip.open(folder / "events" / "000001.jsonl.gz", "wt", compresslevel=1) as log:
        log.writelines(f"{json.dumps(row)}\n" for row in rows)
    return folder


def test_a_recorder_that_goes_on_shows_the_deadlock(run_embedded: EmbeddedCommands, tmp_path: Path) -> None:
    report, text = audited(run_embedded, tmp_path, gone_on(tmp_path / "trace"))
    assert (report["order"], report["progress"]) == ("kept", "stalled")
    assert report["rules"]["stalled"]["known_bug"] == 1
    assert "no entry was sent to any consumer for 20.265 s from 2026-11-28 09:51:23.814670 on" in text
    assert "the broker hung: a snapshot that began at 2026-11-28 09:51:24.579291 got no locks" in text


def test_batches_that_mix_keys_prove_no_order_of_messages(run_embedded: EmbeddedCommands, tmp_path: Path) -> None:
    report, text = audited(run_embedded, tmp_path, DATA / "python-client-4.2.4")
    assert (report["order"], report["progress"]) == ("kept", "flowing")
    assert "batches may mix keys, so of messages order is not provable" in text
