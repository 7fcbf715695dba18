"""What a window reports: the result of the replay, and the watermark up to which its findings are settled.

Rows after a window may change the findings of its last moments: a dispatch may turn out not to have left the broker, a
snapshot may prove a duplicate. So a window reports what is older than `UNSETTLED_US` before its last row, and the next
window reports the rest. What is open at the end of a window is reported as open, and again by the next window.

A dispatch whose end does not follow within that time counts as not having left the broker, even if its end comes in a
later window. The age of a row depends on the clock, but the rows that are reported depend on seq: the clock may step
back.
"""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dispatch_audit.pipeline.checkpointed import checkpointed
from dispatch_audit.pipeline.packing.membership_rows import TracePoint
from dispatch_audit.pipeline.replay.blocking.attribution import Blocked
from dispatch_audit.pipeline.replay.blocking.monitor import BlockingMonitor
from dispatch_audit.pipeline.replay.dispatcher.dispatcher import Dispatcher
from dispatch_audit.pipeline.replay.evidence.times import BrokerSilence, Clock
from dispatch_audit.pipeline.replay.membership.membership import Membership
from dispatch_audit.pipeline.replay.signs.broker_signs import BrokerSigns
from dispatch_audit.pipeline.replay.state.output import By
from dispatch_audit.pipeline.replay.state.records import Ints, Records, chosen
from dispatch_audit.pipeline.replay.subscription.completeness import Unseen
from dispatch_audit.pipeline.replay.subscription.snapshot_check import SnapshotCheck
from dispatch_audit.pipeline.replay.subscription.step_loop import StepLoop

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


@dataclass(frozen=True)
class ReplayResult:
    """The result of the replay of one subscription, without the epochs, which are taken as they end.

    The properties `reported_...` contain what this window reports; everything else contains all that is known.
    """

    loop: StepLoop  # what the rows have led to; it has closed what was open
    # The dispatcher after all rows; its indexes of consumers are those in findings and episodes.
    dispatcher: Dispatcher
    membership: Membership  # who was connected, and who owned which hash
    monitor: BlockingMonitor  # the intervals of waiting, and the distance to the limits
    snapshots: SnapshotCheck  # the snapshots of the broker, compared with the replay
    findings: Records  # those that no later row can withdraw
    episodes: Records  # the draining episodes that have certainly drained
    unseen: Unseen  # the numbers of what was not seen, or not to the end
    # The rows that this window reports. Other findings were reported before, or a later window reports them; here they
    # only explain.
    report_range: ReportRange
    silence: BrokerSilence  # when the broker wrote nothing at all
    clock: Clock  # whether times can be trusted
    signs: BrokerSigns  # when its process certainly ran, when its locks were held, and whether the log ends in order
    # Whether the trace shows which entries waited; False where entries from before its beginning were open to the end.
    waits_known: bool

    @cached_property
    def drainings(self) -> Records:
        """The draining episodes, each from the first move of its hash to the end, also if it returned in between."""
        return chosen(self.episodes, self.episodes.ended_by != By.RETURNED)

    @property
    def reported_drainings(self) -> Records:
        """Those that ended, or are open at the end, in the order in which they began."""
        return self._in_range(self.drainings, self.drainings.from_seq)

    @property
    def reported_waits_for_draining(self) -> Records:
        """The times in which entries waited for a hash that was away, in the same order."""
        awaited = chosen(self.episodes, self.episodes.awaited > 0)
        return self._in_range(awaited, awaited.blocked_seq)

    @property
    def reported_waits(self) -> list[Blocked]:
        """The intervals in which entries waited for another reason than draining."""
        until_seq = self.report_range.until.seq
        return [
            wait
            for wait in self.monitor.blocked
            if wait.span.to_seq <= until_seq or (wait.span.ended_by == By.OPEN and wait.span.from_seq <= until_seq)
        ]

    @property
    def noted_waits(self) -> list[Blocked]:
        """Those of them that ended before the watermark: each in one window."""
        return [wait for wait in self.monitor.blocked if wait.span.to_seq <= self.report_range.until.seq]

    @property
    def reported_passed_over(self) -> list[Blocked]:
        """The hashes that could be served and were not."""
        return [wait for wait in self.monitor.passed_over if wait.span.to_seq <= self.report_range.until.seq]

    def _in_range(self, episodes: Records, since: Ints) -> Records:
        """The episodes that ended in the range, or are open at its end and began (`since`) before it, in order."""
        reported = self.report_range.holds_intervals(since, episodes.to_seq, episodes.ended_by == By.OPEN)
        found = chosen(episodes, reported)
        return chosen(found, np.lexsort((found.hash, found.from_seq)))
