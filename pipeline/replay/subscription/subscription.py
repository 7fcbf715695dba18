"""The replay of one subscription on one topic partition: membership, assignment and dispatcher together."""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from pipeline.assignment import AssignmentLog, Epoch, Routing, Undecided
from pipeline.assignment.join_orders import Precedence
from pipeline.assignment.possibly_empty import may_be_empty
from pipeline.assignment.ranges.hash_ranges import union
from pipeline.assignment.ranges.membership_change import Change
from pipeline.assignment.ranges.observed import NO_DISPATCHES, Behind
from pipeline.assignment.resolve import Resolved
from pipeline.assignment.shares import HashShares
from pipeline.contract.profile import SelectorKind
from pipeline.replay.blocking.monitor import BlockingMonitor
from pipeline.replay.dispatcher.dispatcher import Dispatcher
from pipeline.replay.packing.events import Code, Events
from pipeline.replay.packing.membership_rows import MembershipEvent, TracePoint
from pipeline.replay.packing.refused import IMPOSSIBLE_TRANSITION, UNKNOWN_CONSUMER, Refused
from pipeline.replay.packing.snapshot import Position, Snapshot, StatsRow, parsed_snapshot
from pipeline.replay.snapshots.blocked_attempts import BlockedAttempts
from pipeline.replay.snapshots.comparison import Comparison, Moment
from pipeline.replay.state.policy import Policy
from pipeline.replay.state.state import Ints
from pipeline.replay.subscription.cold_start import ColdStart
from pipeline.replay.subscription.completeness import Seen
from pipeline.replay.subscription.config import ReplayConfig
from pipeline.replay.subscription.result import Joined, PlacedEpoch, ReplayResult, Stay, Surplus
from pipeline.replay.subscription.watermark import ReportRange, Watermark, reported_since
from pipeline.replay.timeline.brackets import Bracket
from pipeline.replay.timeline.change_points import Bounds, Evidence, Ordered, behind
from pipeline.replay.timeline.one_sided_recording import OneSidedRecording
from pipeline.replay.timeline.reported_ranges import LatestRanges, view_of
from pipeline.replay.timeline.timeline import Timeline
from pipeline.replay.timeline.undecided_ranges import UndecidedRange, UndecidedRanges, in_words
from udfs.sticky_key_hash import sticky_from_murmur

_MEMBERSHIP = [Code.JOIN_START, Code.JOIN_END, Code.LEAVE_START, Code.LEAVE_END]
_BATCH_INDEX_ACKS = "acknowledgmentAtBatchIndexLevelEnabled"


class _Opened(NamedTuple):
    """An epoch that waits for its place, the mapping that it promises and the one that the broker serves by (2.4)."""

    epoch: Epoch
    promised: Routing
    served: Routing


