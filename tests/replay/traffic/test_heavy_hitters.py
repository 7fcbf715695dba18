"""Counting in bounded memory, against a dict."""

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatch_audit.pipeline.replay.traffic.dispatch_counts import HeavyHitters

_OBSERVATIONS = st.lists(st.tuples(st.integers(0, 3), st.integers(-5, 5)), max_size=200)
_CUTS = st.lists(st.integers(0, 200), max_size=8)

Seen = list[tuple[int, int]]


def tallied(observations: Seen, room: int, cuts: list[int] | None = None, block: int = 8) -> HeavyHitters:
    tally = HeavyHitters(room, block)
    rows = np.array(observations, dtype=np.int64).reshape(-1, 2)
    where = np.arange(len(rows))
    bounds = [0, *sorted(min(cut, len(rows)) for cut in cuts or ()), len(rows)]
    for start, stop in pairwise(bounds):
        at = where[start:stop]
        tally.add(rows[at, 0], rows[at, 1], at, at)
    return tally


def counted(tally: HeavyHitters) -> dict[tuple[int, int], int]:
    counts = tally.counts()
    return {(int(g), int(k)): int(n) for g, k, n in zip(counts.group, counts.key, counts.times, strict=True)}


@given(_OBSERVATIONS)
def test_with_room_for_all_keys_it_counts_as_a_dict_does(observations: Seen) -> None:
    tally = tallied(observations, room=60)
    assert counted(tally) == Counter(observations)
    assert tally.error_max == 0


@given(_OBSERVATIONS, st.integers(1, 12))
def test_without_it_no_count_is_too_large_nor_too_small_by_more_than_it_says(observations: Seen, room: int) -> None:
    tally = tallied(observations, room)
    counts = counted(tally)
    assert len(counts) <= room
    for key, true in Counter(observations).items():
        assert true - tally.error_max <= counts.get(key, 0) <= true
    assert tally.error_max <= len(observations) // (room + 1)


@given(_OBSERVATIONS, _CUTS, st.integers(1, 60), st.integers(1, 60))
def test_how_the_observations_are_cut_does_not_show(observations: Seen, cuts: list[int], room: int, block: int) -> None:
    as_one, in_parts = tallied(observations, room, block=block), tallied(observations, room, cuts, block)
    for mine, theirs in zip(as_one.counts(), in_parts.counts(), strict=True):
        assert np.array_equal(mine, theirs)
    assert as_one.error_max == in_parts.error_max


@pytest.mark.parametrize("room", [2, 10])
def test_a_key_says_where_it_was_seen_first(room: int) -> None:
    counts = tallied([(1, 5), (1, 7), (1, 5), (1, 7)], room).counts()
    assert list(zip(counts.key.tolist(), counts.ledger.tolist(), counts.entry.tolist(), strict=True)) == [
        (5, 0, 0),
        (7, 1, 1),
    ]
