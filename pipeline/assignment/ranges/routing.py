"""An assignment as two arrays, for the replay's hot loop: the owner of each hash."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from dispatch_audit.pipeline.assignment.ranges.moved_hashes import moved_hashes
from dispatch_audit.udfs.sticky_key_hash import HashRange, Int64Array

HashRangeOf: TypeAlias = tuple[int, int, int]
"""(start, end, consumer), both ends inclusive."""

NOBODY = -1
"""Owner of the hashes that no consumer gets."""

HASH_MAX = 2**31 - 1
"""No selector of any version sees a higher hash (contract 1.2)."""


@dataclass(frozen=True, eq=False)
class Routing:
    """The owner of every hash in 0..`HASH_MAX`, in one epoch.

    The k-th interval ends at `uppers[k]` and starts after the one before it; the first starts at 0.

    Attributes:
        uppers: k inclusive upper bounds, ascending, the last at least `HASH_MAX`.
        owners: k consumers, `NOBODY` for hashes without an owner.
        modulus: the number by which the selector reduces a hash before the look-up (3.x, contract 1.3); 0: none.
    """

    uppers: Int64Array
    owners: Int64Array
    modulus: int = 0

    def owners_of(self, hashes: npt.ArrayLike) -> Int64Array:
        """The owner of each of n hashes, or `NOBODY`, as the selector's `select` returns it."""
        slots = np.asarray(hashes, dtype=np.int64)
        if self.modulus:
            slots = slots % self.modulus
        found: Int64Array = self.owners[np.searchsorted(self.uppers, slots)]
        return found


def routing_of_ranges(ranges: Iterable[HashRangeOf], modulus: int = 0) -> Routing:
    """The routing of disjoint ascending ranges; all other hashes belong to nobody."""
    uppers: list[int] = []
    owners: list[int] = []
    free_from = 0
    for start, end, consumer in ranges:
        if start > free_from:
            uppers.append(start - 1)
            owners.append(NOBODY)
        uppers.append(end)
        owners.append(consumer)
        free_from = end + 1
    if free_from <= HASH_MAX:
        uppers.append(HASH_MAX)
        owners.append(NOBODY)
    return Routing(np.array(uppers, dtype=np.int64), np.array(owners, dtype=np.int64), modulus)


def hashes_moved(before: Routing, after: Routing, space: HashRange) -> int:
    """The number of hashes of `space` that have another owner after a membership change; nobody counts as an owner.

    Args:
        before: the routing of one epoch.
        after: the routing of the next epoch, of the same selector.
        space: the hashes to count, as the selector looks them up, that is after `modulus`.
    """
    return moved_hashes(before.uppers, before.owners, after.uppers, after.owners, space.first, space.last)


def differing_ranges(first: Routing, *others: Routing) -> tuple[Int64Array, Int64Array]:
    """The first and the last hash of each range that the routings give to different consumers, ascending."""
    # Between two neighbouring bounds of all routings the owners are constant.
    ends = np.concatenate([first.uppers, *(other.uppers for other in others)])
    # A stable sort merges what is sorted already, which takes a thirtieth of the time of `np.unique`.
    ends.sort(kind="stable")
    ends = ends[np.append(ends[1:] != ends[:-1], True)]
    owners = first.owners[np.searchsorted(first.uppers, ends)]
    differs = np.zeros(ends.size, dtype=np.bool_)
    for other in others:
        differs |= other.owners[np.searchsorted(other.uppers, ends)] != owners
    starts = np.concatenate(([0], ends[:-1] + 1))
    return starts[differs], ends[differs]
