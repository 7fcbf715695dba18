"""Rows that are set aside: where they stand, and that the sum is right."""

import gzip
import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from conftest import WriteTrace
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from reading import kept, read, set_aside, shares_in
from trace_rows import ACK, FLOW, GAP, GAP_OF_ALL, GOOD_ROWS, PUBLISH, TOPIC

from benchmarks.typed_rows import typed_rows
from dispatch_audit.pipeline.replay.pack_on_spark import rows_with_texts
from dispatch_audit.pipeline.replay.packing.staged_batches import STAGED_SCHEMA
from dispatch_audit.pipeline.replay.staged_texts import rows_in
from dispatch_audit.pipeline.trace import open_traces
from dispatch_audit.pipeline.trace.workers import shares
from dispatch_audit.pipeline.trace.workers.tasks import in_tasks

pytestmark = pytest.mark.spark

_SPLITS = "spark.sql.files.maxPartitionBytes"


@pytest.fixture
def tiny_shares(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cuts files into shares of a few lines, as a file of gigabytes is cut."""
    monkeypatch.setattr(shares, "SHARE_BYTES", 500)


def refusals(spark: SparkSession, *rows: tuple[str | None, int, str], broker: str | None = None) -> DataFrame:
    """What the replay refused: subscription, seq, reason."""
    schema = "topic string, subscription string, broker string, seq long, reason string, detail string"
    told = [(TOPIC, name, broker, seq, reason, "said so") for name, seq, reason in rows]
    return spark.createDataFrame(told, schema)


# Garbage of many kinds and lengths, blank lines, and good rows, some of them with \r\n.
_MIXED = [
    line
    for number in range(40)
    for line in (
        json.dumps({**FLOW, "seq": number}) + "\r" * (number % 2),
        "",
        f"garbage {number} " + "x" * (37 * number % 301),
        "  \t\r",
        json.dumps({**FLOW, "seq": number, "permits": -number - 1}),
    )
]
_BAD_LINES = [number for number in range(1, len(_MIXED) + 1) if number % 5 in (3, 0)]


@pytest.mark.usefixtures("tiny_shares")
@pytest.mark.parametrize("log", ["events.jsonl", "events.jsonl.gz"])
def test_lines_are_counted_across_shares(spark: SparkSession, write_trace: WriteTrace, log: str) -> None:
    folder = write_trace(_MIXED, log=log)
    (folder / f"acks-{log}").write_bytes((folder / log).read_bytes())
    (trace,) = open_traces([folder])
    if not log.endswith(".gz"):
        assert len(shares_in(trace) or ()) > 20
    found = sorted(set_aside(spark, trace), key=lambda row: (row.file, row.line))
    expected = [(number, _MIXED[number - 1]) for number in _BAD_LINES]
    assert [(row.file, row.line, row.raw) for row in found] == [
        (str(folder / name), number, raw) for name in (f"acks-{log}", log) for number, raw in expected
    ]


def test_lines_of_a_scan_are_counted_across_splits(spark: SparkSession, write_trace: WriteTrace) -> None:
    folder = write_trace(_MIXED)
    (trace,) = open_traces([folder])
    spark.conf.set(_SPLITS, "500")
    try:
        assert (
            spark.read.text(str(folder / "events.jsonl")).select("_metadata.file_block_start").distinct().count() > 10
        )
        staged = in_tasks(spark, trace, rows_with_texts(lambda found: found.refused), STAGED_SCHEMA, scanned=True)
        found = rows_in(kept(staged)).orderBy("line").collect()
    finally:
        spark.conf.unset(_SPLITS)
    assert [(row.file, row.line, row.raw) for row in found] == [
        (str(folder / "events.jsonl"), number, _MIXED[number - 1]) for number in _BAD_LINES
    ]


def test_rows_in_are_good_rows_and_quarantined_rows(spark: SparkSession, write_trace: WriteTrace) -> None:
    (trace,) = open_traces([write_trace(_MIXED)])
    good, refused = read(trace)
    # Two of the good rows are refused by the replay, and one name that is in no row.
    late = refusals(
        spark, ("ks", 4, "unknown_consumer"), ("ks", 7, "impossible_transition"), ("ks", 999, "impossible_transition")
    )
    found = set_aside(spark, trace, late)
    assert len(good) + len(refused) == 120
    assert len(good) - 2 + len(found) == 120
    assert sorted((row.seq, row.reason, row.line) for row in found if row.detail == "said so") == [
        (4, "unknown_consumer", 21),
        (7, "impossible_transition", 36),
    ]


def test_an_odd_path_is_written_as_people_write_it(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "a b+c%20[1]"
    folder.mkdir()
    (folder / "trace.json").write_text('{"trace_format": 1, "pulsar_version": "4.0.8"}')
    (folder / "events.jsonl").write_text("x\n")
    (trace,) = open_traces([folder])
    assert [row.file for row in set_aside(spark, trace)] == [str(folder / "events.jsonl")]


def test_a_duplicate_seq_names_the_row_that_was_refused(spark: SparkSession, write_trace: WriteTrace) -> None:
    other = {**FLOW, "subscription": "other"}
    (trace,) = open_traces([write_trace([FLOW, other, {**FLOW, "permits": 3}, {**FLOW, "permits": 4}])])

    def found(*late: tuple[str, int, str]) -> list[tuple[int, str, str]]:
        rows = sorted(set_aside(spark, trace, refusals(spark, *late)), key=lambda row: int(row.line))
        return [(row.line, row.subscription, row.reason) for row in rows]

    assert found(("ks", 6, "duplicate_seq")) == [(4, "ks", "duplicate_seq")]
    assert found(("other", 6, "unknown_consumer")) == [(2, "other", "unknown_consumer")]
    assert found(("ks", 6, "duplicate_seq"), ("ks", 6, "duplicate_seq")) == [
        (3, "ks", "duplicate_seq"),
        (4, "ks", "duplicate_seq"),
    ]


@pytest.mark.parametrize(("broker", "line"), [("a", 1), ("", 2), (None, 2)])
def test_of_two_recorders_the_row_of_the_one_that_is_named_is_refused(
    spark: SparkSession, write_trace: WriteTrace, broker: str | None, line: int
) -> None:
    (trace,) = open_traces([write_trace([{**FLOW, "broker": "a"}, FLOW])])
    late = refusals(spark, ("ks", 6, "unknown_consumer"), broker=broker)
    assert [row.line for row in set_aside(spark, trace, late)] == [line]


def test_a_publish_is_one_row_however_many_subscriptions_refuse_it(
    spark: SparkSession, write_trace: WriteTrace
) -> None:
    (trace,) = open_traces([write_trace([PUBLISH, ACK])])
    late = refusals(spark, ("b", 1, "impossible_transition"), ("a", 1, "impossible_transition"))
    (row,) = set_aside(spark, trace, late)
    assert (row.subscription, row.seq, row.line, row.reason) == ("a", 1, 1, "impossible_transition")
    assert json.loads(row.raw) == PUBLISH


def test_a_gap_of_all_topics_that_is_delivered_twice_is_one_row(spark: SparkSession, write_trace: WriteTrace) -> None:
    """Each subscription of each topic refuses it; a gap of one topic with its seq was delivered once."""
    of_topic = {**GAP, "seq": GAP_OF_ALL["seq"], "seq_end": GAP_OF_ALL["seq"]}
    (trace,) = open_traces([write_trace([GAP_OF_ALL, FLOW, of_topic, GAP_OF_ALL])])
    seq = GAP_OF_ALL["seq"]
    late = refusals(spark, ("b", seq, "repeated_row"), ("a", seq, "repeated_row"))
    elsewhere = late.withColumn("topic", sf.lit("persistent://public/default/other"))
    found = set_aside(spark, trace, late.union(elsewhere))
    assert [(row.line, row.reason, row.seq) for row in found if row.line in (1, 4)] == [(4, "repeated_row", seq)]


def test_a_row_is_not_refused_twice(spark: SparkSession, write_trace: WriteTrace) -> None:
    (trace,) = open_traces([write_trace([{**FLOW, "permits": -1}])])
    late = refusals(spark, ("ks", 6, "unknown_consumer"))
    (row,) = set_aside(spark, trace, late)
    assert (row.reason, row.detail) == ("impossible_value", "permits = -1")


def test_the_replay_may_refuse_rows_of_parquet(spark: SparkSession, tmp_path: Path, write_trace: WriteTrace) -> None:
    (trace,) = open_traces([write_trace(GOOD_ROWS)])
    copy = tmp_path / "copy"
    (copy / "events").mkdir(parents=True)
    pq.write_table(typed_rows(trace), copy / "events" / "a.parquet")
    (copy / "trace.json").write_text((tmp_path / "trace.json").read_text())
    late = refusals(spark, ("ks", 6, "unknown_consumer"))
    (row,) = set_aside(spark, open_traces([copy])[0], late)
    assert (row.seq, row.reason, row.line) == (6, "unknown_consumer", 6)


def test_only_the_row_in_which_the_log_ends_is_cut_off(spark: SparkSession, write_trace: WriteTrace) -> None:
    (trace,) = open_traces([write_trace(["{", '{"event"'], ending="")])
    rows = sorted(set_aside(spark, trace), key=lambda row: int(row.line))
    assert [row.reason for row in rows] == ["broken_json", "cut_off"]


def test_a_file_of_gzip_members_is_one_file(spark: SparkSession, write_trace: WriteTrace) -> None:
    folder = write_trace([])
    members = [gzip.compress(f"{json.dumps(FLOW)}\ngarbage {number}\n".encode()) for number in range(2)]
    (folder / "events.jsonl").unlink()
    (folder / "acks.jsonl.gz").write_bytes(b"".join(members))
    (trace,) = open_traces([folder])
    rows = sorted(set_aside(spark, trace), key=lambda row: int(row.line))
    assert [(row.line, row.raw) for row in rows] == [(2, "garbage 0"), (4, "garbage 1")]
