"""The replay of one subscription on one topic partition: membership, assignment and dispatcher together."""

from collections import deque
from collections.abc import Sequence

import numpy as np

from dispatch_audit.pipeline.assignment import AssignmentLog, Undecided
from dispatch_audit.pipeline.assignment.join_orders import Precedence
from dispatch_audit.pipeline.assignment.possibly_empty import may_be_empty
from dispatch_audit.pipeline.assignment.ranges.hash_ranges import union
from dispatch_audit.pipeline.assignment.ranges.membership_change import Change
from dispatch_audit.pipeline.assignment.ranges.observed import NO_DISPATCHES, Behind
from dispatch_audit.pipeline.assignment.resolve import Resolved
from dispatch_audit.pipeline.contract.profile import SelectorKind
from dispatch_audit.pipeline.replay.blocking.monitor import BlockingMonitor
from dispatch_audit.pipeline.replay.dispatcher.dispatcher import Dispatcher
from dispatch_audit.pipeline.replay.packing.events import Code, Events, among
from dispatch_audit.pipeline.replay.packing.gap import Gap
from dispatch_audit.pipeline.replay.packing.hashes import hashes_of
from dispatch_audit.pipeline.replay.packing.membership_rows import MembershipEvent, TracePoint
from dispatch_audit.pipeline.replay.packing.refused import IMPOSSIBLE_TRANSITION, UNKNOWN_CONSUMER, Refused
from dispatch_audit.pipeline.replay.packing.snapshot import Snapshot, StatsRow, parsed_snapshot
from dispatch_audit.pipeline.replay.state.policy import Policy
from dispatch_audit.pipeline.replay.state.read_position import READ_US
from dispatch_audit.pipeline.replay.state.state import NOBODY, Ints
from dispatch_audit.pipeline.replay.subscription.cold_start import ColdStart
from dispatch_audit.pipeline.replay.subscription.completeness import Seen
from dispatch_audit.pipeline.replay.subscription.config import ReplayConfig
from dispatch_audit.pipeline.replay.subscription.epoch_history import EpochHistory, OpenedEpoch
from dispatch_audit.pipeline.replay.subscription.result import (
    Joined,
    PlacedEpoch,
    ReplayResult,
    Stay,
    UnseenRows,
)
from dispatch_audit.pipeline.replay.subscription.snapshot_check import SnapshotCheck
from dispatch_audit.pipeline.replay.subscription.watermark import ReportRange, Watermark, reported_since
from dispatch_audit.pipeline.replay.timeline.brackets import Bracket
from dispatch_audit.pipeline.replay.timeline.change_points import Bounds, Evidence, Ordered, behind
from dispatch_audit.pipeline.replay.timeline.one_sided_recording import OneSidedRecording
from dispatch_audit.pipeline.replay.timeline.reported_ranges import LatestRanges, view_of
from dispatch_audit.pipeline.replay.timeline.timeline import SNAPSHOT_LAG_US, Timeline
from dispatch_audit.pipeline.replay.timeline.undecided_ranges import UndecidedRange, UndecidedRanges, in_words
from dispatch_audit.udfs.sticky_key_hash import sticky_from_murmur

_MEMBERSHIP = among(Code.JOIN_START, Code.JOIN_END, Code.LEAVE_START, Code.LEAVE_END)
_STARTS = among(Code.DISPATCH_START)
_ENDS = among(Code.DISPATCH_END)
_NEVER = 1 << 62
_BATCH_INDEX_ACKS = "acknowledgmentAtBatchIndexLevelEnabled"


