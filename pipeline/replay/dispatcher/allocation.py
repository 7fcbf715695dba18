"""Makes room in the arrays of the state before events are replayed: they are swept, and grow if that is not enough.

The compiled kernel never allocates, so the arrays must have room for all that the next rows may add.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from dispatch_audit.pipeline.entry_point import EntryPoint
from dispatch_audit.pipeline.errors import LimitError
from dispatch_audit.pipeline.packing.events import Code, Events
from dispatch_audit.pipeline.replay.blocking.wait_causes import end_wait, may_go_on
from dispatch_audit.pipeline.replay.dispatcher.entry.entries import count_never_sent, free_slot, is_kept_for_a_read
from dispatch_audit.pipeline.replay.durations import SLOWEST_READ_US
from dispatch_audit.pipeline.replay.state.compiled import compiled
from dispatch_audit.pipeline.replay.state.index import drop, empty_table, put_all
from dispatch_audit.pipeline.replay.state.kinds import CONSUMER, ENTRY, HASH, LEDGER
from dispatch_audit.pipeline.replay.state.memories import CONSUMER_LIMIT, CONSUMER_WAIT, HASH_WAIT
from dispatch_audit.pipeline.replay.state.output import Output
from dispatch_audit.pipeline.replay.state.records import (
    UNKNOWN,
    Ints,
    RecordKind,
    Records,
    chosen,
    first_of,
    position_of,
)
from dispatch_audit.pipeline.replay.state.state import State, common_of
from dispatch_audit.pipeline.replay.state.values import Mark

_Array = TypeVar("_Array", bound="NDArray[Any]")
# The smallest number of used slots to calculate with, so that small arrays do not grow often.
_IN_USE_MIN = 1024
# How a sweep finds a hash: without an entry (0), with such as are kept for a read in flight, or with open ones.
_KEPT, _OPEN = 1, 2


class Need(NamedTuple):
    """The largest number of records that the next rows may add."""

    entries: int
    consumers: int
    words: int
    ledgers: int


def make_room(
    state: State,
    out: Output,
    need: Need,
    from_us: int,
    open_entries_max: int,
    report_min_us: int,
    forgotten: Callable[[Ints, NDArray[np.int32]], None],
) -> State:
    """The state with room for `need`: the same one, or a copy in larger arrays.

    Args:
        state: the state; it is swept in place.
        out: receives the open intervals of hashes that are freed; it has room for one of each.
        need: the number of records to make room for.
        from_us: the time of the first of the next rows, which decides which entries a read in flight may still send,
            and which intervals of waiting may go on.
        open_entries_max: the limit of entries that are open at one time.
        report_min_us: the shortest interval of waiting that is reported.
        forgotten: called with hashes that a sweep has freed, and with their `held_max`.

    Raises:
        LimitError: more entries would be open than the limit allows.
    """
    if _has_room(state, *need, open_entries_max):
        return state
    common = common_of(state)
    if common["free_entries"] < need.entries or common["free_hashes"] < need.entries:
        freed, most = sweep(state, out, from_us, report_min_us)
        if freed.size:
            forgotten(freed, most)
    used = len(state.entries) - int(common["free_entries"])
    if used > open_entries_max:
        raise LimitError(
            f"{used:,} entries of one subscription are open at the same time; the limit is {open_entries_max:,}",
            "raise limits.open_entries_max if the memory allows it, or audit a shorter window",
        )
    waits, limits, checks = state.waits, state.limits, state.checks
    if common["free_entries"] < need.entries:
        entries, free = _more_slots(state.entries, ENTRY, state.entries_free, common["free_entries"], need.entries)
        state.common[0].free_entries += len(entries) - len(state.entries)
        evidence_seq = _grown(checks.evidence_seq, np.full(len(entries), UNKNOWN, dtype=np.int64))
        state = state._replace(entries=entries, entry_table=empty_table(len(entries)), entries_free=free)
        state = state._replace(checks=checks._replace(evidence_seq=evidence_seq))
        put_all(state.entry_table, entries.ledger, entries.entry)
    if common["free_hashes"] < need.entries:
        hashes, free = _more_slots(state.hashes, HASH, state.hashes_free, common["free_hashes"], need.entries)
        state.common[0].free_hashes += len(hashes) - len(state.hashes)
        waits = waits._replace(hashes=_grown(waits.hashes, HASH_WAIT.free(len(hashes))))
        state = state._replace(hashes=hashes, hash_table=empty_table(len(hashes)), hashes_free=free, waits=waits)
        put_all(state.hash_table, hashes.hash, hashes.hash)
    if len(state.consumers) < need.consumers:
        size = 2 * need.consumers
        state = state._replace(
            consumers=_grown(state.consumers, CONSUMER.new(size)),
            waits=waits._replace(consumers=_grown(waits.consumers, CONSUMER_WAIT.new(size))),
            limits=limits._replace(consumers=_grown(limits.consumers, CONSUMER_LIMIT.new(size))),
        )
    if common["words_used"] + need.words > state.words.size:
        state = _compacted_words(state, need.words)
    if common["ledgers"] + need.ledgers > state.ledgers.size:
        # Mark-delete does not return to the ledgers that it has passed.
        known = first_of(state.ledgers, state.common[0].ledgers)
        kept = chosen(known, known.ledger >= state.common[0].mark_delete.ledger)
        state.common[0].ledgers = kept.size
        state = state._replace(ledgers=_grown(kept, LEDGER.new(2 * (kept.size + need.ledgers))))
    return state


@EntryPoint
@compiled
def _has_room(state: State, entries: int, consumers: int, words: int, ledgers: int, open_entries_max: int) -> bool:
    common = state.common
    return bool(
        entries <= common[0].free_entries
        and entries <= common[0].free_hashes
        and state.entries.size - common[0].free_entries <= open_entries_max
        and consumers <= state.consumers.size
        and common[0].words_used + words <= state.words.size
        and common[0].ledgers + ledgers <= state.ledgers.size
    )


def _more_slots(records: Records, kind: RecordKind, stack: Ints, free: int, rows: int) -> tuple[Records, Ints]:
    """Records with room for the next rows even when twice as many slots are in use, and the stack of the free ones."""
    size = len(records)
    grown = 2 * max(size - free, _IN_USE_MIN) + rows
    new = np.arange(grown - 1, size - 1, -1, dtype=np.int64)
    return _grown(records, kind.free(grown)), np.concatenate((stack[:free], new, np.zeros(size - free, dtype=np.int64)))


def _grown(records: _Array, larger: _Array) -> _Array:
    larger[: records.size] = records
    return larger


def _compacted_words(state: State, more: int) -> State:
    entries: Any = state.entries
    partly = np.flatnonzero((entries.ledger != UNKNOWN) & (entries.words_at != UNKNOWN))
    counts = entries[partly].words
    used = int(counts.sum())
    words = np.zeros(2 * (used + more), dtype=np.int64)
    starts = np.concatenate(([0], np.cumsum(counts)))[: partly.size]
    for slot, start, count in zip(partly, starts, counts, strict=True):
        first = entries[slot].words_at
        words[start : start + count] = state.words[first : first + count]
    entries.words_at[partly] = starts
    state.common[0].words_used = used
    return state._replace(words=words)


@EntryPoint
@compiled
def need_of(events: Events) -> Need:
    """The largest number of records that the events may add, at most a ledger each time that it changes among them."""
    entries, words, ledgers, latest = 0, 0, 0, UNKNOWN
    for row in range(events.code.size):
        ledger = events.ledger[row]
        if ledger >= 0:
            entries += 1
            if ledger != latest:
                ledgers, latest = ledgers + 1, ledger
        # At the first word of an ack set room is made for all its words.
        if events.code[row] in (Code.ACK_PART_START, Code.ACK_PART_END) and events.word[row] == 0:
            left = int(events.words_left[row])
            words += (~left if left < 0 else left) + 1
    return Need(entries, 0, words, ledgers)


def sweep(state: State, out: Output, from_us: int, report_min_us: int) -> tuple[Ints, NDArray[np.int32]]:
    """Frees slots in place; returns the hashes that were freed, and the most entries of each that were pending at once.

    Arguments are those of `allocation.make_room`.
    """
    _sweep_entries(state, from_us - SLOWEST_READ_US)
    hashes: Any = state.hashes
    before = hashes.hash.copy()
    _sweep_hashes(state, out, from_us, report_min_us, np.zeros(before.size, dtype=np.int64))
    freed = np.flatnonzero(hashes.hash != before)
    return before[freed], hashes.held_max[freed]


@compiled
def _sweep_entries(state: State, before_us: int) -> None:
    """Frees entries below mark-delete that no consumer holds and no read in flight can send."""
    entries, common = state.entries, state.common
    for slot in range(entries.size):
        ledger, entry = entries[slot].ledger, entries[slot].entry
        if (
            ledger >= 0
            and entries[slot].holder < 0
            and entries[slot].marks & Mark.WAITING == 0
            and (entries[slot].marks & Mark.ACKED != 0 or common[0].mark_delete.ledger > ledger)
            and (ledger, entry) <= position_of(common[0].mark_delete)
            and max(entries[slot].sent_at.ts_us, entries[slot].acked_ts) < before_us
        ):
            count_never_sent(state, slot)
            free_slot(state, slot)


@compiled
def _sweep_hashes(state: State, out: Output, from_us: int, report_min_us: int, used: Ints) -> None:
    """Frees hashes without pending or waiting entries whose highest delivery is at or below mark-delete.

    Where an entry is kept for an overlapping read only, its hash keeps its slot, and its interval ends all the same. A
    hash whose interval may go on keeps both. `used` has a zero for each slot of a hash, because a compiled function
    cannot make an array.
    """
    entries, hashes, common = state.entries, state.hashes, state.common
    for slot in range(entries.size):
        at = entries[slot].hash_at
        if entries[slot].ledger >= 0 and at >= 0:
            used[at] = max(used[at], _KEPT if is_kept_for_a_read(state, slot) else _OPEN)
    deleted = position_of(common[0].mark_delete)
    for at in range(hashes.size):
        if hashes[at].hash < 0 or used[at] == _OPEN or position_of(hashes[at].top) > deleted:
            continue
        if may_go_on(state, at, from_us, report_min_us):
            continue
        end_wait(state, out, at)
        if used[at] == 0:
            drop(state.hash_table, hashes.hash, hashes.hash, hashes[at].hash, hashes[at].hash)
            hashes[at].hash = UNKNOWN
            state.hashes_free[common[0].free_hashes] = at
            common[0].free_hashes += 1
