"""The ring of consistent hashing: occupied points and their owners; the callers decide collisions.

It consists of two sorted arrays. With 500 consumers of 100 points a join is one insertion into 50,000 numbers, and the
replay's routing is the same two arrays.
"""

import numpy as np
import numpy.typing as npt

from dispatch_audit.pipeline.assignment.ranges.range_columns import RangeColumns
from dispatch_audit.pipeline.assignment.ranges.routing import HASH_MAX, NOBODY, Routing
from dispatch_audit.udfs.sticky_key_hash import HashRange, Int64Array


class Ring:
    """Points in ascending order, each with one owner.

    A point owns the hashes after the point before it up to itself; the first point also owns the hashes after the last
    one (contract 2.1).
    """

    def __init__(self) -> None:
        self._points: Int64Array = np.empty(0, dtype=np.int64)
        self._owners: Int64Array = np.empty(0, dtype=np.int64)

    def copy(self) -> "Ring":
        """A copy that shares nothing that changes."""
        twin = Ring()
        twin._points, twin._owners = self._points, self._owners
        return twin

    def owners_at(self, points: Int64Array) -> Int64Array:
        """The owner of each of n points, `NOBODY` where the point is free."""
        if not len(self._points):
            return np.full(len(points), NOBODY, dtype=np.int64)
        at = np.minimum(np.searchsorted(self._points, points), len(self._points) - 1)
        return np.where(self._points[at] == points, self._owners[at], NOBODY)

    def occupy(self, points: Int64Array, consumer: int) -> None:
        """Gives distinct ascending points that are free to a consumer."""
        at = np.searchsorted(self._points, points) + np.arange(points.size)
        others = np.ones(self._points.size + points.size, dtype=np.bool_)
        others[at] = False
        all_points, owners = np.empty((2, others.size), dtype=np.int64)
        all_points[at], owners[at] = points, consumer
        all_points[others], owners[others] = self._points, self._owners
        self._points, self._owners = all_points, owners

    def hand_over(self, points: Int64Array, consumers: Int64Array | int) -> None:
        """Gives occupied points to other consumers."""
        owners = self._owners.copy()
        owners[np.searchsorted(self._points, points)] = consumers
        self._owners = owners

    def vacate(self, consumer: int) -> None:
        """Frees all points of a consumer."""
        self._keep(self._owners != consumer)

    def free(self, point: int) -> None:
        """Frees one point."""
        self._keep(self._points != point)

    def _keep(self, kept: npt.NDArray[np.bool_]) -> None:
        self._points, self._owners = self._points[kept], self._owners[kept]

    def reach(self, point: int) -> list[tuple[int, int]]:
        """The ranges, inclusive, that a point has or would have: from after the point below it up to it.

        The range of the lowest point begins at 0, and the hashes after the highest point belong to it too.
        """
        at = int(np.searchsorted(self._points, point))
        if at > 0:
            return [(int(self._points[at - 1]) + 1, point)]
        top = int(self._points[-1]) if len(self._points) else point
        return [(0, point), (max(top, point) + 1, HASH_MAX)]

    def holds(self, consumer: int) -> bool:
        """Whether a consumer owns a point."""
        return bool(np.any(self._owners == consumer))

    def owner_of(self, sticky_hash: int) -> int | None:
        """The owner of a hash, None on an empty ring."""
        if not len(self._points):
            return None
        at = int(np.searchsorted(self._points, sticky_hash))
        return int(self._owners[at if at < len(self._points) else 0])

    def routing(self) -> Routing:
        """The owner of every hash."""
        first = self._owners[0] if len(self._owners) else NOBODY
        return Routing(np.append(self._points, HASH_MAX), np.append(self._owners, first))

    def ranges(self, space: HashRange, *, fused: bool) -> RangeColumns:
        """The ranges between the points, ascending and covering `space`.

        Args:
            space: the hashes that the ranges cover.
            fused: whether neighbouring ranges of one consumer are merged. The range after the last point and the one
                before the first are never merged, although the same consumer owns both.
        """
        if not len(self._points):
            return RangeColumns.of(())
        starts = np.concatenate(([space.first], self._points + 1))
        ends = np.append(self._points, space.last)
        owners = np.append(self._owners, self._owners[0])
        if self._points[-1] >= space.last:
            starts, ends, owners = starts[:-1], ends[:-1], owners[:-1]
        if fused:
            border = owners[1:] != owners[:-1]
            opens, closes = np.append(True, border), np.append(border, True)
            starts, ends, owners = starts[opens], ends[closes], owners[opens]
        return RangeColumns(starts, ends, owners)
