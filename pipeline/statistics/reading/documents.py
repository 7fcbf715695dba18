"""Recognises what an object is: statistics of topics, of managed ledgers, rows of `record-stats`, samples of metrics.

A document is recognised by its members and not by its place, so that a map of topics (partitions, a namespace), or a
piece such as one subscription, its counters or its consumers, counts as well.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from dispatch_audit.pipeline.statistics.pairing import UNNAMED

DocumentKind = Literal["stats", "internal", "row", "consumer", "samples"]
"""Of a topic; of its managed ledger; a row of a recording; one consumer alone; an answer of Prometheus."""

PARTITIONS: Final = "partitions"
_NESTED_MAX: Final = 5
_OF_SUBSCRIPTION: Final = ("blockedSubscriptionOnUnackedMsgs", "msgInReplay", "unackedMessages", "msgDelayed")
_OF_CONSUMER: Final = frozenset({"availablePermits", "blockedConsumerOnUnackedMsgs", "drainingHashesCount"})
_TOPIC_NAMES: Final = ("topic", "topicName", "name")


@dataclass(frozen=True)
class Place:
    """Where a document stands.

    Attributes:
        topic: that a key, or the command before it, names; None: not known.
        subscription: that the command before it names; None: not known.
        before: the text in front of it, which may hold a time.
    """

    topic: str | None = None
    subscription: str | None = None
    before: str = ""

    def of_topic(self, topic: str) -> "Place":
        """The same place for a topic that a key names."""
        return Place(topic, self.subscription, self.before)


@dataclass(frozen=True)
class Document:
    """One document.

    Attributes:
        value: the object; a `CutDict` if the text ends, or goes on with something else, inside of it.
        aggregated: whether it is the sum over the partitions of a topic.
    """

    kind: DocumentKind
    value: dict[str, Any]
    place: Place = field(default_factory=Place)
    aggregated: bool = False


def named(value: dict[str, Any], key: str, place: Place) -> Document | None:
    """Returns the document that is the value of a key with the name of a topic; None: it is none."""
    kind = _kind(value)
    return None if kind is None else Document(kind, value, place.of_topic(key))


def documents_of(value: dict[str, Any], place: Place, depth: int = 0) -> Iterator[Document]:
    """Yields the document that an object is, or else the documents in it."""
    kind = _kind(value)
    name = place.subscription or UNNAMED
    if kind is not None:
        # Without `--per-partition` a broker answers with sums, and no partition by name.
        yield Document(kind, value, place, aggregated=kind == "stats" and PARTITIONS in value)
    elif is_subscription(value):
        yield Document("stats", {"subscriptions": {name: value}}, place)
    elif _is_cursor(value):
        yield Document("internal", {"cursors": {name: value}}, place)
    elif any(isinstance(inner, dict) and is_subscription(inner) for inner in value.values()):
        yield Document("stats", {"subscriptions": _by_name(value)}, place)
    elif any(isinstance(inner, dict) and _is_cursor(inner) for inner in value.values()):
        yield Document("internal", {"cursors": _by_name(value)}, place)
    elif depth < _NESTED_MAX:
        own = next((value[key] for key in _TOPIC_NAMES if "/" in str(value.get(key))), None)
        here = place if own is None else place.of_topic(str(own))
        for key, inner in value.items():
            there = here.of_topic(key) if "/" in key else here
            for one in inner if isinstance(inner, list) else [inner]:
                if isinstance(one, dict):
                    yield from documents_of(one, there, depth + 1)


def _by_name(value: dict[str, Any]) -> dict[str, Any]:
    """A map of subscriptions or cursors; `to_entries` of jq gives each a key and a value."""
    key, inner = value.get("key"), value.get("value")
    return {key: inner} if isinstance(key, str) and isinstance(inner, dict) else value


def _kind(value: dict[str, Any]) -> DocumentKind | None:
    if value.get("event") == "stats" and isinstance(value.get("snapshot"), dict):
        return "row"
    if isinstance(value.get("subscriptions"), dict):
        return "stats"
    if isinstance(value.get("cursors"), dict):
        return "internal"
    if _is_samples(value):
        return "samples"
    if _is_consumer(value):
        return "consumer"
    return None


def _is_samples(value: Mapping[str, Any]) -> bool:
    """Whether an object is an element of an answer of Prometheus, or a frame of Grafana."""
    if isinstance(value.get("metric"), dict):
        return not value.keys().isdisjoint(("value", "values"))
    schema, data = value.get("schema"), value.get("data")
    return isinstance(schema, dict) and "fields" in schema and isinstance(data, dict) and "values" in data


def is_subscription(value: Mapping[str, Any]) -> bool:
    """Whether an object is one subscription, its consumers, or its counters."""
    consumers = value.get("consumers")
    if isinstance(consumers, list):
        listed = [one for one in consumers if isinstance(one, dict)]
        return not value.keys().isdisjoint(("type", "msgBacklog")) or any(map(_is_consumer, listed))
    return "msgBacklog" in value and not value.keys().isdisjoint(_OF_SUBSCRIPTION)


def _is_consumer(value: Mapping[str, Any]) -> bool:
    if "consumers" in value or "msgBacklog" in value:
        return False
    return not value.keys().isdisjoint(_OF_CONSUMER) or {"consumerName", "unackedMessages"} <= value.keys()


def _is_cursor(value: Mapping[str, Any]) -> bool:
    return "markDeletePosition" in value and "readPosition" in value
