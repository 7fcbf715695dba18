"""Polls the statistics of topics and writes them as a trace.

A poll is one moment of many: consumers that appear or vanish between two polls did so at some time in between, so no
joins and leaves are written. `trace.json` says so (`"recorded_by": "admin_api"`).
"""

import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from threading import Event
from typing import Any, Final

from dispatch_audit.recording.admin.admin_api import AdminApi, AdminError
from dispatch_audit.recording.admin.failures import Failures
from dispatch_audit.recording.admin.policy_rows import PolicyRows
from dispatch_audit.recording.admin.requests import Answer, Requests
from dispatch_audit.recording.admin.stats_rows import ConsumerNumbers, LatestRanges, snapshot_of
from dispatch_audit.recording.admin.threads import called_in_threads
from dispatch_audit.recording.trace_files import TraceFiles

RECORDED_BY: Final = "admin_api"
_NOTE: Final = (
    "Statistics from the admin API: single moments, without the rows of dispatches, acknowledgements and joins."
)


@dataclass(frozen=True)
class Plan:
    """What is polled, and how often.

    Attributes:
        topics: full names, of partitions where a topic has some.
        namespaces: all persistent topics of these too; they are listed anew at each poll.
        subscriptions: names; empty: every Key_Shared subscription.
        interval_s: from the beginning of a poll to that of the next one.
        count: of polls; None: until it is stopped.
        duration_s: no poll begins later than this after the first; None: until it is stopped.
        in_flight: requests at a time.
        addresses: whether those of clients are kept.
    """

    topics: Sequence[str]
    namespaces: Sequence[str]
    subscriptions: Sequence[str]
    interval_s: float
    count: int | None
    duration_s: float | None = None
    in_flight: int = 1
    addresses: bool = True


@dataclass
class Polled:
    """What a recording has done.

    Attributes:
        polls: number of polls.
        rows: number of snapshots.
        topics: number of topics in the last poll.
        failures: number of topics and lists of topics that were not answered, over all polls.
        last_failure: of these the last.
        stopped: whether it was stopped before the plan was done.
    """

    polls: int = 0
    rows: int = 0
    topics: int = 0
    failures: int = 0
    last_failure: str = ""
    stopped: bool = False


