"""The ring of consistent hashing: occupied points and their owners; the callers decide collisions.

It consists of two sorted arrays. With 500 consumers of 100 points a join is one insertion into 50,000 numbers, and the
replay's routing is the same two arrays.
"""

from functools import cached_property

import numpy as np

from dispatch_audit.pipeline.assignment.ranges.reported_ranges import ReportedRanges
from dispatch_audit.pipeline.assignment.ranges.routing import HASH_MAX, NOBODY, Routing
from dispatch_audit.pipeline.assignment.selectors.ring_walks import fused_ranges, with_points, without_owner
from dispatch_audit.pipeline.checkpointed import checkpointed
from dispatch_audit.udfs.sticky_key_hash import HashRange, Int64Array


@checkpointed("ring")
class Ring:
    """Points in ascending order, each with one owner.

    A point owns the hashes after the point before it up to itself; the first point also owns the hashes after the last
    one (contract 2.1).
    """

    __slots__ = ("__dict__", "_owners", "_points")

    def __init__(self) -> None:
        self._points: Int64Array = np.empty(0, dtype=np.int64)
        self._owners: Int64Array = np.empty(0, dtype=np.int64)

    def copy(self) -> "Ring":
        """A copy that shares nothing that changes."""
        twin = Ring()
        twin._points, twin._owners = self._points, self._owners
        return twin

    def occupy(self, points: Int64Array, consumer: int) -> Int64Array:
        """Gives those of n distinct ascending points to a consumer that are free.

        Returns:
            The owner that each of the n points had before, `NOBODY` where it was free.
        """
        all_points, owners = np.empty((2, self._points.size + points.size), dtype=np.int64)
        incumbents = np.empty(points.size, dtype=np.int64)
        size = with_points(self._points, self._owners, points, consumer, all_points, owners, incumbents)
        self._set(all_points[:size], owners[:size])
        return incumbents

    def hand_over(self, points: Int64Array, consumers: Int64Array | int) -> None:
        """Gives occupied points to other consumers."""
        owners = self._owners.copy()
        owners[np.searchsorted(self._points, points)] = consumers
        self._set(self._points, owners)

    def vacate(self, consumer: int) -> None:
        """Frees all points of a consumer."""
        kept_points, kept_owners = np.empty((2, self._points.size), dtype=np.int64)
        kept = without_owner(self._points, self._owners, consumer, kept_points, kept_owners)
        self._set(kept_points[:kept], kept_owners[:kept])

    def free(self, point: int) -> None:
        """Frees one point."""
        others = self._points != point
        self._set(self._points[others], self._owners[others])

    def _set(self, points: Int64Array, owners: Int64Array) -> None:
        self._points, self._owners = points, owners
        vars(self).pop("_routing", None)

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
        return self._routing

    @cached_property
    def _routing(self) -> Routing:
        uppers, owners = np.empty((2, self._points.size + 1), dtype=np.int64)
        uppers[:-1], owners[:-1] = self._points, self._owners
        uppers[-1], owners[-1] = HASH_MAX, self._owners[0] if self._owners.size else NOBODY
        return Routing(uppers, owners)

    def ranges(self, space: HashRange, *, fused: bool) -> ReportedRanges:
        """The ranges between the points, ascending and covering `space`.

        Args:
            space: the hashes that the ranges cover.
            fused: whether neighbouring ranges of one consumer are merged. The range after the last point and the one
                before the first are never merged, although the same consumer owns both.
        """
        if not len(self._points):
            return ReportedRanges.of(())
        size = len(self._points) + (1 if self._points[-1] < space.last else 0)
        uppers, owners = self._routing.uppers[:size], self._routing.owners[:size]
        starts, ends, of = np.empty((3, size), dtype=np.int64)
        if fused:
            size = fused_ranges(uppers, owners, space.first, space.last, starts, ends, of)
            return ReportedRanges(starts[:size], ends[:size], of[:size])
        starts[0], starts[1:] = space.first, uppers[:-1] + 1
        return ReportedRanges(starts, np.minimum(uppers, space.last), owners)
