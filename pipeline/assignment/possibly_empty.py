"""Decides whether a subscription may have had no consumer for a moment during changes whose order is partly known.

When the last consumer leaves, the dispatcher loses what it remembers of entries (contract 3.6, 5.8).
"""

from collections.abc import Collection, Sequence

from dispatch_audit.pipeline.assignment.join_orders import Precedence
from dispatch_audit.pipeline.assignment.ranges.membership_change import Change


def may_be_empty(present: Collection[int], changes: Sequence[Change], precedes: Precedence) -> bool:
    """Whether a possible order has a moment without consumers, with a join after it.

    Args:
        present: the consumers that are connected before the changes.
        changes: the joins, leaves and resets.
        precedes: (n, n) which of them certainly happened before which, transitively.
    """
    leave_of = {change.consumer: number for number, change in enumerate(changes) if change.kind == "leave"}
    # At such a moment all connected consumers have left, and all changes that precede these leaves have happened.
    gone = [leave_of.get(consumer) for consumer in present]
    happened: set[int] = set()
    while gone:
        number = gone.pop()
        if number is None:
            return False
        if number in happened:
            continue
        needed = {number, *(other for other in range(len(changes)) if precedes[other, number])} - happened
        happened |= needed
        gone += [leave_of.get(changes[n].consumer) for n in needed if changes[n].kind == "join"]
    return any(change.kind == "join" for number, change in enumerate(changes) if number not in happened)
