"""The history of a subscription: which assignment was in force between which rows, and who was connected for how long.

An epoch is opened when its change enters the assignment, and begins when the change takes effect; changes whose rows
overlap enter together, so several epochs may wait for their beginning.
"""

from collections import deque
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from dispatch_audit.pipeline.assignment import AssignmentLog, Epoch, Routing
from dispatch_audit.pipeline.assignment.ranges.reported_ranges import RangesByConsumer
from dispatch_audit.pipeline.assignment.shares import HashShares
from dispatch_audit.pipeline.checkpointed import checkpointed
from dispatch_audit.pipeline.packing.membership_rows import MembershipEvent, TracePoint
from dispatch_audit.pipeline.packing.snapshot import ConsumerSnapshot, Snapshot


@checkpointed("opened_epoch")
class OpenedEpoch(NamedTuple):
    """An epoch that has not begun, with the promised routing and the one that the broker serves by (contract 2.4)."""

    epoch: Epoch
    promised: Routing
    served: Routing


@checkpointed("placed_epoch")
class PlacedEpoch(NamedTuple):
    """An epoch and the points between which it lasted; `until` is None while it is open."""

    epoch: Epoch
    since: TracePoint
    until: TracePoint | None


@checkpointed("epoch_history")
@dataclass(eq=False, slots=True)
class EpochHistory:
    """The epochs so far, of every selector that the subscription has had."""

    known_since: int | None  # the seq from which on all consumers are known; None: they are not known yet
    began: list[TracePoint] = field(default_factory=list)  # the point at which each epoch began, by its number
    changes: list[str] = field(default_factory=list)  # the change that began each, in words
    in_force: Epoch | None = None  # the present epoch; None before the first
    shares: HashShares = field(default_factory=HashShares)  # the share of the hashes that each consumer owned
    _shared_us: int = 0
    _opened: deque[OpenedEpoch | None] = field(default_factory=deque)
    _closed: list[Epoch] = field(default_factory=list)

    @property
    def waiting(self) -> bool:
        """Whether a change has entered the assignment and not taken effect."""
        return bool(self._opened)

    @property
    def ranges(self) -> RangesByConsumer:
        """The ranges in force, by the trace's number of the consumer."""
        return {} if self.in_force is None else self.in_force.owned.by_consumer

    def open(self, epoch: OpenedEpoch | None) -> None:
        """Takes the epoch that the next change begins; None: that change begins none."""
        self._opened.append(epoch)

    def begin(self, at: TracePoint) -> OpenedEpoch | None:
        """Begins the epoch of the next change, which has taken effect; returns it, or None if it begins none."""
        opened = self._opened.popleft()
        if opened is not None:
            self.share(at.ts_us)
            self.began.append(at)
            self.changes.append(opened.epoch.change)
            self.in_force = opened.epoch
        return opened

    def share(self, until_us: int) -> None:
        """Adds the shares of the epoch in force from the last call up to a time."""
        if self.in_force is not None:
            self.shares.add(self.in_force, until_us - self._shared_us)
        self._shared_us = until_us

    def forget_shares(self, now_us: int) -> None:
        """Restarts the shares from now on."""
        self.shares = HashShares()
        self._shared_us = now_us

    def collect(self, log: AssignmentLog) -> int:
        """Takes the closed epochs of a log, and returns how many epochs there were."""
        self._closed += log.take_closed()
        return len(self.began) + sum(epoch is not None for epoch in self._opened)

    def take(self, log: AssignmentLog) -> list[PlacedEpoch]:
        """The epochs that ended since the last call, each with the points of its beginning and end."""
        self.collect(log)
        placed: list[PlacedEpoch] = []
        while self._closed:
            epoch = self._closed[0]
            if epoch.number + 1 >= len(self.began):
                break  # the change that ends it has not taken effect
            until = self.began[epoch.number + 1]
            if self._is_known(until):
                placed.append(PlacedEpoch(epoch, self.began[epoch.number], until))
            self._closed.pop(0)
        return placed

    def current(self, log: AssignmentLog) -> list[PlacedEpoch]:
        """The open epoch, after all that `take` has returned; empty before the first join."""
        if log.current is None or self._closed or not self._is_known(None):
            return []
        if log.current.number >= len(self.began):
            return []  # the change that begins it has not taken effect
        return [PlacedEpoch(log.current, self.began[log.current.number], None)]

    def _is_known(self, until: TracePoint | None) -> bool:
        """Whether all consumers were known in an epoch that ended at a point; None: it is open."""
        return self.known_since is not None and (until is None or until.seq > self.known_since)


@checkpointed("stay")
@dataclass
class Stay:
    """The time for which one consumer was connected."""

    row: MembershipEvent  # the first row of its join; where that is missing, its values in the snapshot that showed it
    # Where its join took effect; None: its row is missing, or it has not taken effect yet.
    joined: TracePoint | None = None
    left: TracePoint | None = None  # where its leave took effect
    leave_reason: str = ""  # the reason that its leave, or the reset that closed it, gives
    unseen: bool = False  # whether its join is missing, and `joined` is where a snapshot showed it

    def is_there(self, seq: int) -> bool:
        """Whether it is connected at a row; changes take effect after the row of their point."""
        return self.joined is not None and self.joined.seq < seq and (self.left is None or seq <= self.left.seq)


KINDS_MAX: Final = 1_000


@checkpointed("refused_joins")
@dataclass(eq=False, slots=True)
class RefusedJoins:
    """The joins that the broker refused: they have no consumer, change nothing here, and are facts about clients."""

    total: int = 0  # how many there were
    # Of each name and reason the last row, and how many there were; those beyond `KINDS_MAX` are left out.
    kinds: dict[tuple[str, str], tuple[MembershipEvent, int]] = field(default_factory=dict)

    def note(self, row: MembershipEvent) -> None:
        """Counts a join without a consumer number."""
        self.total += 1
        kind = (row.name, row.reason)
        if kind in self.kinds or len(self.kinds) < KINDS_MAX:
            _, before = self.kinds.get(kind, (row, 0))
            self.kinds[kind] = (row, before + 1)


def unseen_join(snapshot: Snapshot, consumer: ConsumerSnapshot) -> MembershipEvent:
    """The join of a consumer that a snapshot lists, as far as the snapshot shows it."""
    sticky = bool(snapshot.sticky)
    return MembershipEvent(
        seq=snapshot.seq,
        ts_us=snapshot.ts_us,
        kind="join",
        late=False,
        consumer=consumer.consumer,
        name=consumer.name or "",
        sticky=sticky,
        out_of_order=snapshot.keeps_order is False,
        ranges=tuple(sorted(consumer.ranges or ())) if sticky else (),
        reason="",
    )
