"""Why entries waited, whom they waited for, and how long (Q8 to Q14 of docs/QUESTIONS.md).

An interval is looked at when it ends, while the state still shows who waits: during it nothing of what it held back
was sent, so whoever waits at its end is whoever waited, each since it began to.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.replay.state.policy import RoutingArrays, owners_of
from pipeline.replay.state.state import (
    DELAYED,
    NOBODY,
    READ,
    SENT,
    UNKNOWN,
    WAITING,
    Ints,
    State,
)

# Of roots, and of the hashes of a consumer, so many are named.
NAMED_MAX = 20


class Interval(NamedTuple):
    """From one row to another; `ended_by` is a place in `output.ENDINGS`."""

    from_seq: int
    from_ts: int
    to_seq: int
    to_ts: int
    ended_by: int


class Waiters(NamedTuple):
    """Entries that wait, as columns of equal length.

    Attributes:
        slot: of the entry.
        hash: its sticky hash.
        owner: place of the consumer that its hash belongs to; NOBODY: none.
        since_seq: since which row,
        since_ts: and when, microseconds.
        messages: in the entry.
        was_read: whether the broker has read it for certain.
        drains: whether another consumer still holds the hash.
    """

    slot: Ints
    hash: Ints
    owner: Ints
    since_seq: Ints
    since_ts: Ints
    messages: Ints
    was_read: NDArray[np.bool_]
    drains: NDArray[np.bool_]

    def where(self, mask: NDArray[np.bool_]) -> "Waiters":
        """Some of them."""
        return Waiters(
            self.slot[mask],
            self.hash[mask],
            self.owner[mask],
            self.since_seq[mask],
            self.since_ts[mask],
            self.messages[mask],
            self.was_read[mask],
            self.drains[mask],
        )

    def waited_us(self, span: Interval) -> Ints:
        """How long each waited within the span, in message-microseconds."""
        waited: Ints = self.messages * np.maximum(span.to_ts - np.maximum(self.since_ts, span.from_ts), 0)
        return waited


class Blocked(NamedTuple):
    """An interval in which entries waited for one reason; consumers by their places, NOBODY: none.

    Attributes:
        scope: `hash`, `consumer` or `subscription`.
        cause: a name, see docs/REPLAY.md.
        hash: UNKNOWN but for scope `hash`.
        consumer: that waited for them; NOBODY: several.
        blocking: whom they waited for.
        span: when.
        entries: how many waited.
        waited_us: message-microseconds.
        roots: positions of the oldest entries that it hung on.
        detail: particulars.
    """

    scope: str
    cause: str
    hash: int
    consumer: int
    blocking: int
    span: Interval
    entries: int
    waited_us: int
    roots: tuple[tuple[int, int], ...]
    detail: dict[str, object]


def waiters(state: State, mapping: RoutingArrays) -> Waiters:
    """Everything that waits and could be sent, were nothing in its way; what is delayed until later does not."""
    entries, hashes = state.entries, state.hashes
    marks = entries.marks
    mask = (entries.ledger != UNKNOWN) & (marks & WAITING != 0) & (marks & (DELAYED | SENT) != DELAYED)
    slots = np.flatnonzero(mask)
    hash_at = entries.hash_at[slots]
    sticky = hashes.hash[hash_at]
    return Waiters(
        slots,
        sticky,
        owners_of(mapping, sticky),
        entries.since_seq[slots],
        entries.since_ts[slots],
        entries.messages[slots].astype(np.int64),
        marks[slots] & READ != 0,
        hashes.away[hash_at] == 1,
    )


def oldest_held(state: State, consumer: int) -> tuple[tuple[int, int], ...]:
    """The oldest entries that a consumer has not acknowledged (Q9)."""
    entries: Any = state.entries
    slots = np.flatnonzero((entries.ledger != UNKNOWN) & (entries.holder == consumer))
    return oldest(state, slots)


def oldest(state: State, slots: NDArray[Any]) -> tuple[tuple[int, int], ...]:
    """The positions of the oldest of some entries."""
    entries: Any = state.entries
    order = np.lexsort((entries.entry[slots], entries.ledger[slots]))[:NAMED_MAX]
    return tuple((int(entries.ledger[slot]), int(entries.entry[slot])) for slot in slots[order])


def blocked_consumer(state: State, mapping: RoutingArrays, consumer: int, cause: str, span: Interval) -> list[Blocked]:
    """A consumer could be sent nothing: the interval of the consumer, and one for each hash that waited for it."""
    waiting = waiters(state, mapping)
    waiting = waiting.where((waiting.owner == consumer) & ~waiting.drains)
    if waiting.slot.size == 0:
        return []
    roots = oldest_held(state, consumer)
    waited = waiting.waited_us(span)
    detail: dict[str, object] = {"hashes": largest(waiting.hash, waited)}
    whole = Blocked(
        "consumer",
        cause,
        UNKNOWN,
        consumer,
        consumer,
        _began(waiting, span),
        waiting.slot.size,
        int(waited.sum()),
        roots,
        detail,
    )
    return [whole, *(_of_hash(waiting.where(waiting.hash == h), whole) for h in np.unique(waiting.hash))]


def _of_hash(waiting: Waiters, whole: Blocked) -> Blocked:
    return whole._replace(
        scope="hash",
        hash=int(waiting.hash[0]),
        span=_began(waiting, whole.span),
        entries=waiting.slot.size,
        waited_us=int(waiting.waited_us(whole.span).sum()),
        detail={},
    )


def _began(waiting: Waiters, span: Interval) -> Interval:
    """Blocked was somebody only from when the first entry waited."""
    first = np.lexsort((waiting.since_seq, waiting.since_ts))[0]
    seq, ts_us = int(waiting.since_seq[first]), int(waiting.since_ts[first])
    return span if ts_us <= span.from_ts else span._replace(from_seq=seq, from_ts=ts_us)


def largest(hashes: Ints, waited: Ints) -> list[int]:
    """The hashes that waited most, the worst first."""
    unique, at = np.unique(hashes, return_inverse=True)
    sums = np.bincount(at, weights=waited, minlength=unique.size)
    return [int(unique[i]) for i in np.lexsort((unique, -sums))[:NAMED_MAX]]


def most_waited_for(waiting: Waiters, among: Sequence[int]) -> int:
    """Whose entries wait most; NOBODY: of none of them any does."""
    counts = [(int(np.count_nonzero(waiting.owner == consumer)), -consumer) for consumer in among]
    best, place = max(counts, default=(0, 0))
    return -place if best else NOBODY
