"""Ring points that several consumers hash to, and which of those consumers came first.

With 30 consumers of 100 points about 70 points of the ring of 4.x have more than one consumer. Who joined first keeps
such a point on 4.x; who joined last has it on 3.x (contract 2.1, 2.2). Only there does the order of joins matter, so
an order that the trace leaves open leaves open these points and no others.
"""

from collections.abc import Iterable, Iterator

Pair = tuple[int, int]


class Contests:
    """The contested points of one ring, each with its claimants in the order of joining, as far as it is known.

    Attributes:
        claims: by point, the consumers that hash to it, the earliest first. On 3.x a consumer that left stays in the
            list while it may have been the last: then nobody has the point.
        first_wins: whether the earliest claimant owns a point (4.x), or the latest one (3.x).
    """

    def __init__(self, first_wins: bool) -> None:
        """Takes whether the earliest claimant owns a point (4.x) or the latest one (3.x)."""
        self.claims: dict[int, list[int]] = {}
        self.first_wins = first_wins
        self._unordered: dict[int, set[int]] = {}

    def copy(self) -> "Contests":
        """A copy that shares nothing that changes."""
        twin = Contests(self.first_wins)
        twin.claims = {point: list(claimants) for point, claimants in self.claims.items()}
        twin._unordered = {consumer: set(others) for consumer, others in self._unordered.items()}
        return twin

    def owner(self, point: int) -> int:
        """The claimant that owns a contested point in the order that is assumed."""
        return self.claims[point][0 if self.first_wins else -1]

    def unordered(self, one: int, other: int) -> bool:
        """Whether it is open which of two consumers joined first."""
        return other in self._unordered.get(one, ())

    def leave_open(self, pairs: Iterable[Pair]) -> None:
        """Notes pairs of consumers of which the trace does not say which joined first."""
        for one, other in pairs:
            self._unordered.setdefault(one, set()).add(other)
            self._unordered.setdefault(other, set()).add(one)

    def forget(self, gone: int) -> None:
        """Drops what was open about a consumer that left and claims nothing any more."""
        if any(gone in claimants for claimants in self.claims.values()):
            return
        for other in self._unordered.pop(gone, ()):
            self._unordered[other].discard(gone)

    def disputed(self) -> Iterator[int]:
        """The points that would have another owner if an open pair had joined the other way round."""
        for point, claimants in self.claims.items():
            open_pairs = self._unordered.get(self.owner(point))
            if open_pairs and not open_pairs.isdisjoint(claimants):
                yield point

    def win(self, point: int, owner: int) -> list[Pair]:
        """Orders the claimants of a point so that `owner` has it; returns what that says of open pairs.

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
        """Puts one consumer before another wherever both claim a point; returns the points that changed."""
        changed = []
        for point, claimants in self.claims.items():
            if earlier in claimants and later in claimants:
                at, behind = claimants.index(earlier), claimants.index(later)
                if at > behind:
                    claimants.insert(behind, claimants.pop(at))
                    changed.append(point)
        return changed
