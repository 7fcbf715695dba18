"""From the membership changes of one subscription to its epochs.

An epoch is the time between two membership changes of one subscription on one topic partition; the assignment
does not change inside of it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from pipeline.assignment.factory import DEFAULT_POINTS, make_selector, slot_range
from pipeline.assignment.routing import HashRangeOf, Routing, hashes_moved
from pipeline.assignment.selector import DeclaredRanges
from pipeline.profile import Profile, SelectorKind


@dataclass(frozen=True)
class Epoch:
    """One epoch.

    Attributes:
        number: 0 for the first; it begins with the first join.
        from_seq: seq of the change that it begins with.
        to_seq: seq of the change that ends it, None while it is open.
        change: that first change in words: `join c3`, `leave c1` or `reset`.
        hashes_moved: how many hashes got another owner by it. Nobody counts as an owner, so the first join
            moves all hashes.
        ranges: the assignment as the broker reports it.
        names: name of each consumer in `ranges`.
    """

    number: int
    from_seq: int
    to_seq: int | None
    change: str
    hashes_moved: int
    ranges: tuple[HashRangeOf, ...]
    names: Mapping[int, str]

    @cached_property
    def ranges_of(self) -> Mapping[int, frozenset[tuple[int, int]]]:
        """The ranges by consumer."""
        by_consumer: dict[int, set[tuple[int, int]]] = {}
        for start, end, consumer in self.ranges:
            by_consumer.setdefault(consumer, set()).add((start, end))
        return {consumer: frozenset(ranges) for consumer, ranges in by_consumer.items()}


class AssignmentLog:
    """The epochs of one subscription, in the order of its membership changes.

    Closed epochs are kept until `take_closed` hands them out, so memory does not grow with the trace.

    Attributes:
        routing: the assignment in force, as the replay looks it up.
        promised: what it should be where the selector has a flaw, else None (`Selector.promised`).
        current: the open epoch, None before the first join.
    """

    def __init__(self, kind: SelectorKind, points: int = DEFAULT_POINTS, profile: Profile | str | None = None) -> None:
        """Starts without consumers; arguments and errors are those of `make_selector`."""
        self._settings = (kind, points, profile)
        self._space = slot_range(kind, profile)
        self._selector = make_selector(kind, points, profile)
        self._names: dict[int, str] = {}
        self._closed: list[Epoch] = []
        self.routing: Routing = self._selector.routing()
        self.promised: Routing | None = None
        self.current: Epoch | None = None

    def join(self, consumer: int, name: str, ranges: DeclaredRanges | None, seq: int) -> None:
        """Starts the epoch in which `consumer` is in.

        Args:
            consumer: its number in the trace.
            name: as the client gave it.
            ranges: what a STICKY consumer declares, else None.
            seq: when it took effect.

        Raises:
            AssignmentError: the selector refuses it. That is no membership change: the epoch goes on.
        """
        self._selector.add(consumer, name, ranges)
        self._names[consumer] = name
        self._begin(f"join {name}", seq)

    def leave(self, consumer: int, seq: int) -> bool:
        """Starts the epoch in which `consumer` is gone.

        Returns:
            Whether it was in; if not, the epoch goes on.
        """
        if not self._selector.remove(consumer):
            return False
        self._begin(f"leave {self._names.pop(consumer)}", seq)
        return True

    def reset(self, seq: int) -> bool:
        """Starts an epoch without consumers and with a new dispatcher, which remembers no name index.

        Returns:
            Whether anybody was in; if not, the epoch goes on.
        """
        if not self._names:
            return False
        self._names.clear()
        self._selector = make_selector(*self._settings)
        self._begin("reset", seq)
        return True

    def take_closed(self) -> list[Epoch]:
        """The epochs that ended since the last call, in order."""
        taken, self._closed = self._closed, []
        return taken

    def _begin(self, change: str, seq: int) -> None:
        before, self.routing = self.routing, self._selector.routing()
        self.promised = self._selector.promised()
        number = 0
        if self.current is not None:
            self._closed.append(replace(self.current, to_seq=seq))
            number = self.current.number + 1
        self.current = Epoch(
            number=number,
            from_seq=seq,
            to_seq=None,
            change=change,
            hashes_moved=hashes_moved(before, self.routing, self._space),
            ranges=tuple(self._selector.ranges()),
            names=dict(self._names),
        )
