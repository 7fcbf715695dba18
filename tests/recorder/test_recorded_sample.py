"""A real broker records a sample of the hashes: all rows of these, and of others only those that are of no hash."""

import base64
import json
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import pulsar
import pytest
from churn import SUBSCRIPTION, TOPIC, client_of
from real_broker import NEWEST
from recording_broker import complete_rows, each_release, recording_broker
from test_recorded_broker import audited

from dispatch_audit.pipeline.contract.profile import profile_for
from dispatch_audit.udfs.hash_sample import HashSample
from dispatch_audit.udfs.sticky_key_hash import sticky_hashes

pytestmark = pytest.mark.broker

SAMPLE = HashSample(4, "orders")
KEYS, ROUNDS, RETURNED = 40, 6, 3


class Recorded(NamedTuple):
    """The trace of a broker, and how often each key was received."""

    release: str
    trace: Path
    received: Counter[str]


@pytest.fixture(scope="module", params=each_release(NEWEST))
def recorded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    """What was recorded of two consumers; one gives some messages back, and then leaves with its last ones."""
    folder, received = tmp_path_factory.mktemp("recorded") / "traces", Counter[str]()
    folder.mkdir()
    with recording_broker(folder, request.param, Sample=SAMPLE.share, SampleSalt=SAMPLE.salt) as broker:
        client = client_of(broker.service_url)
        consumers = [
            client.subscribe(
                TOPIC,
                SUBSCRIPTION,
                consumer_type=pulsar.ConsumerType.KeyShared,
                consumer_name=name,
                negative_ack_redelivery_delay_ms=100,
            )
            for name in ("stays", "leaves")
        ]
        producer = client.create_producer(TOPIC, batching_enabled=False)
        for number in range(KEYS * ROUNDS):
            producer.send(b"0", partition_key=f"key-{number % KEYS}")

        def take(number: int, returned: int = 0) -> None:
            while True:
                try:
                    message = consumers[number].receive(timeout_millis=500)
                except pulsar.Timeout:
                    return
                received[message.partition_key()] += 1
                if received[message.partition_key()] <= returned:
                    consumers[number].negative_acknowledge(message)
                else:
                    consumers[number].acknowledge(message)

        take(0, RETURNED)
        consumers[1].close()
        take(0)
        client.close()
    (trace,) = folder.iterdir()
    return Recorded(request.param, trace, received)


def _keys_of_sample(recorded: Recorded, rules: set[str]) -> set[str]:
    keys = [f"key-{number}" for number in range(KEYS)]
    chosen = {rule: SAMPLE.has(sticky_hashes([key.encode() for key in keys], rule)).tolist() for rule in rules}
    return {key for at, key in enumerate(keys) if any(of_rule[at] for of_rule in chosen.values())}


def _key(row: dict[str, Any]) -> str:
    return base64.b64decode(row["key_b64"]).decode()


def test_all_rows_of_the_sampled_hashes_are_there_and_no_others(recorded: Recorded) -> None:
    rules = profile_for(recorded.release, {}).hash
    chosen = _keys_of_sample(recorded, {rules["consistent_hashing"]})
    assert 0 < len(chosen) < KEYS / 2
    rows = complete_rows(recorded.trace)
    published = Counter(_key(row) for row in rows if row["event"] == "publish")
    assert published == dict.fromkeys(_keys_of_sample(recorded, {*rules.values()}), ROUNDS)
    starts = [row for row in rows if row["event"] == "dispatch" and row["phase"] == "start"]
    sent = Counter(_key(row) for row in starts)
    assert sent.keys() == chosen
    # What the consumer that left had got was not received.
    assert all(sent[key] >= recorded.received[key] >= ROUNDS for key in chosen)
    entries = {(row["ledger_id"], row["entry_id"]) for row in starts}
    ends = [row for row in rows if row["event"] == "dispatch" and row["phase"] == "end"]
    assert Counter((row["ledger_id"], row["entry_id"]) for row in ends) == Counter(
        (row["ledger_id"], row["entry_id"]) for row in starts
    )
    for phase in ("start", "end"):
        acked = [at for row in rows if (row["event"], row.get("phase")) == ("ack", phase) for at in row["positions"]]
        assert Counter((at["ledger_id"], at["entry_id"]) for at in acked) == dict.fromkeys(entries, 1)
    returned = [at for row in rows if row["event"] == "redeliver" for at in row["positions"]]
    assert {(at["ledger_id"], at["entry_id"]) for at in returned} <= entries
    assert returned


def test_rows_of_no_hash_are_all_there(recorded: Recorded) -> None:
    rows = Counter((row["event"], row.get("phase")) for row in complete_rows(recorded.trace))
    assert (rows["join", "start"], rows["join", "end"]) == (2, 2)
    assert rows["leave", "start"] >= rows["leave", "end"] >= 1
    assert rows["stats", None] > 0
    assert rows["settings", None] > 0


def test_the_audit_judges_the_sample_that_the_trace_names(recorded: Recorded, tmp_path: Path) -> None:
    manifest = json.loads((recorded.trace / "trace.json").read_text())
    assert manifest["sample"] == {"share": "1/4", "salt": "orders"}
    report = audited(recorded.trace, tmp_path / "audit")
    (trace,) = report["traces"]
    assert (trace["sample"], trace["order"]) == (manifest["sample"], "kept"), trace
