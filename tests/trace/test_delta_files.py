"""Delta tables that the workers may read file by file, and those that only Spark reads right."""

import json
from pathlib import Path

import pyarrow as pa
import pytest
from arrow_rows import batch_of
from conftest import MANIFEST
from deltalake import DeltaTable, Field, write_deltalake
from deltalake.schema import PrimitiveType
from pyspark.sql import SparkSession
from reading import read, scanned, shares_in
from test_row_checks import PLAIN

from dispatch_audit.pipeline.trace import Trace, open_traces

SEQS = [int(row["seq"]) for row in PLAIN]


def trace_of(folder: Path) -> Trace:
    """A trace of one Delta table, written in two commits by delta-rs."""
    folder.mkdir(exist_ok=True)
    (folder / "trace.json").write_text(json.dumps(MANIFEST))
    for rows in (PLAIN[:4], PLAIN[4:]):
        write_deltalake(folder / "events", pa.Table.from_batches([batch_of(rows)]), mode="append")
    (trace,) = open_traces([folder])
    return trace


def trace_by_spark(folder: Path, spark: SparkSession, *partition: str) -> Trace:
    """The same, written by Spark."""
    folder.mkdir(exist_ok=True)
    (folder / "trace.json").write_text(json.dumps(MANIFEST))
    for rows in (PLAIN[:4], PLAIN[4:]):
        written = spark.createDataFrame(pa.Table.from_batches([batch_of(rows)])).coalesce(1).write.format("delta")
        written.mode("append").partitionBy(*partition).save(str(folder / "events"))
    (trace,) = open_traces([folder])
    return trace


def seqs_by_workers(trace: Trace) -> list[int] | None:
    return None if shares_in(trace) is None else [int(row["seq"]) for row in read(trace)[0]]


def seqs_by_scan(spark: SparkSession, trace: Trace) -> list[int]:
    return [int(row["seq"]) for row in scanned(spark, trace)[0]]


@pytest.mark.parametrize("name", ["trace", "it's 100%", "a b", "x=1"])
def test_a_plain_table_is_its_files(name: str, tmp_path: Path) -> None:
    assert seqs_by_workers(trace_of(tmp_path / name)) == sorted(SEQS)


@pytest.mark.spark
def test_a_plain_table_of_spark_is_its_files(spark: SparkSession, tmp_path: Path) -> None:
    assert seqs_by_workers(trace_by_spark(tmp_path / "trace", spark)) == sorted(SEQS)


def test_one_whose_path_delta_rs_cannot_open_is_left_to_spark(tmp_path: Path) -> None:
    trace_of(tmp_path / "trace")
    (tmp_path / "trace").rename(tmp_path / "a b%20c")
    (trace,) = open_traces([tmp_path / "a b%20c"])
    assert seqs_by_workers(trace) is None


def test_rows_that_delta_rs_copied_say_the_same_as_before(tmp_path: Path) -> None:
    trace = trace_of(tmp_path / "trace")
    before = [row for row in read(trace)[0] if int(row["seq"]) != SEQS[0]]
    # The others of its file are written once more, with texts of another Arrow type.
    DeltaTable(tmp_path / "trace" / "events").delete(f"seq = {SEQS[0]}")
    assert read(trace)[0] == before


@pytest.mark.spark
def test_of_a_table_that_was_changed_it_is_those_of_the_latest_version(spark: SparkSession, tmp_path: Path) -> None:
    trace = trace_of(tmp_path / "trace")
    events = tmp_path / "trace" / "events"
    write_deltalake(events, pa.Table.from_batches([batch_of(PLAIN[1:])]), mode="overwrite")
    DeltaTable(events).alter.add_columns(Field("note", PrimitiveType("string")))
    assert seqs_by_workers(trace) == sorted(SEQS[1:])
    assert seqs_by_scan(spark, trace) == sorted(SEQS[1:])


@pytest.mark.spark
@pytest.mark.parametrize("setting", ["delta.enableDeletionVectors", "delta.columnMapping.mode"])
def test_one_whose_log_says_how_to_read_its_files_is_left_to_spark(
    setting: str, spark: SparkSession, tmp_path: Path
) -> None:
    trace = trace_of(tmp_path / "trace")
    table = f"delta.`{tmp_path}/trace/events`"
    if setting.endswith("mode"):
        DeltaTable(tmp_path / "trace" / "events").delete(f"seq = {SEQS[0]}")
        spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('{setting}' = 'name')")
    else:
        spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('{setting}' = 'true')")
        # It stays in its file.
        spark.sql(f"DELETE FROM {table} WHERE seq = {SEQS[0]}")
    assert seqs_by_workers(trace) is None
    assert seqs_by_scan(spark, trace) == sorted(SEQS[1:])


@pytest.mark.spark
def test_of_one_with_partitions_the_log_has_their_values(spark: SparkSession, tmp_path: Path) -> None:
    trace = trace_by_spark(tmp_path / "trace", spark, "event", "subscription")
    expected = scanned(spark, trace)
    assert read(trace) == expected
    assert [row["event"] for row in expected[0]] == [row["event"] for row in sorted(PLAIN, key=lambda row: row["seq"])]


def test_one_that_lost_a_file_or_its_log_is_left_to_spark(tmp_path: Path) -> None:
    trace = trace_of(tmp_path / "trace")
    next((tmp_path / "trace" / "events").glob("*.parquet")).unlink()
    assert seqs_by_workers(trace) is None
    (tmp_path / "other" / "events" / "_delta_log").mkdir(parents=True)
    (tmp_path / "other" / "trace.json").write_text(json.dumps(MANIFEST))
    (empty,) = open_traces([tmp_path / "other"])
    assert seqs_by_workers(empty) is None
