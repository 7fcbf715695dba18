"""What a real broker records of batches of the Python client, of joins that it refuses, and while it hangs."""

import base64
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import pulsar
import pytest
from churn import SUBSCRIPTION, TOPIC, client_of
from recording_broker import RecordingBroker, complete_rows, each_release, recording_broker, rows_so_far, wait_for

pytestmark = pytest.mark.broker

BATCHES_READ = 10
BLOCKED_MS = 9_000
PRODUCERS: Mapping[str, Mapping[str, Any]] = {
    "mixes": {"batching_enabled": True},
    "mixes-lz4": {"batching_enabled": True, "compression_type": pulsar.CompressionType.LZ4},
    "by-key-zstd": {
        "batching_enabled": True,
        "batching_type": pulsar.BatchingType.KeyBased,
        "compression_type": pulsar.CompressionType.ZSTD,
    },
    "no-keys": {"batching_enabled": True},
    "chunks": {"batching_enabled": False, "chunking_enabled": True},
    "alone": {"batching_enabled": False},
}

Row = dict[str, Any]


def send(client: pulsar.Client, name: str) -> None:
    """Sends messages of five keys, with the settings of a producer."""
    delay = {"batching_max_publish_delay_ms": 50} if PRODUCERS[name]["batching_enabled"] else {}
    producer = client.create_producer(TOPIC, producer_name=name, **PRODUCERS[name], **delay)
    size = 2_500_000 if name == "chunks" else 20
    for number in range(2 if name == "chunks" else 200):
        key = None if name == "no-keys" else f"key {number % 5} ä"
        producer.send_async(b"0" * size, lambda *_: None, partition_key=key)
    producer.flush()
    producer.close()


@pytest.fixture(scope="module", params=each_release("3.0.7", "4.2.4"))
def rows(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[Row]:
    """What a broker recorded that was blocked for some seconds, and stopped in order."""
    folder = tmp_path_factory.mktemp("recorded") / "traces"
    folder.mkdir()
    settings = {"SnapshotMs": 200, "maxMessageSize": 1_000_000, "maxConsumersPerSubscription": 1}
    with recording_broker(folder, request.param, **settings) as broker:
        client = client_of(broker.service_url)
        consumer = client.subscribe(TOPIC, SUBSCRIPTION, consumer_type=pulsar.ConsumerType.KeyShared, consumer_name="c")
        for name in PRODUCERS:
            send(client, name)
        with pytest.raises(pulsar.PulsarException):
            _one_too_many(client)
        broker.block(TOPIC, BLOCKED_MS)
        wait_for(lambda: bool(_hangs(broker, "end")), "a snapshot that hung, and ended")
        consumer.close()
        client.close()
    return complete_rows(next(folder.iterdir()))


def _one_too_many(client: pulsar.Client) -> pulsar.Consumer:
    return client.subscribe(TOPIC, SUBSCRIPTION, consumer_type=pulsar.ConsumerType.KeyShared, consumer_name="other")


def _hangs(broker: RecordingBroker, phase: str) -> Sequence[Row]:
    return [row for row in rows_so_far(broker.trace, "hang") if row["phase"] == phase]


def batches_of(rows: Sequence[Row]) -> Mapping[str, list[Row]]:
    """The entries of each producer with several messages."""
    found: defaultdict[str, list[Row]] = defaultdict(list)
    for row in rows:
        if row["event"] == "publish" and row["batch_size"] > 1:
            found[row["producer_name"]].append(row)
    return found


def test_keys_in_the_first_batches_of_each_producer_are_recorded(rows: list[Row]) -> None:
    batches = batches_of(rows)
    assert {"mixes", "mixes-lz4", "by-key-zstd", "no-keys"} == set(batches)
    for producer, found in batches.items():
        for row in found[:BATCHES_READ]:
            keys = row["batch_keys"]
            assert len(keys) == row["batch_size"]
            if producer == "no-keys":
                assert set(keys) == {None}
            else:
                # A broker routes an entry by the key of its first message.
                assert keys[0].encode() == base64.b64decode(row["key_b64"])
                assert set(keys) <= {f"key {number} ä" for number in range(5)}
            assert (len(set(keys)) > 1) == producer.startswith("mixes")


def test_entries_of_one_message_have_no_keys_of_a_batch(rows: list[Row]) -> None:
    alone = [row for row in rows if row["event"] == "publish" and row["producer_name"] in ("alone", "chunks")]
    assert len(alone) > 200
    assert not [row for row in alone if "batch_keys" in row]


def test_a_refused_join_has_the_words_of_the_broker(rows: list[Row]) -> None:
    refused = [row for row in rows if row["event"] == "join" and "consumer" not in row]
    assert {row["consumer_name"] for row in refused} == {"other"}
    assert {row["phase"] for row in refused} == {"start"}
    assert {row["reason"] for row in refused} == {"ConsumerBusy"}
    assert all("limit" in row["error"] for row in refused)


def test_settings_name_the_entry_filters(rows: list[Row]) -> None:
    first = next(row for row in rows if row["event"] == "settings")
    assert (first["settings"]["entryFilterNames"], first["sources"]["entryFilterNames"]) == ("", "broker")


def test_the_recorder_writes_on_while_the_broker_hangs(rows: list[Row]) -> None:
    start, end = (row for row in rows if row["event"] == "hang")
    assert (start["phase"], end["phase"]) == ("start", "end")
    assert (start["seq_begin"], start["begun_us"]) == (end["seq_begin"], end["begun_us"])
    assert "held by thread blocks-the-dispatcher" in start["waits_for"]
    assert (end["ts_us"] - start["begun_us"]) / 1_000 >= BLOCKED_MS - 1_000
    beats = [row["ts_us"] for row in rows if row["event"] == "heartbeat" and "topic" not in row]
    assert len([beat for beat in beats if start["begun_us"] < beat < end["ts_us"]]) >= 3


def test_an_orderly_end_is_the_last_row(rows: list[Row]) -> None:
    ends = [row for row in rows if row["event"] == "end"]
    assert len(ends) == 1
    assert ends[0]["seq"] == max(row["seq"] for row in rows)
