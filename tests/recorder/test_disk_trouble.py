"""The disk hangs, is full, or the broker is killed: the broker goes on, and the trace says what it lacks."""

import contextlib
import json
import os
import signal
import threading
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pulsar
import pytest
from churn import client_of
from real_broker import NEWEST
from recording_broker import RecordingBroker, complete_rows, each_release, recording_broker, rows_of, wait_for
from test_recorded_broker import dispatch_audit

pytestmark = [pytest.mark.broker, pytest.mark.parametrize("release", each_release(NEWEST))]

TOPIC = "persistent://public/default/trouble"


def of_topic(row: dict[str, Any]) -> bool:
    """Whether a gap lost publishes: heartbeats, which may be lost too, have no topic."""
    return row.get("subscription") is None and row.get("topic") is not None


def published(broker: RecordingBroker, count: int) -> float:
    """Publishes and acknowledges messages, and returns the seconds that it took."""
    client = client_of(broker.service_url)
    began = time.monotonic()
    consumer = client.subscribe(TOPIC, "ks", consumer_type=pulsar.ConsumerType.KeyShared)
    producer = client.create_producer(TOPIC, batching_enabled=False, block_if_queue_full=True)
    for number in range(count):
        producer.send_async(b"0", lambda *_: None, partition_key=f"key-{number % 20}")
    producer.flush()
    for _ in range(count):
        consumer.acknowledge(consumer.receive(timeout_millis=10_000))
    took = time.monotonic() - began
    client.close()
    return took


def in_the_way(broker: RecordingBroker, make: Callable[[Path], object]) -> tuple[int, Path]:
    """Makes something at the path of a file that the recorder will open, surely before it does.

    Returns:
        How many files are complete when the recorder opens it, and its path.
    """
    wait_for(lambda: any(broker.folder.glob("*/events/*")), "the first file")
    while True:
        complete = broker.metric("files_completed_total") + 2
        path = broker.trace / "events" / f"{complete + 1:06d}.jsonl.gz.open"
        with contextlib.suppress(FileExistsError):
            make(path)
            if broker.metric("files_completed_total") <= complete:
                return complete, path
            # It came too late: this file is complete by now, and nobody opens another one of its name.
            path.unlink()


def frozen_with_an_open_file(broker: RecordingBroker) -> Path:
    """Stops the broker while a file with rows is open, as between two files there is none; returns the file."""
    while True:
        broker.process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, broker.process.pid, os.WSTOPPED)
        for log in broker.trace.glob("events/*.open"):
            if rows_of(log):
                return log
        broker.process.send_signal(signal.SIGCONT)
        time.sleep(0.1)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "traces"
    made.mkdir()
    return made


def test_a_disk_that_hangs_holds_up_nobody(release: str, folder: Path) -> None:
    # A pipe that nobody reads: the writer waits in the middle of opening it.
    with recording_broker(folder, release, FileSeconds=1, SnapshotMs=200, QueueRows=1024, ReservedRows=128) as broker:
        published(broker, 10)
        complete, pipe = in_the_way(broker, os.mkfifo)
        wait_for(lambda: broker.metric("files_completed_total") == complete, "the pipe to be opened")
        assert published(broker, 3_000) < 30
        wait_for(lambda: broker.metric("rows_dropped_total") > 0, "a dropped row")
        dropped = broker.metric("rows_dropped_total")
        assert broker.metric("queue_rows") > 0

        text: list[bytes] = []
        reader = threading.Thread(target=lambda: text.append(pipe.read_bytes()))
        reader.start()
        reader.join(30)
        wait_for(lambda: broker.metric("gaps_written_total") > 0, "a gap row")
        pipe.with_suffix("").unlink(missing_ok=True)
        rows = [*complete_rows(broker.trace), *_rows(text[0])]
        broker.process.kill()

    gaps = [row for row in rows if row["event"] == "gap"]
    assert sum(row["dropped"] for row in gaps) == dropped
    # The places for joins, leaves, resets and snapshots were enough.
    assert {name for row in gaps for name in row["dropped_events"]} <= {"publish", "dispatch", "ack"}
    assert {(row["topic"], row.get("subscription")) for row in gaps} == {(TOPIC, None), (TOPIC, "ks")}
    written = {row["seq"] for row in rows if row["event"] != "gap"}
    assert all(row["seq"] not in written and row["seq_end"] not in written for row in gaps)


def _rows(gzipped: bytes) -> list[dict[str, object]]:
    text = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16).decompress(gzipped)
    return [json.loads(line) for line in text.splitlines()]


def test_a_full_disk_costs_rows_and_nothing_else(release: str, folder: Path) -> None:
    with recording_broker(folder, release, FileSeconds=1, SnapshotMs=200, FlushMs=100) as broker:
        published(broker, 10)
        _, full = in_the_way(broker, lambda path: path.symlink_to("/dev/full"))
        wait_for(lambda: broker.metric("write_errors_total") > 0, "a write that fails")
        assert published(broker, 1_000) < 30
        wait_for(lambda: broker.metric("gaps_written_total") > 0, "a gap row")
        files = broker.metric("files_completed_total")
        wait_for(lambda: broker.metric("files_completed_total") > files + 1, "a complete file")
        dropped = broker.metric("rows_dropped_total")
        full.unlink()
        rows = complete_rows(broker.trace)
        broker.process.kill()

    gaps = [row for row in rows if row["event"] == "gap"]
    assert sum(row["dropped"] for row in gaps) == dropped > 0
    # All rows of that time are either written or within a gap.
    seqs = {row["seq"] for row in rows if row["event"] != "gap"}
    lost = {seq for row in gaps for seq in range(row["seq"], row["seq_end"] + 1)}
    publishes = [row for row in rows if row["event"] == "publish"]
    assert len(publishes) + sum(row["dropped"] for row in gaps if of_topic(row)) == 1_010
    assert lost - seqs


@pytest.mark.slow
def test_a_kill_leaves_whole_files_and_one_that_is_read_up_to_its_torn_line(
    release: str, folder: Path, tmp_path: Path
) -> None:
    with recording_broker(folder, release, FileSeconds=2, SnapshotMs=200, FlushMs=50) as broker:
        published(broker, 500)
        wait_for(lambda: broker.metric("files_completed_total") > 0, "a complete file")
        published(broker, 500)
        rows = broker.metric("rows_written_total")
        torn = frozen_with_an_open_file(broker)
        trace = broker.trace
        broker.process.kill()
        broker.process.wait()

    assert list(trace.glob("events/*.open")) == [torn]
    seqs = {row["seq"] for row in [*complete_rows(trace), *rows_of(torn)]}
    assert len(seqs) >= rows
    # Whole files alone are a trace without a fault.
    assert "0 would be quarantined" in dispatch_audit("validate", trace).stdout
    # The last one takes part under the name of a whole one (docs/RECORDING.md); of its torn line an audit says so.
    with torn.open("r+b") as cut:
        cut.truncate(torn.stat().st_size - 20)
    torn.rename(torn.with_suffix(""))
    settings = tmp_path / "audit.toml"
    settings.write_text('[trace]\ntruncated_log = "quarantine"\n')
    out = tmp_path / "audit"
    audit = ("audit", trace, "--config", settings, "--out", out, "--format", "json")
    report = json.loads(dispatch_audit(*audit).stdout)
    # On a busy machine the broker may have stood still for a while.
    assert (report["order"], report["quarantined"]) == ("kept", 1)
