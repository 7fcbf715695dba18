"""The wrapper of Pulsar's Python client against a real broker: what it records, and what an audit makes of it."""

import gzip
import json
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pulsar
import pytest
from command_line import run_embedded
from deltalake import DeltaTable
from real_broker import Broker

from dispatch_audit.recording.client import ClientRecording

KEY_SHARED = pulsar.ConsumerType.KeyShared
MESSAGES = 600
WORK_S_MAX = 120

# One broker for all of them.
pytestmark = [pytest.mark.broker, pytest.mark.xdist_group("broker")]


def connected(broker: Broker) -> pulsar.Client:
    return pulsar.Client(broker.service_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))


def rows_in(trace: Path) -> list[dict[str, Any]]:
    assert not list(trace.glob(".*")), "a file is not complete"
    files = sorted(trace.glob("events-*.jsonl.gz"))
    return [json.loads(line) for file in files for line in gzip.decompress(file.read_bytes()).splitlines()]


@pytest.fixture
def recorder(tmp_path: Path) -> Iterator[ClientRecording]:
    recorder = ClientRecording(tmp_path / "traces", pulsar_version="4.2.4")
    yield recorder
    recorder.close()


class Work:
    """What consumers have acknowledged of one topic, each in a thread of its own.

    Args:
        messages: how many there are.
    """

    def __init__(self, messages: int) -> None:
        self._messages = messages
        self._done: set[str] = set()
        self._end = time.monotonic() + WORK_S_MAX

    def work(self, consumer: Any, give_back_every: int = 0) -> None:
        """Receives and acknowledges until all messages are acknowledged, whoever did so."""
        number = 0
        while len(self._done) < self._messages and time.monotonic() < self._end:
            try:
                message = consumer.receive(100)
            except pulsar.Timeout:
                continue
            number += 1
            if give_back_every and number % give_back_every == 0 and message.redelivery_count() == 0:
                consumer.negative_acknowledge(message)
            else:
                consumer.acknowledge(message)
                self._done.add(str(message.message_id()))


def test_calls_of_an_application_are_recorded_and_audited(
    broker: Broker, recorder: ClientRecording, tmp_path: Path
) -> None:
    """Joins and leaves under load, messages given back, and a consumer that vanishes with its connection."""
    topic, subscription = f"persistent://public/default/client-{uuid4().hex}", "ks"
    work = Work(MESSAGES)
    client, crashing = recorder.client(connected(broker)), connected(broker)
    options = {"consumer_type": KEY_SHARED, "receiver_queue_size": 20, "negative_ack_redelivery_delay_ms": 200}
    consumers = [client.subscribe(topic, subscription, consumer_name=f"c{n}", **options) for n in range(2)]
    lost = recorder.consumer(crashing.subscribe(topic, subscription, consumer_name="lost", **options))
    producer = client.create_producer(topic, batching_enabled=False)

    def send() -> None:
        for number in range(MESSAGES):
            producer.send_async(b"x", lambda result, position: None, partition_key=f"key {number % 40}")
            time.sleep(0.001)
        producer.flush()

    threads = [threading.Thread(target=work.work, args=(consumer, 37)) for consumer in consumers]
    threads.append(threading.Thread(target=send))
    for thread in threads:
        thread.start()
    for _ in range(10):
        lost.receive(WORK_S_MAX * 1000)  # never acknowledged
    late = client.subscribe(topic, subscription, consumer_name="late", **options)
    crashing.shutdown()
    work.work(late)
    for thread in threads:
        thread.join()
    client.close()
    assert (recorder.close(), recorder.dropped, recorder.errors) == (True, 0, 0)

    received = check_rows(rows_in(recorder.folder))
    code, out, _ = run_embedded("validate", recorder.folder, "--format", "json")
    assert (code, json.loads(out)["traces"][0]["quarantined"]) == (0, 0)
    tables = tmp_path / "tables"
    code, out, err = run_embedded("audit", recorder.folder, "--out", tables)
    assert (code, err) == (0, "")
    assert "\nORDER     NOT PROVABLE  " in out
    assert "Source  recorded in a client, after the dispatch: " in out
    metrics = DeltaTable(tables / "metrics").to_pyarrow_table().to_pylist()
    assert sum(row["violations"] + row["known_bug"] for row in metrics) == 0
    checked = {row["rule"]: row["checked"] for row in metrics if row["checked"]}
    assert set(checked) == {"first_delivery_order", "single_holder"}
    assert checked["single_holder"] == received
    (run,) = DeltaTable(tables / "runs").to_pyarrow_table().to_pylist()
    assert (run["verdict"], run["recorded_by"]) == ("not_provable", "client")


