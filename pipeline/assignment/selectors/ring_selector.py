"""The common part of both versions of consistent hashing: members with points on a ring, some of them contested.

Source: contract 2.1 and 2.2; Pulsar's `ConsistentHashingStickyKeyConsumerSelector`.
"""

from abc import abstractmethod
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from dispatch_audit.pipeline.assignment.ranges.membership_change import Change, DeclaredRanges
from dispatch_audit.pipeline.assignment.ranges.observed import Observed
from dispatch_audit.pipeline.assignment.ranges.reported_ranges import ReportedRanges
from dispatch_audit.pipeline.assignment.ranges.routing import NOBODY, Routing
from dispatch_audit.pipeline.assignment.selectors.contests import Contests
from dispatch_audit.pipeline.assignment.selectors.ring import Ring
from dispatch_audit.pipeline.assignment.selectors.ring_points import NameIndexes, ring_points
from dispatch_audit.pipeline.assignment.selectors.selector import OwnerOf, Selector
from dispatch_audit.pipeline.checkpointed import checkpointed
from dispatch_audit.udfs.sticky_key_hash import Int64Array


@checkpointed("ring_member")
@dataclass(frozen=True)
class Member:
    """A consumer's name, its index among namesakes and its ring points, ascending."""

    name: str
    index: int
    points: Int64Array


_S = TypeVar("_S", bound="RingSelector")


