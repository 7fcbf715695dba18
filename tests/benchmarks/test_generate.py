"""What is generated obeys the contract, whatever its shape and the order of its rows."""

import json
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pyarrow.dataset as ds
import pytest
from deltalake import DeltaTable
from embedded_commands import EmbeddedCommands

from benchmarks.generate import Shape, write_trace
from dispatch_audit.udfs.sticky_key_hash import sticky_hashes

# Seconds by itself: builds and installs, or generates whole traces.
pytestmark = pytest.mark.heavy


CALM = Shape(events=4_000, partitions=2, consumers=3, keys=40, changes=0, files=2)
# Consumers come and go while much is unacknowledged, so that hashes drain and are sent again.
BUSY = Shape(events=6_000, partitions=2, consumers=3, keys=25, changes=30, work_ms=200, files=3, seed=7)
LONELY = Shape(events=500, partitions=1, consumers=1, keys=3, changes=3, work_ms=20, files=1, seed=3)

Row = dict[str, Any]
Position = tuple[int, int]


def rows_of(folder: Path) -> list[Row]:
    """All rows of a trace, by seq."""
    rows: list[Row] = ds.dataset(folder / "events.parquet").to_table().to_pylist()
    return sorted(rows, key=lambda row: row["seq"])


def by_topic(rows: list[Row]) -> list[list[Row]]:
    topics = defaultdict(list)
    for row in rows:
        topics[row["topic"]].append(row)
    return list(topics.values())


def position(row: Row) -> Position:
    place = row["positions"][0] if row["event"] == "ack" else row
    return place["ledger_id"], place["entry_id"]


def broken_promises(rows: list[Row]) -> list[str]:
    """Replays one topic by hash, as plainly as can be; returns what is wrong with it."""
    wrong = []
    keys = [row["key"] or b"" for row in rows]
    hashes = sticky_hashes(keys, "consistent_hashing").tolist()
    hash_of: dict[Position, int] = {}
    held: dict[int, dict[Position, int]] = defaultdict(dict)
    furthest: dict[int, Position] = {}
    dispatched: set[Position] = set()
    present: set[int] = set()
    for row, sticky in zip(rows, hashes, strict=True):
        match row["event"], row["phase"]:
            case "join", "end":
                present.add(row["consumer"])
            case "leave", "start":
                present.remove(row["consumer"])
                for of_hash in held.values():
                    for gone in [p for p, consumer in of_hash.items() if consumer == row["consumer"]]:
                        del of_hash[gone]
            case "publish", None:
                hash_of[position(row)] = sticky
            case "dispatch", "start":
                place, consumer = position(row), row["consumer"]
                before = furthest.get(sticky, place) if place not in dispatched else place
                faults = {
                    f"sent to {consumer}, who is not there": consumer not in present,
                    "not published with that key": hash_of.get(place) != sticky,
                    "its hash has another holder": bool(set(held[sticky].values()) - {consumer}),
                    "behind a later one of its hash": max([before, *held[sticky]]) > place,
                }
                wrong += [f"seq {row['seq']}: {place}: {fault}" for fault, there in faults.items() if there]
                held[sticky][place] = consumer
                furthest[sticky] = max(furthest.get(sticky, place), place)
                dispatched.add(place)
            case "ack", "start":
                place = position(row)
                if held[hash_of[place]].pop(place, None) != row["consumer"]:
                    wrong.append(f"seq {row['seq']}: {place}: acknowledged by another than its holder")
    left = sum(map(len, held.values()))
    never = len(hash_of.keys() - dispatched)
    return [*wrong, *([f"{left} unacknowledged, {never} never dispatched at the end"] if left or never else [])]


@pytest.mark.parametrize("shape", [CALM, BUSY, LONELY], ids=["calm", "busy", "lonely"])
def test_no_promise_is_broken(tmp_path: Path, shape: Shape) -> None:
    write_trace(tmp_path / "trace", shape)
    topics = by_topic(rows_of(tmp_path / "trace"))
    assert len(topics) == shape.partitions
    for rows in topics:
        assert broken_promises(rows) == []


