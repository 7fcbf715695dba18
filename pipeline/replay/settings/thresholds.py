"""Thresholds from which on waiting is reported, and the limits of what is kept."""

from typing import NamedTuple

from dispatch_audit.pipeline.checkpointed import checkpointed


@checkpointed("thresholds")
class Thresholds(NamedTuple):
    """The thresholds of an audit; times in microseconds."""

    report_min_us: int = 100_000  # the shortest interval of waiting that is reported
    stall_threshold_us: int = 1_000_000  # the shortest time without a dispatch that is a stall, or that starves a hash
    sample_us: int = 10_000_000  # the time between two samples of the capacity
    intervals_max: int = 10_000  # how many intervals of a cause and scope are kept
    # Whether recently joined consumers wait for the last sent position instead of the read position.
    as_pip_282: bool = False
