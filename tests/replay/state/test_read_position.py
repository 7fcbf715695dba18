"""How far the broker has read, and how many entries are in its replay queue: against a recount after every step."""

from typing import TypeAlias

import pytest
from examples import examples
from hypothesis import given
from hypothesis import strategies as st

from dispatch_audit.pipeline.packing.membership_rows import TracePoint
from dispatch_audit.pipeline.replay.dispatcher.entry.entries import (
    add_entry,
    note_position,
    note_read,
    set_key,
    was_read,
)
from dispatch_audit.pipeline.replay.dispatcher.entry.transitions import shows_cursor
from dispatch_audit.pipeline.replay.dispatcher.entry.waiting import begin_waiting, stop_waiting
from dispatch_audit.pipeline.replay.dispatcher.join_leave_reset import rewind
from dispatch_audit.pipeline.replay.durations import READ_US
from dispatch_audit.pipeline.replay.state.records import EntryPosition, set_position
from dispatch_audit.pipeline.replay.state.state import State, entry_at, new_state
from dispatch_audit.pipeline.replay.state.values import Mark

Position: TypeAlias = tuple[int, int]
WAYS = [0, 0, 0, Mark.NACKED, Mark.DELAYED, Mark.DELAYED | Mark.SENT, Mark.MAYBE_SKIPPED]

positions = st.tuples(st.integers(1, 3), st.integers(0, 5))
operations = st.lists(
    st.tuples(st.sampled_from(["wait", "wait", "stop", "read", "rewind"]), positions, st.sampled_from(WAYS)),
    max_size=60,
)


def _state() -> State:
    return new_state(entries=64, hashes=8, consumers=4, words=4, ledgers=8)


def _slot(state: State, position: Position) -> int:
    """The slot of an entry, made where there is none; two hashes."""
    slot = entry_at(state, *position)
    if slot < 0:
        note_position(state, *position)
        slot = add_entry(state, *position)
        set_key(state, slot, 7, 0, 100 + position[1] % 2)
    return int(slot)


@examples(300)
@given(operations)
def test_the_replay_queue_holds_what_waits_and_was_read(operations: list[tuple[str, Position, int]]) -> None:
    state = _state()
    read: Position = (-1, -1)
    for kind, position, way in operations:
        if kind == "wait":
            slot = _slot(state, position)
            if state.entries[slot].marks & Mark.WAITING == 0:
                state.entries[slot].marks |= way
                begin_waiting(state, slot, TracePoint(1, 1))
        elif kind == "stop" and entry_at(state, *position) >= 0:
            stop_waiting(state, entry_at(state, *position), 2)
        elif kind == "read":
            # A dispatch, or a snapshot, shows a position that the trace has shown before.
            _slot(state, position)
            note_read(state, *position, TracePoint(1, 3))
            read = max(read, position)
        elif kind == "rewind":
            rewind(state, TracePoint(1, 4))
            read = (-1, -1)
        entries = state.entries
        there = [slot for slot in range(entries.size) if entries.ledger[slot] >= 0]
        for slot in there:
            at = (int(entries.ledger[slot]), int(entries.entry[slot]))
            assert bool(entries.marks[slot] & Mark.READ) == (at <= read) == was_read(state, *at)
        in_replay = [
            slot
            for slot in there
            # What is delayed and was never sent is with the tracker of delayed messages (4.13).
            if entries.marks[slot] & (Mark.WAITING | Mark.READ) == Mark.WAITING | Mark.READ
            and entries.marks[slot] & (Mark.DELAYED | Mark.SENT) != Mark.DELAYED
        ]
        assert state.common[0].in_replay == len(in_replay)


def test_what_is_read_carries_the_time_when_that_was_seen_first() -> None:
    state = _state()
    first, second = _slot(state, (1, 0)), _slot(state, (1, 1))
    note_read(state, 1, 0, TracePoint(10, 10))
    note_read(state, 1, 1, TracePoint(20, 20))
    note_read(state, 1, 0, TracePoint(30, 30))
    assert state.entries.read_ts[[first, second]].tolist() == [10, 20]


def test_of_the_first_waiting_entry_of_a_hash_the_row_is_known_that_shows_it_read() -> None:
    state = _state()
    for entry in (0, 2, 4):
        begin_waiting(state, _slot(state, (1, entry)), TracePoint(1, 1))
    at = int(state.entries.hash_at[_slot(state, (1, 0))])
    note_read(state, 1, 3, TracePoint(5, 10))
    note_read(state, 1, 4, TracePoint(6, 20))
    assert (state.waits.hashes[at].read.seq, state.waits.hashes[at].read.ts_us) == (5, 10)


def test_a_ledger_further_on_was_read_to_its_end_and_the_next_from_its_start() -> None:
    state = _state()
    slots = [_slot(state, position) for position in ((1, 0), (1, 5), (2, 0), (2, 1), (2, 2), (3, 0))]
    note_read(state, 1, 0, TracePoint(10, 10))
    note_read(state, 2, 1, TracePoint(20, 20))
    assert [bool(state.entries.marks[slot] & Mark.READ) for slot in slots] == [True, True, True, True, False, False]


@pytest.mark.parametrize(
    ("since", "entry", "sent_ts", "ts", "shows"),
    [
        (19, 1, 5, 31, False),
        (19, 1, 5, 31 + READ_US, True),
        # It was pending at the last consumer, which left with it, so no replay read had it.
        (20, 1, 5, 31, True),
        # A normal read may have brought it that was over when the last consumer left.
        (19, 3, -1, 31, False),
        # It was not published by then.
        (19, 4, -1, 31, True),
        (20, 1, 31, 40, False),
    ],
    ids=["waited before", "a read later", "left behind", "perhaps read before", "unread before", "sent since"],
)
def test_what_a_read_from_before_the_rewind_may_have_sent_shows_no_cursor(
    since: int, entry: int, sent_ts: int, ts: int, shows: bool
) -> None:
    """Row 20 rewinds the cursor; entry 2 was the highest that had been sent, and 3 the last that was published."""
    state = _state()
    set_position(state.common[0].last_published, EntryPosition(1, 3))
    slot = _slot(state, (1, entry))
    begin_waiting(state, slot, TracePoint(since, since))
    note_read(state, 1, 2, TracePoint(10, 10))
    rewind(state, TracePoint(20, 30))
    state.entries[slot].sent_at.ts_us = sent_ts
    assert shows_cursor(state, slot, ts) is shows


def test_without_a_rewind_each_first_dispatch_shows_the_cursor() -> None:
    state = _state()
    slot = _slot(state, (1, 1))
    begin_waiting(state, slot, TracePoint(1, 1))
    assert shows_cursor(state, slot, 2)
