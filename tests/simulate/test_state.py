"""Replay queue and cursor against plain ones: what is kept by hash and owner must give what a walk over all would."""

from random import Random

from examples import examples
from hypothesis import given
from hypothesis import strategies as st

from dispatch_audit.pipeline.simulate.state.cursor import Cursor
from dispatch_audit.pipeline.simulate.state.replay_queue import NO_HASH, ReplayQueue

ENTRIES = 40


@examples(200)
@given(st.integers(0, 2**32))
def test_a_replay_queue_is_a_sorted_set_of_entries_with_hashes(seed: int) -> None:
    rng = Random(seed)
    owners = {sticky_hash: rng.randrange(3) for sticky_hash in range(6)}
    queue, plain = ReplayQueue(owners.__getitem__), dict[int, int]()
    hashes = [rng.randrange(6) for _ in range(ENTRIES)]
    for _ in range(120):
        position = rng.randrange(ENTRIES)
        step = rng.random()
        if step < 0.5:
            queue.add(position, hashes[position])
            plain[position] = hashes[position]
        elif step < 0.65:
            queue.add(position)
            plain.setdefault(position, NO_HASH)
        elif step < 0.9:
            queue.remove(position)
            plain.pop(position, None)
        elif step < 0.95:
            owners[rng.randrange(6)] = rng.randrange(3)
            queue.regroup()
        else:
            queue.remove_up_to(position)
            plain = {p: h for p, h in plain.items() if p > position}

        assert queue.hash_of == plain
        assert queue.first == min(plain, default=None)
        assert queue.bare == sorted(p for p, h in plain.items() if h == NO_HASH)
        assert {h: list(found) for h, found in queue.by_hash.items()} == _by_hash(plain)
        assert {o: set(found) for o, found in queue.by_owner.items()} == _by_owner(plain, owners)
        assert queue.lowest(5) == sorted(plain)[:5]


def _by_hash(plain: dict[int, int]) -> dict[int, list[int]]:
    hashes = {h for h in plain.values() if h != NO_HASH}
    return {h: sorted(p for p, of in plain.items() if of == h) for h in hashes}


def _by_owner(plain: dict[int, int], owners: dict[int, int]) -> dict[int, set[int]]:
    hashes = {h for h in plain.values() if h != NO_HASH}
    return {owner: {h for h in hashes if owners[h] == owner} for owner in {owners[h] for h in hashes}}


@examples(200)
@given(st.integers(0, 2**32))
def test_a_cursor_follows_mark_delete_and_counts_acknowledged_ranges(seed: int) -> None:
    rng = Random(seed)
    cursor, acked, mark_delete = Cursor(ENTRIES), set[int](), -1
    cursor.end = ENTRIES
    for _ in range(80):
        position = rng.randrange(ENTRIES)
        before = mark_delete
        if rng.random() < 0.95:
            moved = cursor.acknowledge(position)
            acked.add(position)
        else:
            moved = cursor.move_mark_delete(position)
            acked |= set(range(position + 1))
        mark_delete = next(p - 1 for p in range(ENTRIES + 1) if p not in acked)

        assert cursor.mark_delete == mark_delete
        assert moved == (mark_delete > before)
        assert cursor.ranges == sum(p in acked and p - 1 not in acked for p in range(mark_delete + 1, ENTRIES))
        assert cursor.backlog == ENTRIES - len(acked)


def test_a_read_passes_what_is_acknowledged() -> None:
    cursor = Cursor(6)
    cursor.end = 6
    cursor.acknowledge(1)
    cursor.acknowledge(2)

    assert cursor.read(3) == [0, 3, 4]
    assert cursor.read_position == 5
    cursor.acknowledge(0)
    cursor.rewind()
    assert cursor.read(10) == [3, 4, 5]


def test_a_reload_keeps_the_first_persisted_ranges_only() -> None:
    cursor = Cursor(10)
    cursor.end = 10
    for position in (1, 3, 5, 7):
        cursor.acknowledge(position)
    cursor.forget_ranges(2)

    assert [position for position in range(10) if cursor.acked[position]] == [1, 3]
    assert (cursor.ranges, cursor.backlog) == (2, 8)


def test_a_seek_acknowledges_what_is_before_it_and_nothing_else() -> None:
    cursor = Cursor(10)
    cursor.end = 10
    for position in (0, 1, 5, 7):
        cursor.acknowledge(position)
    cursor.reset(6)
    assert cursor.backlog == 4
    cursor.reset(3)
    assert cursor.backlog == 7
