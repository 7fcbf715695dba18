"""Polls the statistics of topics and writes them as a trace.

A poll is one moment of many: consumers that appear or vanish between two polls did so at some time in between, so no
joins and leaves are written. `trace.json` says so (`"recorded_by": "admin_api"`).
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from threading import Event
from typing import Any, Final

from dispatch_audit.recording.admin.admin_api import AdminApi, AdminError
from dispatch_audit.recording.admin.stats_rows import KEY_SHARED, ConsumerNumbers, LatestRanges, snapshot_of
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
        subscriptions: names; empty: every Key_Shared subscription.
        interval_s: from the beginning of a poll to that of the next one.
        count: of polls; None: until it is stopped.
        duration_s: no poll begins later than this after the first; None: until it is stopped.
    """

    topics: Sequence[str]
    subscriptions: Sequence[str]
    interval_s: float
    count: int | None
    duration_s: float | None = None


@dataclass
class Polled:
    """What a recording has done.

    Attributes:
        polls: number of polls.
        rows: number of rows.
        failures: number of requests that were not answered.
        last_failure: of these the last.
    """

    polls: int = 0
    rows: int = 0
    failures: int = 0
    last_failure: str = ""


@dataclass
class Poller:
    """Polls topics.

    Attributes:
        api: the admin API.
        plan: what is polled.
        files: of the trace.
        report: called with a message when the API stops to answer, and when it answers again.
    """

    api: AdminApi
    plan: Plan
    files: TraceFiles
    report: Callable[[str], None]
    done: Polled = field(default_factory=Polled)
    _seq: int = 0
    _failing: set[str] = field(default_factory=set)
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
                for topic in self.plan.topics:
                    if not stop.is_set():
                        self._poll(topic)
                self.files.close_old()
                self.done.polls += 1
                # By the clock and not from the end of a poll, so that slow answers do not add up.
                late_s = time.monotonic() - begun
                wait_s = self.plan.interval_s - late_s % self.plan.interval_s
                if self._is_last(late_s + wait_s):
                    break
                stop.wait(wait_s)
        finally:
            self.files.close()
        return self.done

    def _is_last(self, next_s: float) -> bool:
        """Whether the plan has no poll at this time after the first, or none at all."""
        too_late = self.plan.duration_s is not None and next_s > self.plan.duration_s
        return too_late or (self.plan.count is not None and self.done.polls >= self.plan.count)

    def _poll(self, topic: str) -> None:
        before = self._next()
        try:
            statistics = self.api.statistics(topic)
            cursors = self.api.internal_statistics(topic).get("cursors") or {}
        except AdminError as error:
            self.done.failures += 1
            self.done.last_failure = str(error)
            if topic not in self._failing:
                self._failing.add(topic)
                self.report(str(error))
            return
        if topic in self._failing:
            self._failing.remove(topic)
            self.report(f"{topic}: the admin API answers again")
        behind = self._next()
        for name, subscription in self._chosen(statistics):
            numbers = self._numbers.setdefault((topic, name), ConsumerNumbers())
            of_consumers = numbers.of(subscription.get("consumers") or ())
            snapshot = snapshot_of(subscription, cursors.get(name), of_consumers)
            self._ranges.setdefault((topic, name), LatestRanges()).leave_out(snapshot)
            self.files.write(
                {
                    "event": "stats",
                    "seq": self._next(),
                    "ts_us": time.time_ns() // 1000,
                    "topic": topic,
                    "subscription": name,
                    "snapshot": {"seq_begin": before, "seq_end": behind, **snapshot},
                }
            )
            self.done.rows += 1

    def _chosen(self, statistics: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
        for name, subscription in (statistics.get("subscriptions") or {}).items():
            if name in self.plan.subscriptions or (
                not self.plan.subscriptions and subscription.get("type") == KEY_SHARED
            ):
                yield name, subscription

    def _next(self) -> int:
        self._seq += 1
        return self._seq


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
