"""Whether nobody may have been connected for a moment: against all orders of a few changes."""

from itertools import permutations
from random import Random

import numpy as np
from examples import examples
from hypothesis import given
from hypothesis import strategies as st

from dispatch_audit.pipeline.assignment.join_orders import Precedence
from dispatch_audit.pipeline.assignment.possibly_empty import may_be_empty
from dispatch_audit.pipeline.assignment.ranges.membership_change import Change
from dispatch_audit.pipeline.assignment.resolve import closed


def drawn(rng: Random) -> tuple[set[int], list[Change], Precedence]:
    """Consumers 1 and 2 at most are there; each of them, and of those who join, may leave."""
    present = set(range(1, rng.randint(0, 2) + 1))
    joining = range(3, 3 + rng.randint(0, 3))
    changes = [Change("join", consumer, "c") for consumer in joining]
    changes += [Change("leave", consumer, "c") for consumer in (*present, *joining) if rng.random() < 0.8]
    rng.shuffle(changes)
    # Two of them that are ordered are so as they stand.
    known = np.triu(np.array([[rng.random() < 0.2 for _ in changes] for _ in changes], dtype=bool), 1)
    for one, join in enumerate(changes):
        for other, leave in enumerate(changes):
            if (join.kind, leave.kind) == ("join", "leave") and join.consumer == leave.consumer:
                known[one, other], known[other, one] = True, False
    return present, changes, closed(known.reshape(len(changes), len(changes)))


def was_empty(present: set[int], changes: list[Change], order: tuple[int, ...]) -> bool:
    there = set(present)
    for at, number in enumerate(order):
        if not there:
            return any(changes[later].kind == "join" for later in order[at:])
        if changes[number].kind == "join":
            there.add(changes[number].consumer)
        else:
            there.discard(changes[number].consumer)
    return False


@examples(300)
@given(seed=st.integers(0, 2**32))
def test_as_any_possible_order_says(seed: int) -> None:
    present, changes, precedes = drawn(Random(seed))
    if (precedes & precedes.T).any():
        return
    possible = [
        order
        for order in permutations(range(len(changes)))
        if all(order.index(one) < order.index(other) for one, other in np.argwhere(precedes).tolist())
    ]
    assert may_be_empty(present, changes, precedes) == any(was_empty(present, changes, order) for order in possible)
