"""Decides which findings a window reports: each once; findings newer than the watermark wait for the next window.

Rows after a window may change the findings of its last moments: a dispatch may turn out not to have left the broker, a
snapshot may prove a duplicate. So a window reports what is older than `UNSETTLED_US` before its last row, and the next
window reports the rest. What is open at the end of a window is reported as open, and again by the next window.

A dispatch whose end does not follow within that time counts as not having left the broker, even if its end comes in a
later window. The age of a row depends on the clock, but the rows that are reported depend on seq: the clock may step
back.
"""

from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dispatch_audit.pipeline.checkpointed import checkpointed
from dispatch_audit.pipeline.replay.packing.membership_rows import TracePoint
from dispatch_audit.pipeline.replay.state.records import Ints

_BEGINNING: Final = TracePoint(-(2**63), -(2**63))
_END: Final = TracePoint(2**63 - 1, 2**63 - 1)
# The time between two remembered points.
_STEP_US: Final = 1_000_000


class ReportRange(NamedTuple):
    """The rows after one point, up to and including the row of another."""

    since: TracePoint
    until: TracePoint

    @property
    def final(self) -> bool:
        """Whether the log ends here, so that no later window reports what is open."""
        return self.until == _END

    @property
    def to_the_end(self) -> "ReportRange":
        """The range with all rows after it that were read."""
        return self._replace(until=TracePoint(_END.seq - 1, _END.ts_us))

    def holds(self, seq: Ints) -> NDArray[np.bool_]:
        """Which of the rows are in the range."""
        held: NDArray[np.bool_] = (seq > self.since.seq) & (seq <= self.until.seq)
        return held

    def holds_intervals(self, from_seq: Ints, to_seq: Ints, is_open: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Which of the intervals ended in the range, or are open at its end."""
        going_on = is_open & (from_seq <= self.until.seq) & (to_seq > self.until.seq)
        return self.holds(to_seq) | going_on

    def contains(self, seq: int) -> bool:
        """Whether the row is in the range."""
        return self.since.seq < seq <= self.until.seq

    def contains_noted(self, from_seq: int, to_seq: int, is_open: bool) -> bool:
        """Whether an interval noted since the last report is reported, however long before that report it ended."""
        return to_seq <= self.until.seq or (is_open and from_seq <= self.until.seq)


def reported_since(reported: TracePoint | None, until: TracePoint | None = None) -> ReportRange:
    """The rows that were not reported before, up to a point at which everything is settled; None: the log ends here."""
    return ReportRange(reported or _BEGINNING, until or _END)


@checkpointed("watermark")
@dataclass(eq=False, slots=True)
class Watermark:
    """Finds the point up to which rows are old enough; remembers one point for each second."""

    _unsettled_us: int  # the age from which on rows are old enough
    _marks: list[TracePoint] = field(default_factory=lambda: [_BEGINNING])
    _clock_us: int = _BEGINNING.ts_us

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

    def point(self, released_seq: int) -> TracePoint:
        """The last point that is old enough, at most at `released_seq`, because later rows have not taken effect."""
        old_us = self._clock_us - self._unsettled_us
        return max((m for m in self._marks if m.ts_us <= old_us and m.seq <= released_seq), default=_BEGINNING)
