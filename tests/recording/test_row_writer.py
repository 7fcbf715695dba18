"""Rows that are handed over never wait for the disk; what is lost is counted, and the trace says so."""

import gzip
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from dispatch_audit.recording.client import ClientRecording
from dispatch_audit.recording.row_writer import RowWriter
from dispatch_audit.recording.trace_files import Rotation, TraceFiles

MANIFEST = {"pulsar_version": "4.2.4"}


def row(seq: int, subscription: str = "s") -> dict[str, Any]:
    return {"event": "ack", "seq": seq, "ts_us": 10 * seq, "topic": "t", "subscription": subscription}


def rows_in(folder: Path) -> list[dict[str, Any]]:
    files = sorted(folder.glob("events-*.jsonl.gz"))
    return [json.loads(line) for file in files for line in gzip.decompress(file.read_bytes()).splitlines()]


def files_in(folder: Path, rotation: Rotation | None = None) -> TraceFiles:
    return TraceFiles(folder, "events", MANIFEST, rotation or Rotation())


def test_a_visible_file_is_complete_and_not_too_large(tmp_path: Path) -> None:
    now = [0.0]
    files = TraceFiles(tmp_path, "events", MANIFEST, Rotation(bytes_max=500, seconds_max=60), lambda: now[0])
    for seq in range(20):
        files.write(row(seq))
        assert len(list(tmp_path.glob(".events-*"))) == 1
    by_size = len(list(tmp_path.glob("events-*")))
    assert by_size > 1
    now[0] = 61
    files.close_old()
    assert (len(list(tmp_path.glob("events-*"))), list(tmp_path.glob(".events-*"))) == (by_size + 1, [])
    files.close()
    assert [found["seq"] for found in rows_in(tmp_path)] == list(range(20))


def test_two_recorders_do_not_write_one_trace(tmp_path: Path) -> None:
    files_in(tmp_path)
    with pytest.raises(FileExistsError):
        files_in(tmp_path)


def test_a_stalled_disk_holds_nobody_up_and_what_is_dropped_is_counted(tmp_path: Path) -> None:
    files = files_in(tmp_path)
    # Opening a pipe without a reader stalls.
    pipe = tmp_path / ".events-00001.jsonl.gz"
    os.mkfifo(pipe)
    writer = RowWriter(files, rows_max=100)
    begun = time.monotonic()
    for seq in range(10_000):
        writer.offer(row(seq, "ab"[seq % 2]))
    # One that waited for the disk would wait for as long as it stalls, which is until it is read below.
    assert time.monotonic() - begun < 20
    # The thread holds the first one.
    assert 10_000 - 101 <= writer.dropped <= 10_000 - 100
    with pipe.open("rb") as reader:
        assert writer.close(120)
        rows = [json.loads(line) for line in gzip.decompress(reader.read()).splitlines()]
    written = [found["seq"] for found in rows if found["event"] == "ack"]
    assert len(written) + writer.dropped == 10_000
    lost = set(range(10_000)) - set(written)
    for remainder, name in enumerate("ab"):
        of_name = {seq for seq in lost if seq % 2 == remainder}
        gaps = [found for found in rows if found["event"] == "gap" and found["subscription"] == name]
        assert sum(gap["dropped"] for gap in gaps) == len(of_name)
        assert of_name <= {seq for gap in gaps for seq in range(gap["seq"], gap["seq_end"] + 1)}
        assert all(gap["ts_us"] == 10 * gap["seq"] and gap["topic"] == "t" for gap in gaps)


def test_a_full_disk_is_a_gap(tmp_path: Path) -> None:
    files = files_in(tmp_path, Rotation(bytes_max=300))
    (tmp_path / ".events-00002.jsonl.gz").symlink_to("/dev/full")
    writer = RowWriter(files, rows_max=100)
    for seq in range(30):
        writer.offer(row(seq))
    assert writer.close(120)
    (tmp_path / "events-00002.jsonl.gz").unlink(missing_ok=True)
    rows = rows_in(tmp_path)
    written = [found["seq"] for found in rows if found["event"] == "ack"]
    (gap,) = [found for found in rows if found["event"] == "gap"]
    lost = sorted(set(range(30)) - set(written))
    assert lost == list(range(gap["seq"], gap["seq_end"] + 1))
    assert gap["dropped"] == writer.dropped == len(lost) > 0
    assert max(written) == 29


def test_a_folder_that_cannot_be_written_does_not_stop_the_application(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    recording = ClientRecording(tmp_path / "file", pulsar_version="4.2.4")
    assert "nothing is recorded below" in caplog.text

    class Consumer:
        def receive(self) -> str:
            return "message"

    assert recording.consumer(Consumer()).receive() == "message"
    assert recording.close()


def test_an_error_in_the_recording_does_not_reach_the_application(tmp_path: Path) -> None:
    """A client whose messages answer nothing that a recording asks for."""

    class Consumer:
        closed = False

        def receive(self) -> str:
            return "message"

        def acknowledge(self, message: str) -> str:
            return f"acknowledged {message}"

        def close(self) -> None:
            self.closed = True

    with ClientRecording(tmp_path, pulsar_version="4.2.4") as recording:
        consumer = recording.consumer(Consumer())
        assert consumer.receive() == "message"
        assert consumer.acknowledge("message") == "acknowledged message"
        consumer.close()
        assert consumer.closed
        assert recording.errors == 3  # the join, the receive and the acknowledgement


_FORK = """
import os, sys
from dispatch_audit.recording.client.recording import ClientRecording
recording = ClientRecording(sys.argv[1], pulsar_version="4.2.4")
rows = recording._rows
rows.write("publish", {"topic": "t"})
# As if the thread that writes had just taken a row.
with rows._writer._queue.mutex:
    child = os.fork()
    if child == 0:
        rows.write("publish", {"topic": "of the child"})
        recording.close()
        os._exit(0)
os.waitpid(child, 0)
rows.write("publish", {"topic": "t"})
recording.close()
print(sorted({name.partition(".")[0] for name in sys.modules} & {"pyspark", "numpy", "pyarrow", "pydantic", "urllib3"}))
"""


def test_a_forked_process_records_nothing_and_importing_is_cheap(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _FORK, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    assert done.stdout.strip() == "[]"
    (folder,) = tmp_path.iterdir()
    assert [found["topic"] for found in rows_in(folder)] == ["t", "t"]


_FORGOTTEN = """
import sys
from dispatch_audit.recording.client.recording import ClientRecording
ClientRecording(sys.argv[1], pulsar_version="4.2.4")._rows.write("publish", {"topic": "t"})
"""


def test_a_recording_that_nobody_closes_is_whole_when_the_process_ends(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", _FORGOTTEN, str(tmp_path)], check=True, timeout=300)
    (folder,) = tmp_path.iterdir()
    assert [found["topic"] for found in rows_in(folder)] == ["t"]
