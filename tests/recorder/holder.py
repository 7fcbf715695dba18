"""A consumer that keeps what it gets until it is let go: what it holds shows the limits that the broker obeys."""

import threading

import pulsar


class Holder:
    """A consumer of a Key_Shared subscription that holds its messages, or acknowledges them at once."""

    def __init__(self, client: pulsar.Client, topic: str, subscription: str, name: str) -> None:
        self._consumer = client.subscribe(
            topic, subscription, consumer_type=pulsar.ConsumerType.KeyShared, consumer_name=name
        )
        self._held: list[pulsar.Message] = []
        self._holds = threading.Event()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def hold(self) -> None:
        """From now on acknowledges nothing."""
        self._holds.set()

    def let_go(self) -> None:
        """Acknowledges what it holds, and from now on everything at once."""
        self._holds.clear()

    def stop(self) -> None:
        """Receives nothing more; stays connected."""
        self._stop.set()
        self._thread.join(30)

    def _run(self) -> None:
        while not self._stop.is_set():
            if not self._holds.is_set():
                for message in self._held:
                    self._consumer.acknowledge(message)
                self._held.clear()
            try:
                self._held.append(self._consumer.receive(timeout_millis=20))
            except pulsar.PulsarException:
                continue
