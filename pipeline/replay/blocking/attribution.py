"""Finds why entries waited, for which consumer, and how long (Q8 to Q14 of docs/QUESTIONS.md).

An interval is examined when it ends. None of its waiting entries was sent during the interval, so the entries that wait
at its end are all that waited, each since its own `since_ts`.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dispatch_audit.pipeline.checkpointed import checkpointed
from dispatch_audit.pipeline.replay.state.marks import NOT_DUE, OVERDUE, Mark
from dispatch_audit.pipeline.replay.state.records import NOBODY, UNKNOWN, Ints
from dispatch_audit.pipeline.replay.state.seen import Seen

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

    def waited_us(self, interval: Interval) -> Ints:
        """The time that each waited within the interval, in message-microseconds."""
        since_ts = np.maximum(self.since_ts, interval.from_ts)
        waited: Ints = self.messages * np.maximum(interval.to_ts - since_ts, 0)
        return waited


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
    roots: tuple[tuple[int, int], ...]
    detail: dict[str, Any]


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
    mask = (entries["ledger"] != UNKNOWN) & (entries["holder"] != NOBODY) & (entries["marks"] & Mark.REPLAYED != 0)
    return _at(state, np.flatnonzero(mask & (entries["hash_at"] >= 0)))


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


def oldest_held(state: Seen, consumer: int, until_seq: int) -> tuple[tuple[int, int], ...]:
    """The oldest entries that a consumer had not acknowledged in front of a row (Q9).

    Args:
        state: the state, in front of the row or after it.
        consumer: the index of the consumer; NOBODY holds none.
        until_seq: the row; the oldest entry that it took from the consumer counts as held.
    """
    if consumer == NOBODY:
        return ()
    entries, holder = state.entries.view(np.ndarray), state.consumers.view(np.ndarray)[consumer]
    held = oldest(state, np.flatnonzero((entries["ledger"] != UNKNOWN) & (entries["holder"] == consumer)))
    given_up = holder["gave_up_first"].item()
    if holder["gave_up_at"]["seq"] != until_seq:
        return held
    # If the row took several, which others it took is not remembered.
    return (given_up,) if holder["gave_up"] > 1 else tuple(sorted((given_up, *held)))[:NAMED_MAX]


def oldest_held_by_all(state: Seen) -> tuple[tuple[int, int], ...]:
    """The oldest entries that the consumers together have not acknowledged."""
    entries: Any = state.entries.view(np.ndarray)
    return oldest(state, np.flatnonzero((entries["ledger"] != UNKNOWN) & (entries["holder"] != NOBODY)))


def number_before(state: Seen, waiting: Waiters, position: tuple[int, int]) -> int:
    """How many of the waiting entries are before a position."""
    return int(np.count_nonzero(are_before(state, waiting.slot, position)))


def are_before(state: Seen, slots: NDArray[Any], position: tuple[int, int]) -> NDArray[np.bool_]:
    """Which of some entries are before a position."""
    entries: Any = state.entries.view(np.ndarray)
    ledger, entry = entries["ledger"][slots], entries["entry"][slots]
    before: NDArray[np.bool_] = (ledger < position[0]) | ((ledger == position[0]) & (entry < position[1]))
    return before


def are_after(state: Seen, slots: NDArray[Any], position: tuple[int, int]) -> NDArray[np.bool_]:
    """Which of some entries are after a position."""
    return ~are_before(state, slots, (position[0], position[1] + 1))


def at_position(state: Seen, waiting: Waiters, position: tuple[int, int]) -> NDArray[np.bool_]:
    """Which of the waiting entries is at a position."""
    return ~are_before(state, waiting.slot, position) & ~are_after(state, waiting.slot, position)


def oldest(state: Seen, slots: NDArray[Any]) -> tuple[tuple[int, int], ...]:
    """The positions of the oldest of some entries."""
    entries: Any = state.entries.view(np.ndarray)
    ledgers, positions = entries["ledger"][slots], entries["entry"][slots]
    order = np.lexsort((positions, ledgers))[:NAMED_MAX]
    return tuple(zip(ledgers[order].tolist(), positions[order].tolist(), strict=True))


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
