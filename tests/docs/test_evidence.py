"""docs/EVIDENCE.md: what each way of getting evidence answers, held against what audits and diagnoses of it say."""

import gzip
import json
import re
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest
from cookbook_queries import queries
from local_replay import recorded_logs, recorded_tables, tables_of_logs
from test_questions import ANSWERED, BY_COMMAND, NAMED, NUMBERS
from typer.testing import CliRunner

from dispatch_audit.jobs.cli import app
from dispatch_audit.pipeline.contract.rules import RULES

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "EVIDENCE.md").read_text()
DUMPS = ROOT / "data" / "statistics"
POLLS = ROOT / "tests" / "data" / "statistics"
WAYS = ("dump", "polls", "clients", "recorder")
CELLS: dict[int, dict[str, str]] = {
    int(number): dict(zip(WAYS, (cell.strip() for cell in cells.split("|")), strict=True))
    for number, cells in re.findall(r"^\| Q(\d+) \|[^|]*\|(.*)\|$", PAGE, re.MULTILINE)
}
WORDS = ("yes", "part", "by hand", "no")

Tables = Mapping[str, list[dict[str, Any]]]


def word(number: int, way: str) -> str:
    """The first word of a cell."""
    return CELLS[number][way].partition(":")[0]


def numbered(way: str, *words: str) -> list[int]:
    return [number for number in CELLS if word(number, way) in words]


def test_each_question_has_a_word_for_each_way() -> None:
    assert list(CELLS) == NUMBERS
    assert {word(number, way) for number in CELLS for way in WAYS} == set(WORDS)
    said = [cell for cells in CELLS.values() for cell in cells.values()]
    # A part is named, and so is the field that answers by hand.
    assert all((":" in cell) == cell.startswith(("part", "by hand")) for cell in said)


# What is recorded in the broker.

RECORDINGS: Final = ("heavy-churn-1-3.0.7", "hung-consumer-4.0.8", "join-leave-autosplit-4.0.8", "seek-4.0.8")


def is_answered(number: int, tables: Tables) -> bool:
    """Whether the tables have what docs/QUESTIONS.md names: a value of a column, a row, or a rule that was checked."""
    for name in NAMED.findall(ANSWERED[number][1]):
        table, _, column = name.partition(".")
        if name in RULES:
            if any(row["rule"] == name and row["checked"] for row in tables.get("metrics", ())):
                return True
        elif any(not column or row[column] is not None for row in tables.get(table, ())):
            return True
    return False


# `runs` and `quarantine` are written for a whole run, and it takes two runs to compare them.
OF_RUNS: Final = (27, 28)


@pytest.mark.recordings
@pytest.mark.parametrize("number", [n for n in ANSWERED if n not in OF_RUNS])
def test_the_recorder_answers_from_recordings_of_brokers(number: int) -> None:
    assert word(number, "recorder") in ("yes", "part")
    assert any(is_answered(number, recorded_tables(name)) for name in RECORDINGS)


def test_the_recorder_answers_what_commands_and_queries_answer() -> None:
    assert set(numbered("recorder", "yes", "part")) == set(ANSWERED) | set(BY_COMMAND)
    assert {f"Q{number}" for number in OF_RUNS} <= queries().keys()


def test_only_the_recorder_answers_what_if() -> None:
    for way in ("dump", "polls", "clients"):
        assert {word(number, way) for number in BY_COMMAND} == {"no"}


# What clients and the admin API show of the same broker.


