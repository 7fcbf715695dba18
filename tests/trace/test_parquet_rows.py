"""What workers read of Parquet files is what was written, and a scan of Spark gives the same packed rows."""

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from arrow_rows import ARROW_SCHEMA, batch_of
from conftest import MANIFEST
from deltalake import write_deltalake
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from reading import parts_in
from test_row_checks import PLAIN
from trace_rows import ACK, FLOW, PUBLISH, REDELIVER, STATS, TOPIC, without

from dispatch_audit.pipeline.contract.profile import profile_for
from dispatch_audit.pipeline.packing.pack import COLUMNS, pack
from dispatch_audit.pipeline.packing.packed_batch import PackedBatch, merged, rows_for
from dispatch_audit.pipeline.plan.pack_on_spark import Packing, packed_rows
from dispatch_audit.pipeline.plan.place_on_spark import batches_of
from dispatch_audit.pipeline.plan.staged_batches import (
    BATCH_COLUMNS,
    STAGED_SCHEMA,
    StagedKind,
    decoded,
    decoded_batches,
)
from dispatch_audit.pipeline.trace import EVENT_SCHEMA, Log, Trace, open_traces
from dispatch_audit.pipeline.trace.workers.tasks import in_tasks

_PROFILE = profile_for("4.0.8", {})

# Fields that hold something only here; no two rows have the same seq.
_RICH: Sequence[Mapping[str, Any]] = (
    *PLAIN,
    {**PUBLISH, "seq": 20, "entry_id": 1, "batch_size": 3, "batch_keys": ["a", None, "b"]},
    {**PUBLISH, "seq": 21, "entry_id": 2, "batch_size": 2, "batch_keys": []},
    {**without(PUBLISH, "key_b64"), "seq": 22, "entry_id": 3, "key_source": "none", "sequence_id": 7},
    {**PUBLISH, "seq": 23, "entry_id": 4, "deliver_at_ms": 5, "size_bytes": 9, "publish_time_ms": 1},
    {
        **ACK,
        "seq": 24,
        "positions": [
            {"ledger_id": 31, "entry_id": 1, "ack_set": [-2, 2**63 - 1]},
            {"ledger_id": 31, "entry_id": 2, "ack_set": []},
            {"ledger_id": 31, "entry_id": 3},
        ],
    },
    {**ACK, "seq": 25, "ack_type": "cumulative"},
    {**REDELIVER, "seq": 26, "positions": [{"ledger_id": 31, "entry_id": 4}]},
    {
        **STATS,
        "seq": 27,
        "snapshot": {
            **STATS["snapshot"],
            "mark_delete_position": "31:2",
            "consumers_after_mark_delete_position": {"c0": "31:4", "c1": "31:5"},
        },
    },
)


def trace_of(folder: Path, *tables: pa.Table, **options: Any) -> Trace:
    """A trace of Parquet files, one for each table."""
    (folder / "trace.json").write_text(json.dumps(MANIFEST))
    (folder / "events").mkdir(exist_ok=True)
    for number, table in enumerate(tables):
        pq.write_table(table, folder / "events" / f"part-{number}.parquet", **options)
    (trace,) = open_traces([folder])
    return trace


