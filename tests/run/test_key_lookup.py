"""The keys of findings: where they are looked up, and how they are shown."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from dispatch_audit.pipeline.run.key_lookup import keys_of, with_keys
from dispatch_audit.pipeline.trace.parquet.worker_reader import Share

pytestmark = pytest.mark.spark

NO_TEXT = b"\xff\x00"
# Topic, ledger, entry, key, event. Entry 1:2 stands in two topics, 1:5 has two keys, 1:3 none.
ROWS = [
    ("a", 1, 2, b"first", "publish"),
    ("a", 1, 2, b"first", "dispatch"),
    ("b", 1, 2, NO_TEXT, "dispatch"),
    ("a", 2, 1, b"other", "publish"),
    ("a", 1, 3, None, "publish"),
    ("a", 1, 4, b"of an ack", "ack"),
    ("a", 1, 5, b"z", "publish"),
    ("a", 1, 5, b"y", "dispatch"),
    # Told apart from 1:2 by nothing but its numbers.
    ("a", 0, 0x1000003 + 2, b"collides", "publish"),
]
NAMES = ["topic", "ledger_id", "entry_id", "key", "event"]
WANTED = [("a", 1, 2), ("b", 1, 2), ("b", 2, 1), ("a", 1, 3), ("a", 1, 4), ("a", 1, 5), ("a", 9, 9)]
FOUND = {("a", 1, 2): b"first", ("b", 1, 2): NO_TEXT, ("a", 1, 5): b"y"}


def _table() -> pa.Table:
    types = [pa.string(), pa.int64(), pa.int64(), pa.binary(), pa.string()]
    columns = zip(*ROWS, strict=True)
    return pa.table([pa.array(column, found) for column, found in zip(columns, types, strict=True)], names=NAMES)


def _found(keys: DataFrame) -> dict[tuple[str, int, int], bytes]:
    return {(row["topic"], row["ledger_id"], row["entry_id"]): bytes(row["key"]) for row in keys.collect()}


def _entries(spark: SparkSession) -> list[DataFrame]:
    schema = "topic STRING, ledger_id LONG, entry_id LONG, key STRING"
    # The last is a hash of which nothing was sent.
    rows = [*((*entry, None) for entry in WANTED), ("a", None, None, None)]
    return [spark.createDataFrame(rows[:3], schema), spark.createDataFrame(rows[2:], schema)]


def test_files_and_rows_name_the_same_keys(spark: SparkSession, tmp_path: Path) -> None:
    paths = [tmp_path / "one.parquet", tmp_path / "two.parquet"]
    pq.write_table(_table().slice(0, 4), paths[0], row_group_size=2)
    pq.write_table(_table().slice(4), paths[1], row_group_size=2)
    shares = [Share(str(path), own, 2) for path in paths for own in range(2)]
    rows = spark.createDataFrame(_table()).selectExpr("*", "CAST(NULL AS STRING) AS refused")
    assert _found(keys_of(_entries(spark), shares, spark)) == FOUND
    assert _found(keys_of(_entries(spark), rows, spark)) == FOUND


def test_what_a_window_does_not_name_is_looked_up_in_what_lies_before(spark: SparkSession) -> None:
    rows = spark.createDataFrame(_table()).selectExpr("*", "CAST(NULL AS STRING) AS refused")
    other = "IF(topic = 'a', CAST('a' AS BINARY), key) AS key"
    earlier = rows.selectExpr("topic", "ledger_id", "entry_id", other, "event", "refused")
    assert _found(keys_of(_entries(spark), rows.where("topic = 'a'"), spark, earlier)) == {**FOUND, ("a", 1, 3): b"a"}


def test_a_refused_row_names_no_key(spark: SparkSession) -> None:
    rows = spark.createDataFrame(_table()).selectExpr("*", "IF(topic = 'b', 'wrong_type', NULL) AS refused")
    assert ("b", 1, 2) not in _found(keys_of(_entries(spark), rows, spark))


def test_nothing_wanted_reads_nothing(spark: SparkSession) -> None:
    none = spark.createDataFrame([], "topic STRING, ledger_id LONG, entry_id LONG")
    assert keys_of([none], [Share("there is no such file", 0, 1)], spark).collect() == []


def test_a_key_that_is_no_text_is_shown_as_base64(spark: SparkSession) -> None:
    keys = spark.createDataFrame(
        [("a", 1, 2, b"first"), ("b", 1, 2, NO_TEXT)], "topic STRING, ledger_id LONG, entry_id LONG, key BINARY"
    )
    shown = {row["topic"]: row["key"] for row in with_keys(_entries(spark)[0], keys).collect() if row["entry_id"] == 2}
    assert shown == {"a": "first", "b": "/wA="}
