"""The common interface of selectors: consumers join and leave, and hashes are routed to them.

A selector is the pure part of Pulsar's `StickyKeyConsumerSelector`. Its assignment depends only on the joins and leaves
so far and on the profile.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable
from contextlib import suppress
from copy import copy
from typing import TypeVar

from dispatch_audit.pipeline.assignment.ranges.membership_change import Change, DeclaredRanges
from dispatch_audit.pipeline.assignment.ranges.observed import Observed
from dispatch_audit.pipeline.assignment.ranges.reported_ranges import ReportedRanges
from dispatch_audit.pipeline.assignment.ranges.routing import Routing
from dispatch_audit.pipeline.errors import AssignmentError

OwnerOf = Callable[[int, int], int]
"""The consumer that owns the hashes between two bounds, inclusive; `NOBODY`: not known."""

_S = TypeVar("_S", bound="Selector")
_Slots = TypeVar("_Slots", bound="SlotSelector")


class Selector(ABC):
    """Routes sticky hashes to the consumers of one subscription.

    A consumer is the trace's number of one consumer object: a client that reconnects under its old name is another
    consumer.
    """

    __slots__ = ("_consumers",)

    def __init__(self) -> None:
        self._consumers: set[int] = set()

    def __contains__(self, consumer: int) -> bool:
        return consumer in self._consumers

    def __len__(self) -> int:
        return len(self._consumers)

    @property
    def consumers(self) -> frozenset[int]:
        """The consumers that have joined and not left."""
        return frozenset(self._consumers)

    def add(self, consumer: int, name: str, ranges: DeclaredRanges | None = None) -> None:
        """Adds a consumer.

        Args:
            consumer: its number, not negative.
            name: the name that the client gave, which decides the points in consistent hashing.
            ranges: the ranges that a STICKY consumer declares; other selectors ignore them.

        Raises:
            AssignmentError: the broker's selector would refuse the consumer, its number is negative, or it has already
                joined (the broker never adds one object twice). The selector is unchanged.
        """
        if consumer < 0:
            raise AssignmentError(f"consumer {consumer} ({name}) has a negative number")
        if consumer in self._consumers:
            raise AssignmentError(f"consumer {consumer} ({name}) joined twice without leaving")
        self._place(consumer, name, ranges or ())
        self._consumers.add(consumer)

    def remove(self, consumer: int) -> bool:
        """Removes a consumer; an unknown one changes nothing, as in the broker.

        Returns:
            Whether it had joined.
        """
        if consumer not in self._consumers:
            return False
        self._consumers.remove(consumer)
        self._withdraw(consumer)
        return True

    @abstractmethod
    def ranges(self) -> ReportedRanges:
        """The ranges as the broker reports them."""

    def agrees(self, reported: ReportedRanges) -> bool:
        """Whether a broker's report shows this assignment."""
        return self.ranges() == reported

    @abstractmethod
    def select(self, sticky_hash: int) -> int | None:
        """The consumer that gets `sticky_hash`, None if nobody does."""

    @abstractmethod
    def routing(self) -> Routing:
        """The owner of every hash, as `select` returns it; later joins and leaves do not change the result."""

    def promised(self) -> Routing | None:
        """The routing that the contract requires, if a flaw makes `routing` another one; None: `routing` is right."""
        return None

    def copy(self: _S) -> _S:
        """A selector in the same state that later joins and leaves of this one do not change."""
        twin = copy(self)
        twin._consumers = set(self._consumers)
        return twin

    @abstractmethod
    def emptied(self) -> "Selector":
        """A selector of the same settings that no consumer has joined yet, as a reset makes one."""

    def commute(self, one: Change, other: Change) -> bool:
        """Whether two joins or leaves give the same structure in either order.

        They do unless both declare a common hash: then one can join only after the other has left. Contested ring
        points are not part of the structure: `leave_open` notes which joins contend for them.
        """
        return one.kind == other.kind == "leave" or not one.touches(other)

    def state(self) -> Hashable:
        """A value that differs between selectors of the same consumers that differ by the order of their joins."""
        return None

    def may_become(self, consumer: int, observed: Observed, leaves_to_come: bool) -> bool:
        """Whether the position that a newcomer has just got agrees with later observations.

        Args:
            consumer: the newcomer.
            observed: the later observations, with more joins and leaves in between.
            leaves_to_come: whether any of these changes are leaves.
        """
        return True

    def leave_open(self, pairs: Iterable[tuple[int, int]]) -> None:
        """Notes pairs of consumers whose order of joining is open."""
        return

    def disputed(self) -> list[tuple[int, int]]:
        """The hash ranges, inclusive, that would have another owner if an open pair had joined in the other order."""
        return []

    def learn(self, owner_of: OwnerOf) -> list[tuple[int, int]]:
        """Corrects the owners of disputed ranges by observations.

        Args:
            owner_of: the consumer that owns the hashes between two bounds, inclusive; `NOBODY`: not known.

        Returns:
            (earlier, later) for each pair of consumers whose order follows.
        """
        return []

    def adopt(self, reported: ReportedRanges) -> bool:
        """Takes the state that the broker reports for the connected consumers, if it is a possible state.

        Returns:
            Whether it is now in that state; otherwise it is unchanged.
        """
        return False

    @abstractmethod
    def _place(self, consumer: int, name: str, ranges: DeclaredRanges) -> None:
        """Gives hashes to a newcomer, or raises `AssignmentError` without a change."""

    @abstractmethod
    def _withdraw(self, consumer: int) -> None:
        """Removes the hashes of a consumer that `_place` accepted."""


class SlotSelector(Selector):
    """Routes slots: in 3.x a hash has to be reduced to one before the look-up."""

    __slots__ = ("_modulus",)

    def __init__(self, modulus: int = 0) -> None:
        """Starts without consumers.

        Args:
            modulus: the number by which a hash is reduced before the look-up (3.x); 0 if it is a slot already.
        """
        super().__init__()
        self._modulus = modulus

    def emptied(self: _Slots) -> _Slots:
        """A selector of the same settings without consumers."""
        return type(self)(self._modulus)

    def _slot(self, sticky_hash: int) -> int:
        return sticky_hash % self._modulus if self._modulus else sticky_hash


def with_change(selector: Selector, change: Change) -> Selector:
    """Applies a membership change to `selector` and returns it; a reset returns an empty one instead."""
    if change.kind == "reset":
        return selector.emptied()
    if change.kind == "leave":
        selector.remove(change.consumer)
    else:
        # A join that the selector refuses is no change. If the broker did not refuse it, ownership findings show it.
        with suppress(AssignmentError):
            selector.add(change.consumer, change.name, change.ranges or None)
    return selector
