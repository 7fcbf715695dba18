"""The time line of a small run, and of what it may not be."""

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from chart_rows import HOSTILE, T0, at, finding, interval, span, tables
from page_fixtures import of_night, write_run
from trace_event_rules import broken_rules

from dispatch_audit.pipeline.report.perfetto import rows as limits
from dispatch_audit.pipeline.report.perfetto import slices
from dispatch_audit.pipeline.report.perfetto.build import perfetto_trace
from dispatch_audit.pipeline.report.query import summarise

Document = dict[str, Any]


def built(folder: Path, *run_keys: str) -> Document:
    document: Document = json.loads(perfetto_trace(None, summarise(None, str(folder), run_keys)))
    return document


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs with the same rows, hostile names in them, and a wait that begins before the first row."""
    folder = tmp_path_factory.mktemp("time line") / "target"
    filled = tables([finding(number, key) for number, key in enumerate(HOSTILE)])
    early = interval("hash", "not_read_yet", 2, None, (-3, 5), 3.0)
    filled["blocking"] = [*filled["blocking"], early]
    write_run(folder, "aaaa", filled, {**of_night(100), "from_ts_us": T0})
    write_run(folder, "bbbb", filled, {**of_night(200), "from_ts_us": T0})
    return folder


@pytest.fixture(scope="module")
def document(target: Path) -> Document:
    return built(target, "aaaa")


def tracks(document: Document) -> dict[str, list[dict[str, Any]]]:
    """The events of each track by its name."""
    events = document["traceEvents"]
    names = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
    return {name: [e for e in events if e["ph"] != "M" and (e["pid"], e["tid"]) == of] for of, name in names.items()}


def test_slices_and_instants_lie_on_the_tracks_of_their_owners(document: Document) -> None:
    assert broken_rules(document) == set()
    by_name = tracks(document)
    assert [(e["name"], e["ts"]) for e in by_name["red (consumer 1)"] if e["ph"] == "i"] == [("joins", 0)]
    (waits,) = by_name["red (consumer 1) waits"]
    assert (waits["name"], waits["ts"], waits["dur"]) == ("no_permits: red (consumer 1)", 5_000_000, 25_000_000)
    assert waits["args"]["message_seconds"] == 90.0
    assert "--consumer red" in waits["args"]["explain"]
    (all_wait,) = by_name["all consumers wait"]
    assert (all_wait["args"]["blocked_by"], all_wait["cat"]) == ("red (consumer 1)", "wait")
    first = by_name["findings"][0]
    assert (first["ph"], first["ts"], first["args"]["entry"]) == ("i", 11_000_000, "7:0")
    assert first["args"]["explain"].endswith("--violation 000000000000")
    assert any(e["name"].startswith("draining: ") for of in by_name.values() for e in of)


def test_what_a_consumer_owned_adds_up(document: Document) -> None:
    """Red owns all hashes, gives half of them to blue after 10 s, and green gets a quarter after 20 s."""
    by_name = tracks(document)
    owned = {
        name: [
            (e["ts"] // 1_000_000, e["args"]["hashes"], e["args"].get("change")) for e in by_name[name] if "dur" in e
        ]
        for name in ("red (consumer 1)", "blue (consumer 2)", "green (consumer 3)")
    }
    at_the_end = [of[-1][1] for of in owned.values()]
    assert sum(at_the_end) == owned["red (consumer 1)"][0][1]
    assert [of[0][::2] for of in owned.values()] == [(0, "join red"), (10, "join blue"), (20, "join green")]


def test_what_began_before_the_run_begins_with_it(document: Document) -> None:
    (early,) = (e for e in document["traceEvents"] if e["name"].startswith("not_read_yet"))
    assert (early["ts"], early["dur"]) == (0, 5_000_000)
    assert early["args"]["began"] < "2026-01-01"


def test_hostile_names_are_strings_only(document: Document) -> None:
    findings = tracks(document)["findings"]
    assert {e["args"]["key"] for e in findings} == set(HOSTILE)
    assert not any("\x1b" in name or "\u202e" in name for name in tracks(document))


def test_several_runs_are_processes_of_one_file(target: Path) -> None:
    document = built(target, "aaaa", "bbbb")
    assert broken_rules(document) == set()
    assert [run["run_key"] for run in document["otherData"]["runs"]] == ["aaaa", "bbbb"]
    names = [e["args"]["name"] for e in document["traceEvents"] if e["name"] == "process_name"]
    assert len(names) == 2
    assert all(name.startswith("night/") for name in names)


def test_the_costliest_are_shown_and_the_limit_is_said(target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "_WAITS", 4)
    monkeypatch.setattr(slices, "_HASHES", 2)
    document = built(target, "aaaa")
    waits = [e["args"]["message_seconds"] for e in document["traceEvents"] if e.get("cat") == "wait"]
    assert sorted(waits) == [90.0, 90.0, 150.0, 400.0]
    # The hash that waited comes before those that only drained, of which there are three.
    assert [name for name in tracks(document) if name.startswith("hash")] == ["hash 4711", "hash 60"]
    shown = document["otherData"]["runs"][0]["shown"]
    assert (shown["waits"], shown["draining hashes"]) == ({"shown": 4, "of": 7}, {"shown": 1, "of": 3})
    (labels,) = (e["args"]["labels"] for e in document["traceEvents"] if e["name"] == "process_labels")
    assert "4 of 7 waits shown, 1 of 3 draining hashes shown" in labels


def test_owners_end_where_their_rows_were_cut(target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = built(target, "aaaa")
    monkeypatch.setattr(limits, "_OWNERSHIPS", 2)
    cut = built(target, "aaaa")
    owned = [e for e in cut["traceEvents"] if e.get("cat") == "owner"]
    assert owned
    assert max(e["ts"] + e["dur"] for e in owned) < at(30) - T0
    wanted = [(e["ts"], e["args"]) for e in whole["traceEvents"] if e.get("cat") == "owner"]
    assert all((e["ts"], e["args"]) in wanted for e in owned)


def test_slices_that_only_overlap_get_threads_of_their_own(tmp_path: Path) -> None:
    filled = tables([])
    filled["blocking"] = [interval("hash", "not_read_yet", 2, None, times, 1.0) for times in ((1, 5), (2, 4), (3, 8))]
    filled["draining"] = [span(filled["blocking"][0]["sticky_hash"], 1, 9, 12)]
    write_run(tmp_path / "target", "cccc", filled, of_night(100) | {"from_ts_us": T0, "verdict": "clean"})
    document = built(tmp_path / "target", "cccc")
    assert broken_rules(document) == set()
    lanes = {name: [e["ts"] for e in of] for name, of in tracks(document).items() if name.startswith("hash")}
    assert list(lanes.values()) == [[1_000_000, 2_000_000, 9_000_000], [3_000_000]]


@pytest.mark.parametrize(
    ("rule", "place", "change"),
    [
        ("an event lacks a field", "X", {"tid": None}),
        ("a phase is unknown", "X", {"ph": "Y"}),
        ("a number is none or below 0", "i", {"ts": -1}),
        ("a complete event has no duration", "X", {"dur": None}),
        ("an instant has no scope", "i", {"s": None}),
        ("a track has no name", "X", {"tid": 4_711}),
    ],
)
def test_a_broken_rule_is_found(rule: str, place: str, change: dict[str, Any], document: Document) -> None:
    broken = deepcopy(document)
    event = next(event for event in broken["traceEvents"] if event["ph"] == place)
    event.update(change)
    for name in [name for name, value in change.items() if value is None]:
        del event[name]
    assert rule in broken_rules(broken)


def test_slices_that_do_not_nest_are_found(document: Document) -> None:
    broken = deepcopy(document)
    slices_of_owner = [e for e in broken["traceEvents"] if e.get("cat") == "owner"]
    slices_of_owner[0]["dur"] += 1
    assert broken_rules(broken) == {"slices of a thread overlap without nesting"}
