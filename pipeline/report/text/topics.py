"""Names of topics, each written once: a topic that several lines are about gets a number."""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Protocol

from dispatch_audit.pipeline.plural import count
from dispatch_audit.pipeline.report.text.layout import Labelled
from dispatch_audit.pipeline.report.wording import printable

# Of the subscriptions of a run with one topic.
_NAMED = 5


class OfSubscription(Protocol):
    """A row about one subscription of one topic partition."""

    @property
    def topic(self) -> str:
        """The full name of the topic partition."""

    @property
    def subscription(self) -> str:
        """The name of the subscription."""


class TopicNames:
    """How the lines of one run name topics and subscriptions.

    Args:
        rows: of all subscriptions of the run.
        shown: what the report has lines about.
    """

    def __init__(self, rows: Iterable[OfSubscription], shown: Iterable[OfSubscription]) -> None:
        mentions = Counter(row.topic for row in shown)
        groups = {(row.topic, row.subscription) for row in rows} or {(topic, "") for topic in mentions}
        self._topics = {topic for topic, _ in groups}
        self._subscriptions = sorted({subscription for _, subscription in groups if subscription})
        repeated = sorted(topic for topic, lines in mentions.items() if lines > 1 and len(self._topics) > 1)
        self._numbers = {topic: f"T{number}" for number, topic in enumerate(repeated, 1)}

    def legend(self) -> Iterator[Labelled]:
        """The lines that say which topics the run is about, and what their numbers stand for."""
        named = ", ".join(map(printable, self._subscriptions[:_NAMED]))
        more = len(self._subscriptions) - _NAMED
        noun = "subscription" if len(self._subscriptions) == 1 else "subscriptions"
        subscriptions = f", {noun} {named}{f' and {more:,} more' if more > 0 else ''}" if named else ""
        if len(self._topics) == 1:
            yield from (Labelled("Topic", f"{printable(topic)}{subscriptions}") for topic in self._topics)
        elif self._topics:
            yield Labelled("Topics", f"{count(len(self._topics), 'topic partition')}{subscriptions}")
        yield from (Labelled(number, printable(topic), indent=2) for topic, number in self._numbers.items())

    def suffix(self, row: OfSubscription, form: str = " ({})") -> str:
        """The topic and subscription of a row, to be written after its sentence.

        Args:
            row: about one subscription.
            form: what to write around them; the braces stand for them.
        """
        parts = []
        if len(self._topics) > 1:
            parts.append(self._numbers.get(row.topic) or printable(row.topic))
        if len(self._subscriptions) > 1:
            parts.append(printable(row.subscription))
        return form.format(", ".join(parts)) if parts else ""
