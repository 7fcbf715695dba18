"""In which order membership changes happened whose brackets overlap.

Consumers that come back together after an unload or a network fault join in an order that their rows do not show;
yet it decides who keeps a ring point that two of them hash to (SEMANTICS 2.1), or which half of a range each gets
(2.3). The dispatches that follow show it. The search begins with the order of the early sides and moves single
changes as long as that leaves fewer dispatches unexplained.
"""

from collections.abc import Callable, Iterator, Sequence

from pipeline.assignment import Routing
from pipeline.replay.membership import Bracket
from pipeline.replay.placement import Bounds, Evidence, disagreements

# A cluster of 500 consumers has a quarter of a million such moves; each costs a rebuilt assignment.
_TRIALS_MAX = 500


def likeliest_order(
    changes: list[Bracket],
    bounds_of: Callable[[Bracket], Bounds],
    evidence: Evidence,
    foresee: Callable[[Sequence[Bracket]], list[Routing]],
) -> list[Bracket]:
    """The changes in an order that the evidence does not speak against, as far as the search finds one.

    Args:
        changes: in the order to begin with.
        bounds_of: between which seqs a change took effect.
        evidence: the dispatches around and behind them.
        foresee: the mapping before the changes and after each of them.
    """

    def unexplained(order: Sequence[Bracket]) -> int:
        return disagreements([bounds_of(b) for b in order], evidence, foresee(order))

    best, fewest = changes, unexplained(changes)
    trials = 0
    improved = True
    while improved and fewest > 0:
        improved = False
        for order in _neighbours(best, bounds_of):
            trials += 1
            count = unexplained(order)
            if count < fewest:
                best, fewest, improved = order, count, True
                break
            if trials >= _TRIALS_MAX:
                return best
    return best


def _neighbours(order: list[Bracket], bounds_of: Callable[[Bracket], Bounds]) -> Iterator[list[Bracket]]:
    """The orders that differ by the place of one change, near places first, and contradict no bracket."""
    for distance in range(1, len(order)):
        for at in range(len(order) - distance):
            for source, target in ((at, at + distance), (at + distance, at)):
                moved = order[:source] + order[source + 1 :]
                moved.insert(target, order[source])
                if _possible(moved, bounds_of):
                    yield moved


def _possible(order: Sequence[Bracket], bounds_of: Callable[[Bracket], Bounds]) -> bool:
    """Whether the changes can happen in this order: each before what follows is over, and no leave before its join."""
    begun = -1
    to_come = set(map(id, order))
    for bracket in order:
        to_come.discard(id(bracket))
        start, end = bounds_of(bracket)
        begun = max(begun, start)
        if begun >= end or (bracket.join is not None and id(bracket.join) in to_come):
            return False
    return True
