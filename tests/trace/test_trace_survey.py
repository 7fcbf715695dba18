"""What a trace holds, and when it cannot be audited."""

import gzip
import json
import random
import re
from pathlib import Path

import pytest
from conftest import WriteTrace
from deltalake import write_deltalake
from embedded_commands import EmbeddedCommands
from pyspark.sql import DataFrame, SparkSession
from reading import counts_in_parts
from trace_rows import FLOW, GAP, GAP_OF_ALL, GOOD_ROWS, JOIN, PUBLISH, REFUSED_JOIN, TOPIC

from benchmarks.typed_rows import typed_rows
from dispatch_audit.pipeline.errors import TraceError, UsageError
from dispatch_audit.pipeline.settings import TraceSettings, load_settings
from dispatch_audit.pipeline.trace import Survey, Trace, open_traces, survey, trace_errors
from dispatch_audit.pipeline.trace.quarantine.survey import TruncatedLog
from dispatch_audit.pipeline.validation import counts_of

DEFAULTS = load_settings().trace
LENIENT = TraceSettings(quarantine_ratio_max=1, truncated_log="quarantine", recorder_skew_ms=10)
CUT = json.dumps(FLOW)[:-9]


def surveyed(folder: Path, settings: TraceSettings = DEFAULTS) -> Survey:
    """A survey without Spark, in which no refused row may be looked at."""

    def refused() -> DataFrame:
        raise AssertionError("it asks for the refused rows")

    (trace,) = open_traces([folder])
    return survey(counts_in_parts(trace), refused, trace, settings)


def surveyed_on_spark(spark: SparkSession, folder: Path, settings: TraceSettings = DEFAULTS) -> Survey:
    (trace,) = open_traces([folder])
    return surveyed_trace(spark, trace, settings)


def surveyed_trace(spark: SparkSession, trace: Trace, settings: TraceSettings = DEFAULTS) -> Survey:
    return survey(*counts_of(spark, trace, 1_000), trace, settings)


def test_rows_are_counted_by_group_and_reason(write_trace: WriteTrace) -> None:
    garbage = {**FLOW, "seq": 99, "ts_us": 1, "permits": -1}
    found = surveyed(write_trace([*GOOD_ROWS, "garbage", "", garbage, garbage]), LENIENT)
    assert [(group.topic, group.subscription, group.rows, group.refused) for group in found.groups] == [
        (None, None, 1, {"broken_json": 1}),
        (TOPIC, None, 1, {}),
        (TOPIC, "ks", len(GOOD_ROWS) + 1, {"impossible_value": 2}),
    ]
    of_subscription = found.groups[2]
    assert (found.gaps, found.dropped) == (1, 5)
    # The garbage has a later seq and an earlier clock.
    assert (of_subscription.first_seq, of_subscription.last_seq) == (2, 23)
    assert of_subscription.first_ts_us == of_subscription.last_ts_us == PUBLISH["ts_us"]
    assert found.groups[0].first_seq is None
    assert (found.rows_in, found.refused) == (len(GOOD_ROWS) + 3, 3)
    assert found.refused_by_reason == {"broken_json": 1, "impossible_value": 2}


def test_a_gap_that_is_delivered_twice_is_one(write_trace: WriteTrace) -> None:
    found = surveyed(write_trace([FLOW, GAP, GAP, GAP_OF_ALL, GAP_OF_ALL, {**GAP, "seq": 99, "seq_end": 99}]))
    assert (found.rows_in, found.gaps, found.dropped) == (6, 3, 2 * GAP["dropped"] + GAP_OF_ALL["dropped"])


def test_a_subscription_by_entry_buckets_makes_a_trace_unusable(write_trace: WriteTrace) -> None:
    asked = {"entry_bucket_dispatch": True}
    # The broker refused the one, and the other asked for nothing.
    harmless = [{**REFUSED_JOIN, **asked}, {**JOIN, "entry_bucket_dispatch": False}]
    assert surveyed(write_trace([*GOOD_ROWS, *harmless])).refused == 0
    with pytest.raises(TraceError, match=f"subscription ks of {TOPIC}: entry-bucket dispatch"):
        surveyed(write_trace([*GOOD_ROWS, {**JOIN, **asked}]))


@pytest.mark.parametrize("text", ["", "\n \r\n\n"])
def test_an_empty_trace_is_unusable(write_trace: WriteTrace, text: str) -> None:
    with pytest.raises(TraceError, match="the trace is empty"):
        surveyed(write_trace([], ending=text))


@pytest.mark.spark
def test_too_much_garbage_is_refused_with_an_example(spark: SparkSession, write_trace: WriteTrace) -> None:
    nine = [FLOW] * 9
    bad = {**FLOW, "permits": -1}
    assert surveyed_on_spark(spark, write_trace([*nine, bad])).refused == 1
    folder = write_trace([*nine, "", bad, "garbage"])
    with pytest.raises(TraceError) as raised:
        surveyed_on_spark(spark, folder)
    said = str(raised.value)
    assert "the checks refuse 2 of 11 rows" in said
    assert f"impossible_value (permits = -1) in {folder}/events.jsonl, line 11" in said
    assert "quarantine_ratio_max" in raised.value.way_out


