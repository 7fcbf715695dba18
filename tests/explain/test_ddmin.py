"""Delta debugging on sets of numbers, whose smallest parts are known."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatch_audit.pipeline.explain.ddmin import minimized


@given(st.integers(1, 60).flatmap(lambda n: st.tuples(st.just(n), st.sets(st.integers(0, n - 1)))))
def test_what_is_needed_together_is_left_and_nothing_else(drawn: tuple[int, set[int]]) -> None:
    size, needed = drawn
    assert minimized(range(size), lambda some: needed <= set(some)) == sorted(needed)


def test_no_unit_of_the_result_can_be_left_out_alone() -> None:
    def holds(some: Sequence[int]) -> bool:
        return {1, 8} <= set(some) or {2, 4, 6} <= set(some)

    kept = minimized(range(20), holds)
    assert holds(kept)
    assert not any(holds([n for n in kept if n != left_out]) for left_out in kept)


@pytest.mark.parametrize("tries", [0, 1, 5])
def test_a_search_that_is_stopped_has_the_fewest_units_found_so_far(tries: int) -> None:
    held: list[int] = []
    asked = 0

    def holds(some: Sequence[int]) -> bool:
        nonlocal asked
        asked += 1
        if asked <= tries and 3 in some:
            held.append(len(some))
            return True
        return False

    kept = minimized(range(64), holds)
    assert 3 in kept
    assert len(kept) == min(held, default=64)