@cache
def as_clients_see_it(name: str) -> Tables:
    """The tables of what a process with all consumers has recorded when half of a recording is over."""
    rows = sorted((row for log in recorded_logs(name) for row in log), key=lambda row: int(row["seq"]))
    keys, seen = {}, []
    for row in rows[: len(rows) // 2]:
        kind, at = (
            (row["event"], row.get("phase") or "end"),
            tuple(row.get(n) for n in ("consumer", "ledger_id", "entry_id")),
        )
        if kind == ("dispatch", "start"):
            keys[at] = {"key": row["key"], "key_source": row["key_source"]}
        elif kind == ("dispatch", "end"):
            seen.append({**row, **keys.get(at, {})})
        elif kind in (("join", "end"), ("leave", "start"), ("leave", "end"), ("ack", "start")):
            seen.append(row)
    return tables_of_logs(name, [seen], recorded_by="client", complete_from_start=False)


def is_shown(number: int, tables: Tables) -> bool:
    """Whether a trace from outside has what answers a question."""
    if number == 3:
        return any(json.loads(row["detail"]).get("draining") for row in tables["violations"])
    if number == 7:
        return any(row.get("known_bug") for row in tables["violations"])
    names = NAMED.findall(ANSWERED[number][1])
    if rules := [name for name in names if name in RULES]:
        return any(row["rule"] in rules and row["checked"] for row in tables["metrics"])
    columns = [name.partition(".") for name in names]
    return any(row.get(column) for table, _, column in columns for row in tables.get(table, ()))


@pytest.mark.recordings
@pytest.mark.parametrize("number", [n for n in ANSWERED if n not in OF_RUNS])
def test_clients_answer_what_the_page_says(number: int) -> None:
    answered = word(number, "clients") in ("yes", "part")
    assert is_shown(number, as_clients_see_it("heavy-churn-1-3.0.7")) == answered


@pytest.mark.recordings
def test_what_clients_show_is_never_proven() -> None:
    found = as_clients_see_it("heavy-churn-1-3.0.7")["violations"]
    assert {row["severity"] for row in found} == {"not_provable"}
    # The broker did break order there, and its recorder proves it.
    assert "single_holder" in {row["rule"] for row in found}
    proven = recorded_tables("heavy-churn-1-3.0.7")["violations"]
    assert {row["severity"] for row in proven} & {"violation", "known_bug"}


@pytest.mark.recordings
def test_nothing_is_judged_from_polled_statistics_by_an_audit() -> None:
    name = "hung-consumer-4.0.8"
    snapshots = [[row for row in log if row["event"] == "stats"] for log in recorded_logs(name)]
    tables = tables_of_logs(name, snapshots, recorded_by="admin_api", complete_from_start=False)
    assert not tables.get("violations")
    assert not any(row["checked"] for row in tables["metrics"])
    assert {row["order_verdict"] for row in tables["coverage"]} == {"not_provable"}


# What `diagnose` says.


@cache
def diagnosed(folder: Path) -> dict[str, Any]:
    done = CliRunner().invoke(app, ["diagnose", str(folder), "--format", "json", "--fail-on", "never"])
    assert done.exit_code == 0, done.output
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def of_one(found: dict[str, Any]) -> dict[str, Any]:
    (diagnosis,) = found["diagnoses"]
    assert isinstance(diagnosis, dict)
    return diagnosis


PARTS_OF_DIAGNOSES: Final[Mapping[int, Callable[[dict[str, Any]], bool]]] = {
    6: lambda one: one["facts"]["unacked_messages"] > 0 and one["facts"]["waiting_at_least"] > 0,
    7: lambda one: any(reason["known_bugs"] for reason in one["reasons"]),
    8: lambda one: any(reason["consumers"] and reason["since"] for reason in one["reasons"]),
    9: lambda one: one["facts"]["mark_delete_position"] is not None,
    10: lambda one: any(reason["kind"] == "holds_up" and reason["certainty"] == "proved" for reason in one["reasons"]),
    12: lambda one: any("last message was sent at" in reason["since"] for reason in one["reasons"]),
    19: lambda one: all(consumer["address"] for consumer in one["facts"]["consumers"]),
    20: lambda one: one["facts"]["look_ahead_limit"] == 6_000,
    21: lambda one: one["facts"]["msg_in_replay"] > 0,
    26: lambda one: bool(one["lacks"]),
}


@pytest.mark.parametrize("number", PARTS_OF_DIAGNOSES)
def test_a_dump_answers_what_the_page_says(number: int) -> None:
    dumps = [of_one(diagnosed(folder)) for folder in sorted(DUMPS.iterdir())]
    assert any(PARTS_OF_DIAGNOSES[number](one) for one in dumps)
    assert word(number, "dump") == "part"


def test_a_dump_that_is_cut_off_says_what_is_missing(tmp_path: Path) -> None:
    (whole,) = (DUMPS / "25992-look-ahead").glob("stats-2*.json")
    text = whole.read_text()
    (tmp_path / whole.name).write_text(text[: len(text) * 3 // 4])
    assert diagnosed(tmp_path)["left_out"]


def test_dumps_answer_nothing_else() -> None:
    of_files_and_history = {27, 28}
    assert set(numbered("dump", "yes", "part")) == {*PARTS_OF_DIAGNOSES, *of_files_and_history}
    assert set(numbered("polls", "yes", "part")) == set(numbered("dump", "yes", "part"))


def test_neither_dumps_nor_polls_prove_anything_of_order() -> None:
    for folder in (*sorted(DUMPS.iterdir()), *sorted(POLLS.glob("*-4.2.4/polls"))):
        assert "cannot prove that the order of a key was broken or kept" in diagnosed(folder)["order"]
    assert {word(number, way) for number in range(1, 6) for way in ("dump", "polls")} == {"no"}


@pytest.mark.parametrize("state", ["draining-4.2.4", "hung-consumer-4.2.4"])
def test_polls_say_more_than_a_dump(state: str) -> None:
    one = of_one(diagnosed(POLLS / state / "polls"))
    assert one["dumps"] > 1
    assert one["facts"]["sent_between_dumps"] is not None
    assert one["pulsar_version"] == "4.2.4"
    assert PARTS_OF_DIAGNOSES[10](one)


FIELDS = re.compile(r"`([a-z_0-9]+)`")


@pytest.mark.parametrize("number", numbered("polls", "by hand"))
def test_what_answers_by_hand_is_in_the_rows_of_polls(number: int) -> None:
    (file,) = (POLLS / "draining-4.2.4" / "polls").glob("*.jsonl.gz")
    rows = [json.loads(line) for line in gzip.decompress(file.read_bytes()).splitlines()]
    snapshots = [row["snapshot"] for row in rows if row["event"] == "stats"]
    written = {name for snapshot in snapshots for part in (snapshot, *snapshot["consumers"]) for name in part}
    assert set(FIELDS.findall(CELLS[number]["polls"])) <= written != set()


@pytest.mark.parametrize("number", numbered("clients", "by hand"))
def test_what_answers_by_hand_is_written_by_clients(number: int) -> None:
    source = "".join(path.read_text() for path in sorted((ROOT / "recording" / "client").glob("*.py")))
    fields = FIELDS.findall(CELLS[number]["clients"])
    assert fields
    assert all(f'"{name.removeprefix("message_")}"' in source for name in fields)


# What differs by generation.


def test_statistics_of_3x_name_recently_joined_consumers_and_those_of_4x_draining_hashes() -> None:
    of_3x = of_one(diagnosed(DUMPS / "21199-recently-joined"))
    assert [reason["name"] for reason in of_3x["reasons"]] == ["recently_joined"]
    assert {consumer["draining_hashes_count"] for consumer in of_3x["facts"]["consumers"]} == {None}
    of_4x = of_one(diagnosed(DUMPS / "23429-draining"))
    assert [reason["name"] for reason in of_4x["reasons"]] == ["draining_holds_others"]
    assert any(consumer["blocked_attempts"] for consumer in of_4x["facts"]["consumers"])


@pytest.mark.recordings
def test_no_hash_drains_before_the_draining_dispatcher() -> None:
    assert not recorded_tables("heavy-churn-1-3.0.7").get("draining")
    assert recorded_tables("join-leave-autosplit-4.0.8")["draining"]
