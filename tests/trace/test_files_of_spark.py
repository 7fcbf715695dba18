"""The same rows from JSON Lines, and from Parquet and Delta that Spark wrote, in one log or in several."""

import json
from pathlib import Path

import pytest
from conftest import MANIFEST, WriteTrace
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import LongType
from reading import Rows, read, set_aside
from trace_rows import GOOD_ROWS

from benchmarks.typed_rows import typed_rows
from dispatch_audit.pipeline.errors import TraceError
from dispatch_audit.pipeline.trace import open_traces

pytestmark = pytest.mark.spark


@pytest.fixture
def events(spark: SparkSession, write_trace: WriteTrace) -> DataFrame:
    """The good rows, typed."""
    (trace,) = open_traces([write_trace(GOOD_ROWS, log="messages.jsonl")])
    return spark.createDataFrame(typed_rows(trace)).orderBy("seq")


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    """Where another recording of them can be put."""
    folder = tmp_path / "again"
    folder.mkdir()
    (folder / "trace.json").write_text(json.dumps(MANIFEST))
    return folder


def rows_of(folder: Path) -> Rows:
    (trace,) = open_traces([folder])
    good, refused = read(trace)
    assert refused == []
    return good


def test_every_kind_of_log_gives_the_same_rows(
    spark: SparkSession, tmp_path: Path, recording: Path, events: DataFrame
) -> None:
    expected = rows_of(tmp_path / "trace")
    assert bytes(expected[0]["key"]) == b"key-4"
    assert len(expected) == len(GOOD_ROWS)
    publishes = events.where("event = 'publish'")
    publishes.write.parquet(str(recording / "messages.parquet"))
    others = events.where("event <> 'publish'")
    # As few columns as these events have; the others are to become null.
    others.where("event = 'ack'").select(
        "event", "phase", "seq", "ts_us", "topic", "subscription", "consumer", "consumer_name", "consumer_id",
        "ack_type", "positions", sf.lit("carried").alias("an.addition"),
    ).write.format("delta").save(str(recording / "acks"))  # fmt: skip
    others.where("event <> 'ack'").write.parquet(str(recording / "events"))
    assert rows_of(recording) == expected


def test_gzip_makes_no_difference(spark: SparkSession, tmp_path: Path, write_trace: WriteTrace) -> None:
    plain = rows_of(write_trace(GOOD_ROWS))
    (tmp_path / "trace" / "events.jsonl").unlink()
    assert rows_of(write_trace(GOOD_ROWS, log="events.jsonl.gz")) == plain


def test_types_that_other_writers_choose_are_taken(
    spark: SparkSession, tmp_path: Path, recording: Path, events: DataFrame
) -> None:
    expected = rows_of(tmp_path / "trace")
    # As Spark infers them from the JSON: every integer is a long, and fields are in the order of the alphabet.
    inferred = spark.read.json(str(tmp_path / "trace" / "messages.jsonl"))
    assert isinstance(inferred.schema["batch_size"].dataType, LongType)
    as_text = inferred.withColumn("snapshot", sf.to_json("snapshot"))
    as_bytes = as_text.withColumn("topic", sf.col("topic").cast("binary"))
    as_bytes.withColumn("seq", sf.col("seq").cast("decimal(38,0)")).write.parquet(str(recording / "events"))
    assert rows_of(recording) == expected


def test_a_key_may_be_bytes_or_base64(spark: SparkSession, recording: Path, events: DataFrame) -> None:
    publish = events.where("event = 'publish'")
    publish.write.parquet(str(recording / "messages-0.parquet"))
    encoded = publish.withColumn("key_b64", sf.base64("key")).drop("key")
    encoded.withColumn("seq", sf.lit(2)).write.parquet(str(recording / "messages-1.parquet"))
    assert [(row["seq"], bytes(row["key"])) for row in rows_of(recording)] == [
        (1, b"key-4"),
        (2, b"key-4"),
    ]


def test_files_of_one_log_may_have_different_columns(
    spark: SparkSession, tmp_path: Path, recording: Path, events: DataFrame
) -> None:
    expected = rows_of(tmp_path / "trace")
    log = str(recording / "events")
    not_of_publish = ["phase", "consumer", "subscription", "positions", "snapshot", "ranges", "permits"]
    events.where("event = 'publish'").drop(*not_of_publish).write.parquet(log)
    events.where("event <> 'publish'").drop("producer_name", "sequence_id").write.mode("append").parquet(log)
    assert rows_of(recording) == expected


