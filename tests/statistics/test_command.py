"""The command `diagnose`: its exit codes, its outputs, and that bad input is one line."""

import gzip
import io
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from deltalake import DeltaTable
from dumps import consumer, stats
from outline import Outline

from dispatch_audit.pipeline.statistics.reading import text as reading
from dispatch_audit.pipeline.tables.schemas import DIAGNOSES

RunCli = Callable[..., tuple[int, str, str]]

ROOT = Path(__file__).resolve().parents[2]
REPORTS = ROOT / "data" / "statistics"
STATES = ROOT / "tests" / "data" / "statistics"
MAYBE = stats(consumer("c1", availablePermits=0, connectedSince="2025-06-15T15:06:00Z"), msgBacklog=60)


def test_the_program_answers_what_stands_on_standard_input() -> None:
    (pasted,) = (REPORTS / "24418-negative-permits").glob("stats-2*.json")
    done = subprocess.run(
        [sys.executable, "-m", "dispatch_audit.jobs.cli", "diagnose", "-"],
        input=pasted.read_text(),
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env={"PYTHONPATH": str(ROOT), "JAVA_HOME": "/nonexistent", "PATH": ""},
    )

    # Nothing says when it was taken, so it proves nothing; who and what stay.
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(
        "NOT DECIDABLE  the dumps are compatible with this (c1, c2): A consumer holds nothing"
    )
    assert "c1 has -420, c2 has -17" in done.stdout
    assert " UTC (when it was read)" in done.stdout
    assert "cannot prove that the order of a key was broken" in done.stdout
    assert done.stderr == ""


def test_standard_input_needs_no_name(run_cli: RunCli, monkeypatch: pytest.MonkeyPatch) -> None:
    (pasted,) = (REPORTS / "24418-negative-permits").glob("stats-2*.json")
    for arguments in ((), ("-",)):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(pasted.read_bytes())))
        assert "c1 has -420" in run_cli("diagnose", *arguments)[1]


