"""Builds the story of a hash: the events around a finding or a moment, and who owned and held the hash at each.

The rows of the trace are replayed as the audit replayed them, and the state of the hash is read between them
(`dispatch_audit.pipeline.explain.hash_observer`). Rows that the audit quarantined take no part, because its reader
leaves them out, and the replay refuses what it refused.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dispatch_audit.pipeline.explain.hash_observer import HashObserver, SeenHash
from dispatch_audit.pipeline.explain.steps import Step, steps_at, watched, with_states
from dispatch_audit.pipeline.explain.subscription_events import SubscriptionEvents
from dispatch_audit.pipeline.groups.replay_rows import packed_rows, replayed_rows
from dispatch_audit.pipeline.packing.packed_batch import Group
from dispatch_audit.pipeline.packing.repeated_rows import DUPLICATE_SEQ, REPEATED_ROW
from dispatch_audit.pipeline.replay.config import ReplayConfig

# Membership changes among the events that are looked at; of more, those next to the middle.
_CHANGES_MAX: Final = 500
# A step has up to two rows, and some fall away.
_ROWS_OF_STEP: Final = 3
_ROWS_MIN: Final = 100


@dataclass(frozen=True)
class Middle:
    """The place in the trace that a story is about.

    Attributes:
        broker: the recorder of the row.
        seq: the row; None: `ts_us` decides.
        ts_us: a moment; None: the beginning of the hash.
        offending: whether the row completes a finding.
        ends_wait: whether the row ends a wait; the story then shows the state before it.
    """

    broker: str | None = None
    seq: int | None = None
    ts_us: int | None = None
    offending: bool = False
    ends_wait: bool = False


@dataclass(frozen=True)
class Subject:
    """What a story follows: an entry, consumers, else a hash, else the whole subscription.

    Attributes:
        sticky_hash: the hash, or that of the entry, whose states are shown; None: none are.
        key: the key that the reader asked for, or that the finding names.
        entry: ledger and entry.
        consumers: the replay's numbers of the consumers.
        from_us: events before this moment are left out.
        to_us: so are those from this moment on.
    """

    sticky_hash: int | None = None
    key: str | None = None
    entry: tuple[int, int] | None = None
    consumers: tuple[int, ...] = ()
    from_us: int | None = None
    to_us: int | None = None

    def spans(self, ts_us: int) -> bool:
        """Whether a moment is within the span."""
        return (self.from_us is None or ts_us >= self.from_us) and (self.to_us is None or ts_us < self.to_us)


@dataclass(frozen=True)
class Story:
    """A story.

    Attributes:
        events: of the subscription.
        subject: what it follows.
        middle: the place that the story is about.
        middle_us: its time.
        at_middle: the state of the hash after that place, or before it; None: the story is about no hash.
        before: whether `at_middle` is the state before the place.
        steps: in their order.
        total: the number of rows that concern the subject, steps or not.
        found: the rows of `violations` of the replay.
        refused: the places of rows that the replay refused; they take no part.
    """

    events: SubscriptionEvents
    subject: Subject
    middle: int
    middle_us: int
    at_middle: SeenHash | None
    before: bool
    steps: tuple[Step, ...]
    total: int
    found: tuple[dict[str, Any], ...]
    refused: frozenset[int]

    @property
    def sticky_hash(self) -> int | None:
        """The hash whose states are shown; None: none are."""
        return self.subject.sticky_hash

    @property
    def key(self) -> str | None:
        """The key that the reader asked for, or that the finding names."""
        return self.subject.key


def packed_events(rows: pa.Table, group: Group, config: ReplayConfig) -> SubscriptionEvents:
    """Returns the events of a subscription.

    Args:
        rows: its rows and the publishes of its topic (`subscription_rows`).
        group: the subscription.
        config: of the replay.
    """
    return SubscriptionEvents.of(packed_rows(rows.to_batches(), config, [group]), group, config)


def story_of(rows: pa.Table, events: SubscriptionEvents, subject: Subject, middle: Middle, number: int) -> Story:
    """Returns the story of an entry, consumers, a hash, or a subscription.

    Args:
        rows: as for `packed_events`.
        events: the events of these rows.
        subject: what it follows.
        middle: the place that it is about.
        number: most steps.
    """
    sticky_hash, concerned = subject.sticky_hash, _concerned(events, subject)
    # A gap and a change of settings concern every hash.
    of_all = [*(gap.seq for gap in events.gaps), *(seq for seq, names in events.settings_changed.items() if names)]
    places = np.unique([*events.events.seq[concerned].tolist(), *of_all]).astype(np.int64)
    if subject.from_us is not None or subject.to_us is not None:
        places = places[[subject.spans(_time_of(events, place)) for place in places.tolist()]]
    at = _place_of(middle, places, events)
    chosen = _around(places, at, max(_ROWS_OF_STEP * number, _ROWS_MIN)).tolist()
    changes = _changes_between(events, subject, chosen, at, to_the_end=chosen[-1:] == places[-1:].tolist())
    offending, shown = at if middle.offending else None, at - middle.ends_wait
    steps = steps_at(events, rows, {*chosen, *changes} | ({at} if middle.offending else set()), offending)
    observer = HashObserver(-1 if sticky_hash is None else sticky_hash, {*watched(steps), shown})
    found = replayed_rows(events.packed, events.group, events.config, observer)
    refused = refused_places(found.get("refused", ()), events)
    steps = [step for step in steps if step.place not in refused]
    if sticky_hash is not None:
        steps = with_states(steps, observer.seen, {row.seq: row.consumer for row in events.membership})
    middle_us = middle.ts_us if middle.ts_us is not None else _time_of(events, at)
    return Story(
        events,
        subject,
        at,
        middle_us,
        None if sticky_hash is None else observer.seen.get(shown),
        middle.ends_wait,
        tuple(_nearest(steps, at, number)),
        int(places.size),
        tuple(found.get("violations", ())),
        refused,
    )


def refused_places(rows: Iterable[Mapping[str, Any]], events: SubscriptionEvents) -> frozenset[int]:
    """Returns the places of refused rows, except those whose seq a good row has too."""
    return frozenset(
        events.place(row.get("broker") or None, row["seq"])
        for row in rows
        if row["reason"] not in (REPEATED_ROW, DUPLICATE_SEQ)
    )


def _concerned(events: SubscriptionEvents, subject: Subject) -> NDArray[np.bool_]:
    if subject.entry is not None:
        return events.of_entry(*subject.entry)
    if subject.consumers:
        return events.of_consumers(subject.consumers)
    return events.in_general() if subject.sticky_hash is None else events.of_hash(subject.sticky_hash)


def _place_of(middle: Middle, places: NDArray[np.int64], events: SubscriptionEvents) -> int:
    if middle.seq is not None:
        return events.place(middle.broker, middle.seq)
    if middle.ts_us is not None:
        at = events.place_at(middle.ts_us)
        # The last row before the moment has been replayed by then, the first one after it has not.
        return at - 1 if _time_of(events, at) > middle.ts_us else at
    return int(places[0]) if places.size else 0


def _time_of(events: SubscriptionEvents, place: int) -> int:
    """The time of the row at a place, or of the last one before it."""
    at = int(np.searchsorted(events.events.seq, place, side="right")) - 1
    return int(events.events.ts_us[max(at, 0)]) if events.events.seq.size else 0


def _around(places: NDArray[np.int64], at: int, number: int) -> NDArray[np.int64]:
    """The `number` places nearest to one by rank, half of them on each side where there are enough."""
    middle = int(np.searchsorted(places, at))
    first = max(min(middle - number // 2, places.size - number), 0)
    return places[first : first + number]


def _changes_between(
    events: SubscriptionEvents, subject: Subject, chosen: Sequence[int], at: int, *, to_the_end: bool
) -> list[int]:
    """The places of membership rows among the chosen ones, and of the last before them, which decide the owner.

    Of consumers only their own, and resets.
    """
    rows = [
        row
        for row in events.membership
        if (not subject.consumers or row.kind not in ("join", "leave") or row.consumer in subject.consumers)
        and subject.spans(_time_of(events, row.seq))
    ]
    first, last = (min(chosen[0], at), max(chosen[-1], at)) if chosen else (at, at)
    if to_the_end and rows:
        last = max(last, rows[-1].seq)
    places = [row.seq for row in rows]
    before = [place for place in places if place < first][-_CHANGES_MAX // 10 :]
    within = sorted((place for place in places if first <= place <= last), key=lambda place: abs(place - at))
    return [*before, *within[:_CHANGES_MAX]]


def _nearest(steps: Sequence[Step], at: int, number: int) -> Sequence[Step]:
    middle = next((n for n, step in enumerate(steps) if step.offending), None)
    if middle is None:
        middle = sum(step.until <= at for step in steps)
    first = max(min(middle - number // 2, len(steps) - number), 0)
    return steps[first : first + number]
