"""The result of the replay of one subscription at the end of the trace, or of a window of it."""

from dataclasses import dataclass

import numpy as np

from dispatch_audit.pipeline.replay.blocking.attribution import Blocked
from dispatch_audit.pipeline.replay.blocking.monitor import BlockingMonitor
from dispatch_audit.pipeline.replay.dispatcher.dispatcher import Dispatcher
from dispatch_audit.pipeline.replay.evidence.settings_evidence import Contradiction
from dispatch_audit.pipeline.replay.evidence.times import BrokerSilence, Clock
from dispatch_audit.pipeline.replay.membership.membership import Membership
from dispatch_audit.pipeline.replay.signs.broker_signs import BrokerSigns
from dispatch_audit.pipeline.replay.snapshots.comparison import ImpossibleCounter, Mismatch
from dispatch_audit.pipeline.replay.state.output import By
from dispatch_audit.pipeline.replay.state.records import UNKNOWN, Ints, Records, chosen
from dispatch_audit.pipeline.replay.subscription.completeness import Unseen
from dispatch_audit.pipeline.replay.subscription.snapshot_check import SnapshotCheck
from dispatch_audit.pipeline.replay.subscription.step_loop import StepLoop
from dispatch_audit.pipeline.replay.subscription.watermark import ReportRange


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

    @property
    def reported_findings(self) -> Ints:
        """Indexes into `findings`."""
        return np.flatnonzero(self.report_range.holds(self.findings.seq))

    @property
    def reported_drainings(self) -> Records:
        """The draining episodes that ended, or are open at the end, in the order in which they began."""
        return self._in_range(self.episodes, self.episodes.from_seq)

    @property
    def reported_waits_for_draining(self) -> Records:
        """The draining episodes that entries waited for, in the same order.

        An open episode whose hash has returned to its holder is not reported yet, because it may move away again.
        """
        awaited = chosen(self.episodes, self.episodes.awaited > 0)
        found = self._in_range(awaited, awaited.blocked_seq)
        if not self.report_range.final:
            found = chosen(found, (found.ended_by != By.OPEN) | (found.returned_seq == UNKNOWN))
        return found

    @property
    def reported_contradictions(self) -> list[Contradiction]:
        """The settings that the broker contradicts."""
        return [found for found in self.loop.settings.found.values() if self.report_range.contains(found.at.seq)]

    @property
    def drained(self) -> int:
        """The number of draining episodes that ended."""
        return int(np.count_nonzero(self.report_range.holds(self.episodes.to_seq)))

    @property
    def reported_waits(self) -> list[Blocked]:
        """The intervals in which entries waited for another reason than draining."""
        return [
            interval
            for interval in self.monitor.blocked
            if self.report_range.contains_noted(
                interval.span.from_seq, interval.span.to_seq, interval.span.ended_by == By.OPEN
            )
        ]

    @property
    def reported_stalls(self) -> list[Blocked]:
        """The stalls that are findings."""
        until_seq = self.report_range.until.seq
        return [
            interval for interval in self.monitor.blocked if interval.is_finding and interval.span.to_seq <= until_seq
        ]

    @property
    def reported_waits_of_consumers(self) -> list[Blocked]:
        """The intervals in which a consumer had no permits or too much unacknowledged, each in one window."""
        until_seq = self.report_range.until.seq
        return [
            interval
            for interval in self.monitor.blocked
            if interval.scope == "consumer" and "in_replay" in interval.detail and interval.span.to_seq <= until_seq
        ]

    @property
    def reported_passed_over(self) -> list[Blocked]:
        """The hashes that could be served and were not."""
        return [wait for wait in self.monitor.passed_over if wait.span.to_seq <= self.report_range.until.seq]

    @property
    def reported_mismatches(self) -> list[Mismatch]:
        """The snapshots that contradict the trace."""
        return [m for m in self.snapshots.comparison.mismatches if self.report_range.contains(m.snapshot.seq)]

    @property
    def reported_impossible_counters(self) -> list[ImpossibleCounter]:
        """The counters that snapshots show below zero."""
        return [c for c in self.snapshots.counters.found if self.report_range.contains(c.snapshot.seq)]

    def _in_range(self, episodes: Records, since: Ints) -> Records:
        """The episodes that ended in the range, or are open at its end and began (`since`) before it, in order."""
        reported = self.report_range.holds_intervals(since, episodes.to_seq, episodes.ended_by == By.OPEN)
        found = chosen(episodes, reported)
        return chosen(found, np.lexsort((found.hash, found.from_seq)))
