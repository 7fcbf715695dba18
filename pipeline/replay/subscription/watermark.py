"""Which findings a window reports: each is reported once, and those newer than the watermark wait for the next window.

A log that goes on behind a window may say more about the last moments of it: a dispatch may turn out not to have left
the broker, a snapshot may prove a duplicate. So a window reports what is older than `UNSETTLED_US` before its last row,
and the next one reports the rest. What is open at its end it reports as open, and the next one reports it again.

A dispatch whose end does not follow within that time counts as one that did not leave the broker, even if its end comes
in a later window. How old a row is the clock says, and which rows are told the order of seq: the clock may step back.
"""

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dispatch_audit.pipeline.replay.packing.membership_rows import TracePoint
from dispatch_audit.pipeline.replay.state.state import Ints

# Longer than anything that a verdict looks ahead for: `verdicts.duplicates.LOOK_AHEAD_US`, and the second that a read
# takes; and longer than rows are held back (`membership.WAIT_US_MAX`).
UNSETTLED_US: Final = 60_000_000

_BEGINNING: Final = TracePoint(-(2**63), -(2**63))
_END: Final = TracePoint(2**63 - 1, 2**63 - 1)
# Between two places that are remembered.
_STEP_US: Final = 1_000_000


class ReportRange(NamedTuple):
    """What happened behind one place, up to and including the row of another."""

    since: TracePoint
    until: TracePoint

    @property
    def final(self) -> bool:
        """Whether the log ends here: what is open stays so."""
        return self.until == _END

    def holds(self, seq: Ints) -> NDArray[np.bool_]:
        """Which of the rows are in it."""
        held: NDArray[np.bool_] = (seq > self.since.seq) & (seq <= self.until.seq)
        return held

    def holds_intervals(self, from_seq: Ints, to_seq: Ints, is_open: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Which of the intervals ended in it, or are open at its end."""
        going_on = is_open & (from_seq <= self.until.seq) & (to_seq > self.until.seq)
        return self.holds(to_seq) | going_on

    def contains(self, seq: int) -> bool:
        """Whether the row is in it."""
        return self.since.seq < seq <= self.until.seq

    def contains_noted(self, from_seq: int, to_seq: int, is_open: bool) -> bool:
        """Whether an interval is reported that was noted since the last report, however long before that it ended."""
        return to_seq <= self.until.seq or (is_open and from_seq <= self.until.seq)


def reported_since(told: TracePoint | None, until: TracePoint | None = None) -> ReportRange:
    """What was not told before.

    Args:
        told: up to where everything was; None: nothing was.
        until: up to where everything is settled; None: the log ends here.
    """
    return ReportRange(told or _BEGINNING, until or _END)


EVERYTHING: Final = reported_since(None)


class Watermark:
    """Finds the place up to which rows are old enough, in a memory of a place a second."""

    def __init__(self, unsettled_us: int) -> None:
        """Takes how old that is, in microseconds."""
        self._unsettled_us = unsettled_us
        self._marks = [_BEGINNING]
        self._clock_us = _BEGINNING.ts_us

    def add(self, seq: Ints, ts_us: Ints) -> None:
        """Takes the next rows in the order of seq."""
        clock = np.maximum(np.maximum.accumulate(ts_us), self._clock_us)
        # Rows of one seq stay together.
        last = np.flatnonzero((np.diff(clock // _STEP_US) != 0) & (np.diff(seq) != 0))
        self._marks += [TracePoint(int(seq[at]), int(clock[at])) for at in last]
        self._clock_us = int(clock[-1])
        old_us = self._clock_us - self._unsettled_us
        old = [number for number, mark in enumerate(self._marks) if mark.ts_us <= old_us]
        self._marks = self._marks[old[-1] :] if old else self._marks

    def place(self, released_seq: int) -> TracePoint:
        """The last place that is old enough; rows behind `released_seq` have not even taken effect."""
        old_us = self._clock_us - self._unsettled_us
        return max((m for m in self._marks if m.ts_us <= old_us and m.seq <= released_seq), default=_BEGINNING)
