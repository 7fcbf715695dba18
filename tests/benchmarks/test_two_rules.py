"""The two rules are the same rules in three engines: against each other, by hand, and against a plain loop."""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from benchmarks import plan_duckdb, plan_polars, two_rules
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


def rows_of(case: str) -> list[Row]:
    parts, _ = CASES[case]
    return [row for part in parts for row in part]


def write_rows(trace: Path, rows: Sequence[Row]) -> None:
    """Writes two files, last first: neither the files nor the rows in them are in order."""
    files = trace / "events.parquet"
    files.mkdir(parents=True)
    for number, of_file in enumerate((rows[1::2], rows[::2])):
        pq.write_table(pa.Table.from_pylist(of_file[::-1], trace_schema()), files / f"part-{number}.parquet")


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("engine", [plan_duckdb, plan_polars], ids=["duckdb", "polars"])
def test_by_hand(engine: ModuleType, tmp_path: Path, case: str) -> None:
    write_rows(tmp_path, rows_of(case))
    found = engine.started().prepare(tmp_path, tmp_path / "scratch")()()
    assert Broken(**found) == CASES[case][1]


@pytest.fixture(scope="module")
def all_cases(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One trace of all cases, each with topics of its own."""
    trace = tmp_path_factory.mktemp("all-cases")
    write_rows(trace, [{**row, "topic": f"{case}/{row['topic']}"} for case in CASES for row in rows_of(case)])
    return trace


@pytest.fixture(scope="module")
def found_on_spark(spark: SparkSession, all_cases: Path) -> Mapping[str, Broken]:
    """What each rule finds in each case, by one query for all cases."""
    spark.read.parquet(str(all_cases / "events.parquet")).createOrReplaceTempView("all_cases")
    spark.sql(two_rules.sent("all_cases", key="struct(topic, key)")).createOrReplaceTempView("sent")
    spark.sql(two_rules.acked("all_cases", "explode")).createOrReplaceTempView("acked")
    rules = (two_rules.FIRST_DELIVERY_ORDER, two_rules.SINGLE_HOLDER)
    found = [Counter(row.topic.partition("/")[0] for row in spark.sql(rule).collect()) for rule in rules]
    for view in ("all_cases", "sent", "acked"):
        spark.catalog.dropTempView(view)
    return {case: Broken(*(of_rule[case] for of_rule in found)) for case in CASES}


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_by_hand_on_spark(found_on_spark: Mapping[str, Broken], case: str) -> None:
    assert found_on_spark[case] == CASES[case][1]


def test_all_cases_together(count: Count, all_cases: Path) -> None:
    expected = [broken for _, broken in CASES.values()]
    assert count(all_cases) == Broken(*map(sum, zip(*expected, strict=True)))


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
