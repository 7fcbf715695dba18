"""Which share of the hashes a consumer owned while it was connected."""

import pytest

from dispatch_audit.pipeline.assignment.epochs import Epoch
from dispatch_audit.pipeline.assignment.ranges.reported_ranges import ReportedRanges
from dispatch_audit.pipeline.assignment.shares import HashShares


def _epoch(*ranges: tuple[int, int, int]) -> Epoch:
    names = {owner: f"c{owner}" for _, _, owner in ranges}
    return Epoch(number=0, from_seq=0, change="", hashes_moved=0, owned=ReportedRanges.of(ranges), names=names)


def _shares(*epochs: tuple[Epoch, int]) -> dict[int, float]:
    shares = HashShares()
    for epoch, lasted_us in epochs:
        shares.add(epoch, lasted_us)
    return shares.of_all()


def test_the_ends_of_a_range_belong_to_it() -> None:
    assert _shares((_epoch((1, 25, 1), (26, 100, 2)), 1)) == {1: 0.25, 2: 0.75}


def test_several_ranges_add_up() -> None:
    assert _shares((_epoch((1, 10, 1), (11, 90, 2), (91, 100, 1)), 5)) == {1: 0.2, 2: 0.8}


def test_an_epoch_weighs_as_long_as_it_lasted() -> None:
    alone, shared = _epoch((1, 100, 1)), _epoch((1, 50, 1), (51, 100, 2))
    assert _shares((alone, 1_000), (shared, 3_000)) == {1: pytest.approx((1 + 3 * 0.5) / 4), 2: 0.5}


def test_time_in_which_a_consumer_is_away_does_not_count_for_it() -> None:
    assert _shares((_epoch((1, 100, 1)), 9_000), (_epoch((1, 100, 2)), 1_000)) == {1: 1.0, 2: 1.0}


@pytest.mark.parametrize("lasted_us", [0, -5])
def test_a_clock_that_steps_back_counts_nothing(lasted_us: int) -> None:
    assert _shares((_epoch((1, 100, 1)), lasted_us)) == {}
