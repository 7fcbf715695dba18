import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dispatch_audit.pipeline.convert import topic_files
from dispatch_audit.pipeline.convert.topic_files import TopicFiles
from dispatch_audit.pipeline.errors import TraceError

SCHEMA = pa.schema([("seq", pa.int64()), ("ts_us", pa.int64())])


def batch(first: int, rows: int) -> pa.RecordBatch:
    return pa.record_batch([pa.array(range(first, first + rows)), pa.array(range(rows))], schema=SCHEMA)


def test_rows_of_each_topic_keep_their_order_and_have_statistics(tmp_path: Path) -> None:
    files = TopicFiles(tmp_path, SCHEMA)
    for first in range(0, 40, 10):
        topics = pa.array(["b", "a"] * 5).dictionary_encode()
        files.add(topics, batch(first, 10), "log-0")
    done = {file.topic: file for file in files.done("log-0")}
    for topic, odd in (("a", 1), ("b", 0)):
        rows = pq.read_table(tmp_path / done[topic].path, partitioning=None)
        assert rows.column("seq").to_pylist() == [number for number in range(40) if number % 2 == odd]
        bounds = json.loads(done[topic].statistics)
        assert (bounds["minValues"]["seq"], bounds["maxValues"]["seq"]) == (odd, 38 + odd)
        assert bounds["numRecords"] == done[topic].rows == 20


def test_memory_and_open_files_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_files, "_WAITING_BYTES", 16 * 50)
    monkeypatch.setattr(topic_files, "_OPEN_FILES_MAX", 3)
    files = TopicFiles(tmp_path, SCHEMA)
    for first in range(0, 1000, 100):
        topics = pa.array([f"topic {number % 10}" for number in range(100)])
        files.add(topics, batch(first, 100), "log-0")
        assert files._waiting_bytes <= 16 * 50
        assert len(files._open) <= 3
    done = list(files.done("log-0"))
    assert len(done) > 10  # files were closed to open others
    assert sum(file.rows for file in done) == 1000
    by_name = [
        pq.read_table(tmp_path / file.path, partitioning=None) for file in sorted(done) if file.topic == "topic 7"
    ]
    assert pa.concat_tables(by_name).column("seq").to_pylist() == list(range(7, 1000, 10))


def test_a_name_that_is_no_name_of_a_folder_is_refused(tmp_path: Path) -> None:
    files = TopicFiles(tmp_path, SCHEMA)
    files.add(pa.array(["ü" * 50]), batch(0, 1), "log-0")
    with pytest.raises(TraceError, match="too long for a folder; convert to a table of a catalog"):
        list(files.done("log-0"))
