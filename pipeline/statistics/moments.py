"""Puts dumps together: those of one topic, those of one moment, and the moments in their order.

A topic is known by the key or the command that names it, else by the name of the file without the words `stats` and
`internal`, times and small numbers. Several dumps without a name are moments of one topic if they share a consumer.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Final

from dispatch_audit.pipeline.statistics.clock import Clock, without_times
from dispatch_audit.pipeline.statistics.model import CursorStats, Ledger, SubscriptionStats, Topic

_PARTITION: Final = re.compile(r"partition[-_](\d+)")
_WORDS: Final = frozenset(
    {
        "stats",
        "statistics",
        "internal",
        "topic",
        "topics",
        "partitioned",
        "pulsar",
        "admin",
        "json",
        "txt",
        "log",
        "dump",
    }
    | {"before", "after", "first", "second", "poll"}
)
_ORDINAL: Final = {"before": 0, "first": 0, "after": 1, "second": 1}
_SMALL: Final = re.compile(r"t?\d{1,3}")


@dataclass(frozen=True)
class Dump:
    """One document of one file.

    Attributes:
        file: as the caller named it.
        topic: what it says.
        clock: when it was taken.
        version: the release of the broker, where a recording says it.
    """

    file: str
    topic: Topic
    clock: Clock
    version: str | None = None


@dataclass(frozen=True)
class StatisticsMoment:
    """One subscription at one moment.

    Attributes:
        subscription: from `topics stats`; None: only internal statistics are there.
        cursor: from `topics stats-internal`; None: not known.
        clock: when the statistics were taken.
        files: that it comes from.
    """

    subscription: SubscriptionStats | None
    cursor: CursorStats | None
    ledger: Ledger | None
    clock: Clock
    files: tuple[str, ...]
    aggregated: bool = False
    unreadable: tuple[str, ...] = ()
    version: str | None = None


@dataclass(frozen=True)
class History:
    """The moments of one subscription, in their order; at least one."""

    topic: str
    subscription: str
    moments: tuple[StatisticsMoment, ...]

    @property
    def files(self) -> list[str]:
        """The files that the moments were read from, sorted."""
        return sorted({file for moment in self.moments for file in moment.files})


@dataclass
class _Group:
    """The dumps of one topic."""

    name: str
    stats: list[Dump] = field(default_factory=list)
    internal: list[Dump] = field(default_factory=list)


def histories(dumps: Iterable[Dump]) -> list[History]:
    """Returns the subscriptions of all dumps, by topic and name."""
    groups = _grouped(dumps)
    found = []
    for group in groups:
        names = dict.fromkeys(sub.name for dump in group.stats for sub in dump.topic.subscriptions)
        if not group.stats:
            names = dict.fromkeys(name for dump in group.internal for name in dump.topic.cursors)
        found += [History(group.name, name, tuple(_moments(group, name))) for name in names]
    return found


def _grouped(dumps: Iterable[Dump]) -> list[_Group]:
    by_label: dict[str, list[_Group]] = {}
    internals = []
    for dump in dumps:
        if not dump.topic.subscriptions and dump.topic.cursors:
            internals.append(dump)
            continue
        groups = by_label.setdefault(_label(dump), [])
        group = next((one for one in groups if dump.topic.topic or _share_consumers(one.stats[-1], dump)), None)
        if group is None:
            group = _Group(_shown(dump, len(groups)))
            groups.append(group)
        group.stats.append(dump)
    for dump in internals:
        _partner(by_label, dump).internal.append(dump)
    groups = [group for found in by_label.values() for group in found]
    for group in groups:
        group.stats.sort(key=_order)
        group.internal.sort(key=_order)
    return groups


def _partner(by_label: dict[str, list[_Group]], dump: Dump) -> _Group:
    """The group that internal statistics belong to."""
    label = _label(dump)
    same = by_label.get(label, [])
    if not same:
        # The other dump may have its topic from a command: a subscription that only one topic has decides.
        every = [group for groups in by_label.values() for group in groups]
        same = [group for group in every if group.stats and not dump.topic.cursors.keys().isdisjoint(_names(group))]
        same = same if len(same) == 1 else []
    if not same:
        same = [_Group(_shown(dump, 0))]
        by_label[label] = same
    # Several topics in one file: internal statistics follow the statistics in the order of the file.
    return min(same, key=lambda group: len(group.internal))


def _names(group: _Group) -> set[str]:
    return {sub.name for dump in group.stats for sub in dump.topic.subscriptions}


def _share_consumers(one: Dump, other: Dump) -> bool:
    """Whether two dumps without the name of a topic can be of one topic."""

    def identities(dump: Dump) -> set[tuple[str | None, ...]]:
        return {(sub.name, *c.identity) for sub in dump.topic.subscriptions for c in sub.consumers}

    mine, others = identities(one), identities(other)
    return not mine.isdisjoint(others) or not (mine or others)


def _tokens(file: str) -> list[str]:
    name = without_times(PurePath(file).name)
    stem = re.sub(r"\.(json|txt|log|out|md)$", "", name)
    return [token for token in re.split(r"[-_. ]+", stem) if token]


def _label(dump: Dump) -> str:
    if dump.topic.topic:
        return dump.topic.topic
    partition = _PARTITION.search(dump.file)
    kept = [token for token in _tokens(dump.file) if token.lower() not in _WORDS and not _SMALL.fullmatch(token)]
    folder = PurePath(dump.file).parent.as_posix()
    return f"file {folder} {'-'.join(kept)}{f' {partition[1]}' if partition else ''}"


def _shown(dump: Dump, number: int) -> str:
    """The name of a topic in a report."""
    name = dump.topic.topic or f"(topic of {PurePath(dump.file).name})"
    return f"{name} ({number + 1})" if number else name


def _order(dump: Dump) -> tuple[int, int]:
    ordinals = [_ORDINAL.get(t, int(t.lstrip("t") or 0) if _SMALL.fullmatch(t) else None) for t in _tokens(dump.file)]
    known = [ordinal for ordinal in ordinals if ordinal is not None]
    # The age of a file says less than its name.
    by_name = known[-1] if known and dump.clock.source in ("age", "none") else 0
    return by_name, dump.clock.at_ms or 0


def _moments(group: _Group, name: str) -> Iterable[StatisticsMoment]:
    if not group.stats:
        for dump in group.internal:
            cursor = dump.topic.cursors.get(name)
            if cursor is not None:
                yield StatisticsMoment(None, cursor, dump.topic.ledger, dump.clock, (dump.file,), version=dump.version)
        return
    partners = _partners(group)
    for at, dump in enumerate(group.stats):
        subscription = next((sub for sub in dump.topic.subscriptions if sub.name == name), None)
        if subscription is None:
            continue
        inner = partners.get(at)
        cursor = None if inner is None else inner.topic.cursors.get(name)
        own = dump.topic.cursors.get(name)
        yield StatisticsMoment(
            subscription=subscription,
            cursor=cursor or own,
            ledger=dump.topic.ledger if inner is None else inner.topic.ledger,
            clock=dump.clock,
            files=(dump.file,) if inner is None or inner.file == dump.file else (dump.file, inner.file),
            aggregated=dump.topic.aggregated,
            unreadable=dump.topic.unreadable + (() if inner is None else inner.topic.unreadable),
            version=dump.version,
        )


def _partners(group: _Group) -> Mapping[int, Dump]:
    """The internal statistics that belong to a dump of `group.stats`, by its index."""
    if len(group.stats) == len(group.internal):
        return dict(enumerate(group.internal))
    return {_nearest(group.stats, dump): dump for dump in group.internal}


def _nearest(stats: Sequence[Dump], dump: Dump) -> int:
    last = len(stats) - 1
    if dump.clock.at_ms is None:
        return last
    distances = [abs((one.clock.at_ms or 0) - dump.clock.at_ms) for one in stats]
    return distances.index(min(distances))
