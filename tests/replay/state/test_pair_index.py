"""The index of entries and hashes against a dictionary."""

import random

import numpy as np
import pytest
from examples import examples
from hypothesis import given
from hypothesis import strategies as st

from dispatch_audit.pipeline.replay.state.index import Slots, drop, empty_table, find, put
from dispatch_audit.pipeline.replay.state.records import NOBODY, Ints

Pair = tuple[int, int]

# Runs of neighbours, as entries come, in two ledgers that lie over each other; and numbers of any size.
neighbours = st.tuples(st.sampled_from([7, 8]), st.integers(0, 60))
anywhere = st.tuples(st.integers(0, 2**62), st.integers(0, 2**62))


class Index:
    """A table with the records that it points to."""

    def __init__(self, capacity: int) -> None:
        self.table: Slots = empty_table(capacity)
        self.a: Ints = np.full(capacity, -1, dtype=np.int64)
        self.b: Ints = np.full(capacity, -1, dtype=np.int64)
        self.free = list(range(capacity))
        self.slots: dict[Pair, int] = {}

    def add(self, pair: Pair) -> None:
        slot = self.free.pop()
        self.a[slot], self.b[slot] = pair
        put(self.table, *pair, slot)
        self.slots[pair] = slot

    def remove(self, pair: Pair) -> None:
        drop(self.table, self.a, self.b, *pair)
        self.free.append(self.slots.pop(pair))

    def find(self, pair: Pair) -> int:
        return find(self.table, self.a, self.b, *pair)


@examples(200)
@given(st.lists(neighbours | anywhere, min_size=1, max_size=200), st.integers(1, 40))
def test_it_finds_what_a_dictionary_finds(pairs: list[Pair], capacity: int) -> None:
    index = Index(capacity)
    for pair in pairs:
        if pair in index.slots:
            index.remove(pair)
        elif index.free:
            index.add(pair)
        assert {known: index.find(known) for known in pairs} == {k: index.slots.get(k, NOBODY) for k in pairs}


@pytest.mark.parametrize("capacity", [8, 16, 1024])
def test_a_table_at_its_capacity_is_at_most_half_full(capacity: int) -> None:
    index = Index(capacity)
    for entry in range(capacity):
        index.add((1, entry))
    assert index.table.size >= 2 * np.count_nonzero(index.table >= 0)
    assert [index.find((1, entry)) for entry in range(capacity)] == [index.slots[1, entry] for entry in range(capacity)]
    assert index.find((1, capacity)) == NOBODY


@pytest.mark.parametrize("order", ["first in first out", "last in first out", "any"])
def test_a_long_run_can_be_taken_apart_in_any_order(order: str) -> None:
    index = Index(512)
    pairs = [(ledger, entry) for entry in range(256) for ledger in (1, 2)]
    for pair in pairs:
        index.add(pair)
    going = {"first in first out": pairs, "last in first out": pairs[::-1]}.get(
        order, random.Random(1).sample(pairs, len(pairs))
    )
    for left, pair in enumerate(going, 1):
        index.remove(pair)
        assert index.find(pair) == NOBODY
        assert all(index.find(stays) == index.slots[stays] for stays in going[left :: max(len(going) // 16, 1)])
    assert (index.table == NOBODY).all()


def test_a_table_does_not_wear_out() -> None:
    index = Index(64)
    for entry in range(64):
        index.add((1, entry))
    for entry in range(64, 20_000):
        index.remove((1, entry - 64))
        index.add((1, entry))
    assert np.count_nonzero(index.table >= 0) == 64
    assert [index.find((1, entry)) for entry in range(20_000 - 64, 20_000)] == list(index.slots.values())


def test_two_ledgers_over_each_other_do_not_make_long_runs() -> None:
    index = Index(8192)
    for entry in range(4096):
        index.add((1, entry))
        index.add((2, entry))
    empty = np.flatnonzero(index.table == NOBODY)
    # What a search walks through at worst; with the ledgers side by side in the table it would be thousands.
    assert np.diff(empty).max() < 400
