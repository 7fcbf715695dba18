"""What all selectors have in common: consumers come and go, hashes are routed.

A selector is the pure part of Pulsar's `StickyKeyConsumerSelector`: joins and leaves in, hash ranges out. The
assignment in force is a function of the joins and leaves so far and of the profile, of nothing else.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable
from contextlib import suppress
from copy import copy
from typing import TypeVar

from dispatch_audit.pipeline.assignment.ranges.membership_change import Change, DeclaredRanges
from dispatch_audit.pipeline.assignment.ranges.observed import Behind
from dispatch_audit.pipeline.assignment.ranges.reported_ranges import ReportedRanges
from dispatch_audit.pipeline.assignment.ranges.routing import HashRangeOf, Routing
from dispatch_audit.pipeline.errors import AssignmentError

OwnerOf = Callable[[int, int], int]
"""The consumer that owns the hashes between two bounds, inclusive; `NOBODY`: not known."""

_S = TypeVar("_S", bound="Selector")


class Selector(ABC):
    """Routes sticky hashes to the consumers of one subscription.

    A consumer is the trace's number of one consumer object: a client that comes back under its old name is
    another consumer.
    """

    def __init__(self) -> None:
        self._consumers: set[int] = set()

    def __contains__(self, consumer: int) -> bool:
        return consumer in self._consumers

    def __len__(self) -> int:
        return len(self._consumers)

    def add(self, consumer: int, name: str, ranges: DeclaredRanges | None = None) -> None:
        """Lets a consumer in.

        Args:
            consumer: its number, not negative.
            name: as the client gave it; consistent hashing places the consumer by it.
            ranges: what a STICKY consumer asks for; the other selectors do not look at it.

        Raises:
            AssignmentError: the broker's selector would refuse it, its number is negative, or it is in
                already (the broker never adds one object twice). The selector is as it was.
        """
        if consumer < 0:
            raise AssignmentError(f"consumer {consumer} ({name}) has a negative number")
        if consumer in self._consumers:
            raise AssignmentError(f"consumer {consumer} ({name}) joined twice without leaving")
        self._place(consumer, name, ranges or ())
        self._consumers.add(consumer)

    def remove(self, consumer: int) -> bool:
        """Lets a consumer out; one that is not in changes nothing, as in the broker.

        Returns:
            Whether it was in.
        """
        if consumer not in self._consumers:
            return False
        self._consumers.remove(consumer)
        self._withdraw(consumer)
        return True

    @abstractmethod
    def ranges(self) -> list[HashRangeOf]:
        """The ranges as the broker reports them, ascending."""

    def reported(self) -> ReportedRanges:
        """The same, to be compared with what a broker reports."""
        return ReportedRanges(self.ranges())

    @abstractmethod
    def select(self, sticky_hash: int) -> int | None:
        """The consumer that gets `sticky_hash`, None if nobody does."""

    @abstractmethod
    def routing(self) -> Routing:
        """The same as `select`, for all hashes at once; later joins and leaves do not change it."""

    def promised(self) -> Routing | None:
        """What `routing` should be, where a flaw of the selector makes it something else; None: it is right."""
        return None

    def copy(self: _S) -> _S:
        """A selector in the same state that later joins and leaves of this one do not change."""
        twin = copy(self)
        twin._consumers = set(self._consumers)
        return twin

    def commute(self, one: Change, other: Change) -> bool:
        """Whether two joins or leaves give the same structure in either order.

        They do unless both ask for a hash: who comes waits until who has it is gone. Contested ring points are no part
        of that structure: which joins contend for them is noted by `leave_open`.
        """
        return one.kind == other.kind == "leave" or not one.touches(other)

    def state(self) -> Hashable:
        """What tells two selectors apart that had the same joins and leaves in another order."""
        return None

    def may_become(self, consumer: int, behind: Behind, leaves_to_come: bool) -> bool:
        """Whether the place that a newcomer has just got can be the one that it is seen at later on.

        Args:
            consumer: the newcomer.
            behind: what is seen later on, with more joins and leaves in between.
            leaves_to_come: whether any of them are leaves.
        """
        return True

    def leave_open(self, pairs: Iterable[tuple[int, int]]) -> None:
        """Notes pairs of consumers of which the trace does not say which joined first."""
        return

    def disputed(self) -> list[tuple[int, int]]:
        """The hash ranges, inclusive, that would have another owner if an open pair had joined the other way round."""
        return []

    def learn(self, owner_of: OwnerOf) -> list[tuple[int, int]]:
        """Corrects disputed ranges by what is known of their owners.

        Args:
            owner_of: the consumer that owns the hashes between two bounds, inclusive; `NOBODY`: not known.

        Returns:
            (earlier, later) for each pair of consumers whose order follows.
        """
        return []

    def adopt(self, reported: ReportedRanges) -> bool:
        """Takes the state that the broker reports for the consumers that are in, if it can be such a state.

        Returns:
            Whether it is now in that state; if not it is as it was.
        """
        return False

    @abstractmethod
    def _place(self, consumer: int, name: str, ranges: DeclaredRanges) -> None:
        """Gives hashes to a newcomer, or raises `AssignmentError` before anything has changed."""

    @abstractmethod
    def _withdraw(self, consumer: int) -> None:
        """Takes the hashes of a consumer that `_place` accepted."""


def with_change(selector: Selector, change: Change, fresh: Callable[[], Selector]) -> Selector:
    """Applies a membership change to `selector` and returns it; a reset returns a `fresh` one instead."""
    if change.kind == "reset":
        return fresh()
    if change.kind == "leave":
        selector.remove(change.consumer)
    else:
        # A join that the selector refuses is no change; that the broker did not refuse it shows in ownership.
        with suppress(AssignmentError):
            selector.add(change.consumer, change.name, change.ranges or None)
    return selector
