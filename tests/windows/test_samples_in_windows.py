"""A recording of a real broker, cut at random moments, tells window by window what it tells at once."""

import random
from pathlib import Path

import pytest

from benchmarks.reliability_parts.audited import Means
from benchmarks.reliability_parts.cuts import cuts, windows_of
from dispatch_audit.pipeline.windows.window import Window


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.usefixtures("spark")
def test_a_sample_cut_at_random_moments(tmp_path: Path) -> None:
    assert cuts(Means(), tmp_path, count=1, seed=4) == {"cuts_tried": 1, "cuts_equal": 1}


def test_windows_follow_each_other_from_the_beginning_to_the_end() -> None:
    made = [windows_of((100, 200), random.Random(seed)) for seed in range(50)]
    assert {len(windows) for windows in made} == {2, 3, 4, 5}
    for windows in made:
        ends = [window.to_us for window in windows[:-1]]
        assert all(end is not None and 100 < end < 200 for end in ends)
        assert windows == [*(Window(None, end) for end in ends), Window(ends[-1], None)]
