"""Finds why entries waited, for which consumer, and how long (Q8 to Q14 of docs/QUESTIONS.md).

An interval is examined when it ends. None of its waiting entries was sent during the interval, so the entries that wait
at its end are all that waited, each since its own `since_ts`.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dispatch_audit.pipeline.checkpointed import checkpointed
from dispatch_audit.pipeline.packing.snapshot import Position
from dispatch_audit.pipeline.replay.state.output import By
from dispatch_audit.pipeline.replay.state.records import NOBODY, UNKNOWN, Ints
from dispatch_audit.pipeline.replay.state.state import Seen
from dispatch_audit.pipeline.replay.state.values import NOT_DUE, OVERDUE, Cause, Mark

# The number of roots, and of hashes of a consumer, that are reported.
NAMED_MAX = 20


@checkpointed("interval")
class Interval(NamedTuple):
    """The time from one row to another; `ended_by` is an index into `output.ENDINGS`."""

    from_seq: int
    from_ts: int
    to_seq: int
    to_ts: int
    ended_by: int


class Waiters(NamedTuple):
    """Waiting entries, as columns of equal length.

    Attributes:
        slot: the slot of the entry.
        hash: its sticky hash.
        hash_at: the slot of the hash.
        owner: the index of the consumer that owns the hash; NOBODY: none.
        since_seq: the row since which it waits.
        since_ts: the time of that row, in microseconds.
        messages: the messages in the entry.
        was_read: whether the broker has certainly read it.
        drains: whether another consumer still holds the hash.
    """

    slot: Ints
    hash: Ints
    hash_at: Ints
    owner: Ints
    since_seq: Ints
    since_ts: Ints
    messages: Ints
    was_read: NDArray[np.bool_]
    drains: NDArray[np.bool_]

    def where(self, mask: NDArray[np.bool_]) -> "Waiters":
        """The waiters that the mask selects."""
        return Waiters._make(column[mask] for column in self)

    def waited_us(self, interval: Interval, after_ts: Ints | int = 0) -> Ints:
        """The time that each waited within the interval and after a time, in message-microseconds."""
        since_ts = np.maximum(np.maximum(self.since_ts, after_ts), interval.from_ts)
        waited: Ints = self.messages * np.maximum(interval.to_ts - since_ts, 0)
        return waited


@checkpointed("stall_kind")
class StallKind(NamedTuple):
    """The facts that decide the verdict on a stall without a cause, or on a hash that was passed over.

    Attributes:
        scope: of the wait.
        cause: of the wait.
        permits_known: whether rows or snapshots show the permits of consumers; else a lack of them may be why.
        symptom: what the rows show of a known bug, see `stalls.symptoms`; empty: nothing.
        healed: whether sending certainly went on, and no new dispatcher or consumer was needed.
        doubt: what rows leave open and may be why, see `stalls.doubts`; empty: nothing.
        unknown: whether it rests on a setting of which nothing is known.
    """

    scope: str
    cause: str
    permits_known: bool
    symptom: str
    healed: bool
    doubt: str
    unknown: bool

    @property
    def provable(self) -> bool:
        """Whether the rows rule out every cause that leaves no row of its own."""
        return self.permits_known and not (self.doubt or self.unknown)


@checkpointed("blocked")
class Blocked(NamedTuple):
    """An interval in which entries waited for one reason; consumers by their indexes, NOBODY: none.

    Attributes:
        scope: `hash`, `consumer` or `subscription`.
        cause: the name of the reason, see docs/REPLAY.md.
        hash: the sticky hash; UNKNOWN unless the scope is `hash`.
        consumer: the owner of the entries; NOBODY: several.
        blocking: the consumer that they waited for.
        span: the interval.
        entries: the number of entries that waited.
        waited_us: their waiting time, in message-microseconds.
        roots: positions of the oldest entries that had to be acknowledged or sent first.
        detail: further values for the column `detail`.
    """

    scope: str
    cause: str
    hash: int
    consumer: int
    blocking: int
    span: Interval
    entries: int
    waited_us: int
    roots: tuple[Position, ...]
    detail: dict[str, Any]

    @property
    def is_finding(self) -> bool:
        """Whether it breaks a rule: a stall without a cause, or a hash that was passed over."""
        return self.is_passed_over or self.cause == Cause.UNEXPLAINED.word

    @property
    def is_passed_over(self) -> bool:
        """Whether it is a hash that could be served while later entries were sent; `blocking` is who it drained from.

        Its cause is DRAINING_STUCK if it had drained before. Other waits of hashes have no such causes.
        """
        return self.scope == "hash" and self.cause in (Cause.UNEXPLAINED.word, Cause.DRAINING_STUCK.word)

    @property
    def kind(self) -> StallKind:
        """The facts that decide the verdict on a finding."""
        detail = self.detail
        healed = detail["went_on"] or self.span.ended_by not in (By.RESET, By.LEAVE, By.GAP, By.OPEN)
        facts = detail["with_permits"] is not None, detail["symptom"], healed, detail["doubt"], bool(detail["unknown"])
        return StallKind(self.scope, self.cause, *facts)

    @property
    def standstill(self) -> tuple[int, Position | None, int]:
        """What the waits of one standstill share: the hash, the oldest entry that could be sent, since which row."""
        return self.hash, next(iter(self.roots), None), self.detail["oldest_since_seq"]


def waiters(state: Seen, *, delayed: bool = False) -> Waiters:
    """The entries that wait to be sent; `delayed`: those that wait for the time of their delivery instead."""
    # Plain arrays: each attribute of a record array takes microseconds.
    entries: Any = state.entries.view(np.ndarray)
    marks = entries["marks"]
    mask = (entries["ledger"] != UNKNOWN) & (marks & Mark.WAITING != 0) & ((marks & NOT_DUE == Mark.DELAYED) == delayed)
    return _at(state, np.flatnonzero(mask))


def sent_from_replay(state: Seen) -> Waiters:
    """The entries that a replay read sent and that are still held, as if they waited.

    Where two replay reads overlapped, the later one may have put them into replay once more (F10, 6.6).
    """
    entries: Any = state.entries.view(np.ndarray)
    held = held_by(state)
    return _at(state, held[(entries["marks"][held] & Mark.REPLAYED != 0) & (entries["hash_at"][held] >= 0)])


def _at(state: Seen, slots: Ints) -> Waiters:
    entries: Any = state.entries.view(np.ndarray)
    hashes: Any = state.hashes.view(np.ndarray)
    marks, hash_at = entries["marks"], entries["hash_at"][slots]
    sticky = hashes["hash"][hash_at]
    # A delayed entry could not be sent before it was due, and waited for its time until then.
    due = marks[slots] & OVERDUE == Mark.DUE
    return Waiters(
        slots,
        sticky,
        hash_at,
        state.routing.owners_of(sticky),
        np.where(due, entries["due"]["seq"][slots], entries["since"]["seq"][slots]),
        np.where(due, entries["due"]["ts_us"][slots], entries["since"]["ts_us"][slots]),
        entries["messages"][slots].astype(np.int64),
        marks[slots] & Mark.READ != 0,
        hashes["away"][hash_at] == 1,
    )


def held_by(state: Seen, consumer: int | None = None) -> Ints:
    """The slots of the entries that a consumer holds, or any consumer does."""
    entries: Any = state.entries.view(np.ndarray)
    held = entries["holder"] != NOBODY if consumer is None else entries["holder"] == consumer
    return np.flatnonzero((entries["ledger"] != UNKNOWN) & held)


def oldest_held(state: Seen, consumer: int, until_seq: int) -> tuple[Position, ...]:
    """The oldest entries that a consumer had not acknowledged in front of a row (Q9).

    Args:
        state: the state, in front of the row or after it.
        consumer: the index of the consumer; NOBODY holds none.
        until_seq: the row; the oldest entry that it took from the consumer counts as held.
    """
    if consumer == NOBODY:
        return ()
    held, holder = oldest(state, held_by(state, consumer)), state.consumers.view(np.ndarray)[consumer]
    given_up = holder["gave_up_first"].item()
    if holder["gave_up_at"]["seq"] != until_seq:
        return held
    # If the row took several, which others it took is not remembered.
    return (given_up,) if holder["gave_up"] > 1 else tuple(sorted((given_up, *held)))[:NAMED_MAX]


def are_before(state: Seen, slots: NDArray[Any], position: Position) -> NDArray[np.bool_]:
    """Which of some entries are before a position."""
    entries: Any = state.entries.view(np.ndarray)
    ledger, entry = entries["ledger"][slots], entries["entry"][slots]
    before: NDArray[np.bool_] = (ledger < position[0]) | ((ledger == position[0]) & (entry < position[1]))
    return before


def are_after(state: Seen, slots: NDArray[Any], position: Position) -> NDArray[np.bool_]:
    """Which of some entries are after a position."""
    return ~are_before(state, slots, (position[0], position[1] + 1))


def in_order(state: Seen, slots: NDArray[Any]) -> Ints:
    """The indexes of some slots, in the order of the positions of their entries."""
    entries: Any = state.entries.view(np.ndarray)
    return np.lexsort((entries["entry"][slots], entries["ledger"][slots]))


def oldest(state: Seen, slots: NDArray[Any]) -> tuple[Position, ...]:
    """The positions of the oldest of some entries."""
    entries: Any = state.entries.view(np.ndarray)
    first = slots[in_order(state, slots)[:NAMED_MAX]]
    return tuple(zip(entries["ledger"][first].tolist(), entries["entry"][first].tolist(), strict=True))


def largest(hashes: Ints, waited: Ints) -> list[int]:
    """The up to `NAMED_MAX` hashes that waited longest, the longest first."""
    unique, at = np.unique(hashes, return_inverse=True)
    sums = np.bincount(at, weights=waited, minlength=unique.size)
    return [int(unique[i]) for i in np.lexsort((unique, -sums))[:NAMED_MAX]]


def most_waited_for(waiting: Waiters, among: Sequence[int]) -> int:
    """The consumer among some that most entries wait for; NOBODY: no entry waits for any of them."""
    counts = [(int(np.count_nonzero(waiting.owner == consumer)), -consumer) for consumer in among]
    most, negative_index = max(counts, default=(0, 0))
    return -negative_index if most else NOBODY
