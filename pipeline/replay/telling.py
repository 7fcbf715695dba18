"""Which part of what is known a window of a trace tells: everything is told once, and what may still change waits.

A log that goes on behind a window may say more about the last moments of it: a dispatch may turn out not to have left
the broker, a snapshot may prove a duplicate. So a window tells what is older than `UNSETTLED_US` before its last row,
and the next one tells the rest. What is open at its end it tells as open, and the next one again.
"""

from typing import Final, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

_FOREVER: Final = 2**63 - 1

# Longer than anything that a verdict looks ahead for: `verdicts.duplicates.LOOK_AHEAD_US`, and the second that a read
# takes; and longer than rows are held back (`membership.WAIT_US_MAX`).
UNSETTLED_US: Final = 60_000_000

_Times = TypeVar("_Times", int, "NDArray[np.int64]")


class Telling(NamedTuple):
    """What happened behind `since_us`, up to and including `until_us`; microseconds since 1970 UTC."""

    since_us: int
    until_us: int

    @property
    def final(self) -> bool:
        """Whether the log ends here: what is open stays so."""
        return self.until_us == _FOREVER

    def holds(self, ts_us: "NDArray[np.int64]") -> "NDArray[np.bool_]":
        """Which of the times are in it."""
        return (ts_us > self.since_us) & (ts_us <= self.until_us)

    def tells(self, ts_us: int) -> bool:
        """Whether it is of that time."""
        return self.since_us < ts_us <= self.until_us

    def tells_interval(self, from_us: int, to_us: int, is_open: bool) -> bool:
        """Whether it tells of an interval: one that ended in it, or is open at its end."""
        return self.tells(to_us) or (is_open and from_us <= self.until_us < to_us)

    def tells_noted(self, from_us: int, to_us: int, is_open: bool) -> bool:
        """The same of an interval that was noted since something was told last, however long before it ended."""
        return to_us <= self.until_us or (is_open and from_us <= self.until_us)


def since(told_us: int | None, until_us: int | None = None) -> Telling:
    """What was not told before.

    Args:
        told_us: up to when everything was; None: nothing was.
        until_us: up to when everything is settled; None: the log ends here.
    """
    return Telling(-_FOREVER if told_us is None else told_us, _FOREVER if until_us is None else until_us)


EVERYTHING: Final = since(None)
