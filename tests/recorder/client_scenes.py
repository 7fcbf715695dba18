"""What clients of all kinds do on one broker, each in a topic of its own; at last it hangs, and starts anew twice.

A scene is over when it returns: its clients are closed, so that the audit has nothing of it to wait for.
"""

from collections.abc import Mapping
from contextlib import closing
from functools import partial
from typing import Any, Final

import pulsar
import pytest
from churn import SUBSCRIPTION, TOPIC, Churn, client_of
from holder import Holder
from recording_broker import RecordingBroker, rows_so_far, wait_for

RESTARTED: Final = "persistent://public/default/restarted"
TRANSACTIONS: Final = "persistent://public/default/transactions"
SWITCHED: Final = "persistent://public/default/switched"
LASTS: Final = "persistent://public/default/lasts"
FILTERS: Final = ("rejects", "reschedules")
"""Entry filters, and the namespaces that have them (`EntryFilters.java`)."""

INSTANCES: Final = 3
KEYS: Final = 5
MESSAGES: Final = 200
_BATCHES: Final = {"batching_enabled": True, "batching_max_messages": 7}
PRODUCERS: Final[Mapping[str, Mapping[str, Any]]] = {
    "mixes": _BATCHES,
    "mixes-lz4": {**_BATCHES, "compression_type": pulsar.CompressionType.LZ4},
    "by-key-zstd": {
        **_BATCHES,
        "batching_type": pulsar.BatchingType.KeyBased,
        "compression_type": pulsar.CompressionType.ZSTD,
    },
    "no-keys": _BATCHES,
    "chunks": {"batching_enabled": False, "chunking_enabled": True},
    "alone": {"batching_enabled": False},
}
BLOCKED_MS: Final = 12_000
HANGING, WAITING = "while-it-hangs", 20
STARTS: Final = 3
TAKEN: Final = 1_000
"""By a consumer of another type: for two seconds and more."""


def filtered_topic(name: str) -> str:
    """The topic of an entry filter."""
    return f"persistent://public/{name}/orders"


def consumer_of(client: pulsar.Client, topic: str, name: str, queue: int = 1_000) -> pulsar.Consumer:
    """A consumer of the subscription that all topics have."""
    return client.subscribe(
        topic,
        SUBSCRIPTION,
        consumer_type=pulsar.ConsumerType.KeyShared,
        consumer_name=name,
        receiver_queue_size=queue,
    )


def restart_one_by_one(broker: RecordingBroker) -> None:
    """Replaces the consumers of an application one after the other, under load."""
    with Churn(broker, RESTARTED) as load:
        running = [load.join(f"before-{number}", client=number) for number in range(INSTANCES)]
        load.produce()
        wait_for_more(load)
        for number, stop in enumerate(running):
            stop()
            load.join(f"after-{number}", client=number)
            wait_for_more(load)


def switch_the_type(broker: RecordingBroker) -> None:
    """Lets a Shared consumer have the subscription for some time, under load."""
    with Churn(broker, SWITCHED) as load, closing(client_of(broker.service_url)) as client:
        stop = load.join("before")
        load.produce()
        wait_for_more(load)
        stop()
        shared = client.subscribe(SWITCHED, SUBSCRIPTION, consumer_type=pulsar.ConsumerType.Shared)
        for _ in range(TAKEN):
            shared.acknowledge(shared.receive())
        shared.close()
        load.join("after")
        wait_for_more(load)


def wait_for_more(load: Churn) -> None:
    """Waits for a hundred messages more."""
    enough = len(load.received) + 100
    wait_for(lambda: len(load.received) > enough, "messages that flow")


