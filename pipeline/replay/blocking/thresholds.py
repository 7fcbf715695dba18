"""From when on waiting is of interest, and how much of it is kept."""

from typing import NamedTuple


class Thresholds(NamedTuple):
    """What is of interest; times in microseconds.

    Attributes:
        report_min_us: a consumer that could be sent nothing.
        stall_threshold_us: nothing sent although something could be.
        sample_us: between two looks at the capacity.
        intervals_max: how many intervals of a cause and scope are kept.
        as_pip_282: whether recently joined consumers are held back behind what was sent, not behind what was read.
    """

    report_min_us: int = 100_000
    stall_threshold_us: int = 1_000_000
    sample_us: int = 10_000_000
    intervals_max: int = 10_000
    as_pip_282: bool = False
