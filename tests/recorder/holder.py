"""A consumer that keeps what it gets until it is let go: what it holds shows the limits that the broker obeys."""

import contextlib
import threading
import time
from collections.abc import Sequence

import pulsar

QUEUE = 1000
"""How many messages a client asks for at once by default."""


class Holder:
    """A consumer of a Key_Shared subscription that holds its messages, or acknowledges each after its work.

    Args:
        client: of Pulsar.
        topic: full name.
        subscription: its name.
        name: of the consumer.
        queue: messages that the client asks for at once; 0: it asks for one whenever the application waits for one.
        work_s: seconds between a message and its acknowledgement; it works on one at a time.
        ranges: of hashes, inclusive: STICKY; empty: AUTO_SPLIT.
    """

    def __init__(
        self,
        client: pulsar.Client,
        topic: str,
        subscription: str,
        name: str,
        *,
        queue: int = QUEUE,
        work_s: float = 0,
        ranges: Sequence[tuple[int, int]] = (),
    ) -> None:
        mode = pulsar.KeySharedMode.Sticky if ranges else pulsar.KeySharedMode.AutoSplit
        self._consumer = client.subscribe(
            topic,
            subscription,
            consumer_type=pulsar.ConsumerType.KeyShared,
            consumer_name=name,
            receiver_queue_size=queue,
            key_shared_policy=pulsar.ConsumerKeySharedPolicy(mode, sticky_ranges=list(ranges) or None),
        )
        # A client without a queue has no receive that ends by itself.
        self._timeout_ms = 20 if queue else None
        self._work_s = work_s
        self._held: list[pulsar.Message] = []
        self._holds = threading.Event()
        self._stop = threading.Event()
        # Without a queue it may wait for a message that never comes.
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def hold(self) -> None:
        """From now on acknowledges nothing."""
        self._holds.set()

    def let_go(self) -> None:
        """Acknowledges what it holds, and from now on everything after its work."""
        self._holds.clear()

    def stop(self) -> None:
        """Receives nothing more; stays connected."""
        self._stop.set()
        self._thread.join(30)

    def _run(self) -> None:
        # Ends with its client, too.
        with contextlib.suppress(pulsar.AlreadyClosed):
            while not self._stop.is_set():
                self._acknowledge()
                try:
                    self._held.append(self._consumer.receive(self._timeout_ms))
                except pulsar.Timeout:
                    continue
                time.sleep(self._work_s)
            self._acknowledge()

    def _acknowledge(self) -> None:
        if not self._holds.is_set():
            for message in self._held:
                self._consumer.acknowledge(message)
            self._held.clear()
