"""What the replay of one subscription hands over when the trace, or a window of it, ends."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dispatch_audit.pipeline.assignment import Epoch
from dispatch_audit.pipeline.assignment.ranges.hash_ranges import HashRanges
from dispatch_audit.pipeline.replay.blocking.attribution import Blocked
from dispatch_audit.pipeline.replay.blocking.monitor import BlockingMonitor
from dispatch_audit.pipeline.replay.blocking.stalls import is_finding
from dispatch_audit.pipeline.replay.blocking.starved_hashes import StarvedHash
from dispatch_audit.pipeline.replay.packing.membership_rows import MembershipEvent, TracePoint
from dispatch_audit.pipeline.replay.recorders.recorders import ONE, Recorders
from dispatch_audit.pipeline.replay.snapshots.blocked_attempts import BlockedAttempts
from dispatch_audit.pipeline.replay.snapshots.comparison import Comparison, Mismatch
from dispatch_audit.pipeline.replay.state.output import STILL_OPEN
from dispatch_audit.pipeline.replay.state.state import UNKNOWN, Ints, Records
from dispatch_audit.pipeline.replay.subscription.completeness import Seen
from dispatch_audit.pipeline.replay.subscription.watermark import ReportRange
from dispatch_audit.pipeline.replay.timeline.undecided_ranges import UndecidedRanges
from dispatch_audit.pipeline.replay.traffic.dispatch_counts import DispatchCounts, Peak


@dataclass
class Stay:
    """One consumer of the subscription, while it was there."""

    row: MembershipEvent
    joined: TracePoint | None = None
    left: TracePoint | None = None
    leave_reason: str = ""


class PlacedEpoch(NamedTuple):
    """An epoch and the places between which it lasted; `until` is None while it is open."""

    epoch: Epoch
    since: TracePoint
    until: TracePoint | None

    @property
    def undecided(self) -> HashRanges:
        """The hashes whose owner is open in this epoch, as ranges."""
        return self.epoch.undecided.ranges

    @property
    def undecided_because(self) -> str:
        """Why it is, as a clause."""
        return self.epoch.undecided.because


class Joined(NamedTuple):
    """Where the dispatcher stood when a consumer joined (contract 6.7).

    Attributes:
        read: the highest position dispatched before; None: nothing was, or the consumer never joined.
        reported: `readPositionWhenJoining` of a snapshot; None: no snapshot told.
    """

    read: tuple[int, int] | None
    reported: tuple[int, int] | None


class Surplus(NamedTuple):
    """What a snapshot says of one consumer at a moment when the trace leaves no doubt about what it holds.

    Attributes:
        seq: of the snapshot.
        seq_begin: it was taken behind this row,
        seq_end: and before the one after this.
        consumer: place of the consumer.
        messages: the broker's count of unacknowledged messages, less those that it holds; F10 leaves a surplus.
        ts_us: of the snapshot.
    """

    seq: int
    seq_begin: int
    seq_end: int
    consumer: int
    messages: int
    ts_us: int


@dataclass(frozen=True)
class ReplayResult:
    """What the replay of one subscription found, but for the epochs, which are taken as they end.

    The fields hold all that is known; the properties `reported_...` hold what this window reports of it.

    Attributes:
        beyond: how many findings were only counted, by rule and by the number of the exception that permits them.
        keeps_order: False where the consumers allowed out-of-order delivery (E5).
        counts: by consumer, the entries sent to it and those that its acknowledgements settled.
        checked: how often the rules were applied (`state.DISPATCHES`, `state.FIRST_DELIVERIES`).
        numbers: the trace's numbers of the consumers, by the places that findings and episodes name.
        epoch_seqs: behind which seq each epoch began.
        epoch_changes: the membership change that each began with.
        joins: by place of the consumer.
        surpluses: in the order of seq.
        comparison: with the broker's own snapshots.
        blocked_attempts: how often draining hashes kept entries back.
        monitor: who waited for whom, and how near the limits were.
        traffic: what was dispatched, by key and hash.
        peaks: what was pending at one time, by hash.
        seen: what was not seen, or not to the end.
        doubts: where the owners of hashes are open.
        hash_shares: by consumer, the share of the hashes that it owned while it was there.
        report_range: what a window reports. The rest was reported before, or is not settled; it only explains.
        recorders: who recorded the topic.
    """

    findings: Records
    beyond: Mapping[tuple[int, int], int]
    episodes: Records
    stays: Mapping[int, Stay]
    counts: Mapping[int, tuple[int, int]]
    checked: Ints
    keeps_order: bool
    numbers: Sequence[int]
    epoch_seqs: Sequence[int]
    epoch_changes: Sequence[str]
    joins: Sequence[Joined]
    surpluses: Sequence[Surplus]
    comparison: Comparison
    blocked_attempts: BlockedAttempts
    monitor: BlockingMonitor
    traffic: DispatchCounts
    peaks: Peak
    seen: Seen
    doubts: UndecidedRanges
    hash_shares: Mapping[int, float]
    report_range: ReportRange
    recorders: Recorders = ONE

    @property
    def reported_findings(self) -> Ints:
        """Indexes into `findings`."""
        return np.flatnonzero(self.report_range.holds(self.findings.seq))

    @property
    def reported_drainings(self) -> Records:
        """The draining episodes that ended, or are open at the end, by hash and beginning."""
        found = self._in_range(self.episodes, self.episodes.from_seq)
        ordered: Records = found[np.lexsort((found.hash, found.from_seq))].view(np.recarray)
        return ordered

    @property
    def reported_waits_for_draining(self) -> Records:
        """The draining episodes that entries waited for, in the same order.

        Of an open one whose hash is back at its holder nothing is reported yet: it may move away again.
        """
        awaited = self.episodes[self.episodes.awaited > 0].view(np.recarray)
        found = self._in_range(awaited, awaited.blocked_seq)
        if not self.report_range.final:
            found = found[(found.ended_by != STILL_OPEN) | (found.returned_seq == UNKNOWN)].view(np.recarray)
        ordered: Records = found[np.lexsort((found.hash, found.from_seq))].view(np.recarray)
        return ordered

    @property
    def drained(self) -> int:
        """How many draining episodes ended."""
        return int(np.count_nonzero(self.report_range.holds(self.episodes.to_seq)))

    @property
    def reported_waits(self) -> list[Blocked]:
        """The intervals in which entries waited for something else than draining."""
        return [
            interval
            for interval in self.monitor.blocked
            if self.report_range.contains_noted(
                interval.span.from_seq, interval.span.to_seq, interval.span.ended_by == STILL_OPEN
            )
        ]

    @property
    def reported_stalls(self) -> list[Blocked]:
        """The stalls that are findings."""
        until_seq = self.report_range.until.seq
        return [
            interval for interval in self.monitor.blocked if is_finding(interval) and interval.span.to_seq <= until_seq
        ]

    @property
    def reported_starved(self) -> list[StarvedHash]:
        """The hashes that could be served and were not."""
        return [starved for starved in self.monitor.starved.kept if starved.span.to_seq <= self.report_range.until.seq]

    @property
    def reported_mismatches(self) -> list[Mismatch]:
        """The snapshots that contradict the trace."""
        return [m for m in self.comparison.mismatches if self.report_range.contains(m.snapshot.seq)]

    def _in_range(self, episodes: Records, since: Ints) -> Records:
        """Those that ended in the range, or are open at its end and began, by `since`, before that."""
        reported = self.report_range.holds_intervals(since, episodes.to_seq, episodes.ended_by == STILL_OPEN)
        found: Records = episodes[reported].view(np.recarray)
        return found