def test_the_check_of_promises_sees_broken_ones(tmp_path: Path) -> None:
    write_trace(tmp_path / "trace", BUSY)
    rows = by_topic(rows_of(tmp_path / "trace"))[0]
    sent, acked, published = (
        [row for row in rows if (row["event"], row["phase"]) == kind]
        for kind in (("dispatch", "start"), ("ack", "start"), ("publish", None))
    )
    acked[0]["consumer"] = 98
    sent[0]["consumer"] = 99
    published_at = {position(row): row["seq"] for row in published}
    one, other = next(
        (a, b)
        for a in sent
        for b in sent
        if a["key"] == b["key"] and position(a) < position(b) and published_at[position(b)] < a["seq"]
    )
    one["entry_id"], other["entry_id"] = other["entry_id"], one["entry_id"]
    reported = "\n".join(broken_promises(rows))
    for words in ("99, who is not there", "another than its holder", "another holder", "behind a later one"):
        assert words in reported


def test_hashes_drain_and_are_sent_again(tmp_path: Path) -> None:
    write_trace(tmp_path / "trace", BUSY)
    sent = [
        (row["topic"], position(row))
        for row in rows_of(tmp_path / "trace")
        if (row["event"], row["phase"]) == ("dispatch", "start")
    ]
    assert len(sent) > len(set(sent))


def test_as_many_rows_as_were_asked_for(tmp_path: Path) -> None:
    written = write_trace(tmp_path / "trace", CALM)
    rows = rows_of(tmp_path / "trace")
    assert [row["seq"] for row in rows] == list(range(1, written + 1))
    # Nobody leaves, so that nothing is sent again: five rows a message, and two a join.
    assert written == CALM.events + 2 * CALM.consumers * CALM.partitions


def test_order_of_rows_is_all_that_differs(tmp_path: Path) -> None:
    write_trace(tmp_path / "time", replace(BUSY, order="time"))
    write_trace(tmp_path / "random", replace(BUSY, order="random"))
    assert rows_of(tmp_path / "time") == rows_of(tmp_path / "random")
    recorded = {
        order: ds.dataset(tmp_path / order / "events.parquet").to_table(["seq"])["seq"].to_pylist()
        for order in ("time", "random")
    }
    assert recorded["time"] == sorted(recorded["time"])
    assert recorded["random"] != sorted(recorded["random"])


def test_another_seed_is_other_traffic(tmp_path: Path) -> None:
    write_trace(tmp_path / "one", BUSY)
    write_trace(tmp_path / "other", replace(BUSY, seed=8))
    assert rows_of(tmp_path / "one") != rows_of(tmp_path / "other")
    assert json.loads((tmp_path / "one" / "trace.json").read_text())["note"] != ""


def test_an_audit_reads_all_and_finds_nothing(run_embedded: EmbeddedCommands, tmp_path: Path) -> None:
    trace, tables = tmp_path / "trace", tmp_path / "tables"
    written = write_trace(trace, BUSY)
    done = run_embedded("validate", trace, "--quiet", "--format", "json")
    assert (done.returncode, done.stderr) == (0, "")
    (read,) = json.loads(done.stdout)["traces"]
    assert (read["events"], read["quarantined"], read["usable"]) == (written, 0, True)
    done = run_embedded("audit", trace, "--out", tables, "--quiet")
    assert (done.returncode, done.stderr) == (0, "")
    (run,) = DeltaTable(tables / "runs").to_pyarrow_table().to_pylist()
    assert (run["verdict"], run["completeness"], run["events_audited"]) == ("clean", 1.0, written)
    metrics = DeltaTable(tables / "metrics").to_pyarrow_table()
    assert [pc.sum(metrics[name]).as_py() for name in ("violations", "known_bug", "not_provable")] == [0, 0, 0]
