"""Puts the statistics and the positions of one moment together, and the moments of a subscription in their order."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from dispatch_audit.pipeline.statistics.clock import Clock
from dispatch_audit.pipeline.statistics.model import CursorStats, Ledger, SubscriptionStats
from dispatch_audit.pipeline.statistics.pairing import UNNAMED, Dump, Group, grouped


@dataclass(frozen=True)
class StatisticsMoment:
    """One subscription at one moment.

    Attributes:
        subscription: from `topics stats`; None: only internal statistics are there.
        cursor: from `topics stats-internal`; None: not known.
        clock: when the statistics were taken.
        files: that it comes from.
        latest_ms: the latest time of the topic in it; 0: there is none.
        aggregated: whether the numbers are sums over partitions.
    """

    subscription: SubscriptionStats | None
    cursor: CursorStats | None
    ledger: Ledger | None
    clock: Clock
    files: tuple[str, ...]
    latest_ms: int = 0
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


def histories(dumps: Iterable[Dump]) -> tuple[list[History], list[str]]:
    """Returns the subscriptions of all dumps by topic and name, and what to ask where they do not say their topic."""
    groups, questions = grouped(dumps)
    found = []
    for group in groups:
        names = dict.fromkeys(sub.name for dump in group.stats for sub in dump.topic.subscriptions)
        if not group.stats:
            names = dict.fromkeys(name for dump in group.internal for name in dump.topic.cursors)
        found += [History(group.name, name, tuple(_moments(group, name))) for name in names]
    return found, questions


def _moments(group: Group, name: str) -> Iterable[StatisticsMoment]:
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
        cursor = None if inner is None else _cursor(inner, dump, name)
        own = dump.topic.cursors.get(name)
        yield StatisticsMoment(
            subscription=subscription,
            cursor=cursor or own,
            ledger=dump.topic.ledger if inner is None else inner.topic.ledger,
            clock=dump.clock,
            files=(dump.file,) if inner is None or inner.file == dump.file else (dump.file, inner.file),
            latest_ms=dump.topic.latest_ms,
            aggregated=dump.topic.aggregated,
            unreadable=dump.topic.unreadable + (() if inner is None else inner.topic.unreadable),
            version=dump.version,
        )


def _cursor(inner: Dump, dump: Dump, name: str) -> CursorStats | None:
    """The cursor of a subscription; one of which only the members were pasted belongs to the only one."""
    cursors = inner.topic.cursors
    if name == UNNAMED or UNNAMED in cursors:
        is_only = len(cursors) == 1 and len(dump.topic.subscriptions) == 1
        return next(iter(cursors.values())) if is_only else None
    return cursors.get(name)


def _partners(group: Group) -> Mapping[int, Dump]:
    """The internal statistics that belong to a dump of `group.stats`, by its index."""
    if len(group.stats) == len(group.internal):
        return dict(enumerate(group.internal))
    return {_nearest(group.stats, dump): dump for dump in group.internal}


def _nearest(stats: Sequence[Dump], dump: Dump) -> int:
    if dump.clock.at_ms is None or not all(one.clock.is_said for one in (dump, *stats)):
        return len(stats) - 1
    distances = [abs((one.clock.at_ms or 0) - dump.clock.at_ms) for one in stats]
    return distances.index(min(distances))
