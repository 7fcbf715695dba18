"""Shares of files of every kind that workers open: the same rows, checks and errors."""

import gzip
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from arrow_rows import batch_of
from conftest import MANIFEST
from deltalake import write_deltalake
from pyspark.sql import SparkSession
from reading import parts_in, read, scanned, shares_in
from test_row_checks import BAD, GOOD, _verdicts
from trace_rows import ACK, FLOW, GOOD_ROWS, JOIN, PUBLISH, STATS, without

from dispatch_audit.pipeline.errors import TraceError
from dispatch_audit.pipeline.trace import Trace, open_traces
from dispatch_audit.pipeline.trace.checks.asked import AskedRows
from dispatch_audit.pipeline.trace.schema import ARROW_TYPES
from dispatch_audit.pipeline.trace.seq_range import SeqRange
from dispatch_audit.pipeline.trace.workers import shares
from dispatch_audit.pipeline.trace.workers.file_part import FilePart
from dispatch_audit.pipeline.trace.workers.shares import Share


def table_of(rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    return pa.Table.from_batches([batch_of(rows)])


def replaced(name: str, column: pa.Array, rows: Sequence[Mapping[str, Any]] = (FLOW,)) -> pa.Table:
    table = table_of(rows)
    return table.set_column(table.schema.get_field_index(name), name, column)


def folder_of(folder: Path, **tables: pa.Table) -> Trace:
    """A trace of Parquet files, one for each table."""
    folder.mkdir(exist_ok=True)
    (folder / "trace.json").write_text(json.dumps(MANIFEST))
    for name, table in tables.items():
        pq.write_table(table, folder / f"events-{name}.parquet", row_group_size=4)
    (trace,) = open_traces([folder])
    return trace


def lines_of(folder: Path, rows: Sequence[Mapping[str, Any]], name: str = "events.jsonl") -> Trace:
    folder.mkdir(exist_ok=True)
    (folder / "trace.json").write_text(json.dumps(MANIFEST))
    content = "".join(json.dumps(row) + "\n" for row in rows).encode()
    (folder / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    (trace,) = open_traces([folder])
    return trace


def test_every_kind_of_file_gives_the_same_rows(tmp_path: Path) -> None:
    expected = read(lines_of(tmp_path / "lines", GOOD_ROWS))
    assert len(expected[0]) == len(GOOD_ROWS)
    assert read(lines_of(tmp_path / "gzip", GOOD_ROWS, "events.jsonl.gz")) == expected
    assert read(folder_of(tmp_path / "parquet", all=table_of(GOOD_ROWS))) == expected
    parts = {"a": table_of(GOOD_ROWS[:3]), "b": table_of(GOOD_ROWS[3:])}
    assert read(folder_of(tmp_path / "files", **parts), rows=2) == expected
    (tmp_path / "delta").mkdir()
    (tmp_path / "delta" / "trace.json").write_text(json.dumps(MANIFEST))
    for rows in (GOOD_ROWS[:3], GOOD_ROWS[3:]):
        write_deltalake(tmp_path / "delta" / "events", table_of(rows), mode="append")
    (table,) = open_traces([tmp_path / "delta"])
    assert {share.kind for share in shares_in(table) or ()} == {"delta"}
    assert read(table) == expected


def test_each_bad_row_of_parquet_is_refused_for_its_reason(tmp_path: Path) -> None:
    good, refused = read(folder_of(tmp_path, all=table_of([*BAD, *GOOD])))
    assert len(good) == len(GOOD)
    verdicts = [verdict for verdict in _verdicts(BAD) if verdict is not None]
    assert [(row["line"], row["refused"], row["detail"]) for row in refused] == [
        (line, *verdict) for line, verdict in enumerate(verdicts, 1)
    ]
    for row, bad in zip(refused, BAD, strict=True):
        assert row["topic"] == bad.get("topic")
        assert json.loads(row["raw"]).get("seq") == bad.get("seq")


_PUBLISHES = [PUBLISH, {**PUBLISH, "seq": 2}]


@pytest.mark.parametrize(
    ("name", "column"),
    [
        ("seq", pa.array([1, 2], pa.int8())),
        ("seq", pa.array([1, 2], pa.uint64())),
        ("seq", pa.array([Decimal(1), Decimal(2)], pa.decimal128(38, 0))),
        ("batch_size", pa.array([1, 1], pa.int64())),
        ("topic", pa.array([PUBLISH["topic"]] * 2, pa.binary())),
        ("topic", pa.array([PUBLISH["topic"]] * 2, pa.large_string())),
        ("topic", pa.array([PUBLISH["topic"]] * 2).dictionary_encode()),
        ("key", pa.array([b"key-4"] * 2, pa.large_binary())),
        *((name, pa.nulls(2, kind)) for name in ("reason", "positions", "snapshot", "permits", "ack_set", "broker")
          for kind in (pa.null(), pa.int32(), pa.float64(), pa.list_(pa.int32()), pa.struct([("x", pa.int32())]))),
    ],
    ids=str,
)  # fmt: skip
def test_types_that_other_writers_choose_are_taken(tmp_path: Path, name: str, column: pa.Array) -> None:
    expected = read(folder_of(tmp_path / "typed", all=table_of(_PUBLISHES)))
    assert read(folder_of(tmp_path / "other", all=replaced(name, column, _PUBLISHES))) == expected


def test_nested_columns_may_be_json_or_have_other_fields(tmp_path: Path) -> None:
    rows = [ACK, STATS]
    expected = read(folder_of(tmp_path / "typed", all=table_of(rows)))
    positions = [json.dumps(row.get("positions")) if "positions" in row else None for row in rows]
    snapshots = [json.dumps(row.get("snapshot")) if "snapshot" in row else None for row in rows]
    as_text = replaced("positions", pa.array(positions), rows)
    as_text = as_text.set_column(as_text.schema.get_field_index("snapshot"), "snapshot", pa.array(snapshots))
    assert read(folder_of(tmp_path / "text", all=as_text)) == expected
    # In another order, of other widths, with one more field and without one.
    inferred = pa.array([[{"more": "x", "entry_id": 0, "ledger_id": 31}], None])
    assert read(folder_of(tmp_path / "fields", all=replaced("positions", inferred, rows))) == expected


@pytest.mark.parametrize(
    ("name", "column", "found"),
    [
        ("seq", pa.array([6.0]), "double"),
        ("key", pa.array(["a"]), "string"),
        ("positions", pa.array([1]), "bigint"),
        ("topic", pa.array([1]), "bigint"),
        ("allow_out_of_order", pa.array([1]), "bigint"),
        ("positions", pa.array([[{"ledger_id": "1"}]]), "array<struct<ledger_id:string>>"),
    ],
    ids=str,
)
def test_an_impossible_type_names_log_and_column(tmp_path: Path, name: str, column: pa.Array, found: str) -> None:
    trace = folder_of(tmp_path, all=replaced(name, column))
    with pytest.raises(TraceError, match=rf"events-all\.parquet: column {name} has type {found}, but format 1 has"):
        read(trace)


def test_a_value_that_does_not_fit_refuses_the_row(tmp_path: Path) -> None:
    rows = [FLOW, {**FLOW, "seq": 7}, {**FLOW, "seq": 8}]
    table = replaced("permits", pa.array([5, 3_000_000_000, 6]), rows).drop_columns(["key"])
    table = table.append_column("key_b64", pa.array(["a2V5", "!", "!"]))
    good, refused = read(folder_of(tmp_path, all=table))
    assert [(row["seq"], row["key"]) for row in good] == [(6, b"key")]
    assert [(row["line"], row["seq"], row["refused"], row["detail"]) for row in refused] == [
        (2, 7, "wrong_type", "permits = 3000000000, not a whole number of 32 bits"),
        (3, 8, "bad_key", "key_b64 = !"),
    ]
    assert '"permits":3000000000' in refused[0]["raw"]


def test_texts_that_are_not_utf8_are_read_as_in_json(tmp_path: Path) -> None:
    bad = pa.array([b"a\xff"], pa.binary()).view(pa.string())
    good, refused = read(folder_of(tmp_path / "name", all=replaced("consumer_name", bad)))
    assert ([row["consumer_name"] for row in good], refused) == (["a\ufffd"], [])
    good, (row,) = read(folder_of(tmp_path / "topic", all=replaced("topic", bad)))
    assert (good, row["refused"], row["detail"]) == ([], "impossible_value", "topic = a\ufffd")


def test_absent_columns_are_null(tmp_path: Path) -> None:
    names = [name for name, value in FLOW.items() if value is not None]
    expected = read(folder_of(tmp_path / "all", all=table_of([FLOW])))
    assert read(folder_of(tmp_path / "few", all=table_of([FLOW]).select(names))) == expected
    unknown = pa.table({"an_addition": [1, 2]})
    good, refused = read(folder_of(tmp_path / "none", all=unknown))
    assert (good, [(row["line"], row["refused"], row["detail"]) for row in refused]) == (
        [],
        [(1, "missing_field", "event"), (2, "missing_field", "event")],
    )


@pytest.mark.parametrize("log", ["events.jsonl", "parquet"])
def test_only_rows_of_the_range_are_read(tmp_path: Path, log: str) -> None:
    rows = [{**FLOW, "seq": seq, "permits": -1 if seq % 2 else 1} for seq in range(20)] + [without(FLOW, "seq")]
    trace = folder_of(tmp_path, all=table_of(rows)) if log == "parquet" else lines_of(tmp_path, rows)
    for share in shares_in(trace) or ():
        ranged = share._replace(seqs=SeqRange(5, 9))
        parts = list(FilePart(ranged).read(["topic"], 3))
        assert sum(part.good.num_rows for part in parts) == 2
        assert sorted(seq for part in parts for seq in part.refused.column("seq").to_pylist()) == [5, 7]
        assert {name for part in parts for name in part.good.schema.names} == {"topic"}


@pytest.mark.parametrize("name", ["events.jsonl", "events-all.parquet"])
def test_shares_of_a_large_file_cover_every_row_once(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [{**FLOW, "seq": seq} for seq in range(200)]
    trace = folder_of(tmp_path, all=table_of(rows)) if name.endswith("parquet") else lines_of(tmp_path, rows)
    monkeypatch.setattr(shares, "SHARE_BYTES", 2_000)
    assert len(shares_in(trace) or ()) > 5
    assert [row["seq"] for row in read(trace)[0]] == list(range(200))


def test_what_workers_cannot_open_is_left_to_spark(tmp_path: Path) -> None:
    (remote,) = open_traces([f"file-x:{tmp_path}/events.parquet"], "pulsar-4.2.4")
    assert shares_in(remote) is None
    (table,) = open_traces(["a.b.c"], "pulsar-4.2.4")
    assert shares_in(table) is None
    (tmp_path / "trace.json").write_text(json.dumps(MANIFEST))
    write_deltalake(tmp_path / "events", table_of([FLOW]).drop_columns(["key"]), partition_by=["allow_out_of_order"])
    (partitioned,) = open_traces([tmp_path])
    assert shares_in(partitioned) is None


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("events.jsonl.gz", b"no gzip"),
        ("events.jsonl.gz", gzip.compress(b"{}\n" * 1_000, mtime=0)[:-8] + b"\0" * 8),
        ("events.jsonl.gz", gzip.compress(b"{}\n" * 1_000, mtime=0) + b"garbage"),
        ("events.parquet", b""),
        ("events.parquet", b"no Parquet at all, but long enough to be looked at"),
    ],
)
def test_a_damaged_file_is_named(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / "trace.json").write_text(json.dumps(MANIFEST))
    (tmp_path / name).write_bytes(content)
    (trace,) = open_traces([tmp_path])
    with pytest.raises(TraceError, match=f"cannot read .*{name}: .") as raised:
        read(trace)
    assert raised.value.way_out


def test_an_empty_file_has_no_rows(tmp_path: Path) -> None:
    (tmp_path / "trace.json").write_text(json.dumps(MANIFEST))
    (tmp_path / "events.jsonl").write_bytes(b"")
    (tmp_path / "acks.jsonl.gz").write_bytes(b"")
    (trace,) = open_traces([tmp_path])
    assert read(trace) == ([], [])
    assert shares_in(trace) == [Share("json", str(tmp_path / "acks.jsonl.gz"), str(tmp_path / "acks.jsonl.gz"))]


def _variants() -> dict[str, pa.Table]:
    """Tables whose columns have other types, values beyond them, or texts that are not UTF-8."""
    rows = [{**row, "seq": 2 + at} for at, row in enumerate([FLOW, PUBLISH, ACK, STATS, *BAD[::7]])]
    count = len(rows)
    large = pa.array([2**31 + at if at % 2 else 1 for at in range(count)], pa.int64())
    encoded = table_of(rows).drop_columns(["key"])
    as_text = [json.dumps(row["snapshot"]) if "snapshot" in row else None for row in rows]
    odd = [b"a\xff" if at % 2 else b"b" for at in range(count)]
    values = {
        "seq": pa.array([Decimal(at) if at % 3 else None for at in range(count)], pa.decimal128(38, 0)),
        "permits": large,
        "batch_size": large,
        "snapshot": pa.array(as_text),
        "topic": pa.array(odd, pa.binary()),
        "consumer_name": pa.array(odd, pa.binary()).view(pa.string()),
        "ack_type": pa.array(odd, pa.binary()).view(pa.string()),
        "positions": pa.array([[{"entry_id": at, "ledger_id": 2**at}] for at in range(count)]),
        "ack_set": pa.array([[at, None] if at % 2 else [] for at in range(count)], pa.list_(pa.int32())),
        "reason": pa.nulls(count, pa.float64()),
    }
    tables = {name: replaced(name, column, rows) for name, column in values.items()}
    tables["key_b64"] = encoded.append_column("key_b64", pa.array((["a2V5", "!", None] * count)[:count]))
    return tables


@pytest.mark.spark
def test_columns_of_other_types_are_read_as_through_a_scan(spark: SparkSession, tmp_path: Path) -> None:
    trace = folder_of(tmp_path, **_variants())
    (good, refused), (good_there, refused_there) = read(trace), scanned(spark, trace)
    assert Counter(map(repr, good)) == Counter(map(repr, good_there))
    for rows in (refused, refused_there):
        for row in rows:
            row["raw"] = _shown(row["raw"])
    assert Counter(map(repr, refused)) == Counter(map(repr, refused_there))
    # Neither side may be trivial.
    assert len(good) > 10
    assert len({row["refused"] for row in refused}) > 4


@pytest.mark.parametrize("kind", ["hive", "delta"])
def test_columns_may_be_in_the_names_of_folders_or_in_the_log_of_a_table(tmp_path: Path, kind: str) -> None:
    rows = [{**FLOW, "seq": seq, "topic": f"a/b=%{seq % 2} c", "permits": seq % 3} for seq in range(6)]
    rows += [{**FLOW, "seq": 6, "permits": -1}, {**PUBLISH, "seq": 7, "subscription": None}]
    expected = read(folder_of(tmp_path / "plain", all=table_of(rows)))
    folder = tmp_path / kind
    folder.mkdir()
    (folder / "trace.json").write_text(json.dumps(MANIFEST))
    names = ["topic", "subscription", "permits"]
    if kind == "delta":
        write_deltalake(folder / "events", table_of(rows), partition_by=names)
    else:
        partitioning = ds.partitioning(pa.schema([(name, ARROW_TYPES[name]) for name in names]), flavor="hive")
        ds.write_dataset(table_of(rows), folder / "events", format="parquet", partitioning=partitioning)
    (trace,) = open_traces([folder])
    good, refused = read(trace)
    assert good == expected[0]
    assert [(row["refused"], row["detail"], row["topic"]) for row in refused] == [
        (row["refused"], row["detail"], row["topic"]) for row in expected[1]
    ]
    assert [json.loads(row["raw"]) for row in refused] == [json.loads(row["raw"]) for row in expected[1]]
    ranged = [FilePart(share._replace(seqs=SeqRange(2, 4))) for share in shares_in(trace) or ()]
    looked_at = [row for part in ranged for batch in part.unchecked(["topic", "seq"]) for row in batch.to_pylist()]
    assert {(row["topic"], row["seq"]) for row in looked_at} == {("a/b=%0 c", 2), ("a/b=%1 c", 3)}


def test_a_folder_whose_name_gives_a_number_a_text_is_named(tmp_path: Path) -> None:
    trace = folder_of(tmp_path, all=table_of([FLOW]))
    (tmp_path / "events-all.parquet").rename(tmp_path / "a.parquet")
    (tmp_path / "events" / "permits=many").mkdir(parents=True)
    (tmp_path / "a.parquet").rename(tmp_path / "events" / "permits=many" / "a.parquet")
    (trace,) = open_traces([tmp_path])
    with pytest.raises(TraceError, match="folder permits=many gives column permits a text"):
        read(trace)


@pytest.mark.parametrize("log", ["events.jsonl", "parquet", "delta"])
def test_good_rows_that_are_asked_for_come_with_their_texts(tmp_path: Path, log: str) -> None:
    rows = [{**FLOW, "seq": seq} for seq in range(20)] + [{**FLOW, "seq": 3, "permits": -1}, {**JOIN, "seq": 3}]
    if log == "delta":
        (tmp_path / "trace.json").write_text(json.dumps(MANIFEST))
        write_deltalake(tmp_path / "events", table_of(rows))
        (trace,) = open_traces([tmp_path])
    else:
        trace = folder_of(tmp_path, all=table_of(rows)) if log == "parquet" else lines_of(tmp_path, rows)
    asked = AskedRows.of(pa.table({"topic": [FLOW["topic"], "other", FLOW["topic"]], "seq": [3, 4, 11]}))
    found = [row for part in parts_in(trace) for some in part.read(["seq"], 7, asked) for row in some.asked.to_pylist()]
    in_order = sorted(found, key=lambda row: (row["seq"], row["event"]))
    lines = [4, 22, 12] if log != "delta" else [None] * 3
    assert [(row["seq"], row["event"], row["line"], row["refused"]) for row in in_order] == [
        (seq, event, line, None)
        for (seq, event), line in zip([(3, "flow"), (3, "join"), (11, "flow")], lines, strict=True)
    ]
    assert [json.loads(row["raw"])["seq"] for row in in_order] == [3, 3, 11]


def _shown(raw: str) -> str:
    return json.dumps(json.loads(raw), sort_keys=True)
