import gzip
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import zstandard
from report_rows import FINDING

import dispatch_audit.pipeline.report.ci.locations
from dispatch_audit.pipeline.report.ci.locations import SourceLocation, source_locations
from dispatch_audit.pipeline.trace import Trace, open_traces

OTHER_TOPIC = replace(FINDING, topic="persistent://shop/eu/orders-partition-1")


def row(seq: int, topic: str = FINDING.topic) -> str:
    return json.dumps({"event": "dispatch", "seq": seq, "topic": topic, "subscription": FINDING.subscription})


def trace_of(folder: Path, **logs: bytes) -> Trace:
    folder.mkdir(parents=True)
    (folder / "trace.json").write_text('{"trace_format": 1, "pulsar_version": "4.0.8"}')
    for name, content in logs.items():
        (folder / name.replace("__", ".")).write_bytes(content)
    (trace,) = open_traces([folder])
    return trace


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_the_line_of_the_event_is_found_in_its_log(tmp_path: Path) -> None:
    messages = "\n".join([row(10), "", 'no JSON but "seq": 20', row(20), row(20)]).encode()
    trace = trace_of(tmp_path / "night", acks__jsonl=row(11).encode(), messages__jsonl=messages)
    assert source_locations(trace, [FINDING]) == [SourceLocation("night/messages.jsonl", 4)]


@pytest.mark.parametrize(("ending", "compress"), [("gz", gzip.compress), ("zst", zstandard.compress)])
def test_a_compressed_log_has_lines_too(tmp_path: Path, ending: str, compress: Callable[[bytes], bytes]) -> None:
    log = f"events__jsonl__{ending}"
    trace = trace_of(tmp_path / "night", **{log: compress(f"{row(1)}\n{row(20)}\n".encode())})
    assert source_locations(trace, [FINDING]) == [SourceLocation(f"night/events.jsonl.{ending}", 2)]


def test_recorders_of_two_topics_may_have_counted_alike(tmp_path: Path) -> None:
    rows = f"{row(20, OTHER_TOPIC.topic)}\n{row(20)}\n"
    trace = trace_of(tmp_path / "night", events__jsonl=rows.encode())
    found = source_locations(trace, [FINDING, OTHER_TOPIC])
    assert found == [SourceLocation("night/events.jsonl", 2), SourceLocation("night/events.jsonl", 1)]


@pytest.mark.parametrize(
    "rows",
    ['{"seq": 20, "topic": ["x"]}', '[{"seq": 20}]', '{"row": {"seq": 20}, "topic": 7}', row(21)],
)
def test_what_is_not_found_is_somewhere_in_the_first_log(tmp_path: Path, rows: str) -> None:
    trace = trace_of(tmp_path / "night", acks__jsonl=rows.encode(), messages__jsonl=rows.encode())
    assert source_locations(trace, [FINDING]) == [SourceLocation("night/acks.jsonl")]


def test_a_log_that_is_cut_off_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    packed = gzip.compress("\n".join(row(seq) for seq in range(20_000)).encode())
    trace = trace_of(tmp_path / "night", events__jsonl__gz=packed[: len(packed) // 2])
    last = replace(FINDING, seq=19_999)
    assert source_locations(trace, [FINDING, last]) == [
        SourceLocation("night/events.jsonl.gz", 21),
        SourceLocation("night/events.jsonl.gz"),
    ]


def test_large_logs_are_not_searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trace = trace_of(tmp_path / "night", events__jsonl=row(20).encode())
    monkeypatch.setattr(dispatch_audit.pipeline.report.ci.locations, "_SEARCHED_BYTES_MAX", 10)
    assert source_locations(trace, [FINDING]) == [SourceLocation("night/events.jsonl")]


def test_paths_become_uris(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trace = trace_of(tmp_path / "50% of äll #1", events__jsonl=row(20).encode())
    (place,) = source_locations(trace, [FINDING])
    assert place.path == "50% of äll #1/events.jsonl"
    assert place.uri == "50%25%20of%20%C3%A4ll%20%231/events.jsonl"
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert source_locations(trace, [FINDING])[0].uri.startswith("file:///")


def test_what_spark_alone_can_reach_keeps_its_name() -> None:
    (trace,) = open_traces(["hdfs://bucket/night/events.jsonl"], "pulsar-4.2.4")
    (place,) = source_locations(trace, [FINDING])
    assert place.path == place.uri == "hdfs://bucket/night/events.jsonl"
