"""A client whose producers and Key_Shared consumers are recorded."""

from collections.abc import Callable
from contextlib import ExitStack
from inspect import signature
from threading import Lock
from typing import Any, Final

from dispatch_audit.recording.client.client_rows import ClientRows
from dispatch_audit.recording.client.recorded_consumer import RecordedConsumer
from dispatch_audit.recording.client.recorded_producer import RecordedProducer

_KEY_SHARED: Final = "KeyShared"
_STICKY: Final = "Sticky"


class RecordedClient:
    """A client that records; everything else is that of the client.

    Args:
        client: of `pulsar-client`.
        recording: where it records.
    """

    def __init__(self, client: Any, recording: ClientRows) -> None:
        self._client, self._recording = client, recording
        self._consumers: list[RecordedConsumer] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def create_producer(self, *args: Any, **kwargs: Any) -> RecordedProducer:
        """Creates a producer, as the client does."""
        return RecordedProducer(self._client.create_producer(*args, **kwargs), self._recording)

    def subscribe(self, *args: Any, **kwargs: Any) -> Any:
        """Subscribes, as the client does; a consumer of another type than Key_Shared is not recorded."""
        given: dict[str, Any] = {}
        with self._recording.quietly():
            given = dict(signature(self._client.subscribe).bind(*args, **kwargs).arguments)
        if getattr(given.get("consumer_type"), "name", "") != _KEY_SHARED:
            return self._client.subscribe(*args, **kwargs)
        topics = self._topics(given.get("topic"))
        joined: dict[str, Any] = {}
        with self._recording.quietly():
            joined = _joined(given)
        recorded = _Once(lambda consumer: RecordedConsumer(consumer, self._recording, topics, joined))
        if given.get("message_listener") is not None:
            listener = _Listener(given["message_listener"], recorded)
            args, kwargs = (), {**given, "message_listener": listener}
        found = recorded.of(self._client.subscribe(*args, **kwargs))
        self._consumers.append(found)
        return found

    def close(self) -> Any:
        """Closes the client, and with it its consumers."""
        with ExitStack() as leaving:
            for consumer in self._consumers:
                leaving.enter_context(consumer.leaving())
            self._consumers = []
            return self._client.close()

    def _topics(self, topic: Any) -> list[str]:
        """Returns the topics that a consumer subscribes to, or their partitions; empty where the client cannot say."""
        found: list[str] = []
        with self._recording.quietly():
            for name in [topic] if isinstance(topic, str) else topic if isinstance(topic, list) else []:
                found += self._client.get_topic_partitions(name)
        return found


class _Once:
    """Makes the recorded consumer once: a listener may be called before `subscribe` has returned."""

    def __init__(self, make: Callable[[Any], RecordedConsumer]) -> None:
        self._lock, self._make = Lock(), make
        self._made: RecordedConsumer | None = None

    def of(self, consumer: Any) -> RecordedConsumer:
        """Returns the recorded consumer of a consumer, always the same one."""
        with self._lock:
            self._made = self._made or self._make(consumer)
            return self._made


class _Listener:
    """Hands messages to the listener of an application, with the recorded consumer, and records them."""

    def __init__(self, listener: Any, recorded: _Once) -> None:
        self._listener, self._recorded = listener, recorded

    def __call__(self, consumer: Any, message: Any) -> Any:
        recorded = self._recorded.of(consumer)
        # The client calls one listener for one message after the other.
        recorded.received(message, in_order=True)
        return self._listener(recorded, message)


def _joined(given: dict[str, Any]) -> dict[str, Any]:
    """Returns the columns of a join that follow from the arguments of `subscribe`."""
    policy = given.get("key_shared_policy")
    if policy is None:
        return {"key_shared_mode": "AUTO_SPLIT", "allow_out_of_order": False}
    columns: dict[str, Any] = {"allow_out_of_order": bool(policy.allow_out_of_order_delivery)}
    if policy.key_shared_mode.name == _STICKY:
        ranges = [{"start": start, "end": end} for start, end in policy.sticky_ranges]
        return {**columns, "key_shared_mode": "STICKY", "ranges": ranges}
    return {**columns, "key_shared_mode": "AUTO_SPLIT"}
