"""When, inside of their brackets, membership changes took effect.

A dispatch is decided under the dispatcher's lock, so each one inside a bracket shows which mapping was in force, if
the two mappings route its hash to different consumers. The changes are placed so that as few dispatches as possible
go to a consumer that does not own their hash; where several places are equally good, in the middle (in time) of
them, which is where the largest possible error is smallest.
"""

import numpy as np
from numpy.typing import NDArray

from pipeline.replay.compiled import compiled
from pipeline.replay.membership import Place
from pipeline.replay.state import Ints

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


def place(
    brackets: list[tuple[int, int]],
    seq: Ints,
    ts_us: Ints,
    decided: NDArray[np.intp],
    disagrees: NDArray[np.bool_],
) -> list[Place]:
    """A cut for each change, in their order.

    Args:
        brackets: for each change the seqs between which it took effect: behind the first, before the second.
        seq: of the rows around the brackets, ascending.
        ts_us: of the same rows.
        decided: which of the rows are decisions to dispatch, d of them.
        disagrees: (changes + 1, d): whether dispatch d goes to somebody else than the first k changes make owner.
    """
    bounds = list(brackets)
    cuts: list[Place] = []
    for change in range(len(bounds)):
        after, before = _window(bounds, change, seq[decided], disagrees)
        if cuts:
            after = max(after, cuts[-1].seq)
        cut = _middle(after, max(before, after + 1), seq, ts_us)
        cuts.append(cut)
        bounds[change] = (cut.seq, cut.seq + 1)
    return cuts


def _window(bounds: list[tuple[int, int]], change: int, seq: Ints, disagrees: NDArray[np.bool_]) -> tuple[int, int]:
    """Behind which row and before which row the change fits best."""
    after, before = bounds[change]
    states = len(bounds) + 1
    # State k needs the first k changes to have begun, and none of the others to be over.
    begun = np.maximum.accumulate([-1, *(start for start, _ in bounds)])
    over = np.minimum.accumulate([_NEVER, *(end for _, end in reversed(bounds))])[::-1]
    allowed = (seq[None, :] > begun[:, None]) & (seq[None, :] < over[:, None])
    costs = np.empty((states, seq.size), dtype=np.int64)
    _costs(disagrees, allowed, costs)
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


def _middle(after: int, before: int, seq: Ints, ts_us: Ints) -> Place:
    first = int(np.searchsorted(seq, after, side="right")) - 1
    last = int(np.searchsorted(seq, before, side="left"))
    if first < 0:
        return Place(after, int(ts_us[0]))
    start_us = int(ts_us[first])
    end_us = int(ts_us[min(last, seq.size - 1)])
    inside = ts_us[first:last]
    at = first + int(np.flatnonzero(inside <= (start_us + end_us) // 2)[-1]) if inside.size else first
    return Place(int(seq[at]), int(ts_us[at]))
