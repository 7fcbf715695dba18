"""What workers read of Parquet files is what Spark reads of them, or nothing."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from arrow_rows import ARROW_SCHEMA, batch_of
from conftest import MANIFEST, WriteTrace
from pyspark.sql import DataFrame, SparkSession
from test_row_checks import PLAIN
from trace_rows import ACK, FLOW, JOIN, PUBLISH, REDELIVER, STATS, TOPIC, without

from dispatch_audit.pipeline.audit import audit
from dispatch_audit.pipeline.contract.profile import profile_for
from dispatch_audit.pipeline.errors import TraceError
from dispatch_audit.pipeline.replay.packed_source import Reading, counts_in
from dispatch_audit.pipeline.replay.packing.pack import COLUMNS, pack
from dispatch_audit.pipeline.replay.packing.packed_batch import PackedBatch, merged
from dispatch_audit.pipeline.replay.packing.staged_batches import decoded
from dispatch_audit.pipeline.replay.place_on_spark import batches_of
from dispatch_audit.pipeline.run.request import AuditRequest
from dispatch_audit.pipeline.settings import load_settings
from dispatch_audit.pipeline.trace import EVENT_SCHEMA, Trace, open_traces, read_events
from dispatch_audit.pipeline.trace.parquet import worker_reader as parquet_files
from dispatch_audit.pipeline.trace.parquet.worker_reader import (
    NotPlainError,
    Share,
    read_columns,
    read_names,
    read_share,
    shares_of,
)
from dispatch_audit.pipeline.trace.quarantine.row_counts import NOT_PLAIN
from dispatch_audit.pipeline.validation import validate

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
    """The rows that the workers read."""
    for share in shares_of(trace):
        for batch in read_share(share, columns, rows):
            assert 0 < batch.num_rows <= rows
            yield from batch.to_pylist()


def _chunks(staged: DataFrame) -> dict[tuple[str, str | None], list[object]]:
    """The packed batches of each subscription, put together, with their snapshots read.

    JSON may be written in more than one way.
    """
    rows = batches_of(staged).orderBy("first_seq").collect()
    batches: dict[tuple[str, str | None], list[PackedBatch]] = {}
    for packed in decoded(rows):
        batches.setdefault((packed.topic, packed.subscription), []).append(packed)
    found: dict[tuple[str, str | None], list[object]] = {}
    for owner, of_owner in sorted(batches.items(), key=str):
        (part,) = merged(of_owner)
        told = [(row.seq, row.ts_us, json.loads(row.text)) for row in part.snapshots]
        events = [column.tolist() for column in part.events]
        found[owner] = [events, part.membership, told, part.repeated, sorted(of_owner[0].published.sent, key=str)]
    return found


def _by_both(
    spark: SparkSession, trace: Trace
) -> tuple[dict[tuple[str, str | None], list[object]], dict[tuple[str, str | None], list[object]]]:
    workers = Reading(spark, trace, _PROFILE, load_settings()).packed_by_workers()
    assert workers is not None
    return _chunks(workers), _chunks(Reading(spark, trace, _PROFILE, load_settings()).packed_by_spark())


@pytest.mark.spark
def test_a_file_that_spark_wrote_gives_the_chunks_that_spark_gives(
    spark: SparkSession, write_trace: WriteTrace, tmp_path: Path
) -> None:
    others = [{**row, "topic": "other", "seq": 100 + row["seq"]} for row in _RICH]
    (lines,) = open_traces([write_trace([*_RICH, *others])])
    (tmp_path / "again").mkdir()
    (tmp_path / "again" / "trace.json").write_text(json.dumps(MANIFEST))
    events = read_events(spark, lines)
    assert events.where("refused IS NOT NULL").count() == 0
    events.select(*EVENT_SCHEMA.names).coalesce(1).write.parquet(str(tmp_path / "again" / "events"))
    (trace,) = open_traces([tmp_path / "again"])
    by_workers, by_spark = _by_both(spark, trace)
    assert len(by_workers) == 2
    assert by_workers == by_spark
    # And both hold what is special about these rows.
    _, _, told, _, sent = by_workers[TOPIC, "ks"]
    assert "31:5" in str(told)
    assert "p" in str(sent)


@pytest.mark.spark
def test_several_files_and_row_groups_give_the_chunks_that_spark_gives(spark: SparkSession, tmp_path: Path) -> None:
    table = table_of(_RICH)
    trace = trace_of(tmp_path, table.slice(0, 7), table.slice(7), row_group_size=3)
    by_workers, by_spark = _by_both(spark, trace)
    # What each chunk says of producers is added up later.
    assert [columns[:4] for columns in by_workers.values()] == [columns[:4] for columns in by_spark.values()]


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
    rows = list(read(trace, [*COLUMNS, "refused"]))
    assert [row["seq"] for row in rows] == [6, 7]
    assert {name for row in rows for name, value in row.items() if value is not None} == set(names)


def test_fields_that_a_struct_lacks_are_absent(tmp_path: Path) -> None:
    positions = pa.array([[{"ledger_id": 1, "entry_id": 2}]])
    row = without(ACK, "positions")
    trace = trace_of(tmp_path, replaced("positions", positions, [row]))
    with pytest.raises(NotPlainError):
        list(read(trace))
    snapshot = pa.array([{"seq_begin": 1, "seq_end": 1}])
    again = trace_of(tmp_path, replaced("snapshot", snapshot, [without(STATS, "snapshot")]))
    assert [json.loads(row["snapshot"]) for row in read(again)] == [{"seq_begin": 1, "seq_end": 1}]


def test_columns_that_the_format_does_not_know_are_left_out(tmp_path: Path) -> None:
    added = table_of(PLAIN).append_column("an_addition", pa.array([{"a": [at]} for at in range(len(PLAIN))]))
    assert list(read(trace_of(tmp_path, added))) == list(read(trace_of(tmp_path, table_of(PLAIN))))


@pytest.mark.heavy
@pytest.mark.parametrize("share_bytes", [2_000, 20_000, 1 << 30])
@pytest.mark.parametrize("rows_per_batch", [1, 4, 1_000])
def test_shares_cover_every_row_once(
    share_bytes: int, rows_per_batch: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet_files, "_SHARE_BYTES", share_bytes)
    rows = [{**FLOW, "seq": seq, "consumer_name": f"a name that takes some bytes {seq}"} for seq in range(100)]
    trace = trace_of(tmp_path, table_of(rows[:70]), table_of(rows[70:]), row_group_size=8)
    found = [row["seq"] for row in read(trace, rows=rows_per_batch)]
    assert sorted(found) == list(range(100))
    shares = shares_of(trace)
    parts = (batch for share in shares for batch in read_columns(share, ["seq", "topic"]))
    assert sorted(seq for part in parts for seq in part.column(0).to_pylist()) == list(range(100))
    assert len(shares) > 2 if share_bytes < 1 << 30 else len(shares) == 2


def test_names_are_told_once_a_row_group(tmp_path: Path) -> None:
    rows = [PUBLISH, FLOW, {**FLOW, "seq": 9}, {**FLOW, "subscription": "other"}]
    (share,) = shares_of(trace_of(tmp_path, table_of(rows)))
    assert sorted(read_names(share), key=str) == [(TOPIC, "ks", None), (TOPIC, "other", None), (TOPIC, None, None)]
    (alone,) = shares_of(trace_of(tmp_path, table_of([PUBLISH]).drop_columns(["subscription"])))
    assert list(read_names(alone)) == [(TOPIC, None, None)]


_LONGS = pa.array(range(len(PLAIN)), pa.int64())


@pytest.mark.parametrize(
    "table",
    [
        table_of(PLAIN).append_column("key_b64", pa.nulls(len(PLAIN), pa.string())),
        replaced("seq", _LONGS.cast(pa.int32())),
        replaced("seq", _LONGS.cast(pa.float64())),
        replaced("seq", _LONGS.cast(pa.decimal128(38, 0))),
        replaced("ts_us", _LONGS.cast(pa.timestamp("us"))),
        replaced("permits", _LONGS),
        replaced("topic", pa.array(["t"] * len(PLAIN), pa.binary())),
        replaced("topic", pa.array(["t"] * len(PLAIN), pa.large_string())),
        replaced("key", pa.array(["k"] * len(PLAIN), pa.string())),
        replaced("snapshot", pa.array(["{}"] * len(PLAIN), pa.string())),
        replaced("batch_keys", pa.array([[1]] * len(PLAIN), pa.list_(pa.int64()))),
        replaced("positions", pa.array([[{"ledger_id": 1, "entry_id": 1, "partition": 1}]] * len(PLAIN))),
        table_of(PLAIN).append_column("SEQ", _LONGS),
        table_of(PLAIN).append_column("seq", _LONGS),
        table_of(PLAIN).drop_columns(["snapshot"]).append_column("snapshot.seq_begin", _LONGS),
        table_of(PLAIN).append_column("size_bytes.unit", pa.array(["MB"] * len(PLAIN))),
        replaced("topic", pa.array([b"orders-\xff"] * len(PLAIN), pa.binary()).view(pa.string())),
        table_of([*PLAIN, {**PUBLISH, "size_bytes": -1}]),
        table_of([*PLAIN, {**PUBLISH, "publish_time_ms": -1}]),
        table_of([*PLAIN, {**FLOW, "permits": -1}]),
        table_of([*PLAIN, without(FLOW, "topic")]),
        table_of([*PLAIN, JOIN]),
        table_of(PLAIN).drop_columns(["seq"]),
    ],
    ids=lambda table: None,
)
def test_what_is_not_plain_is_left_to_spark(table: pa.Table, tmp_path: Path) -> None:
    with pytest.raises(NotPlainError):
        list(read(trace_of(tmp_path, table)))


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
    if not statistics:
        # Sizes are trusted to statistics only.
        nulls, rich = nulls.drop_columns(["size_bytes", "publish_time_ms"]), _RICH[:-5]
        trace = trace_of(tmp_path, nulls, table_of(rich).drop_columns(["size_bytes", "publish_time_ms"]), **options)
    else:
        rich = _RICH
    columns = [name for name in COLUMNS if name != "snapshot"]
    assert list(read(trace, columns)) == [{name: row[name] for name in columns} for row in expected] + list(
        table_of(rich).select(columns).to_pylist()
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


def test_one_value_of_another_type_leaves_the_file_to_spark(tmp_path: Path) -> None:
    rows = [*_FLOWS, {**FLOW, "seq": 20}]
    reason = pa.array([None] * 20 + [4], pa.int32())
    with pytest.raises(NotPlainError, match="reason is int32"):
        list(read(trace_of(tmp_path, replaced("reason", reason, rows), row_group_size=8)))
    positions = pa.array([None] * 20 + [[]], pa.list_(pa.int32()))
    with pytest.raises(NotPlainError, match="positions is list"):
        list(read(trace_of(tmp_path, replaced("positions", positions, rows), row_group_size=8)))


def test_sizes_are_trusted_to_statistics_only(tmp_path: Path) -> None:
    sized = table_of([{**PUBLISH, "size_bytes": 9}])
    assert len(list(read(trace_of(tmp_path, sized)))) == 1
    with pytest.raises(NotPlainError, match="has no statistics"):
        list(read(trace_of(tmp_path, sized, write_statistics=["seq"])))
    without_sizes = sized.drop_columns(["size_bytes", "publish_time_ms"])
    assert len(list(read(trace_of(tmp_path, without_sizes, write_statistics=False)))) == 1


def test_one_bad_row_in_the_last_row_group_is_found(tmp_path: Path) -> None:
    rows = [{**FLOW, "seq": seq} for seq in range(40)]
    trace = trace_of(tmp_path, table_of([*rows, {**FLOW, "permits": None}]), row_group_size=10)
    found = read(trace)
    assert [next(found)["seq"] for _ in range(40)] == list(range(40))
    with pytest.raises(NotPlainError):
        next(found)


def _write(path: Path) -> None:
    path.parent.mkdir(exist_ok=True)
    pq.write_table(table_of(PLAIN), path)


@pytest.mark.parametrize(
    "name",
    [
        "day=1/a.parquet",
        "_x=1/a.parquet",
        "more/a.parquet",
        "more.parquet/a.parquet",
        "a=1.parquet",
        "a.parq",
        "a.parquet.old",
    ],
)
def test_what_only_spark_knows_how_to_list_is_left_to_it(name: str, tmp_path: Path) -> None:
    trace = trace_of(tmp_path, table_of(PLAIN))
    _write(tmp_path / "events" / name)
    assert shares_of(trace) == []


@pytest.mark.spark
@pytest.mark.parametrize(
    "name", ["_a.parquet", ".a.parquet", "_SUCCESS", ".part-0.parquet.crc", "_temporary/a.parquet"]
)
def test_hidden_files_are_of_no_log(name: str, spark: SparkSession, tmp_path: Path) -> None:
    trace = trace_of(tmp_path, table_of(PLAIN))
    _write(tmp_path / "events" / name)
    assert [Path(share.path).name for share in shares_of(trace)] == ["part-0.parquet"]
    assert read_events(spark, trace).count() == len(PLAIN)


def test_other_logs_and_other_places_are_left_to_spark(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, table_of(PLAIN))
    assert len(shares_of(trace)) == 1
    (remote,) = open_traces([f"file-x:{tmp_path}/events/part-0.parquet"], "pulsar-4.2")
    assert shares_of(remote) == []
    # One log of lines, and Spark reads all of them.
    (tmp_path / "acks.jsonl").write_text("")
    (both,) = open_traces([tmp_path])
    assert len(both.logs) == 2
    assert shares_of(both) == []


def test_a_log_may_be_one_file(tmp_path: Path) -> None:
    trace_of(tmp_path, table_of(PLAIN))
    (tmp_path / "events" / "part-0.parquet").rename(tmp_path / "messages.parquet")
    (tmp_path / "events").rmdir()
    (trace,) = open_traces([tmp_path])
    assert shares_of(trace) == [Share(str(tmp_path / "messages.parquet"), 0, 1)]
    assert len(list(read(trace))) == len(PLAIN)


def _no_parquet(path: Path) -> None:
    path.write_bytes(b"no Parquet at all, but long enough to be looked at")


def _cut_off(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def _overwritten(path: Path) -> None:
    data = bytearray(path.read_bytes())
    # Behind the first magic number and before the footer, which stays as it was: only reading shows it.
    data[4:4000] = b"\xff" * 3996
    path.write_bytes(data)


def _empty(path: Path) -> None:
    path.write_bytes(b"")


@pytest.mark.spark
@pytest.mark.parametrize("spoil", [_no_parquet, _cut_off, _overwritten, _empty])
def test_a_damaged_file_is_told_as_spark_tells_it(
    spoil: Callable[[Path], None], spark: SparkSession, tmp_path: Path
) -> None:
    folder = tmp_path / "trace"
    folder.mkdir()
    rows = [{**FLOW, "seq": int(seq)} for seq in np.random.default_rng(1).permutation(5_000)]
    trace = trace_of(folder, table_of(rows))
    spoil(folder / "events" / "part-0.parquet")
    with pytest.raises(NotPlainError):
        list(read(trace))
    request = AuditRequest((str(folder),), str(tmp_path / "out"), None, load_settings())
    with pytest.raises(TraceError) as of_validate:
        validate(spark, request, lambda _: None)
    with pytest.raises(TraceError) as of_audit:
        audit(spark, request, lambda _: None)
    assert str(of_audit.value) == str(of_validate.value)
    assert "part-0.parquet" in str(of_audit.value)


@pytest.mark.spark
def test_names_and_rows_of_a_file_that_is_not_plain_are_spark_s(spark: SparkSession, tmp_path: Path) -> None:
    wrong_type = trace_of(tmp_path, replaced("seq", _LONGS.cast(pa.int32())))
    assert _left_to_spark(spark, wrong_type)
    (tmp_path / "b").mkdir()
    nameless = trace_of(tmp_path / "b", table_of([*PLAIN, without(without(FLOW, "topic"), "subscription")]))
    assert _left_to_spark(spark, nameless)


def _left_to_spark(spark: SparkSession, trace: Trace) -> bool:
    packed = Reading(spark, trace, _PROFILE, load_settings()).packed_by_workers()
    return packed is None or any(count.refused == NOT_PLAIN for count in counts_in(packed))


def test_dictionary_encoded_texts_are_packed_as_others_are(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, table_of(_RICH))
    (share,) = shares_of(trace)
    (batch,) = read_share(share, COLUMNS, 1 << 16)
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
