"""What is kept of the doubts about owners, and for how long."""

import pytest

from dispatch_audit.pipeline.replay.timeline import undecided_ranges as doubts
from dispatch_audit.pipeline.replay.timeline.undecided_ranges import UndecidedRange, UndecidedRanges

LOW = ((0, 9),)


def test_a_doubt_that_goes_on_stays_by_itself() -> None:
    found = UndecidedRanges()
    found.add(UndecidedRange(1, None, LOW, "why"))
    found.end(4)
    found.add(UndecidedRange(4, None, LOW, "still"))
    assert [(doubt.from_seq, doubt.to_seq) for doubt in found.all] == [(1, 4), (4, None)]
    found.withdraw()
    assert found.about(5, 3) is not None
    assert found.about(5, 5) is None


def test_of_too_many_the_older_ones_concern_all_hashes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doubts, "RANGES_MAX", 100)
    found = UndecidedRanges()
    scattered = tuple((hash_, hash_) for hash_ in range(0, 100, 10))
    for burst in range(1_000):
        found.add(UndecidedRange(10 * burst, 10 * burst + 3, scattered, f"burst {burst}"))
    assert sum(len(doubt.ranges) for doubt in found.all) < 1_100
    # What was doubtful stays so; between the bursts nothing is.
    for burst in (0, 500, 999):
        assert found.about(10, 10 * burst + 1) is not None
        assert found.about(10, 10 * burst + 5) is None
    assert found.about(11, 9_991) is None
    assert found.about(11, 1) is not None
