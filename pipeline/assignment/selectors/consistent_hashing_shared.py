"""Consistent hashing of 3.0.0 to 3.0.6, 3.1, 3.2, 3.3.0 and 3.3.1: consumers share the ring points that collide.

Source: contract 2.2, rings A and B; Pulsar's `ConsistentHashingStickyKeyConsumerSelector`, executed on 3.0.0, 3.0.2,
3.1.2 and 3.2.0 (A), on 3.2.2 and 3.2.3 (B).
"""

from collections.abc import Hashable
from functools import cached_property
from typing import TypeVar

import numpy as np

from dispatch_audit.pipeline.assignment.ranges.membership_change import Change, DeclaredRanges
from dispatch_audit.pipeline.assignment.ranges.reported_ranges import RangesOfOne, ReportedRanges, report_agrees
from dispatch_audit.pipeline.assignment.ranges.routing import (
    HASH_MAX,
    NOBODY,
    HashRangeOf,
    Routing,
    shared_routing,
)
from dispatch_audit.pipeline.assignment.selectors.ring_points import ring_points
from dispatch_audit.pipeline.assignment.selectors.selector import Selector
from dispatch_audit.pipeline.checkpointed import checkpointed
from dispatch_audit.pipeline.contract.profile import RingPointText

_S = TypeVar("_S", bound="ConsistentHashingShared")


@checkpointed("consistent_hashing_shared")
class ConsistentHashingShared(Selector):
    """The ring over all 31 bits, with a list of consumers at each point.

    The hashes of a point with several consumers are divided by the hash modulo their number. So if there are three or
    more, a join or leave moves hashes between the others. Consumers of one name share all their points, and in ring A
    also names of which one is the other with digits after it: x1 and x11.
    """

    __slots__ = ("__dict__", "_at", "_names", "_points", "_text")

    def __init__(self, points: int, text: RingPointText) -> None:
        """Starts without consumers; see `ring_points` for the arguments."""
        super().__init__()
        self._points = points
        self._text: RingPointText = text
        # In the order of joining.
        self._names: dict[int, str] = {}
        # By point, ordered by name; tuples, which copies share.
        self._at: dict[int, tuple[int, ...]] = {}

    def copy(self: _S) -> _S:
        """A selector in the same state that later joins and leaves of this one do not change."""
        twin = super().copy()
        twin._names, twin._at = dict(self._names), dict(self._at)
        return twin

    def emptied(self) -> "ConsistentHashingShared":
        """A ring of the same settings without consumers."""
        return ConsistentHashingShared(self._points, self._text)

    def ranges(self) -> ReportedRanges:
        """The ranges as the broker reports them: ascending, one for each point and each of its consumers.

        The hashes after the last point are in none of them.
        """
        ranges: list[HashRangeOf] = []
        start = 0
        for point in sorted(self._at):
            ranges += ((start, point, consumer) for consumer in self._at[point])
            start = point + 1
        return ReportedRanges.of(ranges)

    def agrees(self, reported: ReportedRanges) -> bool:
        """Whether a report contradicts no owner; see `report_agrees`."""
        own = self.ranges().by_consumer
        nothing: RangesOfOne = frozenset()
        return reported.by_consumer.keys() <= own.keys() and all(
            report_agrees(reported.by_consumer.get(consumer, nothing), consumer, own) for consumer in own
        )

    def select(self, sticky_hash: int) -> int | None:
        """The consumer that gets a hash, of those on the lowest point not below it, or else on the lowest of all."""
        owner = int(self.routing().owners_of([sticky_hash])[0])
        return None if owner == NOBODY else owner

    def routing(self) -> Routing:
        """The owner of every hash."""
        return self._routing

    @cached_property
    def _routing(self) -> Routing:
        points = sorted(self._at)
        owners = [self._at[point] for point in points]
        # The first point has the hashes after the last one too.
        return shared_routing(np.array([*points, HASH_MAX], dtype=np.int64), [*owners, *(owners[:1] or [(NOBODY,)])])

    def commute(self, one: Change, other: Change) -> bool:
        """Whether their names differ; consumers of one name share a point in the order in which they joined."""
        return one.name != other.name or one.kind == other.kind == "leave"

    def state(self) -> Hashable:
        """The consumers of each name, in the order in which they joined."""
        of_name: dict[str, tuple[int, ...]] = {}
        for consumer, name in self._names.items():
            of_name[name] = (*of_name.get(name, ()), consumer)
        return tuple(sorted(of_name.items()))

    def adopt(self, reported: ReportedRanges) -> bool:
        """Takes a report that agrees with the names of the connected consumers, if each has its own.

        A report does not show which consumer of one name joined first, and the names decide everything else.
        """
        return len(set(self._names.values())) == len(self._names) and self.agrees(reported)

    def _place(self, consumer: int, name: str, ranges: DeclaredRanges) -> None:
        self._names[consumer] = name
        for point in ring_points(name, 0, self._points, "raw", self._text).tolist():
            self._at[point] = self._ordered((*self._at.get(point, ()), consumer))
        vars(self).pop("_routing", None)

    def _withdraw(self, consumer: int) -> None:
        for point in ring_points(self._names.pop(consumer), 0, self._points, "raw", self._text).tolist():
            left = tuple(other for other in self._at[point] if other != consumer)
            if left:
                self._at[point] = left
            else:
                del self._at[point]
        vars(self).pop("_routing", None)

    def _ordered(self, consumers: tuple[int, ...]) -> tuple[int, ...]:
        """Consumers in the order of their names, in Java's order of texts: those of one name as they are."""
        if len(consumers) == 1:
            return consumers
        return tuple(sorted(consumers, key=lambda consumer: self._names[consumer].encode("utf-16-be", "surrogatepass")))
