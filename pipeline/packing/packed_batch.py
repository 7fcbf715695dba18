"""Packed batches: the rows of one subscription from one Arrow batch, their encoding, and their merge.

A publish belongs to every subscription of its topic, and which ones there are is known only when all rows have been
read. So the publishes of a batch stand in a packed batch of their own, or, if the batch names a single subscription of
the topic, among its rows; other subscriptions of the topic then take the publishes from there (`rows_for`).

Packed batches of one group overlap in time, because logs do: messages, acks and consumers are recorded separately. They
arrive ordered by their first seq, so all rows before the first seq of the next one are complete.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from math import inf
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from dispatch_audit.pipeline.packing.events import Code, Events
from dispatch_audit.pipeline.packing.gap import Gap, apart, of_topics
from dispatch_audit.pipeline.packing.membership_rows import MembershipEvent
from dispatch_audit.pipeline.packing.narrow_events import NarrowEvents, narrow, together
from dispatch_audit.pipeline.packing.producer_summary import NOTHING, Published
from dispatch_audit.pipeline.packing.repeated_rows import Refused, once, settings_once
from dispatch_audit.pipeline.packing.rows_aside import RecorderRow, SettingsRow
from dispatch_audit.pipeline.packing.snapshot import StatsRow

ROWS_MIN: Final = 1 << 16
"""The number of rows to collect before they are put in order, because each replayed part has a fixed cost."""
ROWS_MAX: Final = 1 << 17
"""About the largest number of rows that are passed on at a time, because the replay needs memory for each."""

Detail: TypeAlias = MembershipEvent | StatsRow | SettingsRow | RecorderRow
"""What a row carries besides its event; most rows have none."""

_BESIDE: Final = (SettingsRow, RecorderRow)

ANY_TOPIC: Final = ""
"""The topic of gaps, settings and rows of a recorder about itself that hold for all its topics."""


class PackedBatch(NamedTuple):
    """Rows of one subscription and recorder, ascending by seq.

    Rows that hold for everything that a recorder wrote have the topic `ANY_TOPIC`: gaps, settings, and what it says of
    itself.
    """

    topic: str  # the topic of the rows
    # Their subscription; None: they are publishes, or rows beside the entries, and belong to all subscriptions of the
    # topic.
    subscription: str | None
    broker: str | None  # the recorder of the rows; None: they name none
    shared: bool  # whether rows that belong to all subscriptions of the topic are among them
    events: NarrowEvents  # the rows; never none
    details: tuple[Detail, ...] = ()  # of the rows among them that have any, in any order
    published: Published = NOTHING  # what the publishes among them show of their producers

    @property
    def first_seq(self) -> int:
        """A lower bound of the seqs."""
        return self.events.first_seq

    def having(self, events: Events, details: Iterable[Detail] = (), published: Published = NOTHING) -> "PackedBatch":
        """A packed batch of the same owner with other rows, ascending by seq."""
        return self._replace(events=narrow(events), details=tuple(details), published=published)


class Merged(NamedTuple):
    """Rows of several packed batches in the order of seq."""

    events: Events  # the rows
    membership: list[MembershipEvent]  # the details of the joins, leaves and resets among them
    snapshots: list[StatsRow]  # those of the snapshots among them
    gaps: list[Gap]  # the gaps, which are not among the events
    settings: list[SettingsRow]  # the rows `settings`, which are not among the events either
    of_recorder: list[RecorderRow]  # what recorders say of themselves, which is not among the events either
    repeated: list[Refused]  # rows left out because the same row was there before
    contradicted: list[Refused]  # rows left out because another row of the same seq has other content


def rows_for(subscription: str, packed: PackedBatch) -> PackedBatch | None:
    """The rows of a packed batch that belong to a subscription of its topic; None: there are none."""
    if packed.subscription in (None, subscription):
        return packed
    if not packed.shared:
        return None
    code = packed.events.column("code")
    of_all = (code == Code.PUBLISH) | (code == Code.PUBLISH_DELAYED)
    if (code >= Code.GAP).any():
        of_all |= of_topics(packed.events.wide())
    return packed._replace(
        subscription=None,
        events=packed.events.take(of_all),
        details=tuple(row for row in packed.details if isinstance(row, _BESIDE) and row.shared),
    )


def of_each_topic(packed: PackedBatch, topics: Iterable[str]) -> Iterator[PackedBatch]:
    """A packed batch of `ANY_TOPIC` for each topic; any other one as it is."""
    if packed.topic != ANY_TOPIC:
        yield packed
        return
    yield from (packed._replace(topic=topic) for topic in topics)


def merged(batches: Iterable[PackedBatch], rows_min: int = ROWS_MIN) -> Iterator[Merged]:
    """The rows of one group in the order of seq, as soon as they are complete and at least `rows_min` have gathered.

    Batches are ordered by `first_seq`.
    """
    waiting: list[NarrowEvents] = []
    details: list[Detail] = []
    gathered, enough = 0, rows_min
    for batch in batches:
        if gathered >= enough:
            complete, waiting = _split(waiting, batch.first_seq)
            gathered = sum(events.rows for events in waiting)
            # Rows that are not complete yet are split again only when as many have been added.
            enough = max(rows_min, 2 * gathered)
            if complete:
                yield from _in_order(complete, [row for row in details if row.seq < batch.first_seq])
                details = [row for row in details if row.seq >= batch.first_seq]
        waiting.append(batch.events)
        gathered += batch.events.rows
        details += batch.details
    if waiting:
        yield from _in_order(waiting, details)


def _split(waiting: list[NarrowEvents], seq: int) -> tuple[list[NarrowEvents], list[NarrowEvents]]:
    """The rows before `seq`, and the rest."""
    cuts = [events.number_before(seq) for events in waiting]
    before = [events.some(0, cut) for events, cut in zip(waiting, cuts, strict=True) if cut]
    rest = [e.some(cut, e.rows) for e, cut in zip(waiting, cuts, strict=True) if cut < e.rows]
    return before, rest


def _in_order(parts: list[NarrowEvents], details: Sequence[Detail]) -> Iterator[Merged]:
    events, gaps, repeated_gaps = apart(together(parts).in_order())
    settings, repeated_settings, other_settings = settings_once(
        [row for row in details if isinstance(row, SettingsRow)], events.column("seq")
    )
    of_recorder = sorted({row for row in details if isinstance(row, RecorderRow)})
    rows = once(events, [row for row in details if not isinstance(row, _BESIDE)])
    repeated = [*repeated_gaps, *repeated_settings, *rows.repeated]
    contradicted = [*rows.contradicted, *other_settings]
    membership = sorted(row for row in rows.details if isinstance(row, MembershipEvent))
    snapshots = sorted(row for row in rows.details if isinstance(row, StatsRow))
    seq = rows.events.column("seq")
    # Events made of one row stay together.
    starts = sorted({int(np.searchsorted(seq, seq[at])) for at in range(0, seq.size, ROWS_MAX)}) or [0]
    for start, stop in pairwise([*starts, seq.size]):
        first = int(seq[start]) if start else -inf
        end = int(seq[stop]) if stop < seq.size else inf
        yield Merged(
            rows.events.some(start, stop).wide(),
            [row for row in membership if first <= row.seq < end],
            [row for row in snapshots if first <= row.seq < end],
            [gap for gap in gaps if first <= gap.seq < end],
            [row for row in settings if first <= row.seq < end],
            [row for row in of_recorder if first <= row.seq < end],
            [] if start else repeated,
            [] if start else contradicted,
        )


class Group(NamedTuple):
    """One subscription on one topic partition."""

    topic: str
    subscription: str
