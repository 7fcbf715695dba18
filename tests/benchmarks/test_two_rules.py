"""The two rules are the same rules in three engines: against each other, by hand, and against a plain loop."""

from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from benchmarks import plan_duckdb, plan_polars
from benchmarks.generate import Shape, write_trace
from benchmarks.trace_columns import trace_schema
from benchmarks.two_rules import Broken

Count = Callable[[Path], Broken]
Row = dict[str, Any]


@pytest.fixture(params=["duckdb", "polars", pytest.param("spark", marks=pytest.mark.spark)])
def count(request: pytest.FixtureRequest, tmp_path: Path) -> Count:
    """Counts with one of the engines."""
    if request.param == "spark":
        from benchmarks.plans_spark import two_rules_on

        spark = request.getfixturevalue("spark")
        return lambda trace: Broken(**two_rules_on(spark, trace)()())
    engine = {"duckdb": plan_duckdb, "polars": plan_polars}[request.param].started()
    return lambda trace: Broken(**engine.prepare(trace, tmp_path / "scratch")()())


def dispatch(seq: int, key: str, entry: int, consumer: int, *, topic: str = "t", ledger: int = 1) -> list[Row]:
    row = {"event": "dispatch", "topic": topic, "key": key.encode(), "ledger_id": ledger, "entry_id": entry}
    start = {**row, "consumer": consumer, "phase": "start", "seq": seq}
    return [start, {**start, "phase": "end", "seq": seq + 1}]


def ack(seq: int, *entries: int, topic: str = "t", ledger: int = 1) -> list[Row]:
    positions = [{"ledger_id": ledger, "entry_id": entry, "ack_set": None} for entry in entries]
    start = {"event": "ack", "phase": "start", "topic": topic, "seq": seq, "positions": positions}
    return [start, {**start, "phase": "end", "seq": seq + 1}]


CASES = {
    "in order, one holder": (
        [dispatch(10, "a", 0, 1), dispatch(20, "a", 1, 1), ack(30, 0), ack(40, 1), dispatch(50, "a", 2, 2), ack(60, 2)],
        Broken(0, 0),
    ),
    "a later entry first": (
        [dispatch(10, "a", 1, 1), ack(20, 1), dispatch(30, "a", 0, 1), ack(40, 0), dispatch(50, "a", 2, 1)],
        Broken(1, 0),
    ),
    "a later ledger first": ([dispatch(10, "a", 0, 1, ledger=2), dispatch(20, "a", 9, 1)], Broken(1, 0)),
    "a later ledger has smaller entries": ([dispatch(10, "a", 9, 1), dispatch(20, "a", 0, 1, ledger=2)], Broken(0, 0)),
    "sent again behind a later one": (
        [dispatch(10, "a", 0, 1), dispatch(20, "a", 1, 1), dispatch(30, "a", 0, 1)],
        Broken(0, 0),
    ),
    "to another while one is held": (
        [dispatch(10, "a", 0, 1), dispatch(20, "a", 1, 2), ack(30, 0), ack(40, 1), dispatch(50, "a", 2, 1)],
        Broken(0, 1),
    ),
    "held by the one before the last": (
        [dispatch(10, "a", 0, 1), dispatch(20, "a", 1, 1), ack(30, 1), dispatch(40, "a", 2, 2), ack(50, 0, 2)],
        Broken(0, 1),
    ),
    "never acknowledged": ([dispatch(10, "a", 0, 1), dispatch(20, "a", 1, 2)], Broken(0, 1)),
    "only the end of an acknowledgement counts": (
        [dispatch(10, "a", 0, 1), [ack(20, 0)[0]], dispatch(30, "a", 1, 2), [ack(39, 0)[1]]],
        Broken(0, 1),
    ),
    "several positions in one acknowledgement": (
        [dispatch(10, "a", 0, 1), dispatch(20, "a", 1, 1), ack(30, 0, 1), dispatch(40, "a", 2, 2)],
        Broken(0, 0),
    ),
    "acknowledged before it is sent again": (
        [dispatch(10, "a", 0, 1), ack(20, 0), dispatch(30, "a", 0, 2), dispatch(40, "a", 1, 3)],
        Broken(0, 1),
    ),
    "keys and topics are apart": (
        [dispatch(10, "a", 1, 1), dispatch(20, "b", 0, 2), dispatch(30, "a", 0, 3, topic="u"), ack(40, 1, topic="u")],
        Broken(0, 0),
    ),
    "both, once each": (
        [
            dispatch(10, "a", 1, 1),
            ack(20, 1),
            dispatch(30, "a", 0, 1),
            dispatch(40, "b", 2, 1),
            dispatch(50, "b", 3, 2),
        ],
        Broken(1, 1),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_by_hand(count: Count, tmp_path: Path, case: str) -> None:
    parts, expected = CASES[case]
    rows = [row for part in parts for row in part]
    files = tmp_path / "events.parquet"
    files.mkdir()
    # Two files, last first: neither the files nor the rows in them are in order.
    for number, of_file in enumerate((rows[1::2], rows[::2])):
        pq.write_table(pa.Table.from_pylist(of_file[::-1], trace_schema()), files / f"part-{number}.parquet")
    assert count(tmp_path) == expected


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("generated") / "trace"
    write_trace(folder, Shape(events=8_000, partitions=2, consumers=3, keys=25, changes=30, work_ms=200, files=3))
    return folder


def test_a_generated_trace(count: Count, generated: Path) -> None:
    expected = looped(generated)
    assert expected.first_delivery_order == 0
    assert expected.single_holder > 0, "what a leave sends again is counted"
    assert count(generated) == expected


def looped(trace: Path) -> Broken:
    """Both rules in one loop over the rows in order."""
    rows = sorted(ds.dataset(trace / "events.parquet").to_table().to_pylist(), key=lambda row: row["seq"])
    order = holder = 0
    last_first: dict[Any, Any] = {}
    last_consumer: dict[Any, int] = {}
    seen = set()
    waiting: dict[Any, set[Any]] = defaultdict(set)
    key_of = {}
    for row in rows:
        if (row["event"], row["phase"]) == ("dispatch", "start"):
            key = row["topic"], row["key"]
            position = row["topic"], row["ledger_id"], row["entry_id"]
            if position not in seen:
                order += key in last_first and last_first[key] > position
                last_first[key] = position
            holder += bool(waiting[key]) and last_consumer[key] != row["consumer"]
            seen.add(position)
            waiting[key].add(position)
            last_consumer[key], key_of[position] = row["consumer"], key
        elif (row["event"], row["phase"]) == ("ack", "end"):
            for p in row["positions"]:
                position = row["topic"], p["ledger_id"], p["entry_id"]
                waiting[key_of[position]].discard(position)
    return Broken(order, holder)
