"""What the audit of a recording finds is what a second observer saw inside of the same broker, no more and no less."""

import json
import time
from collections.abc import Callable
from typing import Any

import pulsar
import pytest
from churn import SUBSCRIPTION, TOPIC, client_of
from deltalake import DeltaTable
from holder import Holder
from recording_broker import RecordingBroker, each_release, recording_broker, wait_for
from test_recorded_broker import audited

pytestmark = pytest.mark.broker

LIMIT = 50
"""Of the messages that a consumer may hold: the entries behind them wait in the broker."""
KEYS = [f"key-{number}" for number in range(60)]
Sent = set[tuple[int, int, str]]
"""Dispatches: ledger, entry, and name of the consumer."""


class Scene:
    """Consumers that hold what they get until they are let go."""

    def __init__(self, broker: RecordingBroker) -> None:
        self._broker = broker
        self._client = client_of(broker.service_url)
        self._producer = self._client.create_producer(TOPIC, batching_enabled=False, block_if_queue_full=True)

    def join(self, name: str, client: pulsar.Client | None = None) -> Holder:
        holder = Holder(client or self._client, TOPIC, SUBSCRIPTION, name)
        holder.hold()
        return holder

    def publish(self, each: int) -> None:
        for key in KEYS * each:
            self._producer.send_async(b"0", lambda *_: None, partition_key=key)
        self._producer.flush()

    def close(self) -> None:
        self._client.close()

    def wait_until(self, condition: Callable[[dict[str, Any]], bool], what: str) -> None:
        """Waits until something holds of the subscription's statistics, and nothing moves any more."""
        sent = -1

        def rests() -> bool:
            nonlocal sent
            topic = self._broker.answer(TOPIC.replace("://", "/") + "/stats?getPreciseBacklog=true")
            now = topic["subscriptions"][SUBSCRIPTION]
            rested, sent = now["msgOutCounter"] == sent, now["msgOutCounter"]
            time.sleep(0.5)
            return rested and condition(now)

        wait_for(rests, what)


def old_are_at_their_limit(stats: dict[str, Any]) -> bool:
    """Whether the first two consumers may be sent nothing more."""
    held = {consumer["consumerName"]: consumer["unackedMessages"] for consumer in stats["consumers"]}
    return min(int(held["a"]), int(held["b"])) >= LIMIT


def entries_wait_for_consumers_at_their_limit(broker: RecordingBroker) -> None:
    """Consumers reach their limit, others join and leave meanwhile, and all are let go, the newcomers last."""
    scene = Scene(broker)
    old = [scene.join("a"), scene.join("b")]
    scene.publish(5)
    scene.wait_until(old_are_at_their_limit, "two consumers at their limit")
    leaves = client_of(broker.service_url)
    scene.join("leaves", leaves)
    new = [scene.join("c")]
    scene.wait_until(old_are_at_their_limit, "what the newcomers are sent")
    leaves.close()
    new.append(scene.join("d"))
    scene.publish(2)
    scene.wait_until(old_are_at_their_limit, "what the newcomers are sent")
    for holders in (old, new):
        for holder in holders:
            holder.let_go()
        scene.wait_until(lambda _: True, "acknowledgements")
    scene.wait_until(lambda stats: stats["msgBacklog"] == 0, "the last acknowledgement")
    scene.close()


@pytest.fixture(scope="module", params=each_release("3.0.7"))
def observed(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, list[dict[str, Any]], list[dict[str, Any]]]:
    """A release, what the witness wrote of its broker, and the findings about the recording of the same time."""
    made = tmp_path_factory.mktemp("observed")
    (made / "traces").mkdir()
    settings = {"maxUnackedMessagesPerConsumer": LIMIT, "SnapshotMs": 200}
    with recording_broker(made / "traces", request.param, made / "witness.jsonl", **settings) as broker:
        entries_wait_for_consumers_at_their_limit(broker)
        assert broker.metric("rows_dropped_total") == 0
    (trace,) = (made / "traces").iterdir()
    audited(trace, made / "audit")
    seen = [json.loads(line) for line in (made / "witness.jsonl").read_text().splitlines()]
    found = DeltaTable(str(made / "audit" / "violations")).to_pyarrow_table().to_pylist()
    return request.param, seen, [finding for finding in found if finding["severity"] in ("violation", "known_bug")]


def dispatches(rows: list[dict[str, Any]]) -> Sent:
    return {(row["ledger_id"], row["entry_id"], row["consumer_name"]) for row in rows}


def of_rule(found: list[dict[str, Any]], rule: str) -> Sent:
    return dispatches([finding for finding in found if finding["rule"] == rule])


def test_second_holders_are_those_that_the_broker_had(
    observed: tuple[str, list[dict[str, Any]], list[dict[str, Any]]],
) -> None:
    release, seen, found = observed
    second = dispatches([line for line in seen if line["holders"]])
    # F2 of 3.x: what waits for a consumer at its limit goes to a newcomer (contract 6.5).
    assert bool(second) == (release < "4")
    assert of_rule(found, "single_holder") == second


def test_entries_that_were_sent_twice_are_those_that_the_broker_sent_twice(
    observed: tuple[str, list[dict[str, Any]], list[dict[str, Any]]],
) -> None:
    _, seen, found = observed
    assert of_rule(found, "early_duplicate") == dispatches([line for line in seen if line["again"]])


def test_late_first_deliveries_are_those_that_the_broker_made(
    observed: tuple[str, list[dict[str, Any]], list[dict[str, Any]]],
) -> None:
    _, seen, found = observed
    latest: dict[str, tuple[int, int]] = {}
    first: set[tuple[int, int]] = set()
    late = []
    for line in seen:
        position = line["ledger_id"], line["entry_id"]
        if position in first:
            continue
        first.add(position)
        if position < latest.get(line["key"], position):
            late.append(line)
        latest[line["key"]] = max(position, latest.get(line["key"], position))
    assert of_rule(found, "first_delivery_order") == dispatches(late)
