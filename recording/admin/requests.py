"""Asks the admin API about many topics at a time, with a bound on the requests in flight and on answers that wait.

Source: Pulsar's admin REST API, v2 (`PersistentTopics`).
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Event
from typing import Any

from dispatch_audit.recording.admin.admin_api import AdminApi, AdminError
from dispatch_audit.recording.admin.policies import policies_in_force
from dispatch_audit.recording.admin.stats_rows import KEY_SHARED
from dispatch_audit.recording.admin.threads import called_in_threads


@dataclass(frozen=True)
class Answer:
    """What the admin API said about a topic.

    Attributes:
        topic: its full name.
        before: number that was drawn before the first request.
        after: number that was drawn after the last one.
        ts_us: when the last one was answered.
        subscriptions: of the statistics, those that are recorded, by name.
        ledger: the internal statistics; empty: they were not asked for.
        policies: settings in force, by subscription; empty: they were not asked for.
        error: why there is nothing; None: there is.
    """

    topic: str
    before: int
    after: int
    ts_us: int
    subscriptions: Mapping[str, Any] = field(default_factory=dict)
    ledger: Mapping[str, Any] = field(default_factory=dict)
    policies: Mapping[str, Mapping[str, int | bool]] = field(default_factory=dict)
    error: AdminError | None = None


@dataclass(frozen=True)
class Requests:
    """Asks about topics.

    Attributes:
        api: the admin API.
        subscriptions: names of those that are recorded; empty: every Key_Shared one.
        number: draws the next number of the recording; threads call it.
        in_flight: requests at a time.
    """

    api: AdminApi
    subscriptions: Sequence[str]
    number: Callable[[], int]
    in_flight: int

    def answers(self, topics: Iterable[str], with_policies: Callable[[str], bool], stop: Event) -> Iterator[Answer]:
        """Yields the answer about each topic, in the order in which they come.

        Args:
            topics: full names.
            with_policies: whether to ask for the policies of a topic.
            stop: nothing is asked for and waited for any more when it is set.
        """
        asked = ((topic, with_policies(topic)) for topic in topics)
        return called_in_threads(self._answer, asked, self.in_flight, stop)

    def _answer(self, asked: tuple[str, bool]) -> Answer:
        topic, with_policies = asked
        before = self.number()
        try:
            statistics = self.api.statistics(topic).get("subscriptions") or {}
            chosen = {name: of_it for name, of_it in statistics.items() if self._is_chosen(name, of_it)}
            # Most topics of a namespace may have other subscriptions only.
            ledger = self.api.internal_statistics(topic) if chosen else {}
            after, ts_us = self.number(), time.time_ns() // 1000
            policies = {name: policies_in_force(self.api, topic, name) for name in chosen if with_policies}
        except AdminError as error:
            return Answer(topic, before, self.number(), time.time_ns() // 1000, error=error)
        return Answer(topic, before, after, ts_us, chosen, ledger, policies)

    def _is_chosen(self, name: str, subscription: Mapping[str, Any]) -> bool:
        if self.subscriptions:
            return name in self.subscriptions
        return subscription.get("type") == KEY_SHARED
