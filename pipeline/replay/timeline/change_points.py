"""Locates the moments at which membership changes took effect inside of their brackets.

The broker decides a dispatch under the dispatcher's lock. So each dispatch inside a bracket shows which routing was in
force, if the two routings differ for its hash. The changes are located so that as few dispatches as possible go to a
consumer that does not own their hash. If several points are equally good, the middle of them in time is taken, where
the largest possible error is smallest.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dispatch_audit.pipeline.assignment import Routing
from dispatch_audit.pipeline.assignment.ranges.observed import Observed, SeenDispatches, Sent
from dispatch_audit.pipeline.assignment.ranges.reported_ranges import ReportedRanges
from dispatch_audit.pipeline.packing.events import Code, Column, Events, among
from dispatch_audit.pipeline.packing.membership_rows import TracePoint
from dispatch_audit.pipeline.replay.state.records import Ints

Bounds: TypeAlias = tuple[int, int]
"""A change took effect after the first seq and before the second."""

_STARTS = among(Code.DISPATCH_START)
_ENDS = among(Code.DISPATCH_END)


class Evidence(NamedTuple):
    """The dispatches around membership changes, which show the routing in force."""

    seq: Ints  # the seq of each decision, ascending
    hashes: Ints  # its sticky hash
    consumers: Ints  # the trace's number of its receiver
    # Only ends were recorded, so a dispatch recorded after a change may have been decided before it.
    recorded_late: bool

    @staticmethod
    def of(rows: Events, hashes: Ints, recorded_late: bool) -> "Evidence":
        """The decisions among `rows`, given with the sticky hash of each, -1 where it has none."""
        at = np.flatnonzero((_ENDS if recorded_late else _STARTS)[rows.code] & (hashes >= 0))
        return Evidence(rows.seq[at], hashes[at], rows.consumer[at], recorded_late)

    def between(self, after: int, before: int) -> "Evidence":
        """The decisions between two rows."""
        first, last = int(self.seq.searchsorted(after, "right")), int(self.seq.searchsorted(before))
        rows = slice(first, max(first, last))
        return Evidence(self.seq[rows], self.hashes[rows], self.consumers[rows], self.recorded_late)

    def disagrees(self, routings: Sequence[Routing]) -> NDArray[np.bool_]:
        """(routings, decisions): whether the decision goes to another consumer than the routing's."""
        differs = np.stack([routing.owners_of(self.hashes) != self.consumers for routing in routings])
        return np.logical_and.accumulate(differs, axis=0) if self.recorded_late else differs


def observations(reported: ReportedRanges | None, decisions: Callable[[], Evidence], recorded_late: bool) -> Observed:
    """The observations of the one routing that was in force during a snapshot and some dispatches.

    Without a report of the broker `reported` is None. `decisions` is called only when needed: few changes need them.
    """

    def sent() -> Sent:
        found = decisions()
        return found.hashes, found.consumers

    return Observed(reported, SeenDispatches(sent, in_order=not recorded_late))


class Located(NamedTuple):
    """The point at which a change takes effect, and the row in front of which it certainly has."""

    at: TracePoint
    over_seq: int


def locate_changes(
    brackets: Sequence[Bounds], seq: Column, ts_us: Column, evidence: Evidence, routings: Sequence[Routing]
) -> list[Located]:
    """The point at which each change took effect, in their order.

    Args:
        brackets: for each change the seqs between which it took effect: after the first, before the second.
        seq: the seqs of the rows around the brackets, ascending.
        ts_us: the times of the same rows, in microseconds.
        evidence: the decisions among them.
        routings: the routing before the first change, and after each of them.
    """
    # No change takes effect after the bracket of a later one has ended.
    ends = np.minimum.accumulate([end for _, end in reversed(brackets)])[::-1].tolist()
    located: list[Located] = []
    for number, ((since, _), until) in enumerate(zip(brackets, ends, strict=True)):
        after = max(since, located[-1].at.seq) if located else since
        before = max(until, after + 1)
        inside = evidence.between(after, before)
        if inside.seq.size:
            after, before = _narrowed(after, before, inside, inside.disagrees(routings)[number:])
        located.append(Located(_middle(after, before, seq, ts_us), before))
    return located


def _narrowed(after: int, before: int, inside: Evidence, disagrees: NDArray[np.bool_]) -> Bounds:
    """The rows between which a change fits best: the longest stretch in which the fewest decisions disagree.

    `disagrees` has the decisions inside of the bracket under the routing before the change, and after it and after each
    later one: a decision after the change may have followed later ones too.
    """
    seq = inside.seq.tolist()
    earlier, later = np.cumsum(disagrees[0]), np.cumsum(np.logical_and.reduce(disagrees[1:])[::-1])[::-1]
    # The decisions that disagree with a change in front of each decision, and after the last.
    costs = np.append(0, earlier) + np.append(later, 0)
    edges = np.flatnonzero(np.diff(np.concatenate(([False], costs == costs.min(), [False]))))
    bounds = [after, *seq, before]
    stretches = [(bounds[first], bounds[last]) for first, last in edges.reshape(-1, 2).tolist()]
    return max(stretches, key=lambda stretch: stretch[1] - stretch[0])


def _middle(after: int, before: int, seq: Column, ts_us: Column) -> TracePoint:
    """The row in the middle of the time between two rows, exclusive; times are not always ascending."""
    first, last = int(np.searchsorted(seq, after, side="right")) - 1, int(np.searchsorted(seq, before))
    if first < 0:
        return TracePoint(after, int(ts_us[0]))
    middle_us = (ts_us[first] + ts_us[min(last, seq.size - 1)]) // 2
    at = int(first + np.flatnonzero(ts_us[first:last] <= middle_us)[-1:].sum())
    # A snapshot may name a seq that no row of this subscription has.
    return TracePoint(max(int(seq[at]), after), int(ts_us[at]))