class Subscription:
    """Replays one subscription: the `Stage` of its own timeline."""

    def __init__(self, config: ReplayConfig) -> None:
        self._config = config
        self._kind: SelectorKind = config.selector(sticky=False)
        self._log = AssignmentLog(self._kind, config.points, config.profile)
        self._epochs_before = 0
        self._began: list[TracePoint] = []
        self._changes: list[str] = []
        self._opened: deque[_Opened | None] = deque()
        self._perhaps_empty = False  # amid the changes that take effect
        self._unplaced: list[Epoch] = []
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
        self._cold_start = ColdStart(config.complete_from_start)
        self._known_since: int | None = 0 if config.complete_from_start else None
        self._in_snapshots: set[int] = set()
        self._in_force: Epoch | None = None
        self._shares = HashShares()
        self._shared_us = 0
        self._refusals = BlockedAttempts()
        self._joined_at: dict[int, Position] = {}
        self._surpluses: list[Surplus] = []
        self._looked: dict[int, Moment] = {}
        lazy = config.profile.draining_return == "lazy"
        self._latest = LatestRanges()
        self._comparison = Comparison(self._dispatcher.places, lazy)

    def feed(self, events: Events, rows: Sequence[MembershipEvent], snapshots: Sequence[StatsRow]) -> None:
        """Takes the next rows in the order of seq, and the details of the membership rows and snapshots among them."""
        if events.seq.size:
            self._last = TracePoint(int(events.seq[-1]), int(events.ts_us[-1]))
            self._watermark.add(events.seq, events.ts_us)
        self._timeline.push(events, rows, [self._latest.filled(parsed_snapshot(row)) for row in snapshots])

    def finish(self) -> ReplayResult:
        """The trace ends here: what was found in it and not told before."""
        self._timeline.finish()
        return self._found(reported_since(self._told))

    def so_far(self) -> ReplayResult:
        """A window ends here, and the trace goes on: what is settled by now, and what is open.

        This closes what is open: the replay goes on from what it was before, without what it has told (`forget`).
        """
        return self._found(reported_since(self._told, self._settled()))

    def forget(self) -> None:
        """Drops what `so_far` has told of this moment, but for what explains what is open."""
        self._told = told = self._settled()
        recent_us = told.ts_us - self._config.unsettled_us
        self._shares = HashShares()
        if self._in_force is not None:
            # It is shared out from here on.
            self._shared_us = self._last.ts_us
        self._dispatcher.forget(told.seq, recent_us)
        self._cold_start.censored = self._undecided = 0
        self._comparison.forget(told.seq)
        self._refusals.forget(recent_us, self._dispatcher.draining)
        newest = {surplus.consumer: surplus for surplus in self._surpluses if surplus.ts_us <= recent_us}
        self._surpluses = [s for s in self._surpluses if s.ts_us > recent_us or s is newest[s.consumer]]

    def _settled(self) -> TracePoint:
        return max(self._watermark.place(self._timeline.released_seq), self._told or TracePoint(-1, 0))

    def _found(self, report_range: ReportRange) -> ReplayResult:
        if self._in_force is not None:
            self._shares.add(self._in_force, self._last.ts_us - self._shared_us)
        dispatcher = self._dispatcher
        dispatcher.close(self._last, goes_on=not report_range.final)
        if not self._cold_start.settled:
            dispatcher.monitor.disregard(self._last.seq)
        findings, episodes = dispatcher.taken()
        unjoined = len(self._in_snapshots - dispatcher.places.keys())
        return ReplayResult(
            findings,
            dispatcher.beyond,
            episodes,
            self._stays,
            {number: dispatcher.counts(number) for number in dispatcher.numbers},
            dispatcher.checked,
            dispatcher.policy.keeps_order,
            dispatcher.numbers,
            [at.seq for at in self._began],
            self._changes,
            [Joined(dispatcher.read_before(n), self._joined_at.get(n)) for n in dispatcher.numbers],
            self._surpluses,
            self._comparison,
            self._refusals,
            dispatcher.monitor,
            dispatcher.traffic,
            dispatcher.peaks.all(),
            Seen(self._cold_start.censored, self._undecided, *dispatcher.unseen(), unjoined),
            self._doubts,
            self._shares.of_all(),
            report_range,
        )

    def take_epochs(self) -> list[PlacedEpoch]:
        """The epochs that ended since the last call, each with its places."""
        self._collect_epochs()
        placed: list[PlacedEpoch] = []
        while self._unplaced:
            epoch = self._unplaced[0]
            if epoch.number + 1 >= len(self._began):
                break  # the change that ends it waits for its place
            until = self._began[epoch.number + 1]
            if self._is_known(until):
                placed.append(PlacedEpoch(epoch, self._began[epoch.number], until))
            self._unplaced.pop(0)
        return placed

    def open_epoch(self) -> list[PlacedEpoch]:
        """The epoch that goes on, behind all that `take_epochs` has handed out; none before the first join."""
        if self._log.current is None or self._unplaced or not self._is_known(None):
            return []
        epoch = self._numbered(self._log.current)
        if epoch.number >= len(self._began):
            return []  # the change that begins it waits for its place
        return [PlacedEpoch(epoch, self._began[epoch.number], None)]

    def _is_known(self, until: TracePoint | None) -> bool:
        """Whether an epoch that ended there was, or is, one of known consumers only."""
        return self._known_since is not None and (until is None or until.seq > self._known_since)

    def _collect_epochs(self) -> None:
        self._unplaced += map(self._numbered, self._log.take_closed())

    def _numbered(self, epoch: Epoch) -> Epoch:
        """With its number in the whole history: the log of another selector counts from 0 again."""
        return replace(epoch, number=epoch.number + self._epochs_before)

    def announce(self, row: MembershipEvent, at: TracePoint) -> None:
        """A consumer shows up; it may be sent to before its join is recorded as done."""
        self._stays[row.consumer] = Stay(row)
        self._dispatcher.announce(row.consumer)

    def prepare(self, changes: Sequence[Bracket]) -> None:
        """The changes come next; the first consumer of a dispatcher decides how it hashes keys."""
        first_join = next((change.row for change in changes if change.row.kind == "join"), None)
        if first_join is not None:
            self._suit_selector(first_join)

    def settle(
        self, changes: Sequence[Bracket], bounds: Sequence[Bounds], precedes: Precedence, behind: Behind
    ) -> Ordered:
        """Takes changes into the assignment, in an order that is possible; their places are still to be found."""
        entered = [self._change(bracket) for bracket in changes]
        self._one_sided.note_changes(changes, bounds)
        resolved = self._log.resolve(entered, precedes, self._config.orders.assignments_max, behind)
        self._perhaps_empty = len(changes) > 1 and may_be_empty(self._connected(), entered, precedes)
        because = self._doubt(entered, bounds, resolved)
        log = self._log
        for at, number in enumerate(resolved.order):
            # Behind the last one contested points are as what follows shows them.
            selector = resolved.worlds[0] if at == len(changes) - 1 else resolved.selectors[at + 1]
            open_now = Undecided(resolved.undecided[at + 1], because)
            begins = log.enter(entered[number], selector, open_now, changes[number].row.seq)
            if begins and log.current is not None:
                self._opened.append(_Opened(log.current, log.promised or log.routing, log.routing))
            else:
                self._opened.append(None)
        log.settle(resolved)
        return Ordered(resolved.order, [selector.routing() for selector in resolved.selectors[:-1]] + [log.routing])

    @staticmethod
    def _change(bracket: Bracket) -> Change:
        row = bracket.row
        # Only the rows of a join have to say what it is called, and which ranges it declares.
        joined = row if bracket.join is None else bracket.join.row
        return Change(row.kind, row.consumer, joined.name, joined.ranges)

    def _doubt(self, changes: Sequence[Change], bounds: Sequence[Bounds], resolved: Resolved) -> str:
        """Notes between which rows, and about which hashes, the owner is open while the changes happen, and behind.

        Returns:
            Why it is open, as a clause.
        """
        doubts, going_on = self._doubts, self._doubts.going_on
        doubts.modulus = resolved.selectors[0].routing().modulus
        about = resolved.open or ([*range(len(changes))] if going_on is None else [])
        because = in_words(f"{changes[n].kind} {changes[n].name}".strip() for n in about)
        if not about and going_on is not None:
            because = going_on.because
        # What was open before is open until the last of the changes has happened for certain.
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

    def enact(self, change: Bracket, at: TracePoint) -> None:
        """The change takes effect: in the broker too the mapping changes first (contract 3.5, 3.6)."""
        row, dispatcher = change.row, self._dispatcher
        if self._perhaps_empty:
            dispatcher.doubt_counts()
        if row.kind == "join":
            self._stays[row.consumer].joined = at
            dispatcher.connect(row.consumer, at)
        elif row.kind == "leave":
            self._leave(row.consumer, at, row.reason)
        else:
            dispatcher.restart(at)
            for number in self._connected():
                self._leave(number, at, row.reason)
            self._cold_start.restart()
            self._note_known(at)
        opened = self._opened.popleft()
        if opened is not None:
            if self._in_force is not None:
                self._shares.add(self._in_force, at.ts_us - self._shared_us)
            self._began.append(at)
            self._shared_us = at.ts_us
            self._changes.append(opened.epoch.change)
            self._in_force = opened.epoch
            dispatcher.route(opened.promised, at, opened.served)

    def _connected(self) -> set[int]:
        return {number for number, stay in self._stays.items() if stay.joined is not None and stay.left is None}

    def _note_known(self, at: TracePoint) -> None:
        if self._cold_start.known and self._known_since is None:
            self._known_since = at.seq

    def _leave(self, number: int, at: TracePoint, reason: str) -> None:
        stay = self._stays[number]
        if stay.left is None:
            stay.left, stay.leave_reason = at, reason
            self._dispatcher.depart(number, at)

    def _suit_selector(self, row: MembershipEvent) -> None:
        """The first consumer of a dispatcher decides its policy (contract 2, E16)."""
        if self._log.current is not None and self._log.current.names:
            return
        kind = self._config.selector(row.sticky)
        dispatcher = self._dispatcher
        draining = self._config.profile.dispatcher == "draining"
        dispatcher.begin(
            keeps_order=not row.out_of_order,
            sticky=row.sticky,
            drains=draining and not row.sticky and not row.out_of_order,
            holds_back=not draining and not row.out_of_order,
        )
        if kind == self._kind:
            return
        self._collect_epochs()
        self._epochs_before = len(self._began) + sum(r is not None for r in self._opened)
        self._kind = kind
        self._log = AssignmentLog(kind, self._config.points, self._config.profile)
        dispatcher.rekey(self._sticky)

    def begin_leaving(self, row: MembershipEvent, at: TracePoint) -> None:
        """From here on a consumer may be gone."""
        self._dispatcher.begin_leaving(row.consumer)

    def begin_reset(self, row: MembershipEvent, at: TracePoint) -> None:
        """From here on everything may start anew."""
        self._dispatcher.begin_reset(at)

    def end_reset(self, row: MembershipEvent, at: TracePoint) -> None:
        """Here it has."""
        self._dispatcher.end_reset(at)

    def doubt(self, row: MembershipEvent, at: TracePoint) -> None:
        """Mark-delete is moved by an administrator about here."""
        self._dispatcher.doubt(at)

    def refuse(self, row: MembershipEvent) -> None:
        """A row that the consumers known so far make impossible."""
        if row.kind == "join":
            self._refused.append(Refused(row.seq, IMPOSSIBLE_TRANSITION, f"consumer {row.consumer} is there already"))
        elif self._cold_start.refuses_leave():
            self._refused.append(Refused(row.seq, UNKNOWN_CONSUMER, f"consumer {row.consumer} never joined"))

    def hashes(self, events: Events) -> Ints:
        """The sticky hash of each row, -1 where it has no key."""
        keyed = events.murmur >= 0
        hashes = np.full(events.murmur.size, -1, dtype=np.int64)
        hashes[keyed] = self._sticky(events.murmur[keyed])
        return hashes

    def _sticky(self, murmur: Ints) -> Ints:
        return sticky_from_murmur(murmur, self._config.profile.hash[self._kind]).astype(np.int64)

    def replay(self, events: Events) -> None:
        """Rows under the mapping in force; those of consumers that never joined are refused, or censored."""
        acted = (events.consumer >= 0) & ~np.isin(events.code, _MEMBERSHIP)
        strange = acted & ~self._dispatcher.knows(events.consumer)
        if self._config.complete_from_start:
            for at in np.flatnonzero(strange & (events.part == 0)):
                detail = f"consumer {events.consumer[at]} never joined"
                self._refused.append(Refused(int(events.seq[at]), UNKNOWN_CONSUMER, detail))
        self._recognise(events)
        self._one_sided.note_traffic(events)
        admitted = self._cold_start.admitted(events, strange)
        if not admitted.all():
            events = events.take(admitted)
        hashes = self.hashes(events)
        self._dispatcher.replay(events, hashes)
        if self._doubts:
            self._count_undecided(events, hashes)

    def _count_undecided(self, events: Events, hashes: Ints) -> None:
        """Counts the dispatches to owners that are open, and takes what they show of them."""
        late = bool(self._recorded_late)
        sent = events.code == (Code.DISPATCH_END if late else Code.DISPATCH_START)
        sent &= hashes >= 0
        self._undecided += int(np.count_nonzero(self._doubts.which(events.seq[sent], hashes[sent])))
        going_on = self._doubts.going_on
        if going_on is not None and self._log.undecided and events.seq.size and not self._opened:
            seen = Evidence(events.seq[sent], hashes[sent], events.consumer[sent], late)
            self._learn(behind(None, lambda: seen, late), TracePoint(int(events.seq[-1]), int(events.ts_us[-1])))

    def _learn(self, behind: Behind, at: TracePoint) -> None:
        """Takes what is seen of the assignment in force, whose owners are open in part."""
        log = self._log
        corrected = log.learn(behind)
        if log.current is None:
            return
        if corrected:
            # What was assumed until here was wrong, and what was judged by it stays open.
            because = log.current.undecided.because
            self._doubts.end(at.seq)
            self._doubts.add(UndecidedRange(at.seq + 1, None, log.undecided, because))
            self._in_force = log.current
            self._dispatcher.route(log.promised or log.routing, at, log.routing)
        elif not log.undecided:
            self._doubts.withdraw()
            self._in_force = log.current

    def _recognise(self, events: Events) -> None:
        """Whether the recorder writes decisions to dispatch, or only what has reached a connection."""
        if self._recorded_late is None:
            starts = bool((events.code == Code.DISPATCH_START).any())
            if starts or bool((events.code == Code.DISPATCH_END).any()):
                self._recorded_late = not starts
                policy = self._dispatcher.policy
                late_us = 0 if starts else self._config.skew_us
                self._dispatcher.policy = policy._replace(unordered_us=late_us)

    def look(self, snapshot: Snapshot, at: TracePoint) -> None:
        """The broker took a snapshot not before here."""
        self._looked[snapshot.seq] = self._moment(snapshot)

    def compare(self, snapshot: Snapshot, at: TracePoint) -> None:
        """Nor after here."""
        view = view_of(snapshot, at, at)
        still = self._looked[snapshot.seq].ranges == self._ranges_in_force and not self._opened
        if self._log.undecided and still and view.reported is not None:
            self._learn(Behind(view.reported, NO_DISPATCHES), at)
            self._looked[snapshot.seq] = self._looked[snapshot.seq]._replace(ranges=self._ranges_in_force)
        before, after = self._looked.pop(snapshot.seq), self._moment(snapshot)
        self._in_snapshots |= {consumer.consumer for consumer in snapshot.consumers}
        if before.ranges == after.ranges and self._cold_start.look(snapshot, self._connected(), after.ranges):
            self._dispatcher.monitor.disregard(at.seq)
        self._note_known(at)
        if not self._cold_start.settled:
            return
        self._comparison.compare(
            snapshot, before, after, self._dispatcher.drains, self._doubts, self._one_sided.about(snapshot)
        )
        self._dispatcher.take_in(snapshot, at)
        self._refusals.note(snapshot, self._dispatcher.places)
        for consumer in snapshot.consumers:
            if consumer.joined_at is not None:
                self._joined_at.setdefault(consumer.consumer, consumer.joined_at)
            place = self._dispatcher.places.get(consumer.consumer)
            if place is not None and consumer.unacked is not None:
                held = before.rebuilt.unacked[place]
                if held == after.rebuilt.unacked[place] and held.least == held.most:
                    bracket = (snapshot.seq, snapshot.seq_begin, snapshot.seq_end)
                    self._surpluses.append(Surplus(*bracket, place, consumer.unacked - held.most, snapshot.ts_us))

    @property
    def _ranges_in_force(self) -> Mapping[int, frozenset[tuple[int, int]]]:
        return {} if self._in_force is None else self._in_force.ranges_of

    def _moment(self, snapshot: Snapshot) -> Moment:
        return Moment(self._dispatcher.reconstruct(snapshot), self._ranges_in_force)

    def take_refused(self) -> list[Refused]:
        """The rows refused since the last call."""
        taken, self._refused = self._refused, []
        return taken
