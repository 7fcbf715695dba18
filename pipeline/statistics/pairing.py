"""Puts dumps together: those of one topic, in the order in which they were taken.

Dumps pair by what they say and never by the names of files: by the topic that a key or command names, by consumers (a
name with its address and the time at which it connected is one connection), and by subscriptions. Where that leaves
open whether two are of one topic, they are kept apart and the answer asks.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Final

from dispatch_audit.pipeline.statistics.clock import Clock
from dispatch_audit.pipeline.statistics.model import Topic

UNNAMED: Final = "(not named)"
"""The name of a subscription of which only the members were pasted."""
_SIZES_APART_MAX: Final = 0.01


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

    @property
    def is_internal(self) -> bool:
        """Whether it has positions only."""
        return not self.topic.subscriptions and bool(self.topic.cursors)

    @property
    def subscriptions(self) -> set[str]:
        """The names of its subscriptions."""
        return {sub.name for sub in self.topic.subscriptions} | self.topic.cursors.keys()

    @property
    def connections(self) -> set[tuple[str | None, ...]]:
        """The consumers that are told apart from all others, with their subscription."""
        subs = self.topic.subscriptions
        return {(sub.name, *c.identity) for sub in subs for c in sub.consumers if c.is_identified}


@dataclass
class Group:
    """The dumps of one topic, in their order."""

    name: str
    stats: list[Dump] = field(default_factory=list)
    internal: list[Dump] = field(default_factory=list)

    @property
    def topic(self) -> str | None:
        """The topic, if a dump says it."""
        return next((dump.topic.topic for dump in (*self.stats, *self.internal) if dump.topic.topic), None)

    @property
    def subscriptions(self) -> set[str]:
        """The names of all subscriptions."""
        return {name for dump in (*self.stats, *self.internal) for name in dump.subscriptions}


def grouped(dumps: Iterable[Dump]) -> tuple[list[Group], list[str]]:
    """Returns the topics, and what to ask where dumps do not say to which they belong."""
    groups: list[Group] = []
    internals: list[tuple[Dump, Group | None]] = []
    last: Dump | None = None
    for dump in dumps:
        if dump.is_internal:
            before = groups_of(last, groups) if last is not None and last.file == dump.file else None
            internals.append((dump, before if before is not None and _may_be_of(dump, before) else None))
            continue
        group = next((one for one in groups if _is_of(dump, one)), None)
        if group is None:
            group = Group("")
            groups.append(group)
        group.stats.append(dump)
        last = dump
    questions = list(_one_or_two(groups))
    for dump, near in internals:
        questions += _placed(dump, near, groups)
    for group in groups:
        group.stats = _in_order(group.stats)
        group.internal = _in_order(group.internal)
        group.name = group.topic or f"(topic of {PurePath((group.stats + group.internal)[0].file).name})"
    _number_equal_names(groups)
    return groups, questions


def groups_of(dump: Dump, groups: Sequence[Group]) -> Group:
    """Returns the group that holds a dump of statistics."""
    return next(group for group in groups if any(one is dump for one in group.stats))


def _is_of(dump: Dump, group: Group) -> bool:
    """Whether statistics are known to be of a topic."""
    if any(one.topic.aggregated != dump.topic.aggregated for one in group.stats):
        return False
    # Their consumers have other names, so that they show no movement from one to the other.
    if any(one.topic.from_metrics != dump.topic.from_metrics for one in group.stats):
        return False
    if dump.topic.topic and group.topic:
        return dump.topic.topic == group.topic
    return any(one.topic == dump.topic or one.connections & dump.connections for one in group.stats)


def _may_be_of(dump: Dump, group: Group) -> bool:
    """Whether internal statistics can be of a topic."""
    if group.topic and dump.topic.topic and group.topic != dump.topic.topic:
        return False
    # A sum has no positions.
    if any(one.topic.aggregated for one in group.stats):
        return False
    names = dump.subscriptions
    return bool(names & group.subscriptions) or UNNAMED in names or UNNAMED in group.subscriptions


def _placed(dump: Dump, near: Group | None, groups: list[Group]) -> Iterator[str]:
    """Puts internal statistics to their topic, and yields what to ask."""
    named = [group for group in groups if dump.topic.topic and group.topic == dump.topic.topic]
    possible = [group for group in groups if group.stats and _may_be_of(dump, group)]
    if len(possible) > 1 and not named and near is None:
        sized = [group for group in possible if any(_are_near(one.topic.size, dump.topic.size) for one in group.stats)]
        possible = sized if len(sized) == 1 else possible
    found = named[:1] or ([near] if near is not None else possible)
    if len(found) == 1:
        found[0].internal.append(dump)
        return
    groups.append(Group("", internal=[dump]))
    if found:
        file = PurePath(dump.file).name
        yield f"{file} can be of {len(found):,} topics here: pass it with the command in front, which names the topic"


def _are_near(one: int | None, other: int | None) -> bool:
    if not one or not other:
        return False
    return abs(one - other) <= _SIZES_APART_MAX * max(one, other)


def _one_or_two(groups: Sequence[Group]) -> Iterator[str]:
    """What to ask of topics that no dump names, and that may be one."""
    nameless = [group for group in groups if group.topic is None and not any(d.topic.aggregated for d in group.stats)]
    for at, group in enumerate(nameless):
        for other in nameless[at + 1 :]:
            shared = sorted(group.subscriptions & other.subscriptions)
            if shared:
                files = " and ".join(PurePath(one.stats[0].file).name for one in (group, other))
                yield (
                    f"are {files} of one topic or of two? Both have subscription {shared[0]}, and they share no "
                    "consumer: they are judged as two. Pass each with the command in front of it, which names the topic"
                )
                return


def _in_order(dumps: list[Dump]) -> list[Dump]:
    """The dumps by time, if all say it, else by their counters; one that was passed twice once."""
    kept: list[Dump] = []
    for dump in dumps:
        if not any(_is_the_same(one, dump) for one in kept):
            kept.append(dump)
    if all(dump.clock.is_said for dump in kept):
        return sorted(kept, key=lambda dump: dump.clock.at_ms or 0)
    return sorted(kept, key=lambda dump: _progress(dump.topic))


def _is_the_same(one: Dump, other: Dump) -> bool:
    both = one.clock.is_said and other.clock.is_said
    return one.topic == other.topic and (not both or one.clock.at_ms == other.clock.at_ms)


def _progress(topic: Topic) -> tuple[object, ...]:
    """What never falls while a topic is loaded."""
    moments = [topic.latest_ms]
    sent = 0
    for sub in topic.subscriptions:
        moments += [sub.last_sent_ms or 0, sub.last_acked_ms or 0, sub.last_flow_ms or 0]
        moments += [at or 0 for c in sub.consumers for at in (c.last_sent_ms, c.last_acked_ms, c.last_flow_ms)]
        sent += max(sub.sent or 0, sum(c.sent or 0 for c in sub.consumers))
    cursors = sorted((name, one.mark_delete or (), one.read_position or ()) for name, one in topic.cursors.items())
    ledger_end = topic.ledger.last_confirmed if topic.ledger is not None else None
    return max(moments), sent, topic.published or 0, ledger_end or (), [one[1:] for one in cursors]


def _number_equal_names(groups: Sequence[Group]) -> None:
    seen: dict[str, int] = {}
    for group in groups:
        seen[group.name] = seen.get(group.name, 0) + 1
        if seen[group.name] > 1:
            group.name = f"{group.name} ({seen[group.name]})"
