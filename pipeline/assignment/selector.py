"""What all selectors have in common: consumers come and go, hashes are routed.

A selector is the pure part of Pulsar's `StickyKeyConsumerSelector`: joins and leaves in, hash ranges out. The
assignment in force is a function of the joins and leaves so far and of the profile, of nothing else.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TypeAlias

from pipeline.assignment.routing import HashRangeOf, Routing
from pipeline.errors import AssignmentError

DeclaredRanges: TypeAlias = Sequence[tuple[int, int]]
"""(start, end) pairs that a STICKY consumer asks for, both ends inclusive."""


class Selector(ABC):
    """Routes sticky hashes to the consumers of one subscription.

    A consumer is the trace's number of one consumer object: a client that comes back under its old name is
    another consumer.
    """

    def __init__(self) -> None:
        self._consumers: set[int] = set()

    def __contains__(self, consumer: int) -> bool:
        return consumer in self._consumers

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

    @abstractmethod
    def select(self, sticky_hash: int) -> int | None:
        """The consumer that gets `sticky_hash`, None if nobody does."""

    @abstractmethod
    def routing(self) -> Routing:
        """The same as `select`, for all hashes at once; later joins and leaves do not change it."""

    def promised(self) -> Routing | None:
        """What `routing` should be, where a flaw of the selector makes it something else; None: it is right."""
        return None

    @abstractmethod
    def _place(self, consumer: int, name: str, ranges: DeclaredRanges) -> None:
        """Gives hashes to a newcomer, or raises `AssignmentError` before anything has changed."""

    @abstractmethod
    def _withdraw(self, consumer: int) -> None:
        """Takes the hashes of a consumer that `_place` accepted."""
