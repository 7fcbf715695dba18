"""Walks over the sorted points of a ring: one compiled pass each.

With numpy each takes half a dozen calls, which for the thousand points of ten consumers cost more than the walk.
"""

from pathlib import Path
from typing import Final

from dispatch_audit.pipeline.assignment.ranges.routing import NOBODY
from dispatch_audit.pipeline.compilation.compiler import Compiler
from dispatch_audit.udfs.sticky_key_hash import Int64Array

_compiled: Final = Compiler([Path(__file__)], repr(NOBODY))


@_compiled
def with_points(
    points: Int64Array,
    owners: Int64Array,
    more: Int64Array,
    consumer: int,
    all_points: Int64Array,
    all_owners: Int64Array,
    incumbents: Int64Array,
) -> int:
    """Fills in the points of a ring, n of them, and the free ones of a consumer's m points, in order.

    Args:
        points: (n) the points of the ring, ascending.
        owners: (n) their owners.
        more: (m) distinct points, ascending.
        consumer: gets those that are free.
        all_points: (n + m) gets all points.
        all_owners: (n + m) gets their owners.
        incumbents: (m) gets the owner that a point of `more` has on the ring, `NOBODY` where it is free.

    Returns:
        The number of all points.
    """
    i, size = 0, 0
    for j in range(more.size):
        while i < points.size and points[i] <= more[j]:
            all_points[size], all_owners[size] = points[i], owners[i]
            i, size = i + 1, size + 1
        if i > 0 and points[i - 1] == more[j]:
            incumbents[j] = owners[i - 1]
            continue
        incumbents[j] = NOBODY
        all_points[size], all_owners[size] = more[j], consumer
        size += 1
    for rest in range(i, points.size):
        all_points[size], all_owners[size] = points[rest], owners[rest]
        size += 1
    return size


@_compiled
def without_owner(
    points: Int64Array, owners: Int64Array, consumer: int, kept_points: Int64Array, kept_owners: Int64Array
) -> int:
    """Fills in the points of all owners but one, and returns their number."""
    kept = 0
    for at in range(points.size):
        if owners[at] != consumer:
            kept_points[kept], kept_owners[kept] = points[at], owners[at]
            kept += 1
    return kept


@_compiled
def fused_ranges(
    uppers: Int64Array, owners: Int64Array, first: int, last: int, starts: Int64Array, ends: Int64Array, of: Int64Array
) -> int:
    """Merges neighbouring ranges of one owner, and returns the number of ranges that are left.

    Args:
        uppers: (n) the last hash of each range, ascending; each begins after the one before.
        owners: (n) the owner of each range.
        first: the first hash of the first range.
        last: no range ends after it.
        starts: (n) gets the first hash of each merged range.
        ends: (n) gets the last hash of each.
        of: (n) gets the owner of each.
    """
    ranges = 0
    for at in range(uppers.size):
        if at == 0 or owners[at] != owners[at - 1]:
            starts[ranges], of[ranges] = uppers[at - 1] + 1 if at > 0 else first, owners[at]
            ranges += 1
        ends[ranges - 1] = min(uppers[at], last)
    return ranges
