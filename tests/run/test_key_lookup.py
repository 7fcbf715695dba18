"""The keys of findings: where they are looked up, and how they are shown."""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pytest
from local_replay import batches
from pyspark.sql import DataFrame, SparkSession

from dispatch_audit.pipeline.contract.profile import profile_for
from dispatch_audit.pipeline.replay.packing.distinct_keys import DistinctKeys
from dispatch_audit.pipeline.replay.packing.pack import pack
from dispatch_audit.pipeline.replay.packing.staged_batches import Kind, staged, staged_payload
from dispatch_audit.pipeline.run.key_lookup import keys_of, with_keys
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
_ENTRIES = "topic STRING, ledger_id LONG, entry_id LONG, key_id LONG, key STRING"


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
        parts += [] if payload is None else [staged_payload(Kind.KEYS, payload)]
    return spark.createDataFrame(pa.Table.from_batches(parts))


def _row(seq: int, row: tuple[str, int, int, bytes | None, str]) -> Mapping[str, Any]:
    topic, ledger, entry, key, event = row
    about = {} if event == "publish" else {"subscription": "ks", "consumer": 1, "phase": "start"}
    return {
        **{"seq": seq, "ts_us": seq, "topic": topic, "ledger_id": ledger, "entry_id": entry},
        **{"key": key, "event": event, "batch_size": 1, **about},
    }


def _found(keys: DataFrame) -> dict[tuple[str, int, int], bytes]:
    return {(row["topic"], row["ledger_id"], row["entry_id"]): bytes(row["key"]) for row in keys.collect()}


def _entries(spark: SparkSession, key_id: int | None = None) -> list[DataFrame]:
    # The last is a hash of which nothing was sent.
    rows = [*((*entry, key_id, None) for entry in WANTED), ("a", None, None, None, None)]
    return [spark.createDataFrame(rows[:3], _ENTRIES), spark.createDataFrame(rows[2:], _ENTRIES)]


def test_entries_without_the_id_of_a_key_are_found_by_their_positions(spark: SparkSession) -> None:
    assert _found(keys_of(_entries(spark), _staged(spark, ROWS), spark)) == FOUND


def test_a_known_id_names_the_key_wherever_it_was_sent(spark: SparkSession) -> None:
    (key_id,) = key_ids([b"collides"]).tolist()
    found = _found(keys_of(_entries(spark, key_id), _staged(spark, ROWS), spark))
    assert found == dict.fromkeys(WANTED, b"collides")


def test_what_a_window_does_not_name_is_looked_up_in_what_lies_before(spark: SparkSession) -> None:
    # Rows of the log before the window, one of which the checks refused.
    earlier = spark.createDataFrame(
        [
            ("a", 1, 3, b"a", "publish", None),
            ("b", 2, 1, b"b", "publish", "wrong_type"),
            ("b", 9, 9, b"b", "ack", None),
        ],
        "topic STRING, ledger_id LONG, entry_id LONG, key BINARY, event STRING, refused STRING",
    )
    staged_rows = _staged(spark, [row for row in ROWS if row[0] == "a"])
    expected = {entry: key for entry, key in FOUND.items() if entry[0] == "a"}
    assert _found(keys_of(_entries(spark), staged_rows, spark, earlier)) == {**expected, ("a", 1, 3): b"a"}


def test_a_key_that_is_no_text_is_shown_as_base64(spark: SparkSession) -> None:
    keys = spark.createDataFrame(
        [("a", 1, 2, b"first"), ("b", 1, 2, NO_TEXT)], "topic STRING, ledger_id LONG, entry_id LONG, key BINARY"
    )
    shown = {row["topic"]: row["key"] for row in with_keys(_entries(spark)[0], keys).collect() if row["entry_id"] == 2}
    assert shown == {"a": "first", "b": "/wA="}
