"""Turns samples of a broker's metrics into typed statistics: each moment of a subscription is a document of its own.

Metrics have the counters of a subscription, and those of its consumers only if the broker exposes them. They have no
type of a subscription, no hashes and no positions. A series that comes again begins a new moment; values of a range are
moments by their times.

Source: contract 7; `TopicStats`, `NamespaceStatsAggregator` of 2.8 to 4.2; recorded in `tests/data/metrics`.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from dispatch_audit.pipeline.statistics.clock import Clock, clock_of
from dispatch_audit.pipeline.statistics.model import SubscriptionStats, Topic
from dispatch_audit.pipeline.statistics.parse import Reader, subscription_of
from dispatch_audit.pipeline.statistics.reading.samples import Series

MOMENTS_MAX: Final = 1_000
"""The last moments of a subscription that are kept."""
_STALE_MS: Final = 300_000
"""For how long a value of a range counts where a series has none, as in Prometheus."""
_PREFIX: Final = "persistent://"
# Names of metrics, and the fields of `topics stats` that they are.
_OF_SUBSCRIPTION: Final = {
    "pulsar_subscription_back_log": "msgBacklog",
    "pulsar_subscription_delayed": "msgDelayed",
    "pulsar_subscription_in_replay": "msgInReplay",
    "pulsar_subscription_unacked_messages": "unackedMessages",
    "pulsar_subscription_blocked_on_unacked_messages": "blockedSubscriptionOnUnackedMsgs",
    "pulsar_subscription_msg_rate_out": "msgRateOut",
    "pulsar_out_messages_total": "msgOutCounter",
    "pulsar_subscription_last_consumed_timestamp": "lastConsumedTimestamp",
    "pulsar_subscription_last_consumed_flow_timestamp": "lastConsumedFlowTimestamp",
    "pulsar_subscription_last_acked_timestamp": "lastAckedTimestamp",
    "pulsar_subscription_last_mark_delete_advanced_timestamp": "lastMarkDeleteAdvancedTimestamp",
    "pulsar_subscription_consumers_count": "consumers_count",
}
_THROTTLED: Final = "pulsar_subscription_dispatch_throttled_"
_OF_CONSUMER: Final = {
    "pulsar_consumer_available_permits": "availablePermits",
    "pulsar_consumer_unacked_messages": "unackedMessages",
    "pulsar_consumer_blocked_on_unacked_messages": "blockedConsumerOnUnackedMsgs",
    "pulsar_consumer_msg_rate_out": "msgRateOut",
    "pulsar_consumer_msg_ack_rate": "messageAckRate",
    "pulsar_out_messages_total": "msgOutCounter",
}
_FLAGS: Final = frozenset({"blockedSubscriptionOnUnackedMsgs", "blockedConsumerOnUnackedMsgs"})

Key = tuple[str, str | None]
"""Of a value: its field, and the consumer that it is of; None: of the subscription."""


@dataclass(frozen=True)
class _Moment:
    """The values of one moment."""

    at_ms: int | None
    values: Mapping[Key, float]
    before: str = ""


class Metrics:
    """The series of one text, by topic and subscription.

    Attributes:
        without_subscription: how many series of subscriptions do not say theirs.
    """

    def __init__(self) -> None:
        self.without_subscription = 0
        self._series: dict[tuple[str, str], list[tuple[Key, Series]]] = {}

    def add(self, series: Series) -> None:
        """Takes a series; those of anything but subscriptions are left out."""
        key = _key(series)
        if key is None:
            return
        topic, subscription = series.labels.get("topic"), series.labels.get("subscription")
        if not topic or not subscription:
            self.without_subscription += series.name.startswith("pulsar_subscription_")
            return
        partition = series.labels.get("partition", "-1")
        whole = topic if "://" in topic else _PREFIX + topic
        whole += f"-partition-{partition}" if partition.isdigit() else ""
        self._series.setdefault((whole, subscription), []).append((key, series))

    def topics(self, file: str, modified_ms: int | None) -> Iterator[tuple[Topic, Clock]]:
        """Yields each moment of each subscription as statistics of its topic, and when it was.

        Args:
            file: name of the file, without its folder.
            modified_ms: when it was last written; None: not known.
        """
        for (topic, name), series in self._series.items():
            for moment in _moments(series):
                clock = clock_of(file, moment.before, modified_ms)
                if moment.at_ms is not None:
                    clock = Clock(moment.at_ms, "content", exact=True)
                yield Topic(topic, (_subscription(name, moment.values),), from_metrics=True), clock


def _key(series: Series) -> Key | None:
    """What a series is, by its name and labels; None: nothing of a subscription."""
    consumer = series.labels.get("consumer_name")
    if consumer is not None:
        field = _OF_CONSUMER.get(series.name)
        return None if field is None else (field, f"{series.labels.get('consumer_id', '')}\n{consumer}")
    if series.name.startswith(_THROTTLED):
        return f"dispatchThrottled {series.name} {series.labels.get('reason')}", None
    field = _OF_SUBSCRIPTION.get(series.name)
    return None if field is None else (field, None)


def _moments(series: Iterable[tuple[Key, Series]]) -> Iterator[_Moment]:
    """Yields the moments of one subscription in their order, those of ranges last."""
    scrapes: deque[dict[Key, tuple[Series, int | None, float]]] = deque(maxlen=MOMENTS_MAX)
    ranges: list[tuple[int, Key, float]] = []
    for key, one in series:
        if one.is_range:
            ranges += [(at, key, value) for at, value in one.points if at is not None]
            continue
        for at, value in one.points:
            scrape = next((found for found in scrapes if key not in found), None)
            if scrape is None:
                scrape = {}
                scrapes.append(scrape)
            scrape[key] = (one, at, value)
    for scrape in scrapes:
        times = [at for _, at, _ in scrape.values() if at is not None]
        before = "\n".join(dict.fromkeys(one.before for one, _, _ in scrape.values() if one.before.strip()))
        yield _Moment(max(times, default=None), {key: value for key, (_, _, value) in scrape.items()}, before)
    yield from _of_ranges(ranges)


def _of_ranges(points: list[tuple[int, Key, float]]) -> Iterator[_Moment]:
    known: dict[Key, tuple[int, float]] = {}
    moments: deque[_Moment] = deque(maxlen=MOMENTS_MAX)
    ordered = sorted(points, key=lambda point: point[0])
    for number, (at, key, value) in enumerate(ordered):
        known[key] = (at, value)
        if number + 1 == len(ordered) or ordered[number + 1][0] != at:
            fresh = {one: found for one, (since, found) in known.items() if at - since <= _STALE_MS}
            moments.append(_Moment(at, fresh))
    yield from moments


def _subscription(name: str, values: Mapping[Key, float]) -> SubscriptionStats:
    found: dict[str, Any] = {}
    consumers: dict[str, dict[str, Any]] = {}
    for (field, consumer), value in values.items():
        of = found if consumer is None else consumers.setdefault(consumer, _consumer(consumer))
        of[field] = value > 0 if field in _FLAGS else value
    connected = found.pop("consumers_count", None)
    # Without metrics of consumers a list says nothing.
    if consumers and connected in (None, len(consumers)):
        found["consumers"] = list(consumers.values())
    read = Reader()
    known = None if connected is None else int(connected)
    return subscription_of(read, name, found, known)


def _consumer(key: str) -> dict[str, Any]:
    number, name = key.split("\n", 1)
    return {"consumerName": name, "address": f"consumer {number}"}