def test_a_terminal_is_told_what_to_pipe(run_cli: RunCli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    code, _, err = run_cli("diagnose")

    assert code == 2
    assert "pulsar-admin topics stats TOPIC | dispatch-audit diagnose" in err


def test_a_topic_is_no_file(run_cli: RunCli) -> None:
    code, _, err = run_cli("diagnose", "persistent://public/default/orders")

    assert code == 2
    assert "pulsar-admin topics stats persistent://public/default/orders > stats.json" in err


@pytest.mark.parametrize(("fail_on", "code"), [([], 0), (["--fail-on", "compatible"], 1), (["--fail-on", "never"], 0)])
def test_what_is_only_compatible_fails_if_asked_for(
    run_cli: RunCli, tmp_path: Path, fail_on: list[str], code: int
) -> None:
    (tmp_path / "stats.json").write_text(json.dumps(MAYBE))
    assert run_cli("diagnose", tmp_path / "stats.json", *fail_on)[0] == code


def test_a_healthy_broker_passes(run_cli: RunCli) -> None:
    code, out, _ = run_cli("diagnose", *sorted((STATES / "healthy-load-4.2.4").glob("stats*.json")))

    assert code == 0
    assert out.startswith("FLOWING  messages are sent")


@pytest.mark.parametrize(
    ("content", "code", "message"),
    [
        (
            b"<html><body>Bad gateway</body></html>",
            3,
            "stats.json is an HTML page, such as a proxy or a login answers ",
        ),
        (b'{"a": 1}', 3, "stats.json holds 1 JSON object without statistics of topics; pass what `pulsar-admin "),
        (b"\0\1\2\3", 3, "stats.json is no text; pass what"),
        (b'{"subscriptions": {}}', 3, "the statistics have no subscription; pass what `pulsar-admin "),
    ],
)
def test_bad_input_is_one_line(run_cli: RunCli, tmp_path: Path, content: bytes, code: int, message: str) -> None:
    (tmp_path / "stats.json").write_bytes(content)
    found, out, err = run_cli("diagnose", tmp_path / "stats.json")

    assert (found, out) == (code, "")
    assert message in err
    assert err.count("\n") == 1


def test_an_input_beyond_the_limit_is_refused(run_cli: RunCli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dispatch_audit.pipeline.statistics.files.BYTES_MAX", 100)
    with gzip.open(tmp_path / "stats.json", "wt") as file:
        json.dump(MAYBE, file)
    code, _, err = run_cli("diagnose", tmp_path / "stats.json")

    assert code == 3
    assert f"is larger than {reading.BYTES_MAX >> 20} MB" in err


def test_files_that_are_not_there_and_releases_that_are_none_are_usage_errors(run_cli: RunCli) -> None:
    (report,) = (REPORTS / "24418-negative-permits").glob("stats-2*.json")

    assert run_cli("diagnose", "no.json")[::2][0] == 2
    code, _, err = run_cli("diagnose", report, "--version", "four")
    assert code == 2
    assert "'four' is no version number" in err


def test_json_and_page_and_table_say_the_same(run_cli: RunCli, tmp_path: Path) -> None:
    reports = ("--report", f"html={tmp_path / 'page.html'}", "--report", f"text={tmp_path / 'text.txt'}")
    folder, table = REPORTS / "23429-draining", tmp_path / "tables"
    code, out, _ = run_cli("diagnose", folder, "--format", "json", *reports, "--out", table)
    # Again, which must not double the rows.
    run_cli("diagnose", folder, "--out", table)
    (diagnosis,) = json.loads(out)["diagnoses"]
    (row,) = DeltaTable(str(table / DIAGNOSES.name)).to_pyarrow_table().to_pylist()
    page = Outline((tmp_path / "page.html").read_text())

    assert code == 1
    assert diagnosis["reasons"][0]["consumers"] == row["consumers"] == ["c1"]
    assert diagnosis["answer"] == row["answer"] == "held_up"
    assert diagnosis["headline"] == row["headline"]
    assert diagnosis["headline"] in (tmp_path / "text.txt").read_text()
    assert diagnosis["headline"] in page.text


def test_a_recording_of_polls_is_diagnosed_with_its_release(run_cli: RunCli, tmp_path: Path) -> None:
    def row(ts_us: int, sent: int) -> str:
        hung = {"consumer": 1, "consumer_name": "hung", "available_permits": 0, "unacked_messages": 30}
        free = {"consumer": 2, "consumer_name": "free", "available_permits": 9, "unacked_messages": 0}
        consumers = [{**hung, "msg_out_counter": 100}, {**free, "msg_out_counter": sent}]
        snapshot = {"msg_in_replay": 30, "msg_backlog": 60, "unacked_messages": 30, "consumers": consumers}
        return json.dumps(
            {"event": "stats", "seq": ts_us, "ts_us": ts_us, "topic": "t", "subscription": "ks", "snapshot": snapshot}
        )

    (tmp_path / "trace.json").write_text('{"trace_format": 1, "pulsar_version": "4.0.5"}')
    rows = [row(1750000000000000, 1), row(1750000070000000, 8)]
    (tmp_path / "stats-00001.jsonl.gz").write_bytes(gzip.compress("\n".join(rows).encode()))
    code, out, _ = run_cli("diagnose", tmp_path, "--format", "json")
    (diagnosis,) = json.loads(out)["diagnoses"]

    assert code == 1
    assert (diagnosis["pulsar_version"], diagnosis["dumps"], diagnosis["taken_by"]) == ("4.0.5", 2, "content")
    assert diagnosis["reasons"][0]["name"] == "hangs"
    assert diagnosis["facts"]["look_ahead_limit"] == 4000
    assert diagnosis["facts"]["sent_between_dumps"] == 7


def test_names_of_clients_do_not_control_the_terminal(run_cli: RunCli, tmp_path: Path) -> None:
    hostile = consumer("c1\x1b[31m<b>\n", availablePermits=-420)
    (tmp_path / "stats.json").write_text(json.dumps(stats(hostile, msgBacklog=60)))
    _, out, _ = run_cli("diagnose", tmp_path / "stats.json", "--report", f"html={tmp_path / 'page.html'}")

    assert "\x1b" not in out
    assert "<b>" not in (tmp_path / "page.html").read_text()


def test_a_recording_is_judged_by_ranges_and_positions_of_its_snapshots(run_cli: RunCli, tmp_path: Path) -> None:
    low = {"consumer": 1, "consumer_name": "low", "available_permits": 9, "unacked_messages": 0}

    def row(number: int, *consumers: dict[str, object], **more: object) -> str:
        snapshot = {
            "msg_in_replay": 30,
            "msg_backlog": 60,
            "unacked_messages": 0,
            "key_shared_mode": "STICKY",
            "read_position": "3:40",
            "last_confirmed_entry": "3:69",
            "consumers": consumers,
            **more,
        }
        place = {"topic": "t", "subscription": "ks"}
        return json.dumps({"event": "stats", "ts_us": number * 1_000_000, **place, "snapshot": snapshot})

    # The second snapshot leaves out the ranges, because they are those of the first, and the third the whole consumer.
    first = row(1750000000, {**low, "msg_out_counter": 1, "key_hash_ranges": [[0, 20000]]})
    rows = [
        first,
        row(1750000010, {**low, "msg_out_counter": 2}),
        row(1750000020, consumers_as_before=[{"consumer": 1}]),
    ]
    (tmp_path / "trace.json").write_text('{"trace_format": 1}')
    (tmp_path / "stats-00001.jsonl").write_text("\n".join(rows))
    (diagnosis,) = json.loads(run_cli("diagnose", tmp_path, "--format", "json")[1])["diagnoses"]

    assert diagnosis["reasons"][0]["name"] == "hash_gap"
    assert "20001 to 65535" in diagnosis["reasons"][0]["shown"]
    assert diagnosis["facts"]["unread"] == 30
