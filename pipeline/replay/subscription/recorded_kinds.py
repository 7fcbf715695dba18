"""Whether a recorder writes acknowledgements and leaves at all, where a trace has no row of such a kind.

A short trace may have none because nothing of the kind happened, so evidence decides: so many entries were sent that
some were acknowledged for certain, or a client came back that never left.
"""

from collections import Counter
from collections.abc import Collection, Iterable
from typing import Final

from dispatch_audit.pipeline.replay.dispatcher.dispatcher import Dispatcher
from dispatch_audit.pipeline.replay.membership.stays import Stay

SENT_WITHOUT_ACK_MAX: Final = 1_000
"""So many entries a subscription may be sent before one is acknowledged: a receiver queue of clients, by default."""


def acks_are_recorded(dispatcher: Dispatcher, written: Collection[str]) -> bool:
    """Whether the trace would have acknowledgements if there were any.

    Args:
        dispatcher: the dispatcher after all rows.
        written: the kinds of rows that the recorder says it writes.
    """
    if dispatcher.acks_seen or "ack" in written:
        return True
    return sum(dispatched for dispatched, _ in dispatcher.counts.values()) <= SENT_WITHOUT_ACK_MAX


def leaves_are_recorded(stays: Iterable[Stay], written: Collection[str]) -> bool:
    """Whether the trace would have leaves if there were any.

    Args:
        stays: of all consumers.
        written: the kinds of rows that the recorder says it writes.
    """
    if "leave" in written:
        return True
    names = Counter[str]()
    for stay in stays:
        if stay.left is not None:
            return True
        names[stay.row.name] += 1
    # Two consumers may have one name at the same time, so this is no proof that leaves are missing; it is a doubt.
    return all(number == 1 for number in names.values())
