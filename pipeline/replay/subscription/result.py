"""The result of the replay of one subscription at the end of the trace, or of a window of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from dispatch_audit.pipeline.checkpointed import checkpointed
from dispatch_audit.pipeline.replay.blocking.attribution import Blocked
from dispatch_audit.pipeline.replay.blocking.monitor import BlockingMonitor
from dispatch_audit.pipeline.replay.blocking.stalls import is_finding
from dispatch_audit.pipeline.replay.blocking.starved_hashes import StarvedHash
from dispatch_audit.pipeline.replay.evidence.broker_silence import BrokerSilence
from dispatch_audit.pipeline.replay.evidence.compared_settings import ComparedSettings, Contradiction
from dispatch_audit.pipeline.replay.evidence.limit_evidence import LimitEvidence
from dispatch_audit.pipeline.replay.membership.stays import Stay
from dispatch_audit.pipeline.replay.packing.membership_rows import TracePoint
from dispatch_audit.pipeline.replay.recorders.recorders import ONE, Recorders
from dispatch_audit.pipeline.replay.snapshots.blocked_attempts import BlockedAttempts
from dispatch_audit.pipeline.replay.snapshots.comparison import Comparison, Mismatch
from dispatch_audit.pipeline.replay.snapshots.impossible_counters import ImpossibleCounter, ImpossibleCounters
from dispatch_audit.pipeline.replay.state.output import STILL_OPEN
from dispatch_audit.pipeline.replay.state.state import UNKNOWN, Ints, Records, chosen
from dispatch_audit.pipeline.replay.subscription.completeness import Seen
from dispatch_audit.pipeline.replay.subscription.watermark import ReportRange
from dispatch_audit.pipeline.replay.timeline.undecided_ranges import UndecidedRanges
from dispatch_audit.pipeline.replay.traffic.dispatch_counts import DispatchCounts, Peak


class Joined(NamedTuple):
    """The position of the dispatcher when a consumer joined (contract 6.7).

    Attributes:
        read: the highest position dispatched before; None: no entry was, or the consumer never joined.
        published: the highest position published before; None: no entry was, or the consumer never joined.
        reported: `readPositionWhenJoining` of a snapshot; None: no snapshot reported it.
    """

    read: tuple[int, int] | None
    published: tuple[int, int] | None
    reported: tuple[int, int] | None


@checkpointed("unseen_rows")
class UnseenRows(NamedTuple):
    """A gap in the rows, and how long it matters to verdicts.

    Attributes:
        begin: its first row, and the time of that row.
        until_seq: its last row.
        settled: the point from which on the rows after it explain everything that the broker does; None: not yet.
    """

    begin: TracePoint
    until_seq: int
    settled: TracePoint | None = None


@checkpointed("surplus")
class Surplus(NamedTuple):
    """The surplus in a snapshot's count of unacknowledged messages, at a moment when the trace shows the exact number.

    Attributes:
        seq: the row of the snapshot.
        seq_begin: the snapshot was taken after this row.
        seq_end: the snapshot was taken before the row after this one.
        consumer: the index of the consumer.
        messages: the broker's count of unacknowledged messages minus those that the consumer holds; F10 leaves a
            surplus.
        ts_us: the time of the snapshot.
    """

    seq: int
    seq_begin: int
    seq_end: int
    consumer: int
    messages: int
    ts_us: int


@dataclass(frozen=True)
class ReplayResult:
    """The result of the replay of one subscription, without the epochs, which are taken as they end.

    The fields contain all that is known; the properties `reported_...` contain what this window reports of it.

    Attributes:
        beyond: how many findings were only counted, by rule and by the number of the exception that permits them.
        keeps_order: False where the consumers allowed out-of-order delivery (E5).
        stays: the time for which each consumer was connected, by the trace's number.
        short_until_us: of each consumer that left, the last time at which rows show it without permits or at its limit;
            UNKNOWN: they never do.
        counts: by consumer, the number of entries sent to it and of pending entries that it acknowledged.
        checked: how often the rules were checked (indexes `state.DISPATCHES`, `state.FIRST_DELIVERIES`, ...).
        numbers: the trace's numbers of the consumers, by the indexes in findings and episodes.
        epoch_seqs: the seq after which each epoch began.
        epoch_changes: the membership change that began each epoch.
        joins: by the index of the consumer.
        surpluses: in the order of seq.
        comparison: the comparison with the broker's snapshots.
        counters: counters in snapshots that cannot be.
        blocked_attempts: how often draining hashes kept entries back.
        monitor: the intervals of waiting, and the distance to the limits.
        traffic: the dispatches by key and hash.
        peaks: the most pending entries at one time, by hash.
        seen: the numbers of what was not seen, or not to the end.
        doubts: the hashes whose owners are open.
        hash_shares: by consumer, the share of the hashes that it owned while it was connected.
        report_range: the rows that this window reports. Other findings were reported before, or a later window reports
            them; here they only explain.
        one_sided: whether only one side of dispatches, or of acknowledgements, was recorded.
        permits_recorded: whether rows of flow show the permits of consumers.
        unseen_rows: the gaps, in the order in which they begin.
        settings: the settings that rows and snapshots were compared with.
        owners_unknown: whether the broker has another selector than the trace claims, and which one is unknown.
        limits: the limits of unacknowledged messages among them, and which are contradicted.
        silence: when the broker wrote nothing at all.
        recorders: the recorders of the topic.
        waits_known: whether the trace shows which entries waited; False where entries from before its beginning were
            open to the end.
        acks_recorded: whether the trace has acknowledgements, if there were any.
        leaves_recorded: whether it has the leaves of consumers.
        last_named: by the index of the consumer, the seq of the last row or snapshot that shows it connected.
        other_dispatcher_seq: the first row from which on the dispatcher may be of the other kind, classic or not, than
            the profile; None: it is of that of the profile.
    """

    findings: Records
    beyond: Mapping[tuple[int, int], int]
    episodes: Records
    stays: Mapping[int, Stay]
    short_until_us: Mapping[int, int]
    counts: Mapping[int, tuple[int, int]]
    checked: Ints
    keeps_order: bool
    numbers: Sequence[int]
    epoch_seqs: Sequence[int]
    epoch_changes: Sequence[str]
    joins: Sequence[Joined]
    surpluses: Sequence[Surplus]
    comparison: Comparison
    counters: ImpossibleCounters
    blocked_attempts: BlockedAttempts
    monitor: BlockingMonitor
    traffic: DispatchCounts
    peaks: Peak
    seen: Seen
    doubts: UndecidedRanges
    hash_shares: Mapping[int, float]
    report_range: ReportRange
    one_sided: bool = False
    permits_recorded: bool = False
    unseen_rows: Sequence[UnseenRows] = ()
    settings: ComparedSettings = field(default_factory=ComparedSettings)
    owners_unknown: bool = False
    limits: LimitEvidence = field(default_factory=LimitEvidence)
    silence: BrokerSilence = field(default_factory=BrokerSilence)
    recorders: Recorders = ONE
    waits_known: bool = True
    acks_recorded: bool = True
    leaves_recorded: bool = True
    last_named: Sequence[int] = ()
    other_dispatcher_seq: int | None = None

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
            found = chosen(found, (found.ended_by != STILL_OPEN) | (found.returned_seq == UNKNOWN))
        return found

    @property
    def reported_contradictions(self) -> list[Contradiction]:
        """The settings that the broker contradicts."""
        return [found for found in self.settings.found.values() if self.report_range.contains(found.at.seq)]

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
    def reported_waits_of_consumers(self) -> list[Blocked]:
        """The intervals in which a consumer had no permits or too much unacknowledged, each in one window."""
        until_seq = self.report_range.until.seq
        return [
            interval
            for interval in self.monitor.blocked
            if interval.scope == "consumer" and "in_replay" in interval.detail and interval.span.to_seq <= until_seq
        ]

    @property
    def reported_starved(self) -> list[StarvedHash]:
        """The hashes that could be served and were not."""
        return [starved for starved in self.monitor.starved.kept if starved.span.to_seq <= self.report_range.until.seq]

    @property
    def reported_mismatches(self) -> list[Mismatch]:
        """The snapshots that contradict the trace."""
        return [m for m in self.comparison.mismatches if self.report_range.contains(m.snapshot.seq)]

    @property
    def reported_impossible_counters(self) -> list[ImpossibleCounter]:
        """The counters that snapshots show below zero."""
        return [c for c in self.counters.found if self.report_range.contains(c.snapshot.seq)]

    def _in_range(self, episodes: Records, since: Ints) -> Records:
        """The episodes that ended in the range, or are open at its end and began (`since`) before it, in order."""
        reported = self.report_range.holds_intervals(since, episodes.to_seq, episodes.ended_by == STILL_OPEN)
        found = chosen(episodes, reported)
        return chosen(found, np.lexsort((found.hash, found.from_seq)))