class Subscription:
    """The replay of one subscription: the `Stage` that its timeline drives."""

    def __init__(self, config: ReplayConfig) -> None:
        self._config = config
        self._kind: SelectorKind = config.selector(sticky=False)
        self._log = AssignmentLog(self._kind, config.points, config.profile)
        self._perhaps_empty = False  # whether nobody may be connected among the changes that take effect
        self._refused: list[Refused] = []
        self._stays: dict[int, Stay] = {}
        self._recorded_late: bool | None = None
        self._last = TracePoint(-1, 0)
        self._told: TracePoint | None = None
        self._watermark = Watermark(config.unsettled_us)
        policy = Policy(
            skew_us=config.skew_us,
            unordered_us=0,
            mark_delete_releases=config.profile.mark_delete_releases == "any",
            keeps_order=True,
            sticky=False,
            unacked_max=config.limits.unacked_per_consumer,
            report_min_us=config.thresholds.report_min_us,
            stall_threshold_us=config.thresholds.stall_threshold_us,
        )
        monitor = BlockingMonitor(config.limits, config.thresholds)
        counts_indexes = config.broker.get(_BATCH_INDEX_ACKS) is True
        exceptions = config.profile.exceptions
        self._dispatcher = Dispatcher(policy, config.open_entries_max, monitor, counts_indexes, exceptions)
        self._timeline = Timeline(self, config.skew_us, config.orders.rows_max)
        self._doubts = UndecidedRanges()
        self._one_sided = OneSidedRecording()
        self._undecided = 0
        self._cold_start = ColdStart(config.complete_from_start, max(config.skew_us, SNAPSHOT_LAG_US))
        self._unseen_rows: list[UnseenRows] = []
        self._gap_until = -1  # the last row of the gaps so far
        # From this row on joins may be missing.
        self._joins_missing_from = _NEVER if config.complete_from_start else -1
        self._before_gap: list[PlacedEpoch] = []
        self._epochs = EpochHistory(known_since=0 if config.complete_from_start else None)
        self._latest = LatestRanges()
        self._snapshots = SnapshotCheck(self._dispatcher, lazy_return=config.profile.draining_return == "lazy")

    def feed(
        self,
        events: Events,
        rows: Sequence[MembershipEvent],
        snapshots: Sequence[StatsRow],
        gaps: Sequence[Gap] = (),
    ) -> None:
        """Takes the next rows in the order of seq.

        Args:
            events: the rows.
            rows: the details of the joins, leaves and resets among them.
            snapshots: the details of the snapshots among them.
            gaps: the gaps that begin among them.
        """
        for gap in (gap for gap in gaps if gap.loses_members):
            self._joins_missing_from = min(self._joins_missing_from, gap.seq)
        if events.seq.size:
            self._last = TracePoint(int(events.seq[-1]), int(events.ts_us[-1]))
            self._watermark.add(events.seq, events.ts_us)
        self._timeline.push(events, rows, self._filled(snapshots, gaps), gaps)

    def _filled(self, snapshots: Sequence[StatsRow], gaps: Sequence[Gap]) -> list[Snapshot]:
        """The snapshots with the ranges that they leave out because they are those of the snapshot before."""
        lost = deque(gap.seq for gap in gaps if gap.loses_snapshots)
        filled: list[Snapshot] = []
        for row in snapshots:
            while lost and lost[0] < row.seq:
                # The snapshot before may be among the rows lost.
                self._latest = LatestRanges()
                lost.popleft()
            filled.append(self._latest.filled(parsed_snapshot(row)))
        if lost:
            self._latest = LatestRanges()
        return filled

    def finish(self) -> ReplayResult:
        """The result at the end of the trace, without what was reported before."""
        self._release_all()
        return self._found(reported_since(self._told))

    def _release_all(self) -> None:
        self._timeline.finish()

    def so_far(self) -> ReplayResult:
        """The result at the end of a window of a trace that goes on: what is settled by now, and what is open.

        This closes what is open. The next window continues from a copy made before, without what was reported
        (`forget`).
        """
        return self._found(reported_since(self._told, self._settled()))

    def forget(self) -> None:
        """Drops what `so_far` reports at this moment, except what later verdicts may need."""
        self._told = reported = self._settled()
        recent_us = reported.ts_us - self._config.unsettled_us
        self._epochs.forget_shares(self._last.ts_us)
        self._dispatcher.forget(reported.seq, recent_us)
        self._cold_start.censored = self._cold_start.censored_by_gaps = self._undecided = 0
        self._unseen_rows = [
            gap for gap in self._unseen_rows if gap.settled is None or gap.settled.ts_us > recent_us - READ_US
        ]
        self._snapshots.forget(reported.seq, recent_us, self._dispatcher.draining)

    def _settled(self) -> TracePoint:
        return max(self._watermark.point(self._timeline.released_seq), self._told or TracePoint(-1, 0))

    def _found(self, report_range: ReportRange) -> ReplayResult:
        epochs, snapshots, dispatcher = self._epochs, self._snapshots, self._dispatcher
        epochs.share(self._last.ts_us)
        dispatcher.close(self._last, goes_on=not report_range.final)
        if not self._cold_start.settled and not self._cold_start.interrupted:
            dispatcher.monitor.disregard(self._last.seq)
        findings, episodes = dispatcher.findings_and_episodes()
        unjoined = len(snapshots.listed - dispatcher.consumers.of.keys())
        return ReplayResult(
            findings,
            dispatcher.beyond,
            episodes,
            self._stays,
            {number: dispatcher.counts(number) for number in dispatcher.consumers.numbers},
            dispatcher.checked,
            dispatcher.policy.keeps_order,
            dispatcher.consumers.numbers,
            [at.seq for at in epochs.began],
            epochs.changes,
            [
                Joined(dispatcher.read_before(n), dispatcher.published_before(n), snapshots.joined_at.get(n))
                for n in dispatcher.consumers.numbers
            ],
            snapshots.surpluses,
            snapshots.comparison,
            snapshots.blocked_attempts,
            dispatcher.monitor,
            dispatcher.traffic,
            dispatcher.peaks.all(),
            Seen(
                self._cold_start.censored,
                self._undecided,
                *dispatcher.unseen(),
                unjoined,
                self._cold_start.censored_by_gaps,
            ),
            self._doubts,
            epochs.shares.of_all(),
            report_range,
            self._unseen_rows,
        )

    def take_epochs(self) -> list[PlacedEpoch]:
        """The epochs that ended since the last call, each with the points of its beginning and end."""
        before, self._before_gap = self._before_gap, []
        return [*before, *self._epochs.take(self._log)]

    def open_epoch(self) -> list[PlacedEpoch]:
        """The open epoch, after all that `take_epochs` has returned; empty before the first join."""
        return self._epochs.current(self._log)

    def register_consumer(self, row: MembershipEvent, at: TracePoint) -> None:
        """Adds a consumer, which may be sent to before the end of its join is recorded."""
        self._stays[row.consumer] = Stay(row)
        self._dispatcher.register_consumer(row.consumer)

    def depends_on_earlier_rows(self) -> bool:
        """Whether all rows before must be replayed before changes enter the assignment and consumers are added.

        The first consumer decides the selector and the policy, and rows may show owners that are open. The wait of a
        recently joined consumer ends in front of the next row, or with the last one of a stretch.
        """
        return not self._has_consumers or bool(self._doubts) or self._dispatcher.holds_back

    @property
    def _has_consumers(self) -> bool:
        return self._log.current is not None and bool(self._log.current.names)

    def choose_selector(self, changes: Sequence[Bracket]) -> bool:
        """Chooses the selector for the changes that come next; the first consumer of a dispatcher decides it.

        Returns:
            Whether rows have other hashes now.
        """
        first_join = next((change.row for change in changes if change.row.kind == "join"), None)
        return first_join is not None and not self._has_consumers and self._suit_selector(first_join)

    def update_assignment(
        self,
        changes: Sequence[Bracket],
        bounds: Sequence[Bounds],
        precedes: Precedence,
        behind: Behind,
        passages: Sequence[tuple[int, int]],
    ) -> Ordered:
        """Adds changes to the assignment, and returns them in a possible order; their points are located later."""
        entered = [self._change(bracket) for bracket in changes]
        self._one_sided.note_changes(changes, bounds)
        resolved = self._log.resolve(entered, precedes, self._config.orders.assignments_max, behind, passages)
        self._perhaps_empty = len(changes) > 1 and may_be_empty(self._connected(), entered, precedes)
        because = self._doubt(entered, bounds, resolved)
        log = self._log
        for at, number in enumerate(resolved.order):
            # After the last change, contested ring points have the owners that later observations show.
            selector = resolved.worlds[0] if at == len(changes) - 1 else resolved.selectors[at + 1]
            open_now = Undecided(resolved.undecided[at + 1], because)
            begins = log.enter(entered[number], selector, open_now, changes[number].row.seq)
            if begins and log.current is not None:
                self._epochs.open(OpenedEpoch(log.current, log.promised or log.routing, log.routing))
            else:
                self._epochs.open(None)
        log.settle(resolved)
        return Ordered(resolved.order, [selector.routing() for selector in resolved.selectors[:-1]] + [log.routing])

    @staticmethod
    def _change(bracket: Bracket) -> Change:
        row = bracket.row
        # Only the rows of a join must contain the name and the declared ranges of a consumer.
        joined = row if bracket.join is None else bracket.join.row
        return Change(row.kind, row.consumer, joined.name, joined.ranges)

    def _doubt(self, changes: Sequence[Change], bounds: Sequence[Bounds], resolved: Resolved) -> str:
        """Notes the hashes whose owners are open, and between which rows: while the changes happen, and afterwards.

        Returns:
            Why they are open, as a clause.
        """
        doubts, going_on = self._doubts, self._doubts.going_on
        doubts.modulus = resolved.selectors[0].routing().modulus
        if not doubts and not any(resolved.undecided):
            return ""
        about = resolved.open or ([*range(len(changes))] if going_on is None else [])
        because = in_words(f"{changes[n].kind} {changes[n].name}".strip() for n in about)
        if not about and going_on is not None:
            because = going_on.because
        # Hashes that were open before stay open until the last of the changes has certainly happened.
        doubts.end(max(end for _, end in bounds))
        in_order = [bounds[number] for number in resolved.order]
        for ranges, (began, _), (_, over) in zip(resolved.undecided[1:-1], in_order, in_order[1:], strict=False):
            doubts.add(UndecidedRange(began, over, ranges, because))
        if resolved.open:
            at_stake = union(both for ranges in resolved.undecided for both in ranges)
            began, over = min(bounds[n][0] for n in resolved.open), max(bounds[n][1] for n in resolved.open)
            doubts.add(UndecidedRange(began, over, at_stake, because))
        doubts.add(UndecidedRange(in_order[-1][0], None, resolved.undecided[-1], because))
        return because

    def commit_change(self, change: Bracket, at: TracePoint) -> None:
        """Applies a change; the broker too changes the assignment first (contract 3.5, 3.6)."""
        row, dispatcher = change.row, self._dispatcher
        if self._perhaps_empty:
            dispatcher.note_counts_lost()
        if row.kind == "join":
            self._stays[row.consumer].joined = at
            dispatcher.connect(row.consumer, at)
        elif row.kind == "leave":
            self._leave(row.consumer, at, row.reason)
            self._stays[row.consumer].perhaps_last = self._perhaps_empty
        else:
            dispatcher.restart(at)
            for number in self._connected():
                self._leave(number, at, row.reason)
            self._cold_start.restart()
            self._note_known(at)
        opened = self._epochs.begin(at)
        if opened is not None:
            dispatcher.route(opened.promised, at, opened.served)

    def _connected(self) -> set[int]:
        return {number for number, stay in self._stays.items() if stay.joined is not None and stay.left is None}

    def _note_known(self, at: TracePoint) -> None:
        if self._cold_start.known and self._epochs.known_since is None:
            self._epochs.known_since = at.seq

    def _leave(self, number: int, at: TracePoint, reason: str) -> None:
        stay = self._stays[number]
        if stay.left is None:
            stay.left, stay.leave_reason = at, reason
            stay.short_until_us = self._dispatcher.short_until_us(number, at)
            self._dispatcher.disconnect(number, at)

    def _suit_selector(self, row: MembershipEvent) -> bool:
        """Sets the selector and the policy that the first consumer of a dispatcher decides (contract 2, E16).

        Returns:
            Whether it is another kind of selector.
        """
        kind = self._config.selector(row.sticky)
        dispatcher = self._dispatcher
        draining = self._config.profile.dispatcher == "draining"
        dispatcher.open(
            keeps_order=not row.out_of_order,
            sticky=row.sticky,
            drains=draining and not row.sticky and not row.out_of_order,
            holds_back=not draining and not row.out_of_order,
        )
        if kind == self._kind:
            return False
        self._epochs.replace_selector(self._log)
        self._kind = kind
        self._log = AssignmentLog(kind, self._config.points, self._config.profile)
        dispatcher.rehash(self._sticky)
        return True

    def begin_leaving(self, row: MembershipEvent, at: TracePoint) -> None:
        """Notes that a consumer may be gone from here on."""
        self._dispatcher.begin_leaving(row.consumer)

    def begin_reset(self, row: MembershipEvent, at: TracePoint) -> None:
        """Notes that a reset may take effect from here on."""
        self._dispatcher.begin_reset(at)

    def end_reset(self, row: MembershipEvent, at: TracePoint) -> None:
        """Notes that the reset has taken effect."""
        self._dispatcher.end_reset(at)

    def begin_skip(self, row: MembershipEvent, at: TracePoint) -> None:
        """Notes that an administrator moves mark-delete at about this row."""
        self._dispatcher.begin_skip(at)

    def refuse(self, row: MembershipEvent) -> None:
        """Refuses a row that the consumers known so far make impossible."""
        if row.kind == "join":
            detail = f"consumer {row.consumer} has already joined"
            self._refused.append(Refused(row.seq, IMPOSSIBLE_TRANSITION, detail))
        elif self._cold_start.refuses_leave(row.seq >= self._joins_missing_from):
            detail = f"consumer {row.consumer} has no join before this row"
            self._refused.append(Refused(row.seq, UNKNOWN_CONSUMER, detail))

    def hashes(self, events: Events) -> Ints:
        """The sticky hash of each row, -1 where it has no key."""
        kind, settings = self._kind, self._config
        return hashes_of(events, settings.profile.hash[kind], settings.profile.hash[settings.selector(sticky=False)])

    def _sticky(self, murmur: Ints) -> Ints:
        return sticky_from_murmur(murmur, self._config.profile.hash[self._kind]).astype(np.int64)

    def replay(self, events: Events, hashes: Ints) -> None:
        """Replays rows under the routing in force; rows of consumers that never joined are refused, or censored."""
        acted = (events.consumer >= 0) & ~_MEMBERSHIP[events.code]
        consumers = self._dispatcher.consumers.indexes(events.consumer)
        strange = acted & (consumers == NOBODY)
        if strange.any():
            for at in np.flatnonzero(strange & (events.part == 0) & (events.seq < self._joins_missing_from)):
                detail = f"consumer {events.consumer[at]} has no join before this row"
                self._refused.append(Refused(int(events.seq[at]), UNKNOWN_CONSUMER, detail))
        self._recognise(events)
        self._one_sided.note_traffic(events)
        admitted = self._cold_start.admitted(events, strange)
        if not admitted.all():
            events, hashes, consumers = events.take(admitted), hashes[admitted], consumers[admitted]
        self._dispatch(events, hashes, consumers)
        if self._doubts:
            self._count_undecided(events, hashes)

    def _dispatch(self, events: Events, hashes: Ints, consumers: Ints) -> None:
        self._dispatcher.replay(events, hashes, consumers)

    def _count_undecided(self, events: Events, hashes: Ints) -> None:
        """Counts the dispatches of hashes whose owners are open, and learns the owners from them."""
        late = bool(self._recorded_late)
        sent = (_ENDS if late else _STARTS)[events.code]
        sent &= hashes >= 0
        self._undecided += int(np.count_nonzero(self._doubts.which(events.seq[sent], hashes[sent])))
        going_on = self._doubts.going_on
        if going_on is not None and self._log.undecided and events.seq.size and not self._epochs.waiting:
            seen = Evidence(events.seq[sent], hashes[sent], events.consumer[sent], late)
            self._learn(behind(None, lambda: seen, late), TracePoint(int(events.seq[-1]), int(events.ts_us[-1])))

    def _learn(self, behind: Behind, at: TracePoint) -> None:
        """Corrects or confirms the assignment in force by observations, while some of its owners are open."""
        log = self._log
        corrected = log.learn(behind)
        if log.current is None:
            return
        if corrected:
            # The assumed owners were wrong, so hashes that were judged by them stay in doubt.
            because = log.current.undecided.because
            self._doubts.end(at.seq)
            self._doubts.add(UndecidedRange(at.seq + 1, None, log.undecided, because))
            self._epochs.in_force = log.current
            self._dispatcher.route(log.promised or log.routing, at, log.routing)
        elif not log.undecided:
            self._doubts.withdraw()
            self._epochs.in_force = log.current

    def _recognise(self, events: Events) -> None:
        """Notes, at the first dispatch, whether the recorder writes decisions to dispatch or only their ends."""
        if self._recorded_late is None:
            starts = bool(_STARTS[events.code].any())
            # The decision may be missing in a gap.
            if starts or (bool(_ENDS[events.code].any()) and not self._cold_start.interrupted):
                self._recorded_late = not starts
                policy = self._dispatcher.policy
                late_us = 0 if starts else self._config.skew_us
                self._dispatcher.policy = policy._replace(unordered_us=late_us)

    def begin_gap(self, gap: Gap, at: TracePoint) -> None:
        """Ends what is open, and judges nothing that rows of the gap may explain."""
        cold_start, dispatcher = self._cold_start, self._dispatcher
        was_judged = cold_start.settled or cold_start.interrupted
        highest = dispatcher.highest_position
        dispatcher.interrupt(at)
        if not was_judged:
            dispatcher.monitor.disregard(at.seq)
            dispatcher.monitor.suspend()
        if gap.loses_members:
            # A snapshot or a reset shows the consumers again.
            self._before_gap += self._epochs.take(self._log)
            self._epochs.known_since = None
        cold_start.begin_gap(highest, gap.loses_members)
        self._unseen_rows.append(UnseenRows(at, gap.until_seq))
        self._gap_until = max(self._gap_until, gap.until_seq)

    def end_gap(self, gap: Gap, at: TracePoint) -> None:
        """Notes that all rows are there again, unless another gap goes on."""
        if gap.until_seq >= self._gap_until:
            self._cold_start.end_gap(gap.until_seq)

    def begin_snapshot(self, snapshot: Snapshot, at: TracePoint) -> None:
        """Notes that the broker took a snapshot here or later."""
        self._snapshots.begin(snapshot, self._dispatcher, self._epochs.ranges)

    def end_snapshot(self, snapshot: Snapshot, at: TracePoint) -> None:
        """Compares a snapshot, which the broker took here or earlier."""
        epochs = self._epochs
        unchanged = self._snapshots.began_with(snapshot) == epochs.ranges and not epochs.waiting
        reported = view_of(snapshot, at, at).reported() if self._log.undecided and unchanged else None
        if reported is not None:
            self._learn(Behind(reported, NO_DISPATCHES), at)
            self._snapshots.assume(snapshot, epochs.ranges)
        before, after = self._snapshots.end(snapshot, self._dispatcher, epochs.ranges)
        moments, interrupted = (before, after), self._cold_start.interrupted and not self._cold_start.settled
        agrees = not interrupted or self._snapshots.agrees(snapshot, moments, self._dispatcher, self._doubts)
        if before.ranges == after.ranges and self._cold_start.look(snapshot, self._connected(), after.ranges, agrees):
            if interrupted:
                self._dispatcher.monitor.resume(at.seq)
            else:
                self._dispatcher.monitor.disregard(at.seq)
            self._unseen_rows = [gap._replace(settled=at) if gap.settled is None else gap for gap in self._unseen_rows]
        self._note_known(at)
        if self._cold_start.settled:
            self._snapshots.compare(snapshot, moments, at, self._dispatcher, self._doubts, self._one_sided)

    def take_refused(self) -> list[Refused]:
        """The rows refused since the last call."""
        taken, self._refused = self._refused, []
        return taken
