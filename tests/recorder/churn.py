"""Traffic of a Key_Shared subscription with everything that happens to one: run by a test against its broker.

As a program it is one consumer that never acknowledges, so that a test can kill it.
"""

import sys
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import pulsar

if TYPE_CHECKING:
    from recording_broker import RecordingBroker

TOPIC = "persistent://public/default/orders"
SUBSCRIPTION = "billing"
KEYS = 60


def client_of(service_url: str) -> pulsar.Client:
    """A client with a connection of its own, that logs errors only."""
    return pulsar.Client(service_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))


class Churn:
    """A producer, and consumers that join and leave."""

    def __init__(self, broker: "RecordingBroker", topic: str = TOPIC) -> None:
        self.topic = topic
        self._broker = broker
        self._clients = [client_of(broker.service_url) for _ in range(3)]
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []
        self._consumers: list[pulsar.Consumer] = []
        self.sent = 0
        self.received: set[tuple[int, int]] = set()
        """Ledger and entry of each message that reached a consumer's application."""

    def __enter__(self) -> "Churn":
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(30)
        for client in self._clients:
            client.close()

    def join(self, name: str, client: int = 0, nack_every: int = 0) -> Callable[[], None]:
        """Lets a consumer join, which acknowledges what it gets until the function returned here is called."""
        consumer = self._clients[client].subscribe(
            self.topic,
            SUBSCRIPTION,
            consumer_type=pulsar.ConsumerType.KeyShared,
            consumer_name=name,
            receiver_queue_size=50,
            negative_ack_redelivery_delay_ms=200,
        )
        self._consumers.append(consumer)
        leaves = threading.Event()
        thread = threading.Thread(target=self._consume, args=(consumer, leaves, nack_every))
        thread.start()
        self._threads.append(thread)

        def leave() -> None:
            leaves.set()
            thread.join(30)

        return leave

    def _consume(self, consumer: pulsar.Consumer, leaves: threading.Event, nack_every: int) -> None:
        received = 0
        while not (self._stop.is_set() or leaves.is_set()):
            try:
                message = consumer.receive(timeout_millis=100)
                received += 1
                self.received.add((message.message_id().ledger_id(), message.message_id().entry_id()))
                time.sleep(0.001)
                if nack_every and received % nack_every == 0:
                    consumer.negative_acknowledge(message)
                else:
                    consumer.acknowledge(message)
            # A seek or an unload takes the connection away for a moment; the client connects anew.
            except pulsar.PulsarException:
                continue
        consumer.close()

    def produce(self) -> None:
        """Begins to send messages of many keys, until the end."""
        producer = self._clients[1].create_producer(self.topic, batching_enabled=False, block_if_queue_full=True)
        thread = threading.Thread(target=self._produce, args=(producer,))
        thread.start()
        self._threads.append(thread)

    def _produce(self, producer: pulsar.Producer) -> None:
        while not self._stop.is_set():
            producer.send_async(b"0" * 64, lambda *_: None, partition_key=f"key-{self.sent % KEYS}")
            self.sent += 1
            time.sleep(0.002)
        producer.flush()

    def seek_to_last(self) -> None:
        """Moves the subscription to its end, by the consumer that joined last."""
        self._consumers[-1].seek(pulsar.MessageId.latest)

    def can_seek(self) -> bool:
        """Whether the consumer that joined last is connected: a seek closes it, and it comes back by itself."""
        return bool(self._consumers[-1].is_connected())

    def unload(self) -> None:
        """Lets the broker give the topic up, and load it again when the clients come back."""
        self._broker.ask("PUT", self.topic.replace("://", "/") + "/unload")


if __name__ == "__main__":
    of_process = client_of(sys.argv[1]).subscribe(
        sys.argv[2],
        SUBSCRIPTION,
        consumer_type=pulsar.ConsumerType.KeyShared,
        consumer_name="crashes",
        receiver_queue_size=20,
    )
    print("joined", flush=True)
    time.sleep(600)
