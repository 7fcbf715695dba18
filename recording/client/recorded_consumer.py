"""A consumer of a Key_Shared subscription that records what the application receives, acknowledges and gives back.

It delegates everything. A receive is the end of a dispatch (it was written to the connection before), an
acknowledgement or negative acknowledgement the start of one (the broker hears of it later).
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import Any

from dispatch_audit.recording.client.client_rows import ClientRows, key_columns

Position = tuple[str, dict[str, Any]]


class Overlaps:
    """Finds the receives of one consumer that overlap in several threads.

    Which of two such calls took its message first is not known: a thread may pause before its call returns.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._running: list[list[bool]] = []

    @contextmanager
    def call(self) -> Iterator[list[bool]]:
        """Yields a list whose only value says whether another call has overlapped until now."""
        own = [False]
        with self._lock:
            self._running.append(own)
            if len(self._running) > 1:
                for other in self._running:
                    other[0] = True
        try:
            yield own
        finally:
            with self._lock:
                # By identity: all overlapping calls are equal.
                self._running = [other for other in self._running if other is not own]


class RecordedConsumer:
    """A consumer that records; everything else is that of the consumer.

    Args:
        consumer: of `pulsar-client`.
        recording: where it records.
        topics: full names of its topics or partitions, as far as they are known when it subscribes.
        joined: further columns of its join.
    """

    def __init__(
        self,
        consumer: Any,
        recording: ClientRows,
        topics: Sequence[str] = (),
        joined: dict[str, Any] | None = None,
    ) -> None:
        self._consumer, self._recording = consumer, recording
        self._overlaps, self._left = Overlaps(), False
        self._own: dict[str, Any] = {}
        self._topics: set[str] = set()
        with recording.quietly():
            self._own = {"subscription": consumer.subscription_name(), "consumer": recording.number()}
            name = {"consumer_name": consumer.consumer_name()}
            self._topics = set(topics or [consumer.topic()])
            for topic in sorted(self._topics):
                recording.write("join", {"phase": "end", "topic": topic, **self._own, **name, **(joined or {})})

    def __getattr__(self, name: str) -> Any:
        return getattr(self._consumer, name)

    def receive(self, *args: Any, **kwargs: Any) -> Any:
        """Receives a message, as the consumer does."""
        with self._overlaps.call() as overlapped:
            message = self._consumer.receive(*args, **kwargs)
            self.received(message, in_order=not overlapped[0])
        return message

    def batch_receive(self) -> Any:
        """Receives messages, as the consumer does."""
        with self._overlaps.call() as overlapped:
            messages = self._consumer.batch_receive()
            for message in messages:
                self.received(message, in_order=not overlapped[0])
        return messages

    def received(self, message: Any, *, in_order: bool) -> None:
        """Records a message that the application gets now.

        Args:
            message: the message.
            in_order: whether it came after the messages that were recorded before.
        """
        self._recording.write("dispatch", lambda: self._receive(message, in_order))

    def acknowledge(self, message: Any) -> Any:
        """Acknowledges a message, as the consumer does."""
        self._asked("ack", message, phase="start", ack_type="individual")
        return self._consumer.acknowledge(message)

    def acknowledge_cumulative(self, message: Any) -> Any:
        """Acknowledges messages, as the consumer does."""
        self._asked("ack", message, phase="start", ack_type="cumulative")
        return self._consumer.acknowledge_cumulative(message)

    def negative_acknowledge(self, message: Any) -> Any:
        """Gives a message back, as the consumer does: the broker hears of it after the client's delay."""
        self._asked("redeliver", message)
        return self._consumer.negative_acknowledge(message)

    def redeliver_unacknowledged_messages(self) -> Any:
        """Gives all messages back, as the consumer does."""
        self._of_all_topics("redeliver", positions=[])
        return self._consumer.redeliver_unacknowledged_messages()

    def seek(self, *args: Any, **kwargs: Any) -> Any:
        """Moves the subscription, as the consumer does."""
        self._of_all_topics("reset", phase="start", reason="seek")
        try:
            return self._consumer.seek(*args, **kwargs)
        finally:
            self._of_all_topics("reset", phase="end", reason="seek")

    def unsubscribe(self) -> Any:
        """Ends the subscription, as the consumer does."""
        with self.leaving():
            return self._consumer.unsubscribe()

    def close(self) -> Any:
        """Closes the consumer."""
        with self.leaving():
            return self._consumer.close()

    @contextmanager
    def leaving(self) -> Iterator[None]:
        """Records the begin and the end of what its body does: closing the consumer, by itself or with its client."""
        first, self._left = not self._left, True
        if first:
            self._of_all_topics("leave", phase="start", reason="close_consumer")
        yield
        # Without an error: the broker has let it go.
        if first:
            self._of_all_topics("leave", phase="end", reason="close_consumer")

    def _receive(self, message: Any, in_order: bool) -> dict[str, Any]:
        message_id = message.message_id()
        topic, position = self._position(message)
        key: dict[str, Any] = {**key_columns(message.ordering_key(), message.partition_key())}
        if message_id.batch_index() >= 0:
            # The broker routes a batch by the key of the batch, which need not be that of the message.
            key = {**_aside(key), "batch_index": message_id.batch_index()}
        elif not in_order:
            key = {**_aside(key), "in_order": False}
        return {
            "phase": "end",
            "topic": topic,
            **self._own,
            **{name: position[name] for name in ("ledger_id", "entry_id")},
            **key,
            "redelivery_count": message.redelivery_count(),
        }

    def _asked(self, event: str, message: Any, **columns: Any) -> None:
        def row() -> dict[str, Any]:
            topic, position = self._position(message)
            return {**columns, "topic": topic, **self._own, "positions": [position]}

        self._recording.write(event, row)

    def _of_all_topics(self, event: str, **columns: Any) -> None:
        # Of reset rows the subscription is meant, and not the consumer.
        own: Iterable[str] = ("subscription",) if event == "reset" else ("subscription", "consumer")
        for topic in sorted(self._topics):
            columns_of_topic = {"topic": topic, **{name: self._own.get(name) for name in own}, **columns}
            self._recording.write(event, columns_of_topic)

    def _position(self, message: Any) -> Position:
        """Returns the topic and the position of a message, or of the id of one."""
        message_id = message.message_id() if hasattr(message, "message_id") else message
        named = message.topic_name() if hasattr(message, "topic_name") else ""
        # An id that was made by the application has no topic.
        topic = named or self._consumer.topic()
        self._topics.add(topic)
        position: dict[str, Any] = {"ledger_id": message_id.ledger_id(), "entry_id": message_id.entry_id()}
        at = message_id.batch_index()
        if at >= 0:
            # A set bit is a message that is NOT acknowledged; the words are signed.
            words = [-1] * (at // 64 + 1)
            words[-1] = ~(1 << at % 64) if at % 64 < 63 else (1 << 63) - 1
            position["ack_set"] = words
        return topic, position


def _aside(key: dict[str, Any]) -> dict[str, Any]:
    """Returns the key in a column that no rule uses."""
    return {f"message_{name}": value for name, value in key.items()}
