"""Hashes that could be served and were not, while their owners were sent later entries (V10, V11).

A broker that is stuck passes over every hash that it has, again and again: a limited number is kept, and what is beyond
it is counted by what its verdict rests on, so that it weighs what it would have weighed with its evidence.
"""

from collections import Counter
from typing import NamedTuple

from pipeline.replay.blocking.attribution import Interval
from pipeline.replay.packing.membership_rows import TracePoint
from pipeline.replay.state.state import NOBODY


class OwnershipMove(NamedTuple):
    """A hash changes hands; owners by their places."""

    at: TracePoint
    before: int
    after: int
    held: int


class StarvationKind(NamedTuple):
    """What the verdict on a hash that was passed over rests on.

    Attributes:
        drained: whether it drained from another consumer before.
        counted_again: whether its pending entries were counted as draining more than once there (contract 3.9).
    """

    drained: bool
    counted_again: bool


class StarvedHash(NamedTuple):
    """A hash that could be served and was not, while its owner was sent later entries.

    Attributes:
        hash: the sticky hash.
        owner: place of its owner.
        span: since when, until when.
        entries: how many waited at the end.
        head: position of the first of them.
        passed: position of a later entry that the owner was sent last, at `passed_ts`.
        drained_from: place of the consumer at which it drained before; NOBODY: it never did.
        registered: how often its pending entries were counted as draining there.
        moves: of the hash, while entries of it were held.
    """

    hash: int
    owner: int
    span: Interval
    entries: int
    head: tuple[int, int]
    passed: tuple[int, int]
    passed_ts: int
    drained_from: int
    registered: int
    moves: tuple[OwnershipMove, ...]

    @property
    def kind(self) -> StarvationKind:
        """What the verdict rests on."""
        return StarvationKind(self.drained_from != NOBODY, self.registered > 1)

    def goes_on(self, head: tuple[int, int], until_us: int) -> bool:
        """Whether it is what another one was that ended then: another owner has the hash, which has not helped."""
        return self.head == head and self.span.from_ts == until_us


class _Counted(NamedTuple):
    """The last time that a hash was counted only."""

    head: tuple[int, int]
    until_us: int
    kind: StarvationKind


class StarvedHashes:
    """What was passed over, up to a limit, in the order in which that was seen.

    Attributes:
        kept: with everything that is known of it.
        beyond: how many more there were, by kind.
    """

    def __init__(self, kept_max: int) -> None:
        """Keeps at most so many."""
        self.kept: list[StarvedHash] = []
        self.beyond: Counter[StarvationKind] = Counter()
        self._kept_max = kept_max
        self._kept_last: dict[int, int] = {}
        self._counted_last: dict[int, _Counted] = {}

    def add(self, found: StarvedHash) -> None:
        """Takes one more; what goes on under another owner of the hash stays one."""
        at = self._kept_last.get(found.hash)
        if at is not None and found.goes_on(self.kept[at].head, self.kept[at].span.to_ts):
            last = self.kept[at].span
            self.kept[at] = found._replace(span=found.span._replace(from_seq=last.from_seq, from_ts=last.from_ts))
        elif len(self.kept) < self._kept_max:
            self._kept_last[found.hash] = len(self.kept)
            self.kept.append(found)
        else:
            self._count(found)

    def _count(self, found: StarvedHash) -> None:
        last = self._counted_last.pop(found.hash, None)
        if last is not None and found.goes_on(last.head, last.until_us):
            self.beyond[last.kind] -= 1
        self.beyond[found.kind] += 1
        self._counted_last[found.hash] = _Counted(found.head, found.span.to_ts, found.kind)
        if len(self._counted_last) > self._kept_max:
            # The one that was seen longest ago; should it go on, it counts twice.
            del self._counted_last[next(iter(self._counted_last))]

    def clear(self) -> None:
        """Nothing was passed over, and nothing is counted."""
        self.kept.clear()
        self.beyond.clear()
        self._kept_last.clear()
        self._counted_last.clear()

    def forget(self, told_seq: int) -> None:
        """Drops what was over behind the row `told_seq`; none is counted any more."""
        staying = [number for number, found in enumerate(self.kept) if found.span.to_seq > told_seq]
        moved = {number: at for at, number in enumerate(staying)}
        self.kept = [self.kept[number] for number in staying]
        self._kept_last = {h: moved[number] for h, number in self._kept_last.items() if number in moved}
        self.beyond.clear()
        self._counted_last.clear()
