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
from dispatch_audit.pipeline.entry_point import EntryPoint
from dispatch_audit.pipeline.packing.events import Code, Column, Events, among
from dispatch_audit.pipeline.packing.membership_rows import NEVER, TracePoint
from dispatch_audit.pipeline.replay.state.compiled import compiled
from dispatch_audit.pipeline.replay.state.records import Ints

Bounds: TypeAlias = tuple[int, int]
"""A change took effect after the first seq and before the second."""

# The disagreements of a course that is not allowed.
_NOT_ALLOWED = 1 << 40
_STARTS = among(Code.DISPATCH_START)
_ENDS = among(Code.DISPATCH_END)


@compiled
def _costs(disagrees: NDArray[np.bool_], allowed: NDArray[np.bool_], until: Ints, since: Ints) -> None:
    """Fills in the fewest disagreements of any course of changes that is in state k at decision d.

    State k: the first k changes are in effect. A course never goes back. `until[k, d]` gets the disagreements of the
    decisions up to d, `since[k, d]` those from d on.
    """
    states, decisions = disagrees.shape
    for d in range(decisions):
        best = _NOT_ALLOWED if d > 0 else 0
        for k in range(states):
            if d > 0:
                best = min(best, until[k, d - 1])
            until[k, d] = best + disagrees[k, d] if allowed[k, d] else _NOT_ALLOWED
    for d in range(decisions - 1, -1, -1):
        best = _NOT_ALLOWED if d < decisions - 1 else 0
        for k in range(states - 1, -1, -1):
            if d < decisions - 1:
                best = min(best, since[k, d + 1])
            since[k, d] = best + disagrees[k, d] if allowed[k, d] else _NOT_ALLOWED


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
    if len(brackets) == 1 and not evidence.between(*brackets[0]).seq.size:
        # Most changes have no dispatch inside of their bracket, so its bounds are all that is known.
        after, before = brackets[0]
        return [_located(after, before, seq, ts_us)]
    disagrees = evidence.disagrees(routings)
    # No change takes effect after the bracket of a later one has ended.
    ends = np.minimum.accumulate([end for _, end in reversed(brackets)])[::-1].tolist()
    bounds = [(after, before) for (after, _), before in zip(brackets, ends, strict=True)]
    located: list[Located] = []
    for change in range(len(bounds)):
        after, before = _window(bounds, change, evidence.seq, disagrees)
        if located:
            after = max(after, located[-1].at.seq)
        found = _located(after, before, seq, ts_us)
        located.append(found)
        bounds[change] = (found.at.seq, found.at.seq + 1)
    return located


def _located(after: int, before: int, seq: Column, ts_us: Column) -> Located:
    before = max(before, after + 1)
    return Located(TracePoint(*_middle(after, before, seq, ts_us)), before)


def _all_costs(bounds: Sequence[Bounds], seq: Ints, disagrees: NDArray[np.bool_]) -> tuple[Ints, Ints]:
    # In state k the first k changes have begun, and none of the others is over.
    begun = np.maximum.accumulate([-1, *(start for start, _ in bounds)])
    over = np.minimum.accumulate([NEVER, *(end for _, end in reversed(bounds))])[::-1]
    allowed = (seq[None, :] > begun[:, None]) & (seq[None, :] < over[:, None])
    until, since = np.empty((2, *disagrees.shape), dtype=np.int64)
    _costs(disagrees, allowed, until, since)
    return until, since


def _window(bounds: Sequence[Bounds], change: int, seq: Ints, disagrees: NDArray[np.bool_]) -> Bounds:
    """The rows between which the change fits best: the longest of the stretches with the lowest cost."""
    after, before = bounds[change]
    if seq.size == 0:
        return after, before
    until, since = _all_costs(bounds, seq, disagrees)
    # The cost of the change between two neighbouring decisions, before the first and after the last of them.
    earlier = np.append(0, until[: change + 1].min(axis=0))
    later = np.append(since[change + 1 :].min(axis=0), 0)
    costs = earlier + later
    edges = np.diff(np.concatenate(([0], (costs == costs.min()).astype(np.int8), [0])))
    firsts, lasts = np.flatnonzero(edges == 1), np.flatnonzero(edges == -1) - 1
    starts = [max(after, int(seq[p - 1])) if p > 0 else after for p in firsts]
    ends = [min(before, int(seq[p])) if p < seq.size else before for p in lasts]
    longest = int(np.argmax(np.subtract(ends, starts)))
    return starts[longest], ends[longest]


@compiled
def middle(after: int, before: int, seq: Ints, ts_us: Ints) -> tuple[int, int]:
    """The row in the middle of the time between two rows, exclusive; its seq and time.

    Args:
        after: the seq of the first row.
        before: the seq of the second row.
        seq: (n) the seqs of the rows around both, ascending.
        ts_us: (n) their times, not always ascending.
    """
    first, last = int(np.searchsorted(seq, after, side="right")) - 1, int(np.searchsorted(seq, before))
    if first < 0:
        return after, int(ts_us[0])
    middle_us = (ts_us[first] + ts_us[min(last, seq.size - 1)]) // 2
    at = first
    for row in range(first, last):
        if ts_us[row] <= middle_us:
            at = row
    # A snapshot may name a seq that no row of this subscription has.
    return max(int(seq[at]), after), int(ts_us[at])


_middle = EntryPoint(middle)
