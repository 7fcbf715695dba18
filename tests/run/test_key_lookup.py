"""The keys of findings: where they are looked up, and how they are shown."""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pytest
from conftest import WriteTrace
from local_replay import batches
from pyspark.sql import DataFrame, SparkSession
from trace_rows import ACK, PUBLISH

from dispatch_audit.pipeline.contract.profile import profile_for
from dispatch_audit.pipeline.packing.distinct_keys import DistinctKeys
from dispatch_audit.pipeline.packing.pack import pack
from dispatch_audit.pipeline.plan.staged_batches import StagedKind, staged, staged_payload
from dispatch_audit.pipeline.run.key_lookup import keys_of, with_keys
from dispatch_audit.pipeline.tables.rows import TableRows, held_rows
from dispatch_audit.pipeline.tables.table_schema import Column, TableSchema
from dispatch_audit.pipeline.trace import open_traces
from dispatch_audit.udfs.sticky_key_hash import key_ids

pytestmark = pytest.mark.spark

NO_TEXT = b"\xff\x00"
# Topic, ledger, entry, key, event. Entry 1:2 stands in two topics, 1:5 has two keys, 1:3 none.
ROWS: Sequence[tuple[str, int, int, bytes | None, str]] = [
    ("a", 1, 2, b"first", "publish"),
    ("a", 1, 2, b"first", "dispatch"),
    ("b", 1, 2, NO_TEXT, "dispatch"),
    ("a", 2, 1, b"other", "publish"),
    ("a", 1, 3, None, "publish"),
    ("a", 1, 5, b"z", "publish"),
    ("a", 1, 5, b"y", "dispatch"),
    # Distinguished from 1:2 by nothing but its numbers.
    ("a", 0, 0x1000003 + 2, b"collides", "publish"),
]
WANTED = [("a", 1, 2), ("b", 1, 2), ("b", 2, 1), ("a", 1, 3), ("a", 1, 5), ("a", 9, 9)]
FOUND = {("a", 1, 2): b"first", ("b", 1, 2): NO_TEXT, ("a", 1, 5): b"y"}


def _staged(spark: SparkSession, rows: Sequence[tuple[str, int, int, bytes | None, str]]) -> DataFrame:
    """What workers stage of rows, each half by one of two workers."""
    half = len(rows) // 2
    parts = []
    for of_worker in (rows[:half], rows[half:]):
        keys = DistinctKeys()
        for batch in batches([_row(seq, row) for seq, row in enumerate(of_worker)]):
            keys.add(batch.column("key"))
            parts.append(staged(pack(batch, profile_for("4.0.8", {}))))
        payload = keys.take()
        parts += [] if payload is None else [staged_payload(StagedKind.KEYS, payload)]
    return spark.createDataFrame(pa.Table.from_batches(parts))


def _row(seq: int, row: tuple[str, int, int, bytes | None, str]) -> Mapping[str, Any]:
    topic, ledger, entry, key, event = row
    about = {} if event == "publish" else {"subscription": "ks", "consumer": 1, "phase": "start"}
    return {
        **{"seq": seq, "ts_us": seq, "topic": topic, "ledger_id": ledger, "entry_id": entry},
        **{"key": key, "event": event, "batch_size": 1, **about},
    }


_TABLE = TableSchema(
    "entries",
    "",
    (
        Column("topic", "string", ""),
        *(Column(name, "bigint", "", nullable=True) for name in ("ledger_id", "entry_id", "key_id")),
        Column("key", "string", "", nullable=True),
    ),
    {},
)


def _rows(entries: Sequence[tuple[str, int | None, int | None]], key_id: int | None) -> TableRows:
    named = [dict(zip(("topic", "ledger_id", "entry_id", "key_id"), (*e, key_id), strict=True)) for e in entries]
    return held_rows(_TABLE, [pa.RecordBatch.from_pylist(named, _TABLE.arrow_schema)])


def _entries(key_id: int | None = None) -> list[TableRows]:
    # The last is a hash of which nothing was sent.
    return [_rows(WANTED[:3], key_id), _rows([*WANTED[2:], ("a", None, None)], key_id)]


def test_entries_without_the_id_of_a_key_are_found_by_their_positions(spark: SparkSession) -> None:
    assert keys_of(_entries(), _staged(spark, ROWS), spark) == FOUND


def test_a_known_id_names_the_key_wherever_it_was_sent(spark: SparkSession) -> None:
    (key_id,) = key_ids([b"collides"]).tolist()
    assert keys_of(_entries(key_id), _staged(spark, ROWS), spark) == dict.fromkeys(WANTED, b"collides")


def test_what_a_window_does_not_name_is_looked_up_in_what_lies_before(
    spark: SparkSession, write_trace: WriteTrace
) -> None:
    # Rows of the log before the window, one of which the checks refuse.
    a = {**PUBLISH, "topic": "a", "ledger_id": 1, "entry_id": 3, "key_b64": "YQ=="}
    b = {**PUBLISH, "topic": "b", "ledger_id": 2, "entry_id": 1, "key_b64": "Yg==", "batch_size": 0}
    (earlier,) = open_traces([write_trace([a, b, {**ACK, "key_b64": "Yg=="}])])
    staged_rows = _staged(spark, [row for row in ROWS if row[0] == "a"])
    expected = {entry: key for entry, key in FOUND.items() if entry[0] == "a"}
    assert keys_of(_entries(), staged_rows, spark, earlier) == {**expected, ("a", 1, 3): b"a"}


def test_a_key_that_is_no_text_is_shown_as_base64() -> None:
    shown = with_keys(_entries()[0], {("a", 1, 2): b"first", ("b", 1, 2): NO_TEXT}).select("topic", "key").to_pydict()
    assert shown == {"topic": ["a", "b", "b"], "key": ["first", "/wA=", None]}
    keys = {("a", 1, 2): b"first", ("b", 1, 2): NO_TEXT, ("b", 2, 1): b""}
    assert with_keys(_entries()[0], keys).select("key").to_pydict()["key"] == ["first", "/wA=", ""]
