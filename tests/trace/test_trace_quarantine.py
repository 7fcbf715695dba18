"""Rows that are set aside: where they stand, and that the sum is right."""

import gzip
import json
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import WriteTrace
from pyspark.sql import DataFrame, SparkSession
from reading import kept, read, set_aside, shares_in
from trace_rows import ACK, FLOW, GAP, GAP_OF_ALL, GOOD_ROWS, PUBLISH, TOPIC

from benchmarks.typed_rows import typed_rows
from dispatch_audit.pipeline.plan.pack_on_spark import rows_with_texts
from dispatch_audit.pipeline.plan.staged_batches import STAGED_SCHEMA
from dispatch_audit.pipeline.plan.staged_texts import rows_in
from dispatch_audit.pipeline.trace import open_traces
from dispatch_audit.pipeline.trace.workers import shares
from dispatch_audit.pipeline.trace.workers.tasks import in_tasks

pytestmark = pytest.mark.spark

_SPLITS = "spark.sql.files.maxPartitionBytes"


@pytest.fixture
def tiny_shares(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cuts files into shares of a few lines, as a file of gigabytes is cut."""
    monkeypatch.setattr(shares, "SHARE_BYTES", 1_200)


class Late(NamedTuple):
    """A row that the replay refused."""

    subscription: str
    seq: int
    reason: str
    broker: str | None = None
    topic: str = TOPIC


def refusals(spark: SparkSession, *rows: Late) -> DataFrame:
    """What the replay refused."""
    texts = ("topic", "subscription", "broker", "reason", "detail")
    schema = pa.schema([("seq", pa.int64()), *((name, pa.string()) for name in texts)])
    refused = [{**row._asdict(), "detail": "said so"} for row in rows]
    return spark.createDataFrame(pa.Table.from_pylist(refused, schema))


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
    spark.conf.set(_SPLITS, "2000")
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
        spark,
        Late("ks", 4, "unknown_consumer"),
        Late("ks", 7, "impossible_transition"),
        Late("ks", 999, "impossible_transition"),
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


def test_a_duplicate_seq_names_the_rows_that_were_refused(spark: SparkSession, write_trace: WriteTrace) -> None:
    once, twice = ([{**FLOW, "subscription": name, "permits": at} for at in (1, 3, 4)] for name in ("once", "twice"))
    others = [{**FLOW, "subscription": name} for name in ("other", "good")]
    (trace,) = open_traces([write_trace([once[0], *others, *once[1:], *twice])])
    late = refusals(
        spark,
        Late("once", 6, "duplicate_seq"),
        Late("other", 6, "unknown_consumer"),
        Late("twice", 6, "duplicate_seq"),
        Late("twice", 6, "duplicate_seq"),
    )
    rows = sorted(set_aside(spark, trace, late), key=lambda row: int(row.line))
    assert [(row.line, row.subscription, row.reason) for row in rows] == [
        (2, "other", "unknown_consumer"),
        (5, "once", "duplicate_seq"),
        (7, "twice", "duplicate_seq"),
        (8, "twice", "duplicate_seq"),
    ]


def test_of_two_recorders_the_row_of_the_one_that_is_named_is_refused(
    spark: SparkSession, write_trace: WriteTrace
) -> None:
    brokers = {"by a": "a", "by no name": "", "by any": None}
    rows = [{**FLOW, "subscription": name, **by} for name in brokers for by in ({"broker": "a"}, {})]
    (trace,) = open_traces([write_trace(rows)])
    late = refusals(spark, *(Late(name, 6, "unknown_consumer", broker) for name, broker in brokers.items()))
    found = sorted((row.line, row.subscription) for row in set_aside(spark, trace, late))
    assert found == [(1, "by a"), (4, "by no name"), (6, "by any")]


def test_a_publish_is_one_row_however_many_subscriptions_refuse_it(
    spark: SparkSession, write_trace: WriteTrace
) -> None:
    (trace,) = open_traces([write_trace([PUBLISH, ACK])])
    late = refusals(spark, Late("b", 1, "impossible_transition"), Late("a", 1, "impossible_transition"))
    (row,) = set_aside(spark, trace, late)
    assert (row.subscription, row.seq, row.line, row.reason) == ("a", 1, 1, "impossible_transition")
    assert json.loads(row.raw) == PUBLISH


def test_a_gap_of_all_topics_that_is_delivered_twice_is_one_row(spark: SparkSession, write_trace: WriteTrace) -> None:
    """Each subscription of each topic refuses it; a gap of one topic with its seq was delivered once."""
    of_topic = {**GAP, "seq": GAP_OF_ALL["seq"], "seq_end": GAP_OF_ALL["seq"]}
    (trace,) = open_traces([write_trace([GAP_OF_ALL, FLOW, of_topic, GAP_OF_ALL])])
    seq = GAP_OF_ALL["seq"]
    topics = (TOPIC, "persistent://public/default/other")
    late = [Late(name, seq, "repeated_row", topic=topic) for topic in topics for name in ("b", "a")]
    found = set_aside(spark, trace, refusals(spark, *late))
    assert [(row.line, row.reason, row.seq) for row in found if row.line in (1, 4)] == [(4, "repeated_row", seq)]


def test_a_row_is_not_refused_twice(spark: SparkSession, write_trace: WriteTrace) -> None:
    (trace,) = open_traces([write_trace([{**FLOW, "permits": -1}])])
    late = refusals(spark, Late("ks", 6, "unknown_consumer"))
    (row,) = set_aside(spark, trace, late)
    assert (row.reason, row.detail) == ("impossible_value", "permits = -1")


def test_the_replay_may_refuse_rows_of_parquet(spark: SparkSession, tmp_path: Path, write_trace: WriteTrace) -> None:
    (trace,) = open_traces([write_trace(GOOD_ROWS)])
    copy = tmp_path / "copy"
    (copy / "events").mkdir(parents=True)
    pq.write_table(typed_rows(trace), copy / "events" / "a.parquet")
    (copy / "trace.json").write_text((tmp_path / "trace" / "trace.json").read_text())
    late = refusals(spark, Late("ks", 6, "unknown_consumer"))
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
