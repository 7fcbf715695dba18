"""What a membership change takes from whom and gives to whom, as the broker works it out.

Source: contract 2.5; Pulsar's `ConsumerHashAssignmentsSnapshot.resolveImpactedConsumers`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import eq
from typing import TypeAlias

import numpy as np

from pipeline.assignment.routing import NOBODY, HashRangeOf
from udfs.sticky_key_hash import Int64Array

RangesByConsumer: TypeAlias = Mapping[int, list[tuple[int, int]]]
"""Ascending inclusive ranges by consumer, with something between any two of them."""


@dataclass(frozen=True)
class Impact:
    """The difference of two assignments.

    Attributes:
        removed: what each consumer lost.
        added: what each consumer gained; brokers before 4.0.7 do not look at it.
    """

    removed: RangesByConsumer
    added: RangesByConsumer


def impacted_ranges(
    before: Sequence[HashRangeOf],
    after: Sequence[HashRangeOf],
    same: Callable[[int, int], bool] = eq,
) -> Impact:
    """Compares the ranges of a selector before and after a join or a leave.

    Args:
        before: ranges as `Selector.ranges` gives them.
        after: the same after the change.
        same: whether two consumers count as one. The broker's `Consumer.equals` looks at consumer id and
            client address, so a consumer that was closed and subscribed again on its connection equals its
            predecessor and takes nothing from it.
    """
    starts = np.array([cut for start, end, _ in (*before, *after) for cut in (start, end + 1)], dtype=np.int64)
    starts = np.unique(starts)
    losers, winners = _owners_from(starts, before), _owners_from(starts, after)
    for at in np.flatnonzero(losers != winners).tolist():
        loser, winner = int(losers[at]), int(winners[at])
        if NOBODY not in (loser, winner) and same(loser, winner):
            winners[at] = loser
    # The last cut only closes the segment before it.
    moved = np.flatnonzero(losers[:-1] != winners[:-1])
    segments = [*zip(starts[moved].tolist(), (starts[moved + 1] - 1).tolist(), strict=True)]
    return Impact(
        removed=_merged(segments, losers[moved].tolist()),
        added=_merged(segments, winners[moved].tolist()),
    )


def _owners_from(starts: Int64Array, ranges: Sequence[HashRangeOf]) -> Int64Array:
    """The owner of each of the segments that begin at `starts`; no range begins or ends inside of one."""
    if not ranges:
        return np.full(len(starts), NOBODY, dtype=np.int64)
    table = np.array(ranges, dtype=np.int64)
    at = np.searchsorted(table[:, 0], starts, side="right") - 1
    return np.where((at >= 0) & (starts <= table[at, 1]), table[at, 2], NOBODY)


def _merged(segments: Iterable[tuple[int, int]], owners: Iterable[int]) -> RangesByConsumer:
    merged: dict[int, list[tuple[int, int]]] = {}
    for (start, end), owner in zip(segments, owners, strict=True):
        if owner == NOBODY:
            continue
        ranges = merged.setdefault(owner, [])
        if ranges and ranges[-1][1] + 1 == start:
            ranges[-1] = (ranges[-1][0], end)
        else:
            ranges.append((start, end))
    return merged