def filter_entries(broker: RecordingBroker) -> None:
    """Sends messages that a filter of their namespace rejects, or puts off, and acknowledges all that come."""
    for name in FILTERS:
        broker.ask("PUT", f"namespaces/public/{name}", {"replication_clusters": ["test"]})
        broker.ask("POST", f"namespaces/public/{name}/entryFilters", {"entryFilterNames": name})
    with closing(client_of(broker.service_url)) as client:
        for name in FILTERS:
            holders = [Holder(client, filtered_topic(name), SUBSCRIPTION, consumer) for consumer in ("a", "b")]
            publish(client, filtered_topic(name), name)
            wait_for(partial(_is_done, broker, filtered_topic(name)), "what a filter lets pass")
            for holder in holders:
                holder.stop()


def publish(client: pulsar.Client, topic: str, producer_name: str, **settings: Any) -> None:
    """Sends messages of few keys, all with a key but those of the producer that is named for it."""
    producer = client.create_producer(topic, producer_name=producer_name, **{"batching_enabled": False, **settings})
    chunked = settings.get("chunking_enabled")
    for number in range(2 if chunked else MESSAGES):
        key = None if producer_name == "no-keys" else f"key {number % KEYS} ä"
        producer.send_async(b"0" * (2_500_000 if chunked else 20), lambda *_: None, partition_key=key)
    producer.flush()
    producer.close()


def statistics(broker: RecordingBroker, topic: str) -> Any:
    """What the broker says of the subscription of a topic."""
    return broker.answer(topic.replace("://", "/") + "/stats?getPreciseBacklog=true")["subscriptions"][SUBSCRIPTION]


def _is_done(broker: RecordingBroker, topic: str) -> bool:
    return not statistics(broker, topic)["msgBacklog"]


def send_batches_and_hang(broker: RecordingBroker) -> None:
    """Producers with all ways to batch, a consumer that is refused, and a dispatcher that is blocked for seconds."""
    broker.ask("POST", "namespaces/public/default/maxConsumersPerSubscription", 2)
    with closing(client_of(broker.service_url)) as client:
        # They take nothing, and have permits to the end.
        consumers = [consumer_of(client, TOPIC, name, 5_000) for name in ("c", "d")]
        for name, settings in PRODUCERS.items():
            publish(client, TOPIC, name, **settings)
        with pytest.raises(pulsar.PulsarException):
            consumer_of(client, TOPIC, "other")
        producer = client.create_producer(TOPIC, producer_name=HANGING, batching_enabled=False)
        # A read that is under way would keep the topic's thread until the end: nothing would be stored, and wait.
        wait_for(partial(_all_is_sent, broker), "messages on their way to consumers")
        broker.block(TOPIC, BLOCKED_MS)
        for number in range(WAITING):
            producer.send(b"0", partition_key=f"key {number}")
        wait_for(lambda: _has_hung(broker), "a snapshot that hung, and ended")
        for consumer in consumers:
            consumer.close()
    broker.ask("DELETE", "namespaces/public/default/maxConsumersPerSubscription")


def _all_is_sent(broker: RecordingBroker) -> bool:
    topic = broker.answer(TOPIC.replace("://", "/") + "/stats")
    return bool(topic["msgInCounter"] == topic["subscriptions"][SUBSCRIPTION]["msgOutCounter"])


def _has_hung(broker: RecordingBroker) -> bool:
    return any(row["phase"] == "end" for row in rows_so_far(broker.trace, "hang"))


def stop_and_start(broker: RecordingBroker) -> None:
    """A consumer holds what it gets while the broker stops and starts, until the last start."""
    for starts_left in reversed(range(STARTS)):
        client = client_of(broker.service_url)
        holders = [Holder(client, LASTS, SUBSCRIPTION, name) for name in ("holds", "works")]
        if starts_left:
            holders[0].hold()
        publish(client, LASTS, "lasts")
        wait_for(partial(_rests, broker), "messages of a start")
        if starts_left:
            broker = broker.restart()
        for holder in holders:
            holder.stop()
        client.close()


def _rests(broker: RecordingBroker) -> bool:
    """Whether all messages are acknowledged, or held."""
    stats = statistics(broker, LASTS)
    held = {consumer["consumerName"]: consumer["unackedMessages"] for consumer in stats["consumers"]}
    return bool(stats["msgBacklog"] == held["holds"])
