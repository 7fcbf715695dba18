"""Sets of sticky hashes as ranges: ascending, disjoint, both ends inclusive."""

from collections.abc import Iterable, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from dispatch_audit.pipeline.assignment.ranges.routing import HASH_MAX, Routing, differing_ranges
from dispatch_audit.udfs.sticky_key_hash import Int64Array

HashRanges: TypeAlias = tuple[tuple[int, int], ...]

ALL_HASHES: HashRanges = ((0, HASH_MAX),)


def union(ranges: Iterable[tuple[int, int]]) -> HashRanges:
    """The hashes that are in any of the ranges."""
    ascending = sorted(ranges)
    if not ascending:
        return ()
    starts, ends = np.array(ascending, dtype=np.int64).T
    reach = np.maximum.accumulate(ends)
    # A range starts a new one if there is a gap between it and all ranges before it.
    first = np.ones(starts.size, dtype=np.bool_)
    first[1:] = starts[1:] > reach[:-1] + 1
    last = np.roll(first, -1)
    return tuple(zip(starts[first].tolist(), reach[last].tolist(), strict=True))


def differing(routings: Sequence[Routing]) -> HashRanges:
    """The hashes, as the selector looks them up, that the routings give to different consumers."""
    starts, ends = differing_ranges(*routings)
    return union(zip(starts.tolist(), ends.tolist(), strict=True))


def owned_by(routing: Routing, consumer: int) -> HashRanges:
    """The ranges in which a routing gives hashes to one consumer, those that it shares with others included."""
    starts = np.concatenate(([0], routing.uppers[:-1] + 1))
    owned = routing.may_own(consumer)
    return union(zip(starts[owned].tolist(), routing.uppers[owned].tolist(), strict=True))


def contains(ranges: HashRanges, slots: Int64Array) -> npt.NDArray[np.bool_]:
    """Which of n hashes are in the ranges."""
    if not ranges:
        return np.zeros(slots.size, dtype=np.bool_)
    starts, ends = np.array(ranges, dtype=np.int64).T
    at = np.searchsorted(starts, slots, side="right") - 1
    inside: npt.NDArray[np.bool_] = (at >= 0) & (slots <= ends[np.maximum(at, 0)])
    return inside


def touched(starts: Int64Array, ends: Int64Array, ranges: HashRanges) -> npt.NDArray[np.bool_]:
    """Which of n ranges have a hash in common with `ranges`."""
    if not ranges:
        return np.zeros(starts.size, dtype=np.bool_)
    first_hashes, last_hashes = np.array(ranges, dtype=np.int64).T
    first = np.searchsorted(last_hashes, starts)
    common: npt.NDArray[np.bool_] = first < last_hashes.size
    common &= first_hashes[np.minimum(first, last_hashes.size - 1)] <= ends
    return common


def symmetric_difference(some: Iterable[tuple[int, int]], others: Iterable[tuple[int, int]]) -> HashRanges:
    """The hashes that are in one of two sets of disjoint ranges, and not in both."""
    # Each bound flips whether the hashes after it are in exactly one of the sets.
    flips: set[int] = set()
    for start, end in [*some, *others]:
        flips ^= {start}
        flips ^= {end + 1}
    bounds = sorted(flips)
    return tuple((start, end - 1) for start, end in zip(bounds[::2], bounds[1::2], strict=True))


def covers(ranges: HashRanges, inner: HashRanges) -> bool:
    """Whether all hashes of `inner` are in `ranges`, whose neighbouring ranges are one (`union`)."""
    starts, ends = np.array(inner, dtype=np.int64).reshape(-1, 2).T
    if not ranges:
        return not inner
    outer_starts, outer_ends = np.array(ranges, dtype=np.int64).T
    at = np.searchsorted(outer_starts, starts, side="right") - 1
    return bool(((at >= 0) & (ends <= outer_ends[np.maximum(at, 0)])).all())
