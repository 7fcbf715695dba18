"""Where a moment lies in a log, by both readers, and that rows of a range of seq are read alike by both."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import MANIFEST
from pyspark.sql import SparkSession
from reading import parts_in, scanned, set_aside

from dispatch_audit.pipeline.errors import TraceError
from dispatch_audit.pipeline.trace import Trace, open_traces
from dispatch_audit.pipeline.trace.seq_range import ALL, SeqRange
from dispatch_audit.pipeline.windows.seq_bounds import LogQuery, SeqBounds, find_seq_bounds

pytestmark = pytest.mark.spark

# The clock is nearly in the order of seq: row 4 is a step ahead, row 5 one late.
CLOCK = {1: 100, 2: 200, 3: 300, 4: 500, 5: 400, 6: 500, 7: 600}


def rows_of(clock: Mapping[int, int] = CLOCK) -> list[dict[str, Any]]:
    entry = {"event": "publish", "topic": "t", "ledger_id": 1, "batch_size": 1, "key_b64": "a2V5", "entry_id": 0}
    return [{**entry, "seq": seq, "ts_us": ts_us, "entry_id": seq} for seq, ts_us in clock.items()]


def lines(folder: Path, rows: Sequence[Mapping[str, Any] | str]) -> Trace:
    folder.mkdir(exist_ok=True)
    (folder / "trace.json").write_text(json.dumps(MANIFEST))
    texts = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    (folder / "events.jsonl").write_text("".join(text + "\n" for text in texts))
    (trace,) = open_traces([folder])
    return trace


def parquet(folder: Path, rows: Sequence[Mapping[str, Any]], row_group_size: int = 2) -> Trace:
    """The same rows in Parquet files that the workers read, of more than one row group."""
    (folder / "events").mkdir(parents=True)
    (folder / "trace.json").write_text(json.dumps(MANIFEST))
    reported = [{**row, "key": b"key"} for row in rows]
    names = {
        "event": pa.string(),
        "topic": pa.string(),
        "broker": pa.string(),
        "key": pa.binary(),
        "batch_size": pa.int32(),
    }
    names |= {name: pa.int64() for name in ("seq", "ts_us", "ledger_id", "entry_id")}
    schema = pa.schema(list(names.items()))
    table = pa.Table.from_pylist([{name: row.get(name) for name in names} for row in reported], schema)
    pq.write_table(table, folder / "events" / "part-0.parquet", row_group_size=row_group_size)
    (trace,) = open_traces([folder])
    assert parts_in(trace), "this is about what workers read"
    return trace


@pytest.mark.parametrize("log", [lines, parquet])
def test_the_recorders_that_rows_name_are_told(log: Any, spark: SparkSession, tmp_path: Path) -> None:
    named = [{**row, "broker": {1: None, 2: "a"}.get(row["seq"], "b")} for row in rows_of()]
    assert find_seq_bounds(spark, log(tmp_path / "trace", named), LogQuery(())).brokers == {"a", "b"}


@pytest.mark.parametrize("log", [lines, parquet])
def test_a_moment_lies_before_the_first_row_by_seq_that_has_reached_it(
    log: Any, spark: SparkSession, tmp_path: Path
) -> None:
    trace = log(tmp_path / "trace", rows_of())
    question = LogQuery((200, 350, 500, 700), None, (3, 6))
    # Row 4 has reached 350 and row 5 has not: both lie after it, and no row stands on both sides.
    assert find_seq_bounds(spark, trace, question) == SeqBounds((2, 4, 4, None), (2, 3, 2), 0, 7)
    assert find_seq_bounds(spark, trace, LogQuery((200, 500), 5)).seq_of == (5, 6)
    # Row 5 is the last of the 400s, although the window until 500 ends before row 4.
    assert find_seq_bounds(spark, trace, LogQuery((500,), 4, (), (400, 500))).last_within == 5
    assert find_seq_bounds(spark, trace, LogQuery((500,), 6, (), (400, 500))).last_within is None


def test_rows_that_have_no_seq_or_an_impossible_time_cut_nothing(spark: SparkSession, tmp_path: Path) -> None:
    late = {**rows_of()[0], "seq": 8, "ts_us": 10**18}
    nameless = {**rows_of()[0], "seq": "x"}
    trace = lines(tmp_path / "trace", [*rows_of(), late, {**late, "seq": -3, "ts_us": 900}, nameless, "no JSON"])
    found = find_seq_bounds(spark, trace, LogQuery((550, 800), None, (7,)))
    assert found == SeqBounds((7, None), (7, 2), 2, 8)
    assert found.rows == 11


def test_both_readers_give_the_rows_of_a_range(spark: SparkSession, tmp_path: Path) -> None:
    by_lines, by_files = lines(tmp_path / "lines", rows_of()), parquet(tmp_path / "parquet", rows_of())
    for seqs, expected in {
        SeqRange(None, 3): [1, 2],
        SeqRange(3, 6): [3, 4, 5],
        SeqRange(6): [6, 7],
        SeqRange(8): [],
        ALL: [*CLOCK],
    }.items():
        one = by_lines.__class__(by_lines.manifest, by_lines.path, by_lines.logs, seqs)
        other = by_files.__class__(by_files.manifest, by_files.path, by_files.logs, seqs)
        for trace in (one, other):
            parts = parts_in(trace)
            checked = (found.good for part in parts for found in part.read(["seq"], 100))
            unchecked = (batch for part in parts for batch in part.unchecked(["seq"]))
            for batches in (checked, unchecked):
                assert [row["seq"] for batch in batches for row in batch.to_pylist()] == expected
            assert [row["seq"] for row in scanned(spark, trace)[0]] == expected


@pytest.mark.parametrize("name", ["events.jsonl.gz", "events.parquet"])
def test_a_damaged_file_is_named(name: str, spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "trace.json").write_text(json.dumps(MANIFEST))
    (tmp_path / name).write_bytes(b"neither gzip nor Parquet, but long enough to be looked at")
    (trace,) = open_traces([tmp_path])
    with pytest.raises(TraceError, match=f"cannot read .*{name}: .+; copy it again or leave it out$"):
        find_seq_bounds(spark, trace, LogQuery(()))


def test_a_log_without_rows_has_no_bounds(spark: SparkSession, tmp_path: Path) -> None:
    found = find_seq_bounds(spark, lines(tmp_path / "trace", []), LogQuery((1,), None, (3,)))
    assert found == SeqBounds((None,), (0, 0), 0, None)


def test_row_groups_outside_of_the_range_are_not_opened(tmp_path: Path) -> None:
    """A bad row in a row group outside of the range is nobody's fault."""
    rows = rows_of()
    rows[-1]["ts_us"] = -1
    trace = parquet(tmp_path / "trace", rows)
    (part,) = parts_in(Trace(trace.manifest, trace.path, trace.logs, SeqRange(None, 7)))
    assert sum(found.good.num_rows for found in part.read(["seq"], 100)) == 6


def test_quarantine_has_the_rows_of_the_range_by_their_lines(spark: SparkSession, tmp_path: Path) -> None:
    spoilt = [{**row, "ledger_id": -1} for row in rows_of()]
    trace = lines(tmp_path / "trace", [*spoilt, "no JSON", ""])
    meant = Trace(trace.manifest, trace.path, trace.logs, SeqRange(3, 5))
    found = set_aside(spark, meant)
    assert sorted((row["line"], row["seq"]) for row in found) == [(3, 3), (4, 4)]