class RingSelector(Selector):
    """Consistent hashing; the subclasses decide the owners of contested points."""

    __slots__ = ("_contests", "_hash_rule", "_members", "_names", "_points", "_ring")

    def __init__(self, points: int, hash_rule: str, first_wins: bool) -> None:
        """Starts without consumers; see `ring_points` for the arguments, and `Contests` for `first_wins`."""
        super().__init__()
        self._points = points
        self._hash_rule = hash_rule
        self._ring = Ring()
        self._names = NameIndexes()
        self._members: dict[int, Member] = {}
        self._contests = Contests(first_wins)

    def copy(self: _S) -> _S:
        """A selector in the same state that later joins and leaves of this one do not change."""
        twin = super().copy()
        twin._ring, twin._names = self._ring.copy(), self._names.copy()
        twin._members, twin._contests = dict(self._members), self._contests.copy()
        return twin

    def select(self, sticky_hash: int) -> int | None:
        """The consumer on the lowest point not below the hash, or else on the lowest point of all."""
        return self._ring.owner_of(sticky_hash)

    def routing(self) -> Routing:
        """The owner of every hash."""
        return self._ring.routing()

    def commute(self, one: Change, other: Change) -> bool:
        """Whether their names differ; consumers of one name get indexes in the order of joins and leaves."""
        return one.name != other.name or one.kind == other.kind == "leave"

    def state(self) -> Hashable:
        """The index of each consumer among those of its name."""
        return tuple(sorted((consumer, member.index) for consumer, member in self._members.items()))

    def may_become(self, consumer: int, observed: Observed, leaves_to_come: bool) -> bool:
        """Whether its observed ranges end at the points of its index."""
        points = self._members[consumer].points
        if observed.reported is None:
            return not observed.sent.rule_out(consumer, points)
        return self._ends_at(points, consumer, observed.reported)

    def leave_open(self, pairs: Iterable[tuple[int, int]]) -> None:
        """Notes pairs of consumers whose order of joining is open."""
        self._contests.leave_open(pairs)

    def disputed(self) -> list[tuple[int, int]]:
        """The hash ranges, inclusive, that would have another owner if an open pair had joined in the other order."""
        return [reach for point in self._contests.disputed() for reach in self._ring.reach(point)]

    def learn(self, owner_of: OwnerOf) -> list[tuple[int, int]]:
        """Corrects the owners of disputed points by observations; see `Selector.learn`."""
        learned = []
        for point in list(self._contests.disputed()):
            claimants = self._contests.claims[point]
            (start, end), *_ = self._ring.reach(point)
            owner = owner_of(start, end)
            gone = [claimant for claimant in claimants if claimant not in self._members]
            if owner != NOBODY and owner not in claimants and len(gone) == 1:
                # On 3.x the point disappears with the consumer that joined last.
                owner = gone[0]
            if owner in claimants:
                learned += self._contests.win(point, owner)
        for earlier, later in learned:
            for point in self._contests.put_in_order(earlier, later):
                self._award(point)
        return learned

    def adopt(self, reported: ReportedRanges) -> bool:
        """Gives consumers the indexes, and contested points the owners, that the reported ranges show."""
        members = self._members_reported(reported)
        if members is None:
            return False
        claims: dict[int, list[int]] = {}
        for consumer, member in members.items():
            for point in member.points.tolist():
                claims.setdefault(point, []).append(consumer)
        owners = {point: reported.owner_of(point) for point in self._occupied(claims, reported)}
        if any(owner not in claims[point] for point, owner in owners.items()):
            return False
        self._members = members
        self._ring, self._contests = Ring(), Contests(self._contests.first_wins)
        for consumer in members:
            won = sorted(point for point, owner in owners.items() if owner == consumer)
            self._ring.occupy(np.array(won, dtype=np.int64), consumer)
        self._names.release_all()
        for consumer, member in members.items():
            self._adopted(consumer, member)
        self._contend(claims, owners)
        return True

    def _members_reported(self, reported: ReportedRanges) -> dict[int, Member] | None:
        """The connected consumers, each with the index that its ranges show; None: the ranges fit no index."""
        members: dict[int, Member] = {}
        taken: set[tuple[str, int]] = set()
        for consumer, member in self._members.items():
            for index in (member.index, *self._names.possible(member.name)):
                points = ring_points(member.name, index, self._points, self._hash_rule)
                members[consumer] = Member(member.name, index, points)
                if (member.name, index) not in taken and self._ends_at(points, consumer, reported):
                    taken.add((member.name, index))
                    break
            else:
                return None
        return members if reported.by_consumer.keys() <= members.keys() else None

    @staticmethod
    def _ends_at(points: Int64Array, consumer: int, reported: ReportedRanges) -> bool:
        ends = reported.ends_of(consumer)
        if not ends.size:
            return True
        # The range after the highest point ends at no point.
        ends = ends[ends != reported.ends[-1]]
        return bool(np.isin(ends, points).all())

    @abstractmethod
    def _occupied(self, claims: Mapping[int, list[int]], reported: ReportedRanges) -> Iterable[int]:
        """The points on the ring, out of those that members hash to."""

    @abstractmethod
    def _adopted(self, consumer: int, member: Member) -> None:
        """Notes the index of a member whose points are on the ring."""

    @abstractmethod
    def _contend(self, claims: Mapping[int, list[int]], owners: Mapping[int, int]) -> None:
        """Notes the order of claimants that the report leaves open."""

    @abstractmethod
    def _enter(self, consumer: int, member: Member) -> None:
        """Puts a newcomer's points on the ring."""

    @abstractmethod
    def _exit(self, consumer: int, member: Member) -> None:
        """Removes a leaver's points from the ring."""

    def _place(self, consumer: int, name: str, ranges: DeclaredRanges) -> None:
        index = self._names.take(name)
        member = Member(name, index, ring_points(name, index, self._points, self._hash_rule))
        self._members[consumer] = member
        self._enter(consumer, member)

    def _withdraw(self, consumer: int) -> None:
        self._exit(consumer, self._members[consumer])
        del self._members[consumer]
        self._contests.forget(consumer)

    def _award(self, point: int) -> None:
        """Gives a contested point to its owner by the present order."""
        owner = self._contests.owner(point)
        at = np.array([point], dtype=np.int64)
        if owner not in self._members:
            self._ring.free(point)
        elif self._ring.occupy(at, owner)[0] != NOBODY:
            self._ring.hand_over(at, owner)