def test_what_does_not_fit_refuses_the_row_and_names_it(
    spark: SparkSession, recording: Path, events: DataFrame
) -> None:
    flow = events.where("event = 'flow'").drop("key")
    seq = sf.explode(sf.array(sf.lit(6), sf.lit(7))).alias("seq")
    others = [name for name in flow.columns if name not in ("seq", "permits")]
    too_large = flow.select(*others, seq).withColumn("permits", sf.col("seq") * sf.lit(500_000_000).cast("long"))
    too_large.withColumn("key_b64", sf.lit("!")).coalesce(1).write.parquet(str(recording / "events"))
    (trace,) = open_traces([recording])
    found = sorted(set_aside(spark, trace), key=lambda row: int(row.line))
    assert [(row.seq, row.reason, row.detail, row.line) for row in found] == [
        (6, "wrong_type", "permits = 3000000000, not a whole number of 32 bits", 1),
        (7, "wrong_type", "permits = 3500000000, not a whole number of 32 bits", 2),
    ]
    assert found[0].file.startswith(str(recording / "events" / "part-"))
    assert '"permits":3000000000' in found[0].raw


_NOTHING = ("int", "double", "boolean", "timestamp", "array<int>", "struct<x: int>", "string")


@pytest.mark.parametrize("kind", ["parquet", "delta"])
def test_a_column_of_nulls_may_have_any_type(
    kind: str, spark: SparkSession, tmp_path: Path, recording: Path, events: DataFrame
) -> None:
    expected = [row for row in rows_of(tmp_path / "trace") if row["event"] == "flow"]
    # Each of them null in a flow.
    nulls = {
        name: sf.lit(None).cast(_NOTHING[at % len(_NOTHING)])
        for at, name in enumerate([*(name for name in events.columns if expected[0][name] is None), "key_b64"])
    }
    assert len(nulls) > 2 * len(_NOTHING)
    events.where("event = 'flow'").withColumns(nulls).write.format(kind).save(str(recording / "events"))
    assert rows_of(recording) == expected


def test_files_of_one_log_may_differ_in_the_types_of_what_is_null(
    spark: SparkSession, tmp_path: Path, recording: Path, events: DataFrame
) -> None:
    expected = rows_of(tmp_path / "trace")
    log = str(recording / "events+%20{1}")
    (recording / "trace.json").write_text(json.dumps(MANIFEST))
    null = sf.lit(None).cast("int")
    of_publish = dict.fromkeys(("phase", "consumer", "subscription", "positions", "snapshot", "ranges"), null)
    events.where("event = 'publish'").withColumns(of_publish).write.parquet(f"{log}/day=1")
    events.where("event = 'flow'").withColumn("key", null).write.parquet(f"{log}/day=2")
    events.where("event NOT IN ('publish', 'flow')").write.parquet(f"{log}/day=2/more")
    assert rows_of(recording) == expected


def test_fields_of_nulls_may_have_any_type(
    spark: SparkSession, tmp_path: Path, recording: Path, events: DataFrame
) -> None:
    expected = [row for row in rows_of(tmp_path / "trace") if row["event"] == "ack"]
    no_set = sf.transform("positions", lambda p: p.withField("ack_set", sf.lit(None).cast("int")))
    acks = events.where("event = 'ack'")
    acks.withColumn("positions", no_set).write.parquet(str(recording / "events"))
    assert expected[0]["positions"][0]["ack_set"] is None
    assert rows_of(recording) == expected
    with_set = sf.transform("positions", lambda p: p.withField("ack_set", sf.lit(4)))
    acks.withColumn("positions", with_set).write.mode("append").parquet(str(recording / "events"))
    (trace,) = open_traces([recording])
    with pytest.raises(TraceError, match=r"column positions has type array<struct<.*ack_set:int>>, but format 1 has"):
        read(trace)


@pytest.mark.parametrize(
    ("name", "value", "found"),
    [("seq", "6.0D", "double"), ("key", "'a'", "string"), ("positions", "1", "int"), ("topic", "1", "int")],
)
def test_an_impossible_type_names_log_and_column(
    spark: SparkSession, recording: Path, events: DataFrame, name: str, value: str, found: str
) -> None:
    events.withColumn(name, sf.expr(value)).limit(1).write.parquet(str(recording / "events"))
    (trace,) = open_traces([recording])
    with pytest.raises(TraceError, match=rf"again/events: column {name} has type {found}, but format 1 has"):
        read(trace)


def test_delta_and_tables_tell_file_but_not_line(spark: SparkSession, recording: Path, events: DataFrame) -> None:
    spoiled = events.where("event = 'flow'").withColumn("permits", sf.lit(-1))
    spoiled.write.format("delta").save(str(recording / "events"))
    spark.sql(f"CREATE TABLE spark_catalog.default.trace_events USING delta LOCATION '{recording}/events'")
    (in_files,) = set_aside(spark, open_traces([recording])[0])
    assert in_files.file.startswith(str(recording / "events"))
    assert (in_files.line, in_files.reason) == (None, "impossible_value")
    table = open_traces(["spark_catalog.default.trace_events"], "pulsar-4.2.4")[0]
    (in_table,) = set_aside(spark, table)
    spark.sql("DROP TABLE spark_catalog.default.trace_events")
    assert (in_table.file, in_table.line) == ("spark_catalog.default.trace_events", None)
