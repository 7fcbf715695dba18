"""An assignment as arrays, for the replay's hot loop: the owner of each hash."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from dispatch_audit.pipeline.assignment.ranges.moved_hashes import SHARED, moved_hashes
from dispatch_audit.pipeline.checkpointed import checkpointed
from dispatch_audit.udfs.sticky_key_hash import HashRange, Int64Array

HashRangeOf: TypeAlias = tuple[int, int, int]
"""(start, end, consumer), both ends inclusive."""

NOBODY = -1
"""Owner of the hashes that no consumer gets."""

HASH_MAX = 2**31 - 1
"""No selector of any version sees a higher hash (contract 1.2)."""


_NO_SHARERS: Int64Array = np.empty(0, dtype=np.int64)


@checkpointed("routing")
class Routing(NamedTuple):
    """The owner of every hash in 0..`HASH_MAX`, in one epoch.

    The k-th interval ends at `uppers[k]` and starts after the one before it; the first starts at 0.

    Attributes:
        uppers: k inclusive upper bounds, ascending, the last at least `HASH_MAX`.
        owners: k consumers, `NOBODY` for hashes without an owner. A number up to `SHARED` stands for several consumers,
            of whom each hash has the one at the hash modulo their number (contract 2.2, rings A and B).
        modulus: the number by which the selector reduces a hash before the look-up (3.x, contract 1.3); 0: none.
        sharers: the lists of several consumers, one after another, each after its length; empty: there are none.
    """

    uppers: Int64Array
    owners: Int64Array
    modulus: int = 0
    sharers: Int64Array = _NO_SHARERS

    def owners_of(self, hashes: npt.ArrayLike) -> Int64Array:
        """The owner of each of n hashes, or `NOBODY`, as the selector's `select` returns it."""
        slots = np.asarray(hashes, dtype=np.int64)
        if self.modulus:
            slots = slots % self.modulus
        found: Int64Array = self.owners[np.searchsorted(self.uppers, slots)]
        if self.sharers.size:
            (shared,) = (found <= SHARED).nonzero()
            at = SHARED - found[shared]
            found[shared] = self.sharers[at + 1 + slots[shared] % self.sharers[at]]
        return found

    @property
    def lists(self) -> Mapping[int, tuple[int, ...]]:
        """The consumers that each number up to `SHARED` stands for."""
        numbers = np.unique(self.owners[self.owners <= SHARED]).tolist()
        starts = {number: SHARED - number + 1 for number in numbers}
        return {n: tuple(self.sharers[at : at + self.sharers[at - 1]].tolist()) for n, at in starts.items()}

    def may_own(self, consumer: int) -> npt.NDArray[np.bool_]:
        """Which of the k intervals have hashes of a consumer."""
        owned: npt.NDArray[np.bool_] = self.owners == consumer
        if self.sharers.size:
            with_it = [number for number, sharers in self.lists.items() if consumer in sharers]
            owned |= np.isin(self.owners, with_it)
        return owned

    def with_owners(self, renamed: Callable[[Int64Array], Int64Array]) -> "Routing":
        """The same routing to other numbers for the consumers; `renamed` leaves `NOBODY` as it is."""
        if not self.sharers.size:
            return Routing(self.uppers, renamed(self.owners), self.modulus)
        lengths = SHARED - np.array([*self.lists], dtype=np.int64)
        sharers = renamed(self.sharers)
        sharers[lengths] = self.sharers[lengths]
        return Routing(
            self.uppers, np.where(self.owners > SHARED, renamed(self.owners), self.owners), self.modulus, sharers
        )


def shared_routing(uppers: Int64Array, owners: Sequence[tuple[int, ...]]) -> Routing:
    """The routing of k intervals that have one owner or several each, at least one.

    Args:
        uppers: k inclusive upper bounds, ascending, the last at least `HASH_MAX`.
        owners: the consumers of each interval, in the order in which the hash modulo their number chooses.
    """
    number_of: dict[tuple[int, ...], int] = {}
    sharers: list[int] = []
    for of_one in owners:
        if of_one not in number_of:
            number_of[of_one] = of_one[0] if len(of_one) == 1 else SHARED - len(sharers)
            sharers += [len(of_one), *of_one] if len(of_one) > 1 else []
    numbers = np.array([number_of[of_one] for of_one in owners], dtype=np.int64)
    return Routing(uppers, numbers, 0, np.array(sharers, dtype=np.int64))


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
    return moved_hashes(
        *(before.uppers, before.owners, before.sharers),
        *(after.uppers, after.owners, after.sharers),
        *(space.first, space.last),
    )


def differing_ranges(first: Routing, *others: Routing) -> tuple[Int64Array, Int64Array]:
    """The first and the last hash of each range that the routings give to different consumers, ascending.

    Of a range that several consumers share, all hashes count if the consumers differ, or their order.
    """
    # Between two neighbouring bounds of all routings the owners are constant.
    ends = np.concatenate([first.uppers, *(other.uppers for other in others)])
    # A stable sort merges what is sorted already, which takes a thirtieth of the time of `np.unique`.
    ends.sort(kind="stable")
    ends = ends[np.append(ends[1:] != ends[:-1], True)]
    first_owners, *owners_of_others = _comparable((first, *others))
    owners = first_owners[np.searchsorted(first.uppers, ends)]
    differs = np.zeros(ends.size, dtype=np.bool_)
    for other, other_owners in zip(others, owners_of_others, strict=True):
        differs |= other_owners[np.searchsorted(other.uppers, ends)] != owners
    starts = np.concatenate(([0], ends[:-1] + 1))
    return starts[differs], ends[differs]


def _comparable(routings: Sequence[Routing]) -> list[Int64Array]:
    """The owners of each routing, with one number for equal lists of several consumers."""
    if not any(routing.sharers.size for routing in routings):
        return [routing.owners for routing in routings]
    number_of: dict[tuple[int, ...], int] = {}
    found = []
    for routing in routings:
        owners = routing.owners.copy()
        for number, sharers in routing.lists.items():
            owners[routing.owners == number] = number_of.setdefault(sharers, SHARED - len(number_of))
        found.append(owners)
    return found