def table_of(rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    return pa.Table.from_batches([batch_of(rows)])


def replaced(name: str, column: pa.Array, rows: Sequence[Mapping[str, Any]] = PLAIN) -> pa.Table:
    table = table_of(rows)
    return table.set_column(table.schema.get_field_index(name), name, column)


def read(trace: Trace, columns: Sequence[str] = COLUMNS, rows: int = 1 << 16) -> Iterator[dict[str, Any]]:
    """The good rows that workers read."""
    for part in parts_in(trace):
        for found in part.read(columns, rows):
            assert found.good.num_rows <= rows
            yield from found.good.to_pylist()


def _of_group(staged: DataFrame) -> list[object]:
    """The rows of the subscription in the order of seq, with their snapshots read: JSON has more than one form."""
    packed = decoded(batches_of(staged).where(sf.col("topic") == TOPIC).orderBy("first_seq").collect())
    own = [rows for batch in packed if (rows := rows_for("ks", batch)) is not None]
    (part,) = merged(own)
    snapshots = [(row.seq, row.ts_us, json.loads(row.text)) for row in part.snapshots]
    return [[column.tolist() for column in part.events], part.membership, snapshots, part.repeated]


@pytest.mark.spark
@pytest.mark.parametrize("kind", ["parquet", "delta", "table", "json"])
def test_a_scan_gives_the_packed_rows_that_workers_give(kind: str, spark: SparkSession, tmp_path: Path) -> None:
    table = table_of(_RICH)
    trace = trace_of(tmp_path, table.slice(0, 7), table.slice(7), row_group_size=3)
    work = packed_rows(Packing(_PROFILE, 1_000))
    expected = _of_group(in_tasks(spark, trace, work, STAGED_SCHEMA))
    assert "31:5" in str(expected[2])
    if kind != "parquet":
        shutil.rmtree(tmp_path / "events")
    if kind == "json":
        (tmp_path / "events.jsonl").write_text("".join(json.dumps(row) + "\n" for row in _RICH))
    elif kind != "parquet":
        write_deltalake(tmp_path / "events", table)
    (again,) = open_traces([tmp_path])
    if kind == "table":
        spark.read.format("delta").load(str(tmp_path / "events")).createOrReplaceTempView("rows_of_a_trace")
        again = replace(again, logs=(Log("table", "rows_of_a_trace", local=False),))
    assert _of_group(in_tasks(spark, again, work, STAGED_SCHEMA, scanned=True)) == expected


@pytest.mark.parametrize(
    ("chunk_rows", "packed"),
    [(1_000, [16]), (12, [12, 4]), (9, [8, 8]), (4, [4, 4, 4, 4])],
    ids=["all files", "three files", "two files", "each file"],
)
def test_rows_of_small_files_are_packed_together(chunk_rows: int, packed: list[int], tmp_path: Path) -> None:
    rows = table_of([{**PUBLISH, "seq": seq, "entry_id": seq} for seq in range(16)])
    trace = trace_of(tmp_path, *(rows.slice(at, 4) for at in range(0, 16, 4)))
    found = _packed_in(trace, chunk_rows)
    assert [batch.events.rows for batch in found] == packed
    (part,) = merged(found)
    assert part.events.seq.tolist() == list(range(16))


def test_rows_of_logs_in_two_formats_are_packed_apart(tmp_path: Path) -> None:
    publishes = [{**PUBLISH, "seq": seq, "entry_id": seq} for seq in range(5)]
    (tmp_path / "events.jsonl").write_text("".join(json.dumps(row) + "\n" for row in publishes[:2]))
    found = _packed_in(trace_of(tmp_path, table_of(publishes[2:4]), table_of(publishes[4:])), 1_000)
    assert sorted(batch.events.rows for batch in found) == [2, 3]
    (part,) = merged(sorted(found, key=lambda batch: batch.first_seq))
    assert part.events.seq.tolist() == list(range(5))


def _packed_in(trace: Trace, chunk_rows: int) -> list[PackedBatch]:
    """The packed batches of a task that has all files of a trace."""
    staged = pa.Table.from_batches(packed_rows(Packing(_PROFILE, chunk_rows))(iter(parts_in(trace))))
    of_batches = staged.filter(pc.equal(staged["kind"], int(StagedKind.PACKED)))
    return list(decoded_batches(of_batches.select(BATCH_COLUMNS).to_batches()))


def test_what_is_read_is_what_was_written(tmp_path: Path) -> None:
    table = table_of(_RICH)
    columns = [name for name in COLUMNS if name != "snapshot"]
    assert list(read(trace_of(tmp_path, table), columns)) == table.select(columns).to_pylist()


def test_a_snapshot_is_read_as_json_without_nulls(tmp_path: Path) -> None:
    (*_, row) = read(trace_of(tmp_path, table_of(_RICH)), ["snapshot"])
    assert json.loads(row["snapshot"]) == {
        **STATS["snapshot"],
        "mark_delete_position": "31:2",
        "consumers_after_mark_delete_position": {"c0": "31:4", "c1": "31:5"},
    }


def test_an_empty_list_of_positions_stays_one(tmp_path: Path) -> None:
    # In a row group of nothing else, whose statistics say the same of an empty list as of none.
    trace = trace_of(tmp_path, table_of([REDELIVER]))
    assert list(read(trace, ["positions"])) == [{"positions": []}]


def test_columns_that_a_file_lacks_are_null(tmp_path: Path) -> None:
    names = ["event", "seq", "ts_us", "topic", "subscription", "consumer", "permits"]
    trace = trace_of(tmp_path, table_of([FLOW, {**FLOW, "seq": 7}]).select(names))
    rows = list(read(trace))
    assert [row["seq"] for row in rows] == [6, 7]
    assert {name for row in rows for name, value in row.items() if value is not None} == set(names)


def test_columns_that_the_format_does_not_know_are_left_out(tmp_path: Path) -> None:
    added = table_of(PLAIN).append_column("an_addition", pa.array([{"a": [at]} for at in range(len(PLAIN))]))
    assert list(read(trace_of(tmp_path, added))) == list(read(trace_of(tmp_path, table_of(PLAIN))))


_FLOWS = [{**FLOW, "seq": seq} for seq in range(20)]
# None of these has a value in a flow.
_NULL_IN_FLOWS = ("positions", "reason", "snapshot", "batch_keys", "ack_set", "key", "ranges", "size_bytes", "entry_id")
_TYPES_OF_NOTHING = (
    pa.null(), pa.int32(), pa.int64(), pa.float64(), pa.string(), pa.bool_(), pa.binary(), pa.timestamp("us"),
    pa.list_(pa.int64()), pa.list_(pa.null()), pa.struct([("x", pa.int32())]),
)  # fmt: skip


@pytest.mark.parametrize("found", _TYPES_OF_NOTHING, ids=str)
@pytest.mark.parametrize("statistics", [True, False], ids=["statistics", "no statistics"])
def test_a_column_of_nulls_may_have_any_type(found: pa.DataType, statistics: bool, tmp_path: Path) -> None:
    table = table_of(_FLOWS)
    nulls = table
    for name in _NULL_IN_FLOWS:
        nulls = nulls.set_column(nulls.schema.get_field_index(name), name, pa.nulls(len(_FLOWS), found))
    (tmp_path / "typed").mkdir()
    expected = list(read(trace_of(tmp_path / "typed", table)))
    options = {"write_statistics": statistics, "row_group_size": 8}
    # Beside a file with the format's types, in which they hold something.
    trace = trace_of(tmp_path, nulls, table_of(_RICH), **options)
    columns = [name for name in COLUMNS if name != "snapshot"]
    assert list(read(trace, columns)) == [{name: row[name] for name in columns} for row in expected] + list(
        table_of(_RICH).select(columns).to_pylist()
    )


def test_what_is_null_within_may_have_no_type(tmp_path: Path) -> None:
    acks = [{**ACK, "seq": 1, "positions": [{"ledger_id": 31, "entry_id": 0, "ack_set": None}]}]
    shown = [{**STATS, "snapshot": {**STATS["snapshot"], "read_position": None, "consumers": []}}]
    # As pyarrow writes them, of which it has seen no value.
    positions, snapshot = pa.array([acks[0]["positions"]]), pa.array([shown[0]["snapshot"]])
    assert pa.types.is_null(positions.type.value_type.field("ack_set").type)
    assert pa.types.is_null(snapshot.type.field("consumers").type.value_type)
    (tmp_path / "b").mkdir()
    for folder, name, column, rows in (
        (tmp_path, "positions", positions, acks),
        (tmp_path / "b", "snapshot", snapshot, shown),
    ):
        found = list(read(trace_of(folder, replaced(name, column, rows))))
        (folder / "typed").mkdir()
        assert found == list(read(trace_of(folder / "typed", table_of(rows))))
        assert found[0][name] is not None


def _write(path: Path) -> None:
    path.parent.mkdir(exist_ok=True)
    pq.write_table(table_of(PLAIN), path)


@pytest.mark.parametrize("name", ["day=1/a.parquet", "_x=1/a.parquet", "more/a.parquet", "a=1.parquet"])
def test_files_in_folders_are_of_the_log(name: str, tmp_path: Path) -> None:
    trace = trace_of(tmp_path, table_of(PLAIN))
    _write(tmp_path / "events" / name)
    assert len(list(read(trace))) == 2 * len(PLAIN)


@pytest.mark.parametrize(
    "name", ["_a.parquet", ".a.parquet", "_SUCCESS", ".part-0.parquet.crc", "_temporary/a.parquet"]
)
def test_hidden_files_are_of_no_log(name: str, tmp_path: Path) -> None:
    trace = trace_of(tmp_path, table_of(PLAIN))
    _write(tmp_path / "events" / name)
    assert [Path(part.file).name for part in parts_in(trace)] == ["part-0.parquet"]


def test_dictionary_encoded_texts_are_packed_as_others_are(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, table_of(_RICH))
    (part,) = parts_in(trace)
    (batch,) = (found.good for found in part.read(COLUMNS, 1 << 16))
    assert pa.types.is_dictionary(batch.column("topic").type)
    texts = {"topic": pa.string(), "key": pa.binary()}
    plain = pa.record_batch(
        [
            column.cast(texts.get(name, pa.string())) if pa.types.is_dictionary(column.type) else column
            for name, column in zip(batch.schema.names, batch.columns, strict=True)
        ],
        names=batch.schema.names,
    )
    (some,), (others,) = pack(batch, _PROFILE), pack(plain, _PROFILE)
    assert [column.tolist() for column in some.events.wide()] == [column.tolist() for column in others.events.wide()]
    assert some[7:] == others[7:]
    assert ARROW_SCHEMA.names == EVENT_SCHEMA.names
