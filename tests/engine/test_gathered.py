"""Small things that are brought together."""

from collections.abc import Iterator

import pytest

from dispatch_audit.pipeline.engine.gathered import gathered


@pytest.mark.parametrize(
    ("sizes", "together"),
    [
        ([], []),
        ([1], [[1]]),
        ([2, 2, 2], [[2, 2], [2]]),
        ([1, 2, 3, 1, 1, 1], [[1, 2], [3], [1, 1, 1]]),
        ([9, 9], [[9], [9]]),
        ([0, 0, 3], [[0, 0, 3]]),
    ],
)
def test_a_list_ends_as_soon_as_it_is_large_enough(sizes: list[int], together: list[list[int]]) -> None:
    assert list(gathered(sizes, int, 3)) == together


def test_nothing_is_taken_before_it_is_needed() -> None:
    taken: list[int] = []

    def items() -> Iterator[int]:
        for item in (3, 3):
            taken.append(item)
            yield item

    assert next(gathered(items(), int, 3)) == [3]
    assert taken == [3]