@pytest.mark.spark
@pytest.mark.parametrize("log", ["events.jsonl", "events.jsonl.gz"])
def test_a_cut_off_log_is_refused_or_quarantined(spark: SparkSession, write_trace: WriteTrace, log: str) -> None:
    folder = write_trace([*[FLOW] * 20, "", CUT], log=log, ending="")
    with pytest.raises(TraceError) as raised:
        surveyed_on_spark(spark, folder)
    assert f"{folder / log}, line 22: the log ends in the middle of a row" in str(raised.value)
    assert 'truncated_log = "quarantine"' in raised.value.way_out
    found = surveyed_on_spark(spark, folder, LENIENT)
    assert found.cut_off == (TruncatedLog(str(folder / log), 22),)
    assert (found.rows_in, found.refused_by_reason) == (21, {"cut_off": 1})


@pytest.mark.parametrize(
    ("last", "ending"),
    [(CUT, "\n"), (CUT, "\r\n"), ("garbage", ""), (json.dumps({**FLOW, "permits": -1}), ""), (CUT, "\n\n")],
    ids=["newline", "crlf", "no beginning of a row", "whole but impossible", "blank line after it"],
)
def test_other_bad_last_rows_are_ordinary(write_trace: WriteTrace, last: str, ending: str) -> None:
    found = surveyed(write_trace([*[FLOW] * 20, last], ending=ending))
    assert found.cut_off == ()
    assert found.refused == 1


def test_a_last_row_without_newline_is_a_row(write_trace: WriteTrace) -> None:
    assert surveyed(write_trace([FLOW, FLOW], ending="")).rows_in == 2


def _truncated_gzip() -> bytes:
    noise = random.Random(1)
    rows = "".join(json.dumps({**FLOW, "seq": noise.getrandbits(60)}) + "\n" for _ in range(5000))
    return gzip.compress(rows.encode())[:-2000]


@pytest.mark.spark
def test_an_unreadable_file_is_named(spark: SparkSession, write_trace: WriteTrace) -> None:
    folder = write_trace(GOOD_ROWS)
    (folder / "messages.jsonl.gz").write_bytes(b"plain text\n" * 99)
    with pytest.raises(TraceError, match=f"cannot read {folder}/messages.jsonl.gz: .*Not a gzipped file") as raised:
        surveyed_on_spark(spark, folder)
    assert "\n" not in str(raised.value)
    assert " at org.apache" not in str(raised.value)


def test_an_archive_that_ends_too_early_is_refused_unless_its_rows_are_wanted(
    run_embedded: EmbeddedCommands, write_trace: WriteTrace, tmp_path: Path
) -> None:
    folder = write_trace(GOOD_ROWS)
    (folder / "messages.jsonl.gz").write_bytes(_truncated_gzip())
    command = ("validate", folder, "--quiet", "--format", "json")
    done = run_embedded(*command)
    (found,) = json.loads(done.stdout)["traces"]
    assert (done.returncode, found["usable"]) == (3, False)
    assert re.search(r"messages.jsonl.gz, line \d+: the log ends in the middle of a row", found["fault"])
    config = tmp_path / "audit.toml"
    config.write_text('[trace]\ntruncated_log = "quarantine"\n')
    done = run_embedded(*command, "--config", config)
    (found,) = json.loads(done.stdout)["traces"]
    assert (done.returncode, found["usable"]) == (0, True)
    assert found["quarantined_by_reason"] == {"cut_off": 1}


@pytest.mark.spark
def test_a_lost_file_of_a_delta_table_is_named(spark: SparkSession, tmp_path: Path, write_trace: WriteTrace) -> None:
    (trace,) = open_traces([write_trace(GOOD_ROWS)])
    table = tmp_path / "trace" / "copy"
    write_deltalake(table, typed_rows(trace))
    (lost,) = table.glob("*.parquet")
    lost.unlink()
    with pytest.raises(TraceError, match=f"cannot read {lost}: "):
        surveyed_on_spark(spark, table)


@pytest.mark.spark
@pytest.mark.parametrize("name", ["spark_catalog.default.no_such_trace", "s3x://bucket/messages.jsonl"])
def test_what_spark_does_not_find_is_a_usage_error(spark: SparkSession, name: str) -> None:
    (trace,) = open_traces([name], "pulsar-4.2.4")
    with pytest.raises(UsageError, match=r"no_such_trace|s3x"):
        surveyed_trace(spark, trace)


def test_other_errors_pass_unchanged() -> None:
    fault = RuntimeError("[INTERNAL_ERROR] something else")
    with pytest.raises(RuntimeError) as raised, trace_errors():
        raise fault
    assert raised.value is fault
