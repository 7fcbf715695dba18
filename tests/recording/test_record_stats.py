"""`record-stats` against a real broker: what it writes is what the admin API says, and an audit says what it proves."""

import gzip
import json
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pulsar
import pytest
from admin_server import admin_server
from command_line import run, run_embedded
from real_broker import Broker

PROGRAM = Path(sys.executable).with_name("dispatch-audit")
WAIT_S_MAX = 120

# One broker for all of them.
pytestmark = [pytest.mark.broker, pytest.mark.xdist_group("broker")]


@pytest.fixture
def client(broker: Broker) -> Iterator[pulsar.Client]:
    client = pulsar.Client(broker.service_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    yield client
    client.close()


def consumer(client: pulsar.Client, topic: str, name: str) -> pulsar.Consumer:
    shared = pulsar.ConsumerType.KeyShared
    return client.subscribe(topic, "ks", consumer_type=shared, consumer_name=name, receiver_queue_size=10)


def rows_in(trace: Path) -> list[dict[str, Any]]:
    files = sorted(trace.glob("stats-*.jsonl.gz"))
    return [json.loads(line) for file in files for line in gzip.decompress(file.read_bytes()).splitlines()]


def asked(broker: Broker, topic: str, what: str) -> Any:
    url = f"{broker.admin_url}/admin/v2/persistent/public/default/{topic}/{what}"
    with urllib.request.urlopen(url) as answer:
        return json.load(answer)


def wait_until(condition: Callable[[], bool], what: str) -> None:
    latest = time.monotonic() + WAIT_S_MAX
    while not condition():
        assert time.monotonic() < latest, f"waited in vain for {what}"
        time.sleep(0.05)


def validated(trace: Path) -> dict[str, Any]:
    code, out, _ = run_embedded("validate", trace, "--format", "json")
    assert code == 0
    (found,) = json.loads(out)["traces"]
    return dict(found)


def is_settled(broker: Broker, topic: str) -> bool:
    """Whether hashes drain, and half a second changes nothing."""
    statistics = asked(broker, topic, "stats?getPreciseBacklog=true")["subscriptions"]["ks"]
    before = statistics, asked(broker, topic, "internalStats")["cursors"]
    time.sleep(0.5)
    after = asked(broker, topic, "stats?getPreciseBacklog=true")["subscriptions"]["ks"]
    drains = any(consumer["drainingHashes"] for consumer in statistics["consumers"])
    return drains and before == (after, asked(broker, topic, "internalStats")["cursors"])


def test_rows_are_what_the_admin_api_says(broker: Broker, client: pulsar.Client, tmp_path: Path) -> None:
    topic, trace = f"stats-{uuid4().hex}", tmp_path / "trace"
    holders = [consumer(client, topic, f"c{number}") for number in range(2)]
    producer = client.create_producer(topic, batching_enabled=False)
    for number in range(100):
        producer.send(b"x", partition_key=f"key {number % 20}")
    # The hashes that move to it have pending entries at the others: they drain.
    holders.append(consumer(client, topic, "late"))
    wait_until(lambda: is_settled(broker, topic), "statistics that stay as they are")
    arguments = ("--admin-url", broker.admin_url, "--topic", topic, "--out", trace, "--interval", "0.2", "--count", "3")
    code, out, err = run("record-stats", *arguments)
    assert (code, err) == (
        0,
        "dispatch-audit: recording: 1 poll of 1 topic, 1 snapshot, 0 failures; Ctrl-C ends it\n",
    )
    assert out.startswith("Recorded 3 snapshots in 3 polls, 0 failures")
    statistics = asked(broker, topic, "stats?getPreciseBacklog=true")["subscriptions"]["ks"]
    ledger = asked(broker, topic, "internalStats")
    cursor = ledger["cursors"]["ks"]
    policies, *rows = rows_in(trace)
    assert len(rows) == 3
    seqs = [row["seq"] for row in rows]
    assert seqs == sorted(set(seqs))
    assert {row["topic"] for row in rows} == {f"persistent://public/default/{topic}"}
    first = rows[0]["snapshot"]
    assert first["seq_begin"] < first["seq_end"] < seqs[0]
    assert (first["msg_backlog"], first["msg_in_replay"], first["unacked_messages"]) == (
        statistics["msgBacklog"],
        statistics["msgInReplay"],
        statistics["unackedMessages"],
    )
    assert (first["read_position"], first["mark_delete_position"]) == (
        cursor["readPosition"],
        cursor["markDeletePosition"],
    )
    assert first["key_shared_mode"] == "AUTO_SPLIT"
    for flag, said in (
        ("blocked_subscription_on_unacked_msgs", statistics["blockedSubscriptionOnUnackedMsgs"]),
        ("waiting_read_op", cursor["waitingReadOp"]),
        ("subscription_have_pending_read", cursor["subscriptionHavePendingRead"]),
        ("subscription_have_pending_replay_read", cursor["subscriptionHavePendingReplayRead"]),
    ):
        assert first[flag] is said, flag
    assert first["last_confirmed_entry"] == ledger["lastConfirmedEntry"]
    assert (policies["event"], policies["subscription"]) == ("settings", "ks")
    assert policies["settings"]["maxUnackedMessagesPerConsumer"] == 50_000
    drained = 0
    for found, there in zip(first["consumers"], statistics["consumers"], strict=True):
        assert found["consumer_name"] == there["consumerName"]
        assert found["key_hash_ranges"] == there["keyHashRangeArrays"]
        assert found["available_permits"] == there["availablePermits"]
        assert found["blocked_consumer_on_unacked_msgs"] is there["blockedConsumerOnUnackedMsgs"]
        assert found["last_consumed_flow_timestamp"] == there["lastConsumedFlowTimestamp"]
        assert (found["address"], found["msg_out_counter"]) == (there["address"], there["msgOutCounter"])
        hashes = [(one["hash"], one["unacked_messages"], one["blocked_attempts"]) for one in found["draining_hashes"]]
        assert hashes == [(h["hash"], h["unackMsgs"], h["blockedAttempts"]) for h in there["drainingHashes"]]
        drained += len(hashes)
    assert drained > 0
    # Unchanged ranges are not written again.
    assert not any("key_hash_ranges" in found for row in rows[1:] for found in row["snapshot"]["consumers"])
    assert validated(trace)["quarantined"] == 0
    manifest = json.loads((trace / "trace.json").read_text())
    assert manifest["recorded_by"] == "admin_api"
    assert manifest["pulsar_version"].startswith("4.")
    assert manifest["settings"]["keySharedUnblockingIntervalMs"] == 10
    del holders


def test_consumers_that_appear_and_vanish_are_no_joins(broker: Broker, client: pulsar.Client, tmp_path: Path) -> None:
    topic, trace = f"stats-{uuid4().hex}", tmp_path / "trace"
    kept = consumer(client, topic, "c0")
    with admin_server(relay=broker.admin_url) as server:

        def wait_for_a_poll() -> None:
            # The second one from now on has begun after this, and the third one after its end.
            polls = server.times_asked("/internalStats")
            wait_until(lambda: server.times_asked("/internalStats") >= polls + 3, "polls")

        options = ["--admin-url", server.url, "--topic", topic, "--out", str(trace), "--interval", "0.1"]
        command = [str(PROGRAM), "record-stats", *options, "--subscription", "ks"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE)
        wait_for_a_poll()
        for _ in range(2):
            # The same name twice: two consumers.
            passing = consumer(client, topic, "c1")
            wait_for_a_poll()
            passing.close()
            wait_for_a_poll()
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=WAIT_S_MAX)
    assert process.returncode == 0, out
    rows = [row for row in rows_in(trace) if row["event"] == "stats"]
    numbers = {(found["consumer"], found["consumer_name"]) for row in rows for found in row["snapshot"]["consumers"]}
    assert numbers == {(1, "c0"), (2, "c1"), (3, "c1")}
    assert {row["event"] for row in rows_in(trace)} == {"settings", "stats"}
    assert not list(trace.glob(".*"))
    assert validated(trace)["events"] == len(rows_in(trace))
    code, out_text, _ = run_embedded("audit", trace, "--out", tmp_path / "tables", "--fail-on", "violation")
    assert code == 0
    assert "\nORDER     NOT PROVABLE  " in out_text
    assert "Source  recorded from the admin API, which shows single moments: no rule could be judged" in out_text
    assert "completeness 0 %" in out_text
    del kept


