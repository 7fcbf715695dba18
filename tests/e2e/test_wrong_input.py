"""What is wrong with arguments, `trace.json` and rows, as the command says it."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from conftest import RunCli
from embedded_commands import EmbeddedCommands

from dispatch_audit.pipeline.trace.reasons import STATEFUL

ROOT = Path(__file__).resolve().parents[2]
WORKLOAD = ROOT / "conf" / "workloads" / "pip-474.toml"
MANIFEST = {"trace_format": 1, "pulsar_version": "4.0.8", "complete_from_start": True}
SMALL = """
[topic]
duration_s = 0.1
drain_s = 1
[keys]
per_partition = 1
[publish]
rate_per_s = 10
[[clients]]
count = 1
processing_ms = 1
"""
# 2025-11-24, in microseconds.
NOW_US = 1_764_000_000_000_000

pytestmark = pytest.mark.e2e


def row(event: str, seq: int, **columns: object) -> dict[str, Any]:
    return {"event": event, "seq": seq, "ts_us": NOW_US + seq * 1000, "topic": "t", "subscription": "s", **columns}


def join(seq: int, consumer: int = 1, **columns: object) -> dict[str, Any]:
    return row("join", seq, consumer=consumer, consumer_name=f"c{consumer}", **columns)


def publish(seq: int, entry: int, **columns: object) -> dict[str, Any]:
    at = {"ledger_id": 7, "entry_id": entry, "batch_size": 1, "key_b64": "b3JkZXItNDI="}
    return {**row("publish", seq), "subscription": None, **at, **columns}


def dispatch(seq: int, entry: int, consumer: int = 1, **columns: object) -> dict[str, Any]:
    at = {"ledger_id": 7, "entry_id": entry, "batch_size": 1, "key_b64": "b3JkZXItNDI="}
    return row("dispatch", seq, consumer=consumer, **at, **columns)


GOOD = [join(1), publish(2, 0), dispatch(3, 0)]


def trace(folder: Path, rows: Sequence[Mapping[str, Any] | str], manifest: Mapping[str, Any] = MANIFEST) -> Path:
    (folder / "mine").mkdir()
    (folder / "mine" / "trace.json").write_text(json.dumps(manifest))
    lines = [line if isinstance(line, str) else json.dumps(line) for line in rows]
    (folder / "mine" / "events.jsonl").write_text("\n".join(lines) + "\n")
    return folder / "mine"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["simulate", WORKLOAD, "--out", "new", "--set", "keySharedHotkeyTopN=5"],
            "there is no setting keySharedHotkeyTopN; did you mean keySharedHotKeyTopN?",
        ),
        (
            ["simulate", WORKLOAD, "--out", "new", "--set", "delayedDeliveryEnabled=3"],
            "setting delayedDeliveryEnabled is 3; give true or false",
        ),
        (
            ["simulate", WORKLOAD, "--out", "new", "--version", "4.0.x"],
            "--version 4.0.x is no version of Pulsar; did you mean 4.0.9 or 4.0.8?",
        ),
        (
            ["what-if", WORKLOAD, "--search", "maxUnackedMessagePerConsumer"],
            "--search maxUnackedMessagePerConsumer: no limit has this name; did you mean maxUnackedMessagesPerConsumer",
        ),
    ],
)
def test_a_misspelt_argument_ends_with_the_nearest_names(
    run_cli: RunCli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[object], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = run_cli(*arguments)

    assert (code, out) == (2, "")
    assert err.startswith(f"dispatch-audit: error: {message}")
    assert not (tmp_path / "new").exists()


def test_a_setting_of_a_workload_is_checked_as_one_of_the_command_line(run_cli: RunCli, tmp_path: Path) -> None:
    workload = tmp_path / "mine.toml"
    workload.write_text(f"{SMALL}[broker.settings]\nkeyShardUnblockingIntervalMs = 5\n")
    code, _, err = run_cli("what-if", workload)

    assert code == 2
    assert "mine.toml: broker.settings: there is no setting keyShardUnblockingIntervalMs; did you mean" in err


def test_what_a_simulation_does_not_use_is_named(run_embedded: EmbeddedCommands, tmp_path: Path) -> None:
    small = tmp_path / "small.toml"
    small.write_text(SMALL)
    options = ["--set", "lookAheadPerHash=5", "--version", "40.8"]
    done = run_embedded("simulate", small, "--out", tmp_path / "new", *options)

    assert done.returncode == 0
    assert "setting lookAheadPerHash changes nothing in a simulation of policy draining" in done.stderr
    assert "no profile was read for Pulsar 40.8" in done.stderr
    assert "did you mean 4.0.8" in done.stderr


@pytest.mark.parametrize(
    ("changes", "code", "message"),
    [
        ({"complete_from_strt": True}, 0, "field complete_from_strt is unknown and was not used; did you mean compl"),
        ({"cluster": "a"}, 0, "trace.json: field cluster is unknown and was not used\n"),
        (
            {"settings": {"maxUnackedMessagePerConsumer": 5}},
            0,
            "setting maxUnackedMessagePerConsumer is unknown and was not used; did you mean maxUnackedMessagesPerC",
        ),
        (
            {"complete_from_start": "yes"},
            3,
            'trace.json: complete_from_start is "yes", neither true nor false; corr',
        ),
        (
            {"settings": {"maxUnackedMessagesPerConsumer": "5"}},
            3,
            'trace.json: settings.maxUnackedMessagesPerConsumer is "5", not a number; correct trace.json',
        ),
        ({"trace_format": 2}, 3, "trace.json: trace_format is 2, but this version of dispatch-audit reads format 1"),
        ({"pulsar_version": "4.0.8x"}, 2, "pulsar_version '4.0.8x' is no version number; correct trace.json"),
    ],
)
def test_what_is_wrong_in_trace_json_is_said(
    run_embedded: EmbeddedCommands, tmp_path: Path, changes: Mapping[str, Any], code: int, message: str
) -> None:
    done = run_embedded("validate", trace(tmp_path, GOOD, {**MANIFEST, **changes}), "--no-replay")

    assert done.returncode == code
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("unit", "factor"), [("seconds", 1_000_000), ("milliseconds", 1000), ("nanoseconds", 1 / 1000)]
)
@pytest.mark.parametrize("command", ["validate", "audit"])
def test_times_in_another_unit_make_a_trace_unusable(
    run_embedded: EmbeddedCommands, tmp_path: Path, unit: str, factor: float, command: str
) -> None:
    mine = trace(tmp_path, [{**line, "ts_us": int(line["ts_us"] / factor)} for line in GOOD])
    out = ["--out", tmp_path / "tables"] if command == "audit" else []
    done = run_embedded(command, mine, *out)

    assert done.returncode == 3
    assert f"looks like {unit}" in done.stderr
    assert "microseconds" in done.stderr


# A trace by hand begins at 0 or so, and may last longer than the number of seconds since 1970.
@pytest.mark.parametrize("last_us", [1_300_000, 2_000_000_000, 2_000_000_000_000])
def test_times_of_a_trace_by_hand_are_taken(run_embedded: EmbeddedCommands, tmp_path: Path, last_us: int) -> None:
    times = [1_000_000, 1_100_000, last_us]
    mine = trace(tmp_path, [{**line, "ts_us": time} for line, time in zip(GOOD, times, strict=True)])
    done = run_embedded("validate", mine, "--no-replay")

    assert (done.returncode, done.stderr) == (0, "")


STRANGERS = [
    # Two rows of one seq, one of them of two subscriptions; a row twice; a consumer of another topic; a second join.
    (dispatch(5, 1), ""),
    (dispatch(5, 1, ts_us=NOW_US + 9000), "duplicate_seq"),
    (publish(6, 2), ""),
    (publish(6, 2), "repeated_row"),
    (dispatch(7, 0, topic="other"), "unknown_consumer"),
    (row("ack", 8, consumer=9, ack_type="individual", positions=[{"ledger_id": 7, "entry_id": 0}]), "unknown_consumer"),
    (join(9), "impossible_transition"),
    (publish(10, 3), ""),
    (publish(10, 4), "duplicate_seq"),
]


def test_every_reason_of_the_replay_has_a_row_here() -> None:
    assert {reason for _, reason in STRANGERS if reason} == set(STATEFUL)


def test_validate_finds_what_the_replay_refuses_with_file_and_line(
    run_embedded: EmbeddedCommands, tmp_path: Path
) -> None:
    rows = [*GOOD, publish(4, 1), join(11, 2, subscription="other"), *(line for line, _ in STRANGERS)]
    expected = [(number, reason) for number, (_, reason) in enumerate(STRANGERS, 6) if reason]
    mine = trace(tmp_path, rows)
    settings = tmp_path / "mine.toml"
    settings.write_text("[trace]\nquarantine_ratio_max = 0.9\n")
    options = ["--config", settings, "--format", "json"]

    done = run_embedded("validate", mine, "--show-rows", 20, *options)
    assert (done.returncode, done.stderr) == (0, "")
    (found,) = json.loads(done.stdout)["traces"]
    assert [(shown["line"], shown["reason"]) for shown in found["rows"]] == expected
    assert {shown["file"] for shown in found["rows"]} == {str(mine / "events.jsonl")}
    assert [json.loads(shown["raw"]) for shown in found["rows"]] == [rows[line - 1] for line, _ in expected]

    audited = run_embedded("audit", mine, "--out", tmp_path / "tables", "--fail-on", "never", *options)
    (report,) = json.loads(audited.stdout)["traces"]
    assert found["quarantined_by_reason"] == report["quarantined_by_reason"]
    assert found["quarantined"] == report["quarantined"] == len(expected)


@pytest.mark.parametrize("command", ["validate", "audit"])
def test_the_first_row_of_too_many_that_the_replay_refuses_is_named(
    run_embedded: EmbeddedCommands, tmp_path: Path, command: str
) -> None:
    mine = trace(tmp_path, [*GOOD, dispatch(3, 0, ts_us=NOW_US + 9000)])
    out = ["--out", tmp_path / "tables"] if command == "audit" else []
    done = run_embedded(command, mine, *out)

    assert done.returncode == 3
    assert (
        "the replay refuses 1 of 4 rows, which do not fit the rows before them, more than the allowed share of 0.1; "
        "the first is duplicate_seq (another row with the same seq has different content) in "
        f"{mine}/events.jsonl, line 4"
    ) in done.stderr


def test_a_validation_without_a_replay_compares_no_rows(run_embedded: EmbeddedCommands, tmp_path: Path) -> None:
    mine = trace(tmp_path, [*GOOD, dispatch(3, 0, ts_us=NOW_US + 9000)])
    done = run_embedded("validate", mine, "--no-replay")

    assert done.returncode == 0
    assert "Read    4 events, 0 would be quarantined (0 %)\n" in done.stdout


def test_broken_rows_are_shown_with_what_is_wrong(run_embedded: EmbeddedCommands, tmp_path: Path) -> None:
    mine = trace(tmp_path, [*GOOD, '{"event": "ack",', {**GOOD[0], "seq": "4"}])
    done = run_embedded("validate", mine, "--show-rows", 1)

    assert done.returncode == 3
    assert (
        "        broken_json: 1, first in events.jsonl, line 4: expecting property name enclosed in double quotes at "
        "character 17\n"
        '        wrong_type: 1, first in events.jsonl, line 5: seq = "4", not a whole number of 64 bits\n'
    ) in done.stdout
    assert done.stdout.endswith(
        "events.jsonl, line 4: broken_json (expecting property name enclosed in double quotes at character 17)\n"
        '        {"event": "ack",\n'
    )
    assert "the first is broken_json (expecting property name" in done.stderr


def test_a_subscription_with_too_many_open_entries_is_named(run_embedded: EmbeddedCommands, tmp_path: Path) -> None:
    settings = tmp_path / "mine.toml"
    settings.write_text("[limits]\nopen_entries_max = 1\n[spark]\nchunk_rows = 1000\n")
    mine = trace(tmp_path, [join(1), *(publish(2 + entry, entry) for entry in range(20_000))])
    done = run_embedded("validate", mine, "--config", settings)

    assert done.returncode == 3
    assert "t, subscription s: " in done.stderr
    assert "entries of one subscription are open at the same time; the limit is 1; raise" in done.stderr


def test_a_trace_to_start_from_audits_cleanly_as_its_readme_says(
    run_cli: RunCli, run_embedded: EmbeddedCommands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, _, err = run_cli("init", "mine")
    assert (code, err) == (0, "")
    readme = (tmp_path / "mine" / "README.md").read_text()
    commands = [line.split()[1:] for line in readme.splitlines() if line.startswith("    dispatch-audit ")]
    assert [command[0] for command in commands] == ["validate", "audit"]

    monkeypatch.chdir(tmp_path / "mine")
    validated, audited = (run_embedded(*command) for command in commands)
    assert (validated.returncode, validated.stderr) == (0, "")
    assert "Read    11 events, 0 would be quarantined (0 %)\n" in validated.stdout
    assert (audited.returncode, audited.stderr) == (0, "")
    assert audited.stdout.rsplit("\n", 3)[1].startswith("ORDER     KEPT ")
    assert "PROGRESS  FLOWING" in audited.stdout
    assert "0 quarantined; completeness 100 %" in audited.stdout
    explained = run_embedded("explain", "../tables", "--key", "order-42")
    assert explained.stdout.count("owner c1 (1); pending: c1 (1) 1") == 2


def test_a_trace_to_start_from_replaces_nothing(run_cli: RunCli, tmp_path: Path) -> None:
    mine = trace(tmp_path, GOOD)
    before = {path: path.read_bytes() for path in mine.iterdir()}
    code, _, err = run_cli("init", mine)

    assert (code, err) == (2, f"dispatch-audit: error: {mine} is not empty; name a new folder\n")
    assert {path: path.read_bytes() for path in mine.iterdir()} == before


@pytest.mark.parametrize(
    ("name", "way_out"),
    [
        ("events.csv", "write each of its rows as one JSON object a line, as docs/TRACE_FORMAT.md describes\n"),
        ("events.ndjson", "rename it if each line is one JSON object\n"),
    ],
)
def test_another_kind_of_file_is_told_what_to_become(
    run_embedded: EmbeddedCommands, tmp_path: Path, name: str, way_out: str
) -> None:
    mine = trace(tmp_path, GOOD)
    (mine / name).write_text("event,seq\n")
    done = run_embedded("validate", mine)

    assert done.returncode == 3
    said = f"{mine}/{name} is not a log; logs end in .jsonl, .jsonl.gz, .jsonl.zst or .parquet; {way_out}"
    assert done.stderr == f"dispatch-audit: error: {said}"


def test_a_moment_outside_of_a_trace_is_refused(run_embedded: EmbeddedCommands, tmp_path: Path) -> None:
    mine = trace(tmp_path, GOOD)
    audited = run_embedded("audit", mine, "--out", tmp_path / "tables")
    assert audited.returncode == 0
    for moment, question in (("2020-01-01", []), ("2030-01-01", []), ("2030-01-01", ["--key", "order-42"])):
        done = run_embedded("explain", tmp_path / "tables", "--at", moment, *question)
        assert (done.returncode, done.stdout) == (2, "")
        assert f"--at {moment} 00:00:00.000000 is not within run " in done.stderr
        assert "2025-11-24 16:00:00.001000 to 2025-11-24 16:00:00.003000 UTC; name a moment between" in done.stderr
    within = run_embedded("explain", tmp_path / "tables", "--at", "2025-11-24T16:00:00.002")
    assert within.returncode == 0
    assert "Consumers: 1" in within.stdout or "c1" in within.stdout
