"""What moves at a membership change, against counting hash by hash."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.assignment import HashRangeOf, hashes_moved, impacted_ranges
from pipeline.assignment.routing import routing_of_ranges
from udfs.sticky_key_hash import HashRange

SPACE = HashRange(1, 30)


@st.composite
def assignments(draw: st.DrawFn) -> list[HashRangeOf]:
    """Disjoint ascending ranges over 0..40, with gaps."""
    cuts = sorted(draw(st.sets(st.integers(0, 40), max_size=10)))
    return [(start, end - 1, owner) for start, end in pairwise(cuts) if (owner := draw(st.integers(-1, 3))) >= 0]


def _owners(ranges: list[HashRangeOf]) -> dict[int, int]:
    return {slot: owner for start, end, owner in ranges for slot in range(start, end + 1)}


@given(assignments(), assignments())
def test_impact_equals_counting(before: list[HashRangeOf], after: list[HashRangeOf]) -> None:
    old, new = _owners(before), _owners(after)
    impact = impacted_ranges(before, after)
    for ranges, owners, others in ((impact.removed, old, new), (impact.added, new, old)):
        moved = {(slot, owner) for slot, owner in owners.items() if others.get(slot) != owner}
        assert moved == {
            (slot, owner) for owner, rows in ranges.items() for row in rows for slot in range(row[0], row[1] + 1)
        }
        for rows in ranges.values():
            assert all(left[1] + 1 < right[0] for left, right in pairwise(rows))


@given(assignments(), assignments())
def test_hashes_moved_equals_counting(before: list[HashRangeOf], after: list[HashRangeOf]) -> None:
    old, new = _owners(before), _owners(after)
    counted = sum(old.get(slot) != new.get(slot) for slot in range(SPACE.first, SPACE.last + 1))
    assert hashes_moved(routing_of_ranges(before), routing_of_ranges(after), SPACE) == counted


def test_equal_consumers_take_nothing_from_each_other() -> None:
    """contract 2.5: 7 came back as 8 with the same id on the same connection."""
    before, after = [(0, 9, 7), (10, 19, 1)], [(0, 4, 8), (5, 12, 2), (13, 19, 1)]
    impact = impacted_ranges(before, after, same=lambda one, other: one == other or {one, other} == {7, 8})
    assert impact.removed == {7: [(5, 9)], 1: [(10, 12)]}
    assert impact.added == {2: [(5, 12)]}


@pytest.mark.parametrize("moved", [[], [(0, 65_536, 1)]])
def test_nothing_moves_between_equal_assignments(moved: list[HashRangeOf]) -> None:
    impact = impacted_ranges(moved, moved)
    assert impact.removed == impact.added == {}
