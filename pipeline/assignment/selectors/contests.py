"""Ring points that several consumers hash to, and which of those consumers joined first.

With 30 consumers of 100 points about 70 points of the ring of 4.x have more than one consumer. On 4.x the consumer that
joined first keeps such a point; on 3.x the one that joined last owns it (contract 2.1, 2.2). The order of joins matters
only for these points, so if the trace leaves the order open, only their owners are open.
"""

from collections.abc import Iterable, Iterator

from dispatch_audit.pipeline.checkpointed import checkpointed

Pair = tuple[int, int]


@checkpointed("contests")
class Contests:
    """The contested points of one ring, each with its claimants in the order of joining, as far as it is known.

    Attributes:
        claims: by point, the consumers that hash to it, the earliest first. On 3.x a consumer that left stays in the
            list while it may have been the last: then the point has no owner.
        first_wins: whether the earliest claimant owns a point (4.x), or the latest one (3.x).
    """

    __slots__ = ("_unordered", "claims", "first_wins")

    def __init__(self, first_wins: bool) -> None:
        """Takes whether the earliest claimant owns a point (4.x) or the latest one (3.x)."""
        self.claims: dict[int, tuple[int, ...]] = {}
        self.first_wins = first_wins
        self._unordered: dict[int, set[int]] = {}

    def copy(self) -> "Contests":
        """A copy that shares nothing that changes."""
        twin = Contests(self.first_wins)
        twin.claims = dict(self.claims)
        twin._unordered = {consumer: set(others) for consumer, others in self._unordered.items()}
        return twin

    def owner(self, point: int) -> int:
        """The claimant that owns a contested point in the assumed order."""
        return self.claims[point][0 if self.first_wins else -1]

    def unordered(self, consumer: int, other: int) -> bool:
        """Whether it is open which of two consumers joined first."""
        return other in self._unordered.get(consumer, ())

    def leave_open(self, pairs: Iterable[Pair]) -> None:
        """Notes pairs of consumers whose order of joining is open."""
        for consumer, other in pairs:
            self._unordered.setdefault(consumer, set()).add(other)
            self._unordered.setdefault(other, set()).add(consumer)

    def forget(self, gone: int) -> None:
        """Drops the open pairs of a consumer that left, if it no longer claims a point."""
        if any(gone in claimants for claimants in self.claims.values()):
            return
        for other in self._unordered.pop(gone, ()):
            self._unordered[other].discard(gone)

    def disputed(self) -> Iterator[int]:
        """The points that would have another owner if an open pair had joined in the other order."""
        # As a rule all orders are known, and a large ring has thousands of contested points.
        if not any(self._unordered.values()):
            return
        for point, claimants in self.claims.items():
            open_pairs = self._unordered.get(self.owner(point))
            if open_pairs and not open_pairs.isdisjoint(claimants):
                yield point

    def enter(self, point: int, incumbent: int, consumer: int) -> None:
        """Adds a consumer as the latest claimant of a point that an incumbent occupies."""
        self.claims[point] = (*self.claims.get(point, (incumbent,)), consumer)

    def withdraw(self, point: int, consumer: int) -> None:
        """Removes a claimant; a point with a single claimant left is not contested any more."""
        left = tuple(claimant for claimant in self.claims[point] if claimant != consumer)
        if len(left) > 1:
            self.claims[point] = left
        else:
            del self.claims[point]

    def win(self, point: int, owner: int) -> list[Pair]:
        """Orders the open pairs of claimants of a point so that `owner` owns it.

        Returns:
            (earlier, later) for each pair that was open.
        """
        learned = []
        for other in self.claims[point]:
            if other != owner and self.unordered(owner, other):
                self._unordered[owner].discard(other)
                self._unordered[other].discard(owner)
                learned.append((owner, other) if self.first_wins else (other, owner))
        return learned

    def put_in_order(self, earlier: int, later: int) -> list[int]:
        """Puts one consumer before another at every point that both claim; returns the points that changed."""
        changed = []
        for point, claimants in self.claims.items():
            if earlier in claimants and later in claimants:
                place, later_place = claimants.index(earlier), claimants.index(later)
                if place > later_place:
                    others = (*claimants[:place], *claimants[place + 1 :])
                    self.claims[point] = (*others[:later_place], earlier, *others[later_place:])
                    changed.append(point)
        return changed
