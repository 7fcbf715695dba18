"""Packed batches: the rows of one subscription from one Arrow batch, their encoding, and their merge.

A publish belongs to every subscription of its topic, and which ones there are is known only when all rows have been
read. So the publishes of a batch stand in a packed batch of their own, or, if the batch names a single subscription of
the topic, among its rows; other subscriptions of the topic then take the publishes from there (`rows_for`).

Packed batches of one group overlap in time, because logs do: messages, acks and consumers are recorded separately. They
arrive ordered by their first seq, so all rows before the first seq of the next one are complete.
"""

import json
from collections.abc import Iterable, Iterator
from itertools import pairwise
from math import inf
from typing import Final, NamedTuple

import numpy as np

from dispatch_audit.pipeline.replay.packing.events import Code, Events, no_events
from dispatch_audit.pipeline.replay.packing.gap import Gap, apart, of_topics
from dispatch_audit.pipeline.replay.packing.membership_rows import MembershipEvent
from dispatch_audit.pipeline.replay.packing.narrow_events import NarrowEvents, together
from dispatch_audit.pipeline.replay.packing.producer_summary import NOTHING, Published
from dispatch_audit.pipeline.replay.packing.refused import Refused
from dispatch_audit.pipeline.replay.packing.repeated_rows import once, settings_once
from dispatch_audit.pipeline.replay.packing.snapshot import StatsRow
from dispatch_audit.pipeline.replay.settings.settings_row import SettingsRow

ROWS_MIN: Final = 1 << 16
"""The number of rows to collect before they are put in order, because each replayed part has a fixed cost."""
ROWS_MAX: Final = 1 << 17
"""About the largest number of rows that are passed on at a time, because the replay needs memory for each."""
_RANGES: Final = MembershipEvent._fields.index("ranges")


ANY_TOPIC: Final = ""
"""The topic of gaps and settings that hold for all topics of their recorder."""


class PackedBatch(NamedTuple):
    """Rows of one subscription and recorder, ascending by seq.

    A gap and settings that hold for everything that a recorder wrote have the topic `ANY_TOPIC`, and no other row has
    it.

    Attributes:
        topic: the topic of the rows.
        subscription: their subscription; None: they are publishes, gaps and settings, and belong to all subscriptions
            of the topic.
        broker: the recorder of the rows; None: they name none.
        shared: whether rows that belong to all subscriptions of the topic are among them.
        first_seq: no row has a lower one.
        last_seq: no row has a higher one.
        events: the rows; never none.
        membership: what only the joins, leaves and resets among them carry.
        snapshots: what only the snapshots among them carry.
        published: what the publishes among them say of their producers.
        settings: what only the rows `settings` among them carry.
    """

    topic: str
    subscription: str | None
    broker: str | None
    shared: bool
    first_seq: int
    last_seq: int
    events: NarrowEvents
    membership: tuple[MembershipEvent, ...]
    snapshots: tuple[StatsRow, ...]
    published: Published = NOTHING
    settings: tuple[SettingsRow, ...] = ()


class Merged(NamedTuple):
    """Rows of several chunks in the order of seq.

    Attributes:
        events: the rows.
        membership: as in `PackedBatch`.
        snapshots: as in `PackedBatch`.
        gaps: the gaps, which are not among the events.
        settings: the rows `settings`, which are not among the events either.
        repeated: rows left out because the same row was there before.
        contradicted: rows left out because another row of the same seq says something else.
    """

    events: Events
    membership: list[MembershipEvent]
    snapshots: list[StatsRow]
    gaps: list[Gap]
    settings: list[SettingsRow]
    repeated: list[Refused]
    contradicted: list[Refused]


def rows_for(subscription: str, packed: PackedBatch) -> PackedBatch | None:
    """The rows of a packed batch that belong to a subscription of its topic; None: there are none."""
    if packed.subscription in (None, subscription):
        return packed
    if not packed.shared:
        return None
    code = packed.events.column("code")
    of_all = (code == Code.PUBLISH) | (code == Code.PUBLISH_DELAYED)
    if ((code == Code.GAP) | (code == Code.SETTINGS)).any():
        of_all |= of_topics(packed.events.wide())
    return packed._replace(
        subscription=None,
        events=packed.events.take(of_all),
        membership=(),
        snapshots=(),
        settings=tuple(row for row in packed.settings if row.shared),
    )


def of_each_topic(packed: PackedBatch, topics: Iterable[str]) -> Iterator[PackedBatch]:
    """A packed batch of `ANY_TOPIC` for each topic; any other one as it is."""
    if packed.topic != ANY_TOPIC:
        yield packed
        return
    yield from (packed._replace(topic=topic) for topic in topics)


