"""When, inside of their brackets, membership changes took effect.

A dispatch is decided under the dispatcher's lock, so each one inside a bracket shows which mapping was in force, if
the two mappings route its hash to different consumers. The changes are placed so that as few dispatches as possible
go to a consumer that does not own their hash; where several places are equally good, in the middle (in time) of
them, which is where the largest possible error is smallest.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pipeline.assignment import Routing
from pipeline.replay.compiled import compiled
from pipeline.replay.events import Code, Column, Events
from pipeline.replay.membership import Place
from pipeline.replay.state import Ints

Bounds: TypeAlias = tuple[int, int]
"""A change took effect behind the first seq and before the second."""

_NEVER = 1 << 40


@compiled
def _costs(disagrees: NDArray[np.bool_], allowed: NDArray[np.bool_], result: Ints) -> None:
    """The fewest disagreements of any course of changes that is in state k at dispatch d, into `result[k, d]`.

    State k: the first k changes are in effect. A course never goes back.
    """
    states, dispatches = disagrees.shape
    ahead = np.empty((states, dispatches), dtype=np.int64)
    for d in range(dispatches):
        best = _NEVER
        for k in range(states):
            if d == 0:
                best = 0
            elif ahead[k, d - 1] < best:
                best = ahead[k, d - 1]
            ahead[k, d] = best + disagrees[k, d] if allowed[k, d] else _NEVER
    behind = np.zeros(states, dtype=np.int64)
    for d in range(dispatches - 1, -1, -1):
        best = _NEVER
        for k in range(states - 1, -1, -1):
            best = min(best, behind[k])
            result[k, d] = min(ahead[k, d] + best, _NEVER)
            behind[k] = best + disagrees[k, d] if allowed[k, d] else _NEVER


class Evidence(NamedTuple):
    """The dispatches around membership changes, as far as they tell which mapping was in force.

    Attributes:
        seq: of each decision, ascending.
        hashes: its sticky hash.
        consumers: the trace's number of who was sent to.
        recorded_late: only the ends were recorded: what is recorded after a change may have been decided before it.
    """

    seq: Ints
    hashes: Ints
    consumers: Ints
    recorded_late: bool

    @staticmethod
    def of(rows: Events, hashes: Callable[[Events], Ints]) -> "Evidence":
        """The decisions among `rows`."""
        decided = rows.code == Code.DISPATCH_START
        recorded_late = not decided.any()
        if recorded_late:
            decided = rows.code == Code.DISPATCH_END
        sent = rows.take(decided)
        keys = hashes(sent)
        known = keys >= 0
        return Evidence(sent.seq[known], keys[known], sent.consumer[known], recorded_late)

    def disagrees(self, routings: Sequence[Routing]) -> NDArray[np.bool_]:
        """(routings, decisions): whether the decision goes to somebody else than the routing says."""
        against = np.stack([routing.owners_of(self.hashes) != self.consumers for routing in routings])
        return np.logical_and.accumulate(against, axis=0) if self.recorded_late else against


def place(
    brackets: Sequence[Bounds], seq: Column, ts_us: Column, evidence: Evidence, routings: Sequence[Routing]
) -> list[Place]:
    """A place for each change, in their order.

    Args:
        brackets: for each change the seqs between which it took effect: behind the first, before the second.
        seq: of the rows around the brackets, ascending.
        ts_us: of the same rows, microseconds.
        evidence: the decisions among them.
        routings: the mapping before the first change, and after each of them.
    """
    disagrees = evidence.disagrees(routings)
    bounds = list(brackets)
    places: list[Place] = []
    for change in range(len(bounds)):
        after, before = _window(bounds, change, evidence.seq, disagrees)
        if places:
            after = max(after, places[-1].seq)
        at = _middle(after, max(before, after + 1), seq, ts_us)
        places.append(at)
        bounds[change] = (at.seq, at.seq + 1)
    return places


def disagreements(brackets: Sequence[Bounds], evidence: Evidence, routings: Sequence[Routing]) -> int:
    """How many decisions the best placing of the changes leaves unexplained; arguments as those of `place`."""
    if evidence.seq.size == 0:
        return 0
    return int(_all_costs(brackets, evidence.seq, evidence.disagrees(routings))[:, 0].min())


def _all_costs(bounds: Sequence[Bounds], seq: Ints, disagrees: NDArray[np.bool_]) -> Ints:
    # State k needs the first k changes to have begun, and none of the others to be over.
    begun = np.maximum.accumulate([-1, *(start for start, _ in bounds)])
    over = np.minimum.accumulate([_NEVER, *(end for _, end in reversed(bounds))])[::-1]
    allowed = (seq[None, :] > begun[:, None]) & (seq[None, :] < over[:, None])
    costs = np.empty(disagrees.shape, dtype=np.int64)
    _costs(disagrees, allowed, costs)
    return costs


def _window(bounds: Sequence[Bounds], change: int, seq: Ints, disagrees: NDArray[np.bool_]) -> Bounds:
    """Behind which row and before which row the change fits best."""
    after, before = bounds[change]
    costs = _all_costs(bounds, seq, disagrees)
    best = costs == costs.min(axis=0, initial=_NEVER)
    # The change may already be in effect where an optimal course has it, and must be where all of them do.
    may = best[change + 1 :].any(axis=0)
    must = ~best[: change + 1].any(axis=0)
    earliest = int(np.argmax(may)) if may.any() else seq.size
    latest = int(np.argmax(must)) if must.any() else seq.size
    if earliest > 0:
        after = max(after, int(seq[earliest - 1]))
    if latest < seq.size:
        before = min(before, int(seq[latest]))
    return after, before


def _middle(after: int, before: int, seq: Column, ts_us: Column) -> Place:
    first = int(np.searchsorted(seq, after, side="right")) - 1
    last = int(np.searchsorted(seq, before, side="left"))
    if first < 0:
        return Place(after, int(ts_us[0]))
    start_us = int(ts_us[first])
    end_us = int(ts_us[min(last, seq.size - 1)])
    inside = ts_us[first:last]
    at = first + int(np.flatnonzero(inside <= (start_us + end_us) // 2)[-1]) if inside.size else first
    return Place(int(seq[at]), int(ts_us[at]))