@dataclass
class Poller:
    """Polls topics.

    Attributes:
        api: the admin API.
        plan: what is polled.
        files: of the trace.
        report: called with a message when the API stops to answer, and when it answers again.
        polled: called with what is done after each poll that another one follows.
    """

    api: AdminApi
    plan: Plan
    files: TraceFiles
    report: Callable[[str], None]
    polled: Callable[[Polled], None]
    done: Polled = field(default_factory=Polled)
    _seqs: "itertools.count[int]" = field(default_factory=lambda: itertools.count(1))
    _listed: dict[str, list[str]] = field(default_factory=dict)
    _failures: Failures = field(default_factory=Failures)
    _policies: PolicyRows = field(default_factory=PolicyRows)
    _numbers: dict[tuple[str, str], ConsumerNumbers] = field(default_factory=dict)
    _ranges: dict[tuple[str, str], LatestRanges] = field(default_factory=dict)

    def run(self, stop: Event) -> Polled:
        """Polls until the plan is done or `stop` is set; then closes the files.

        Raises:
            OSError: a row cannot be written.
        """
        try:
            begun = time.monotonic()
            while not stop.is_set():
                self._poll(stop)
                self.files.close_old()
                self.done.polls += 1
                # By the clock and not from the end of a poll, so that slow answers do not add up.
                late_s = time.monotonic() - begun
                wait_s = self.plan.interval_s - late_s % self.plan.interval_s
                if self._is_last(late_s + wait_s):
                    break
                self.polled(self.done)
                stop.wait(wait_s)
        finally:
            self.files.close()
        self.done.stopped = stop.is_set()
        return self.done

    def _is_last(self, next_s: float) -> bool:
        """Whether the plan has no poll at this time after the first, or none at all."""
        too_late = self.plan.duration_s is not None and next_s > self.plan.duration_s
        return too_late or (self.plan.count is not None and self.done.polls >= self.plan.count)

    def _poll(self, stop: Event) -> None:
        topics = [*self.plan.topics, *self._topics_of_namespaces(stop)]
        self.done.topics = len(topics)
        # A topic of a namespace may have been deleted since it was listed.
        named = set(self.plan.topics)
        # A number is drawn by one step of the interpreter, so threads get different ones.
        requests = Requests(self.api, self.plan.subscriptions, self._next, self.plan.in_flight)
        for answer in requests.answers(topics, self._policies.are_due, stop):
            if answer.error is None:
                self._failures.answered(answer.topic)
                self._write(answer)
            elif answer.error.status != 404 or answer.topic in named:
                self._failed(answer.topic, answer.error)
        for message in self._failures.news():
            self.report(message)

    def _topics_of_namespaces(self, stop: Event) -> list[str]:
        lists = called_in_threads(self._listed_topics, self.plan.namespaces, self.plan.in_flight, stop)
        for namespace, found in lists:
            if isinstance(found, AdminError):
                # Those that it had are still asked for.
                self._failed(namespace, found)
            else:
                self._listed[namespace] = found
                self._failures.answered(namespace)
        listed = (self._listed.get(namespace, ()) for namespace in self.plan.namespaces)
        return [topic for topics in listed for topic in topics if topic not in self.plan.topics]

    def _listed_topics(self, namespace: str) -> tuple[str, list[str] | AdminError]:
        try:
            return namespace, self.api.topics(namespace)
        except AdminError as error:
            return namespace, error

    def _failed(self, name: str, error: AdminError) -> None:
        self.done.failures += 1
        self.done.last_failure = str(error)
        self._failures.failed(name, error)

    def _write(self, answer: Answer) -> None:
        for name, subscription in answer.subscriptions.items():
            key = (answer.topic, name)
            if name in answer.policies:
                columns = self._policies.columns(*key, answer.after, answer.policies[name])
                if columns is not None:
                    self.files.write({**self._head("settings", answer, name), **columns})
            numbers = self._numbers.setdefault(key, ConsumerNumbers())
            of_consumers = numbers.of(subscription.get("consumers") or ())
            snapshot = snapshot_of(subscription, answer.ledger, name, of_consumers)
            if not self.plan.addresses:
                for consumer in snapshot["consumers"]:
                    consumer.pop("address", None)
            self._ranges.setdefault(key, LatestRanges()).leave_out(snapshot)
            bounds = {"seq_begin": answer.before, "seq_end": answer.after}
            self.files.write({**self._head("stats", answer, name), "snapshot": {**bounds, **snapshot}})
            self.done.rows += 1

    def _head(self, event: str, answer: Answer, subscription: str) -> dict[str, Any]:
        place = {"topic": answer.topic, "subscription": subscription}
        return {"event": event, "seq": self._next(), "ts_us": answer.ts_us, **place}

    def _next(self) -> int:
        return next(self._seqs)


def manifest_of(api: AdminApi, wanted: Sequence[str], recorder_version: str) -> dict[str, Any]:
    """Returns what `trace.json` says.

    Args:
        api: the admin API.
        wanted: the names of broker.conf that a trace has.
        recorder_version: of this package.

    Raises:
        AdminError: the API does not say which version the broker has.
    """
    try:
        known = api.settings()
    except AdminError:
        # Only superusers may ask for them; what is absent has the default of the version.
        known = {}
    settings = {name: _setting(known[name]) for name in wanted if known.get(name) is not None}
    return {
        "pulsar_version": api.version(),
        "settings": settings,
        "recorder": {"name": "record-stats", "version": recorder_version},
        "recorded_by": RECORDED_BY,
        "complete_from_start": False,
        "note": _NOTE if known else f"{_NOTE} The settings of the broker could not be asked for.",
    }


def _setting(value: object) -> object:
    """Returns a setting as broker.conf has it: the API writes all of them as texts."""
    if not isinstance(value, str):
        return value
    if value in ("true", "false"):
        return value == "true"
    return int(value) if value.removeprefix("-").isdecimal() else value