def encode_membership(rows: Iterable[MembershipEvent]) -> str:
    """The rows as JSON."""
    return json.dumps([tuple(row) for row in rows])


def decode_membership(text: str) -> tuple[MembershipEvent, ...]:
    """The rows that `encode_membership` wrote."""
    found = json.loads(text)
    for values in found:
        values[_RANGES] = tuple(map(tuple, values[_RANGES]))
    return tuple(map(MembershipEvent._make, found))


def encode_snapshots(rows: Iterable[StatsRow]) -> str:
    """The rows as JSON."""
    return json.dumps([tuple(row) for row in rows])


def decode_snapshots(text: str) -> tuple[StatsRow, ...]:
    """The rows that `encode_snapshots` wrote."""
    return tuple(StatsRow(*values) for values in json.loads(text))


def merged(chunks: Iterable[PackedBatch], rows_min: int = ROWS_MIN) -> Iterator[Merged]:
    """The rows of the chunks of one group in the order of seq, as soon as they are complete and some have gathered.

    Args:
        chunks: of one group, ordered by `first_seq`.
        rows_min: how many should have gathered.
    """
    waiting: list[NarrowEvents] = []
    gathered, enough = 0, rows_min
    rows: list[MembershipEvent] = []
    snapshots: list[StatsRow] = []
    settings: list[SettingsRow] = []
    for chunk in chunks:
        if gathered >= enough:
            complete, waiting = _split(waiting, chunk.first_seq)
            gathered = sum(events.rows for events in waiting)
            # Rows that are not complete yet are split again only when as many have been added.
            enough = max(rows_min, 2 * gathered)
            ready = [row for row in rows if row.seq < chunk.first_seq]
            rows = [row for row in rows if row.seq >= chunk.first_seq]
            ready_snapshots = [snapshot for snapshot in snapshots if snapshot.seq < chunk.first_seq]
            snapshots = [snapshot for snapshot in snapshots if snapshot.seq >= chunk.first_seq]
            said = [row for row in settings if row.seq < chunk.first_seq]
            settings = [row for row in settings if row.seq >= chunk.first_seq]
            if complete:
                yield from _in_order(complete, ready, ready_snapshots, said)
        waiting.append(chunk.events)
        gathered += chunk.events.rows
        rows += chunk.membership
        snapshots += chunk.snapshots
        settings += chunk.settings
    if waiting:
        yield from _in_order(waiting, rows, snapshots, settings)


def _split(waiting: list[NarrowEvents], seq: int) -> tuple[list[NarrowEvents], list[NarrowEvents]]:
    """The rows before `seq`, and the rest."""
    cuts = [events.number_before(seq) for events in waiting]
    before = [events.some(0, cut) for events, cut in zip(waiting, cuts, strict=True) if cut]
    rest = [e.some(cut, e.rows) for e, cut in zip(waiting, cuts, strict=True) if cut < e.rows]
    return before, rest


def _in_order(
    parts: list[NarrowEvents], rows: list[MembershipEvent], snapshots: list[StatsRow], settings: list[SettingsRow]
) -> Iterator[Merged]:
    events, gaps, repeated_gaps = apart(together(parts).in_order())
    seqs = events.column("seq") if events.rows else np.empty(0, dtype=np.int64)
    settings, repeated_settings, other_settings = settings_once(settings, seqs)
    repeated_gaps += repeated_settings
    if not events.rows:
        yield Merged(no_events(), rows, snapshots, gaps, settings, repeated_gaps, other_settings)
        return
    events, rows, snapshots, repeated, contradicted = once(events, rows, snapshots)
    repeated, contradicted = [*repeated_gaps, *repeated], [*contradicted, *other_settings]
    seq = events.column("seq")
    rows, snapshots = sorted(rows), sorted(snapshots)
    # Events made of one row stay together.
    starts = sorted({int(np.searchsorted(seq, seq[at])) for at in range(0, seq.size, ROWS_MAX)})
    for number, (start, stop) in enumerate(pairwise([*starts, seq.size])):
        first, end = int(seq[start]), int(seq[stop]) if stop < seq.size else inf
        yield Merged(
            events.some(start, stop).wide(),
            [row for row in rows if first <= row.seq < end],
            [snapshot for snapshot in snapshots if first <= snapshot.seq < end],
            [gap for gap in gaps if (number == 0 or first <= gap.seq) and gap.seq < end],
            [row for row in settings if (number == 0 or first <= row.seq) and row.seq < end],
            repeated if number == 0 else [],
            contradicted if number == 0 else [],
        )


class Group(NamedTuple):
    """One subscription on one topic partition."""

    topic: str
    subscription: str
