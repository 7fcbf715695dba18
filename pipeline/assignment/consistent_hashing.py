"""Consistent hashing of 4.x: who stands on a ring point first keeps it, later comers queue behind him.

Source: SEMANTICS 2.1; Pulsar's `ConsistentHashingStickyKeyConsumerSelector` of 4.0.0 to 5.0.1.
"""

from dataclasses import dataclass

import numpy as np

from pipeline.assignment.ring import Ring
from pipeline.assignment.ring_points import NameIndexes, ring_points
from pipeline.assignment.routing import NOBODY, HashRangeOf, Routing
from pipeline.assignment.selector import DeclaredRanges, Selector
from udfs.sticky_key_hash import Int64Array, hash_range


@dataclass(frozen=True)
class _Member:
    name: str
    index: int
    points: Int64Array


class ConsistentHashing(Selector):
    """The ring of the draining dispatcher, and with the hash rule `classic` that of the classic one.

    Because the incumbent keeps a contested point, a join takes hashes for the newcomer only and a leave gives
    hashes of the leaver only: third parties never exchange any. A newcomer that finds all its points occupied
    is connected without a range.
    """

    def __init__(self, points: int, hash_rule: str) -> None:
        super().__init__()
        self._points = points
        self._hash_rule = hash_rule
        self._ring = Ring()
        self._names = NameIndexes()
        self._members: dict[int, _Member] = {}
        # Who waits for an occupied point, in the order of joining; only contested points are in here.
        self._waiting: dict[int, list[int]] = {}

    def ranges(self) -> list[HashRangeOf]:
        """The ranges as the broker reports them: ascending, neighbours of one consumer fused."""
        return self._ring.ranges(hash_range(self._hash_rule), fused=True)

    def select(self, sticky_hash: int) -> int | None:
        """The consumer on the lowest point not below the hash, or else on the lowest point of all."""
        return self._ring.owner_of(sticky_hash)

    def routing(self) -> Routing:
        """The owner of every hash."""
        return self._ring.routing()

    def _place(self, consumer: int, name: str, ranges: DeclaredRanges) -> None:
        index = self._names.take(name)
        # The broker also queues a consumer behind itself where two of its own points meet. That never shows:
        # when it leaves, all its places in the queue go with it.
        points = ring_points(name, index, self._points, self._hash_rule)
        free = self._ring.owners_at(points) == NOBODY
        self._ring.occupy(points[free], consumer)
        for point in points[~free].tolist():
            self._waiting.setdefault(point, []).append(consumer)
        self._members[consumer] = _Member(name, index, points)

    def _withdraw(self, consumer: int) -> None:
        member = self._members.pop(consumer)
        self._names.release(member.name, member.index)
        heirs: dict[int, int] = {}
        owned = self._ring.owners_at(member.points) == consumer
        for point, is_owned in zip(member.points.tolist(), owned.tolist(), strict=True):
            queue = self._waiting.get(point)
            if queue is None:
                continue
            if is_owned:
                heirs[point] = queue.pop(0)
            else:
                queue.remove(consumer)
            if not queue:
                del self._waiting[point]
        self._ring.hand_over(np.array([*heirs], dtype=np.int64), np.array([*heirs.values()], dtype=np.int64))
        self._ring.vacate(consumer)
