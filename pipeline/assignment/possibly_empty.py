"""Whether nobody may have been connected at a moment among membership changes whose order is known in part.

With its last consumer a subscription loses what the dispatcher remembers of entries (contract 3.6, 5.8).
"""

from collections.abc import Collection, Sequence

from dispatch_audit.pipeline.assignment.join_orders import Precedence
from dispatch_audit.pipeline.assignment.ranges.membership_change import Change


def may_be_empty(present: Collection[int], changes: Sequence[Change], precedes: Precedence) -> bool:
    """Whether a possible order has a moment at which everybody is gone, with joins behind it.

    Args:
        present: the consumers that are there before the changes.
        changes: the joins, leaves and resets.
        precedes: (n, n) which of them came before which for certain, transitively.
    """
    leave_of = {change.consumer: number for number, change in enumerate(changes) if change.kind == "leave"}
    # By then at least these have happened: the leave of everybody who is there, and all changes that precede it.
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
