"""The owners of the hashes of one subscription: its selector, its epochs, and the hashes whose owners are open."""

from collections.abc import Mapping, Sequence

import numpy as np

from dispatch_audit.pipeline.assignment import AssignmentLog, Routing, Undecided
from dispatch_audit.pipeline.assignment.join_orders import Burst
from dispatch_audit.pipeline.assignment.ranges.hash_ranges import ALL_HASHES, union
from dispatch_audit.pipeline.assignment.ranges.membership_change import Change
from dispatch_audit.pipeline.assignment.ranges.observed import NO_DISPATCHES, Observed
from dispatch_audit.pipeline.assignment.ranges.reported_ranges import ReportedRanges
from dispatch_audit.pipeline.assignment.resolve import Resolved
from dispatch_audit.pipeline.checkpointed import checkpointed
from dispatch_audit.pipeline.contract.profile import SelectorKind
from dispatch_audit.pipeline.packing.events import Events
from dispatch_audit.pipeline.packing.hashes import hashes_of
from dispatch_audit.pipeline.packing.membership_rows import NEVER, TracePoint
from dispatch_audit.pipeline.packing.snapshot import Snapshot
from dispatch_audit.pipeline.replay.config import ReplayConfig
from dispatch_audit.pipeline.replay.membership import steps
from dispatch_audit.pipeline.replay.membership.history import EpochHistory, OpenedEpoch, PlacedEpoch
from dispatch_audit.pipeline.replay.state.records import Ints
from dispatch_audit.pipeline.replay.timeline.change_points import Bounds, Evidence, observations
from dispatch_audit.pipeline.replay.timeline.snapshot_views import view_of
from dispatch_audit.pipeline.replay.timeline.undecided_ranges import UndecidedRange, UndecidedRanges, in_words
from dispatch_audit.udfs.sticky_key_hash import sticky_from_murmur