def test_every_partition_is_recorded(broker: Broker, client: pulsar.Client, tmp_path: Path) -> None:
    topic, trace = f"stats-{uuid4().hex}", tmp_path / "trace"
    url = f"{broker.admin_url}/admin/v2/persistent/public/default/{topic}/partitions"
    request = urllib.request.Request(url, b"3", {"Content-Type": "application/json"}, method="PUT")
    with urllib.request.urlopen(request) as answer:
        assert answer.status == 204
    kept = consumer(client, topic, "c0")
    code, _, err = run(
        "record-stats", "--admin-url", broker.admin_url, "--topic", topic, "--out", trace, "--count", "1"
    )
    assert (code, err) == (0, "")
    names = [f"persistent://public/default/{topic}-partition-{number}" for number in range(3)]
    assert sorted(row["topic"] for row in rows_in(trace) if row["event"] == "stats") == names
    del kept


def test_acknowledged_ranges_and_policies_in_force_are_recorded(
    broker: Broker, client: pulsar.Client, tmp_path: Path
) -> None:
    topic, trace = f"stats-{uuid4().hex}", tmp_path / "trace"
    kept = consumer(client, topic, "c0")
    producer = client.create_producer(topic, batching_enabled=False)
    sent = [producer.send(b"x", partition_key=f"key {number}") for number in range(9)]
    received = [kept.receive(timeout_millis=10_000) for _ in sent]
    for number in (2, 3, 6):
        kept.acknowledge(received[number])
    url = f"{broker.admin_url}/admin/v2/persistent/public/default/{topic}"
    json_type = {"Content-Type": "application/json"}
    limit = urllib.request.Request(f"{url}/maxUnackedMessagesOnConsumer", b"40", json_type, method="POST")
    rate = {"dispatchThrottlingRateInMsg": 500, "dispatchThrottlingRateInByte": -1, "ratePeriodInSecond": 2}
    rated = urllib.request.Request(f"{url}/ks/dispatchRate", json.dumps(rate).encode(), json_type, method="POST")
    for request in (limit, rated):
        with urllib.request.urlopen(request) as answer:
            assert answer.status == 204

    def is_in_force() -> bool:
        statistics = asked(broker, topic, "stats")["subscriptions"]["ks"]
        cursor = asked(broker, topic, "internalStats")["cursors"]["ks"]
        counted = statistics["unackedMessages"], cursor["totalNonContiguousDeletedMessagesRange"]
        return counted == (6, 2)

    wait_until(is_in_force, "three acknowledgements")
    arguments = ("--admin-url", broker.admin_url, "--namespace", "public/default", "--out", trace, "--count", "1")
    code, _, err = run("record-stats", *arguments)
    assert (code, err) == (0, "")
    policies, row = [row for row in rows_in(trace) if row["topic"].endswith(topic)]
    entries = [int(cut.split(":")[1]) for cut in row["snapshot"]["individually_deleted"][0]]
    assert [entries, len(row["snapshot"]["individually_deleted"])] == [[2, 3], 2]
    assert row["snapshot"]["non_contiguous_deleted_messages_ranges"] == 2
    in_force = policies["settings"]
    assert in_force["maxUnackedMessagesPerConsumer"] == 40
    assert in_force["maxUnackedMessagesPerSubscription"] == 200_000
    assert in_force["dispatchThrottlingRatePerSubscriptionInMsg"] == 500
    assert in_force["dispatchThrottlingRatePerSubscriptionPeriodInSeconds"] == 2
    assert in_force["dispatcherPauseOnAckStatePersistentEnabled"] is False
    assert validated(trace)["quarantined"] == 0


def test_what_is_not_there_is_refused_in_one_line(broker: Broker, client: pulsar.Client, tmp_path: Path) -> None:
    topic = f"stats-{uuid4().hex}"
    kept = consumer(client, topic, "c0")
    shared = client.subscribe(topic, "other", consumer_type=pulsar.ConsumerType.Shared)

    def refused(topic: str, *more: str) -> str:
        code, _, err = run(
            "record-stats", "--admin-url", broker.admin_url, "--topic", topic, "--out", tmp_path / "trace", *more
        )
        assert code == 2
        assert err.count("\n") == 1
        return err

    assert "has no Key_Shared subscription nobody; it has: ks (Key_Shared), other (Shared)" in refused(
        topic, "--subscription", "nobody"
    )
    assert "has no Key_Shared subscription other; it has: " in refused(topic, "--subscription", "other")
    assert "answers 404: " in refused(f"{topic}-absent")
    assert "is not a topic such as persistent://public/default/orders" in refused("a/b")
    assert not (tmp_path / "trace").exists()
    del kept, shared
