"""The edges of the ring's report."""

import numpy as np
import pytest

from dispatch_audit.pipeline.assignment.selectors.ring import Ring
from dispatch_audit.udfs.sticky_key_hash import HashRange

SPACE = HashRange(1, 10)


@pytest.mark.parametrize(
    ("last_point", "fused", "expected"),
    [
        (8, True, [(1, 4, 1), (5, 8, 2), (9, 10, 1)]),
        (8, False, [(1, 2, 1), (3, 4, 1), (5, 8, 2), (9, 10, 1)]),
        # No tail is left after a point that stands at the very end.
        (10, True, [(1, 4, 1), (5, 10, 2)]),
        (10, False, [(1, 2, 1), (3, 4, 1), (5, 10, 2)]),
    ],
)
def test_the_tail_belongs_to_the_first_point(
    last_point: int, fused: bool, expected: list[tuple[int, int, int]]
) -> None:
    ring = Ring()
    ring.occupy(np.array([2, 4]), 1)
    ring.occupy(np.array([last_point]), 2)
    assert list(ring.ranges(SPACE, fused=fused).rows) == expected
    assert [ring.owner_of(sticky_hash) for sticky_hash in (1, 4, 5, 10)] == [
        1,
        1,
        2,
        1 if last_point == 8 else 2,
    ]


def test_an_empty_ring_has_no_ranges() -> None:
    assert Ring().ranges(SPACE, fused=True).rows == ()
    assert Ring().owner_of(5) is None