def check_rows(rows: list[dict[str, Any]]) -> int:
    """Checks the rows of the application above; returns how many messages it received."""
    counts = Counter((row["event"], row.get("phase")) for row in rows)
    assert counts["publish", None] == MESSAGES
    assert counts["join", "end"] == 4
    assert counts["leave", "start"] == counts["leave", "end"] == 3  # a crash is seen by nobody
    assert counts["redeliver", None] > 0
    seqs = [row["seq"] for row in rows]
    assert len(seqs) == len(set(seqs))
    published, received = (
        {(row["ledger_id"], row["entry_id"]): row["key_b64"] for row in rows if row["event"] == event}
        for event in ("publish", "dispatch")
    )
    assert published == received
    assert len(set(published.values())) == 40
    return counts["dispatch", "end"]


def test_batches_partitions_and_listeners_are_recorded(broker: Broker, recorder: ClientRecording) -> None:
    topic = f"persistent://public/default/client-{uuid4().hex}"
    client = recorder.client(connected(broker))
    heard: list[tuple[object, object]] = []

    def listen(consumer: Any, message: Any) -> None:
        heard.append((consumer, message))
        consumer.acknowledge(message)

    subscribed = client.subscribe(topic, "ks", consumer_type=KEY_SHARED, message_listener=listen)
    # One batch, sent by the flush.
    producer = client.create_producer(topic, batching_enabled=True, batching_max_publish_delay_ms=WORK_S_MAX * 1000)
    for number in range(20):
        producer.send_async(b"x", lambda result, position: None, ordering_key="o", partition_key=f"key {number}")
    producer.flush()
    latest = time.monotonic() + WORK_S_MAX
    while len(heard) < 20 and time.monotonic() < latest:
        time.sleep(0.05)
    assert {consumer for consumer, _ in heard} == {subscribed}
    client.close()
    recorder.close()
    assert recorder.errors == 0
    rows = rows_in(recorder.folder)
    received = [row for row in rows if row["event"] == "dispatch"]
    assert [row["batch_index"] for row in received] == list(range(20))
    # The key of the batch decides, and the client does not know it.
    assert not any("key_b64" in row for row in received)
    assert {row["message_key_source"] for row in received} == {"ordering_key"}
    acks = [row["positions"][0]["ack_set"] for row in rows if row["event"] == "ack"]
    assert acks == [[~(1 << number)] for number in range(20)]
    code, out, _ = run_embedded("validate", recorder.folder, "--format", "json")
    assert (code, json.loads(out)["traces"][0]["quarantined"]) == (0, 0)


def test_receives_that_overlap_in_threads_have_no_order(broker: Broker, recorder: ClientRecording) -> None:
    topic = f"persistent://public/default/client-{uuid4().hex}"
    client = recorder.client(connected(broker))
    consumer = client.subscribe(topic, "ks", consumer_type=KEY_SHARED)
    producer = client.create_producer(topic, batching_enabled=False)
    work = Work(50)
    threads = [threading.Thread(target=work.work, args=(consumer,)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for number in range(50):
        producer.send(b"x", partition_key=f"key {number % 5}")
    for thread in threads:
        thread.join()
    client.close()
    recorder.close()
    received = [row for row in rows_in(recorder.folder) if row["event"] == "dispatch"]
    assert len(received) == 50
    assert [row for row in received if row.get("in_order") is False]
    assert all(("key_b64" in row) != (row.get("in_order") is False) for row in received)


def test_other_consumers_and_errors_are_those_of_the_client(broker: Broker, recorder: ClientRecording) -> None:
    topic = f"persistent://public/default/client-{uuid4().hex}"
    client = recorder.client(connected(broker))
    shared = client.subscribe(topic, "s", consumer_type=pulsar.ConsumerType.Shared)
    assert type(shared) is pulsar.Consumer
    consumer = client.subscribe(topic, "ks", consumer_type=KEY_SHARED)
    with pytest.raises(pulsar.Timeout):
        consumer.receive(10)
    with pytest.raises(ValueError, match="timeout_millis is expected to be of type 'int'"):
        consumer.receive("soon")
    with pytest.raises(TypeError):
        client.subscribe()
    assert consumer.subscription_name() == "ks"
    producer = client.create_producer(topic)
    with pytest.raises(ValueError, match="partition_key is expected to be either None or"):
        producer.send(b"x", partition_key=7)
    client.close()
    with pytest.raises(pulsar.AlreadyClosed):
        consumer.receive(10)
