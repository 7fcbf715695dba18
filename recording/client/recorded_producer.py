"""A producer that records where its messages were stored."""

import time
from collections.abc import Callable
from inspect import signature
from typing import Any

from dispatch_audit.recording.client.client_rows import ClientRows, key_columns

_OK = "Ok"


class RecordedProducer:
    """A producer that records; everything else is that of the producer.

    Args:
        producer: of `pulsar-client`.
        recording: where it records.
    """

    def __init__(self, producer: Any, recording: ClientRows) -> None:
        self._producer, self._recording = producer, recording

    def __getattr__(self, name: str) -> Any:
        return getattr(self._producer, name)

    def send(self, *args: Any, **kwargs: Any) -> Any:
        """Sends a message, as the producer does, and records its position."""
        begun_ms = time.time_ns() // 1_000_000
        message_id = self._producer.send(*args, **kwargs)
        self._recording.write("publish", lambda: self._stored(message_id, self._producer.send, args, kwargs, begun_ms))
        return message_id

    def send_async(self, *args: Any, **kwargs: Any) -> Any:
        """Sends a message, as the producer does, and records its position before the callback is called."""
        begun_ms = time.time_ns() // 1_000_000
        send = self._producer.send_async
        with self._recording.quietly():
            bound = signature(send).bind(*args, **kwargs)
            callback = bound.arguments["callback"]
            bound.arguments["callback"] = self._noting(callback, send, args, kwargs, begun_ms)
            args, kwargs = bound.args, bound.kwargs
        return send(*args, **kwargs)

    def _noting(
        self, callback: Any, send: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], begun_ms: int
    ) -> Callable[[Any, Any], Any]:
        def noted(result: Any, message_id: Any) -> Any:
            if getattr(result, "name", "") == _OK:
                self._recording.write("publish", lambda: self._stored(message_id, send, args, kwargs, begun_ms))
            return callback(result, message_id) if callable(callback) else None

        return noted

    def _stored(
        self, message_id: Any, send: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], begun_ms: int
    ) -> dict[str, Any]:
        given = signature(send).bind(*args, **kwargs).arguments
        topic, partition, at = self._producer.topic(), message_id.partition(), message_id.batch_index()
        suffix = f"-partition-{partition}"
        row = {
            "topic": topic if partition < 0 or topic.endswith(suffix) else topic + suffix,
            "ledger_id": message_id.ledger_id(),
            "entry_id": message_id.entry_id(),
            # A row for each message; of a batch the client does not know its size.
            "batch_size": 1,
            **key_columns(given.get("ordering_key"), given.get("partition_key")),
            "producer_name": self._producer.producer_name(),
            "publish_time_ms": begun_ms,
        }
        return row if at < 0 else {**row, "batch_index": at}
