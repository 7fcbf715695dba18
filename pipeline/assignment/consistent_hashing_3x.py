"""Consistent hashing of 3.x: a newcomer takes the ring points that it shares with others.

Source: SEMANTICS 2.2, read from 3.0.7, 3.3.2 and 3.3.6. 3.0.0 and older number no namesakes and place points
by another text; they are not rebuilt here.
"""

import numpy as np

from pipeline.assignment.ring import Ring
from pipeline.assignment.ring_points import NameIndexes, ring_points
from pipeline.assignment.routing import NOBODY, HashRangeOf, Routing
from pipeline.assignment.selector import DeclaredRanges, Selector
from udfs.sticky_key_hash import HashRange

_HASH_RULE = "raw"
# A point may stand at 2^31-1, but the broker's report ends one below it.
_REPORTED = HashRange(0, 2**31 - 2, zero_means_unset=False)


class ConsistentHashing3x(Selector):
    """The ring of 3.x over all 31 bits.

    A point that its owner lost to a newcomer is not given back when the newcomer leaves: it is gone, and its
    hashes fall to whoever stands on the next point (issue #23315, a change for third parties).
    """

    def __init__(self, points: int) -> None:
        super().__init__()
        self._points = points
        self._ring = Ring()
        self._names = NameIndexes()
        # Name and index of those who have a point left: the broker forgets an index with the last point.
        self._indexed: dict[int, tuple[str, int]] = {}

    def ranges(self) -> list[HashRangeOf]:
        """The ranges as the broker reports them: ascending, one for each point."""
        return self._ring.ranges(_REPORTED, fused=False)

    def select(self, sticky_hash: int) -> int | None:
        """The consumer on the lowest point not below the hash, or else on the lowest point of all."""
        return self._ring.owner_of(sticky_hash)

    def routing(self) -> Routing:
        """The owner of every hash."""
        return self._ring.routing()

    def _place(self, consumer: int, name: str, ranges: DeclaredRanges) -> None:
        index = self._names.take(name)
        points = ring_points(name, index, self._points, _HASH_RULE)
        incumbents = self._ring.owners_at(points)
        free = incumbents == NOBODY
        self._ring.hand_over(points[~free], consumer)
        self._ring.occupy(points[free], consumer)
        self._indexed[consumer] = (name, index)
        for incumbent in np.unique(incumbents[~free]).tolist():
            if not self._ring.holds(incumbent):
                self._names.release(*self._indexed.pop(incumbent))

    def _withdraw(self, consumer: int) -> None:
        self._ring.vacate(consumer)
        if consumer in self._indexed:
            self._names.release(*self._indexed.pop(consumer))
