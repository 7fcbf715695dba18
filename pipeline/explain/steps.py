"""The steps of a story: rows of a trace, each with the state of the hash after it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from dispatch_audit.pipeline.explain.hash_observer import SeenHash
from dispatch_audit.pipeline.explain.subscription_events import SubscriptionEvents

Row = Mapping[str, Any]

# Events with a start and an end row whose effect is shown at the start: a dispatched entry is pending from then on;
# others take effect by their end (TRACE_FORMAT, "Phases").
_SHOWN_AT_START: Final = ("dispatch",)
_MEMBERSHIP: Final = ("join", "leave", "reset")


@dataclass(frozen=True)
class Step:
    """One event of a story.

    Attributes:
        place: its place in the order of the topic.
        until: the place of its later side, if both sides are one step; else `place`.
        row: the row of the trace.
        state: the state of the hash after the event; None: the story is about no hash.
        offending: whether it completes the finding.
    """

    place: int
    until: int
    row: Row
    state: SeenHash | None = None
    offending: bool = False

    @property
    def of_membership(self) -> bool:
        """Whether it is a join, leave or reset."""
        return self.row["event"] in _MEMBERSHIP


def steps_at(events: SubscriptionEvents, rows: pa.Table, places: Iterable[int], offending: int | None) -> list[Step]:
    """Returns the steps at some places, with both sides of an event as one step.

    Args:
        events: of the subscription.
        rows: of the trace.
        places: in the order of the topic; those without a row are left out.
        offending: the place of the row that completes the finding; it stays a step of its own.
    """
    named = {events.row_of(place): place for place in places}
    seqs = pa.array(sorted({seq for _, seq in named}), pa.int64())
    found: dict[int, Row] = {}
    # Several gaps may begin at one place, that of a row that is not there.
    gaps: dict[tuple[int, object], Row] = {}
    nameless = not events.recorders.terms
    for row in rows.filter(pc.is_in(rows.column("seq"), value_set=seqs)).to_pylist():
        # A recorder that alone names itself also wrote the rows without a name.
        broker = events.recorders.names[0] if nameless else row["broker"]
        place = named.get((broker, row["seq"]))
        if place is None:
            continue
        if row["event"] == "gap":
            gaps.setdefault((place, _lost(row)), row)
        else:
            found.setdefault(place, row)
    steps = _folded([Step(place, place, found[place], offending=place == offending) for place in sorted(found)])
    steps += [Step(place, place, row) for (place, _), row in gaps.items()]
    return sorted(steps, key=lambda step: (shown_at(step), step.place))


def _lost(row: Row) -> object:
    """Returns what identifies a gap among those of one place; a gap that was delivered twice is one gap."""
    return row["topic"], row["subscription"], row["seq_end"], row["dropped"], *(row["dropped_events"] or ())


def _folded(steps: Sequence[Step]) -> list[Step]:
    """Returns one step for the start and end row of an event: the row at which its effect is shown."""
    begun: dict[object, Step] = {}
    shown = {step.place: step for step in steps}
    for step in steps:
        identity = _identity(step.row)
        if step.row["phase"] == "start":
            begun[identity] = step
        elif identity in begun:
            start = begun.pop(identity)
            at_start = (step.row["event"] in _SHOWN_AT_START and not step.offending) or start.offending
            kept, dropped = (start, step) if at_start else (step, start)
            del shown[dropped.place]
            shown[kept.place] = replace(kept, place=start.place, until=step.place)
    return [*shown.values()]


def _identity(row: Row) -> object:
    positions = tuple((p["ledger_id"], p["entry_id"]) for p in row["positions"] or ())
    return tuple(row[name] for name in ("broker", "event", "consumer", "ledger_id", "entry_id")) + positions


def watched(steps: Iterable[Step]) -> set[int]:
    """Returns the places after which the state of the hash is needed: of each step, and the one before it."""
    return {place for step in steps for place in (step.place - 1, shown_at(step))}


def shown_at(step: Step) -> int:
    """Returns the place after which the effect of a step is shown."""
    return step.place if step.row["event"] in _SHOWN_AT_START else step.until


def with_states(steps: Iterable[Step], seen: Mapping[int, SeenHash], numbers: Mapping[int, int]) -> list[Step]:
    """Returns the steps with the state of the hash after each, without membership changes that do not concern it.

    Args:
        steps: of the story.
        seen: the state of the hash after the places of `watched`.
        numbers: the replay's number of the consumer of each membership row, by place.
    """
    shown: list[Step] = []
    for step in steps:
        if step.of_membership and not step.offending and not _concerns(step, seen, numbers):
            continue
        shown.append(replace(step, state=seen.get(shown_at(step))))
    return shown


def _concerns(step: Step, seen: Mapping[int, SeenHash], numbers: Mapping[int, int]) -> bool:
    if step.row["event"] == "reset":
        return True
    consumer = numbers.get(step.until)
    states = (seen.get(step.place - 1), seen.get(shown_at(step)))
    return any(s is not None and (consumer == s.owner or consumer in s.held) for s in states)
