"""The replay of one subscription on one topic partition: it takes rows, and gives results window by window."""

from collections import deque
from collections.abc import Sequence

from dispatch_audit.pipeline.checkpointed import checkpointed
from dispatch_audit.pipeline.packing.gap import Gap
from dispatch_audit.pipeline.packing.membership_rows import BEFORE_ROWS, NEVER, TracePoint
from dispatch_audit.pipeline.packing.packed_batch import Merged
from dispatch_audit.pipeline.packing.snapshot import Snapshot, StatsRow, parsed_snapshot
from dispatch_audit.pipeline.replay.config import ReplayConfig
from dispatch_audit.pipeline.replay.evidence.times import BrokerSilence, Clock
from dispatch_audit.pipeline.replay.rules.findings import standing
from dispatch_audit.pipeline.replay.signs.broker_signs import BrokerSigns
from dispatch_audit.pipeline.replay.state.state import outstanding
from dispatch_audit.pipeline.replay.subscription.completeness import Unseen
from dispatch_audit.pipeline.replay.subscription.result import ReplayResult, ReportRange, Watermark, reported_since
from dispatch_audit.pipeline.replay.subscription.step_loop import Observer, StepLoop
from dispatch_audit.pipeline.replay.timeline.snapshot_views import FormerConsumers


@checkpointed("subscription")
class Subscription:
    """The replay of one subscription: it takes rows as they come, and reports what is settled."""

    __slots__ = ("_clock", "_former", "_last", "_reported", "_signs", "_silence", "_watermark", "config", "loop")

    def __init__(self, config: ReplayConfig, observer: Observer | None = None) -> None:
        """Starts in front of the first row; an observer follows the replay from there on."""
        self.loop = StepLoop(config, observer)  # what the rows so far have led to
        self.config = config  # the configuration of the replay
        self._former = FormerConsumers()
        self._last = BEFORE_ROWS
        self._reported: TracePoint | None = None
        self._silence, self._signs, self._clock = BrokerSilence(), BrokerSigns(), Clock()
        self._watermark = Watermark(config.unsettled_us)

    @property
    def released(self) -> TracePoint:
        """The last row that has taken effect; its seq is -1 if none has."""
        return self.loop.membership.released

    def feed(self, part: Merged) -> None:
        """Takes the next rows in the order of seq."""
        events = part.events
        if events.seq.size:
            self._last = TracePoint(int(events.seq[-1]), int(events.ts_us[-1]))
            self._watermark.add(events.seq, events.ts_us)
            self._clock.note(events.seq, events.ts_us)
            self._silence.note(events.ts_us, part.snapshots, part.membership)
        self._signs.note(part.of_recorder)
        # The recorder looked at the subscription for such a row, so what is open lasted at least up to it.
        settings = [TracePoint(row.seq, row.ts_us) for row in part.settings if row.of_subscription]
        self._last = max([self._last, *settings])
        self.loop.apply(self.loop.membership.push(part, self._filled(part.snapshots, part.gaps)))

    def _filled(self, snapshots: Sequence[StatsRow], gaps: Sequence[Gap]) -> list[Snapshot]:
        """The snapshots with what they leave out because it is as in the snapshot before."""
        lost = deque(gap for gap in gaps if gap.loses_snapshots)
        filled: list[Snapshot] = []
        for row in snapshots:
            while lost and lost[0].seq < row.seq:
                self._former.lose(lost.popleft().until_seq)
            filled.append(self._former.filled(parsed_snapshot(row)))
        for gap in lost:
            self._former.lose(gap.until_seq)
        return filled

    def pass_time(self) -> None:
        """Lets rows take effect that no row of the next window can change, if the window ends long after them."""
        if self._is_long_over:
            self.loop.apply(self.loop.membership.settle(self.config.ends_us or 0))

    def close(self) -> None:
        """Lets all rows take effect, because no others follow; only the first call changes anything."""
        self.loop.apply(self.loop.membership.settle(NEVER))
        self.loop.finish()

    def finish(self) -> ReplayResult:
        """The result at the end of the trace, without what was reported before."""
        self.close()
        return self._found(reported_since(self._reported))

    def so_far(self) -> ReplayResult:
        """The result at the end of a window of a trace that goes on: what is settled by now, and what is open.

        This closes what is open. The next window continues from a copy made before, without what was reported
        (`forget`).
        """
        return self._found(reported_since(self._reported, self._settled()))

    def forget(self) -> None:
        """Drops what `so_far` reports at this moment, except what later verdicts may need."""
        self._reported = reported = self._settled()
        recent_us = reported.ts_us - self.config.unsettled_us
        self.loop.forget(reported.seq, recent_us, self._last.ts_us)

    @property
    def _is_long_over(self) -> bool:
        """Whether the window ends so long after its last row that no later row changes its findings."""
        ends_us = self.config.ends_us
        return ends_us is not None and ends_us - self._last.ts_us > self.config.unsettled_us

    def _settled(self) -> TracePoint:
        settled = self._watermark.point(self.released.seq)
        if self._is_long_over:
            settled = max(settled, TracePoint(min(self.released.seq, self._last.seq), self._last.ts_us))
        return max(settled, self._reported or BEFORE_ROWS)

    def _found(self, report_range: ReportRange) -> ReplayResult:
        loop, dispatcher, membership = self.loop, self.loop.dispatcher, self.loop.membership
        epochs, snapshots, cold_start = membership.owners.epochs, loop.snapshots, loop.cold_start
        # What is open lasted up to the last row in which the recorder said that it ran.
        end = max(self._last, TracePoint(self._signs.last_seq, self._signs.last_us))
        epochs.share(end.ts_us)
        # Rows that are still held may end an interval that is open at the end of a window, so its length is not known.
        over_us = end.ts_us if report_range.final or self._is_long_over else self.released.ts_us
        dispatcher.close(end._replace(ts_us=over_us), goes_on=not report_range.final)
        waits_known = cold_start.settled or cold_start.interrupted
        if not waits_known:
            dispatcher.monitor.disregard(self._last.seq)
        withdrawn = [*dispatcher.collector.alibis(), *loop.settings.alibis()]
        never_dispatched, never_acknowledged = outstanding(dispatcher.seen)
        return ReplayResult(
            loop=loop,
            dispatcher=dispatcher,
            membership=membership,
            monitor=dispatcher.monitor,
            snapshots=snapshots,
            findings=standing(dispatcher.findings(), withdrawn),
            episodes=dispatcher.episodes(),
            unseen=Unseen(
                rows_censored=cold_start.censored,
                dispatches_undecided=membership.owners.undecided,
                dispatches_without_key=dispatcher.traffic.unkeyed,
                entries_without_publish=dispatcher.without_publish,
                dispatches_without_end=dispatcher.collector.without_end,
                censored_never_dispatched=never_dispatched,
                censored_never_acknowledged=never_acknowledged,
                consumers_by_snapshot_only=len(snapshots.listed - dispatcher.consumers.of.keys()),
                rows_censored_by_gaps=cold_start.censored_by_gaps,
            ),
            report_range=report_range,
            silence=self._silence,
            clock=self._clock,
            signs=self._signs,
            waits_known=waits_known,
        )
