"""The two queues of waiting entries of a hash, against sorted lists."""

from bisect import insort
from typing import TypeAlias

from examples import examples
from hypothesis import given
from hypothesis import strategies as st

from dispatch_audit.pipeline.replay.dispatcher.entry.entries import add_entry, note_position, set_key
from dispatch_audit.pipeline.replay.state.records import NOBODY
from dispatch_audit.pipeline.replay.state.state import State, entry_at, new_state
from dispatch_audit.pipeline.replay.state.values import Mark
from dispatch_audit.pipeline.replay.state.waiting_queues import dequeue, enqueue, older_waiting

Position: TypeAlias = tuple[int, int]
LEDGERS, ENTRIES = 3, 6
# How an entry waits: in the queue, or in one of the ways that put it aside.
WAYS = [0, 0, 0, Mark.NACKED, Mark.DELAYED, Mark.DELAYED | Mark.SENT, Mark.MAYBE_SKIPPED]

positions = st.tuples(st.integers(1, LEDGERS), st.integers(0, ENTRIES - 1))
steps = st.lists(st.tuples(positions, st.sampled_from(WAYS)), max_size=60)


def _state() -> State:
    return new_state(entries=64, hashes=8, consumers=4, words=4, ledgers=8)


def _slot(state: State, position: Position) -> int:
    """The slot of an entry, made where there is none: one hash, three keys."""
    slot = entry_at(state, *position)
    if slot < 0:
        note_position(state, *position)
        slot = add_entry(state, *position)
        set_key(state, slot, 7, position[1] % 3, 100)
    return int(slot)


def _walked(state: State, first: int, last: int) -> list[Position]:
    """The queue as its links say, looked at from both ends."""
    entries = state.entries
    forwards, backwards = [], []
    while first != NOBODY:
        forwards.append((int(entries.ledger[first]), int(entries.entry[first])))
        first = int(entries.next[first])
    while last != NOBODY:
        backwards.append((int(entries.ledger[last]), int(entries.entry[last])))
        last = int(entries.previous[last])
    assert backwards == forwards[::-1]
    return forwards


@examples(300)
@given(steps)
def test_both_queues_are_sorted_whatever_comes_and_goes(steps: list[tuple[Position, int]]) -> None:
    state = _state()
    queues: dict[bool, list[Position]] = {False: [], True: []}
    for position, way in steps:
        slot = _slot(state, position)
        in_queue = next((aside for aside, queue in queues.items() if position in queue), None)
        if in_queue is not None:
            dequeue(state, slot)
            queues[in_queue].remove(position)
        else:
            state.entries[slot].marks = way
            enqueue(state, slot)
            insort(queues[way != 0], position)
            assert bool(state.entries[slot].marks & Mark.OVERTAKABLE) == (way != 0)
        of_hash = state.hashes[0]
        assert _walked(state, of_hash.queue.first, of_hash.queue.last) == queues[False]
        assert _walked(state, of_hash.aside.first, of_hash.aside.last) == queues[True]


@examples(300)
@given(st.lists(positions, unique=True), positions, st.booleans())
def test_the_older_one_that_waits_is_rather_one_of_the_same_key(
    waiting: list[Position], position: Position, aside: bool
) -> None:
    state = _state()
    for older in waiting:
        slot = _slot(state, older)
        state.entries[slot].marks = Mark.NACKED if aside else 0
        enqueue(state, slot)
    before = sorted(older for older in waiting if older < position)
    same_key = [older for older in before if older[1] % 3 == position[1] % 3]
    found = older_waiting(state, _slot(state, position), aside)
    expected = (same_key or before)[:1]
    assert found == (entry_at(state, *expected[0]) if expected else NOBODY)