@checkpointed("hash_owners")
class HashOwners:
    """The assignment of one subscription over time, as far as the trace shows it."""

    __slots__ = ("_before_gap", "_certain_us", "_config", "_kind", "_log", "doubts", "epochs", "undecided", "unknown")

    def __init__(self, config: ReplayConfig) -> None:
        # Which assignment was in force between which rows.
        self.epochs = EpochHistory(known_since=0 if config.complete_from_start else None)
        self.doubts = UndecidedRanges()  # the hashes whose owners are open, and between which rows
        self.undecided = 0  # the number of dispatches of such hashes
        self.unknown = False  # whether the selector is another one than the trace claims, so that every owner is open
        self._config = config
        self._kind: SelectorKind = config.selector(sticky=False)
        self._log = AssignmentLog(self._kind, config.points, config.profile)
        self._before_gap: list[PlacedEpoch] = []
        # The assignment in force decided every dispatch whose end is recorded later than this.
        self._certain_us = 0

    @property
    def has_consumers(self) -> bool:
        """Whether any consumer has entered the assignment and not left it."""
        return self._log.current is not None and bool(self._log.current.names)

    @property
    def routes_by_selector(self) -> bool:
        """Whether a selector shares out the hashes, and not what consumers declare."""
        return self._kind != "exclusive"

    def choose_selector(self, sticky: bool) -> bool:
        """Sets the selector that the first consumer of a dispatcher decides (contract 2, E16).

        Returns:
            Whether it is another kind of selector, so that rows have other hashes.
        """
        kind = self._config.selector(sticky)
        if kind == self._kind:
            return False
        self._kind = kind
        before = self.epochs.collect(self._log)
        self._log = AssignmentLog(kind, self._config.points, self._config.profile, before)
        return True

    def hashes(self, events: Events) -> Ints:
        """The sticky hash of each row, -1 where it has no key."""
        kind, settings = self._kind, self._config
        return hashes_of(events, settings.profile.hash[kind], settings.profile.hash[settings.selector(sticky=False)])

    def sticky(self, murmur: Ints) -> Ints:
        """The sticky hash of each murmur value, none of which is negative."""
        return sticky_from_murmur(murmur, self._config.profile.hash[self._kind]).astype(np.int64)

    def enter(self, burst: Burst, seqs: Sequence[int], bounds: Sequence[Bounds]) -> tuple[list[int], list[Routing]]:
        """Adds changes to the assignment; their points are located later.

        Of each change there is the seq of its row, and the seqs between which it took effect.

        Returns:
            The numbers of the changes in a possible order, and the routing before the first and after each.
        """
        log, changes = self._log, burst.changes
        resolved = log.resolve(burst, self._config.orders.assignments_max)
        because = self._doubt(changes, bounds, resolved)
        for at, number in enumerate(resolved.order):
            # After the last change, contested ring points have the owners that later observations show.
            selector = resolved.possible[0] if at == len(changes) - 1 else resolved.selectors[at + 1]
            open_now = Undecided(resolved.undecided[at + 1], because)
            begins = log.enter(changes[number], selector, open_now, seqs[number])
            self.epochs.open(self._present() if begins else None)
        log.settle(resolved)
        return resolved.order, [*(selector.routing() for selector in resolved.selectors[:-1]), log.routing]

    def begin(self, at: TracePoint, over_us: int) -> OpenedEpoch | None:
        """Begins the epoch of the next change, which took effect at a point, and certainly by the time `over_us`.

        Returns:
            The epoch; None: the change begins none.
        """
        self._certain_us = max(self._certain_us, over_us + self._config.skew_us)
        return self.epochs.begin(at)

    def _present(self) -> OpenedEpoch | None:
        log = self._log
        return None if log.current is None else OpenedEpoch(log.current, log.promised or log.routing, log.routing)

    def _doubt(self, changes: Sequence[Change], bounds: Sequence[Bounds], resolved: Resolved) -> str:
        """Notes the hashes whose owners are open, and between which rows: while the changes happen, and afterwards.

        Returns:
            Why they are open, as a clause.
        """
        doubts, going_on = self.doubts, self.doubts.going_on
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

    def disown(self, because: str, dispatches: int) -> None:
        """Leaves all owners open, also for the `dispatches` since the last report; `because` says why, as a clause."""
        self.unknown, self.undecided = True, dispatches
        self.doubts.add(UndecidedRange(0, NEVER, ALL_HASHES, because))

    def look(self, events: Events, hashes: Ints, recorded_late: bool) -> steps.EpochBegins | None:
        """Counts dispatches of hashes whose owners are open, and learns owners from rows under the assignment in force.

        Returns:
            The assignment in force if the rows correct it, otherwise None.
        """
        if not self.doubts or not events.seq.size:
            return None
        sent = Evidence.of(events, hashes, recorded_late)
        self.undecided += int(np.count_nonzero(self.doubts.which(sent.seq, sent.hashes)))
        if self.doubts.going_on is None or not self._may_learn:
            return None
        if recorded_late:
            certain = events.ts_us > self._certain_us
            sent = Evidence.of(events.take(certain), hashes[certain], recorded_late)
        at = TracePoint(int(events.seq[-1]), int(events.ts_us[-1]))
        return self._learn(observations(None, lambda: sent, recorded_late), at)

    def learn(self, snapshot: Snapshot, at: TracePoint) -> steps.EpochBegins | None:
        """Learns owners that are open from a snapshot that was taken under the assignment in force, before a point.

        Returns:
            The assignment in force if the snapshot corrects it, otherwise None.
        """
        reported = view_of(snapshot, at, at).reported() if self._may_learn else None
        return None if reported is None else self._learn(Observed(reported, NO_DISPATCHES), at)

    @property
    def _may_learn(self) -> bool:
        """Whether the present owner of any hash is open, and no change waits that would decide it."""
        return bool(self._log.undecided) and not self.epochs.waiting

    def _learn(self, observed: Observed, at: TracePoint) -> steps.EpochBegins | None:
        """Corrects or confirms the assignment in force by observations."""
        log = self._log
        corrected = log.learn(observed)
        if log.current is None:
            return None
        if corrected:
            # The assumed owners were wrong, so hashes that were judged by them stay in doubt.
            self.doubts.end(at.seq)
            self.doubts.add(UndecidedRange(at.seq + 1, None, log.undecided, log.current.undecided.because))
            self.epochs.in_force = log.current
            opened = self._present()
            return None if opened is None else steps.EpochBegins(opened, at, at.ts_us)
        if not log.undecided:
            self.doubts.withdraw()
            self.epochs.in_force = log.current
        return None

    def adopt(self, names: Mapping[int, str], reported: ReportedRanges, at: TracePoint) -> OpenedEpoch | None:
        """Puts the assignment in force that a snapshot shows at a point, where joins or leaves are missing.

        Returns:
            The epoch that begins; None: the selector cannot give these ranges to these consumers.
        """
        log = self._log
        if not log.adopt(names, reported, at.seq):
            return None
        self.doubts.modulus = log.routing.modulus
        self.doubts.end(at.seq)
        if log.current is not None:
            self.doubts.add(UndecidedRange(at.seq + 1, None, *log.current.undecided))
        self.epochs.open(self._present())
        return self.epochs.begin(at)

    def interrupt(self) -> None:
        """Notes that joins, leaves or resets are missing from here on, so that the consumers are not known any more."""
        self._before_gap += self.epochs.take(self._log)
        self.epochs.known_since = None

    def forget(self, now_us: int) -> None:
        """Drops what was reported, given the time of the last row."""
        self.epochs.forget_shares(now_us)
        self.undecided = 0

    def take_epochs(self) -> list[PlacedEpoch]:
        """The epochs that ended since the last call, each with the points of its beginning and end."""
        before, self._before_gap = self._before_gap, []
        return [*before, *self.epochs.take(self._log)]

    def open_epoch(self) -> list[PlacedEpoch]:
        """The open epoch, after all that `take_epochs` has returned; empty before the first join."""
        return self.epochs.current(self._log)
