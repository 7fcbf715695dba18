"""Gates: the causes for which nothing is sent although consumers could take it, a row each, and the decision.

Each gate says of every entry that its owner could take whether it certainly held that entry back. A stall has a cause
if every such entry is behind a gate; it is that of the first gate in the table that holds all of them, else of the
first that holds the oldest. An entry behind no gate makes the stall `unexplained`. docs/BLOCKING.md has the table.
"""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dispatch_audit.pipeline.replay.blocking.attribution import (
    Waiters,
    at_position,
    most_waited_for,
    oldest,
)
from dispatch_audit.pipeline.replay.blocking.stalls.held_reads import (
    behind_ack_holes,
    behind_full_subscription,
    behind_joins,
    behind_look_ahead,
    behind_unowned,
    blames_ack_holes,
    blames_drained,
    blames_joins,
    blames_look_ahead,
    blames_subscription,
    holder_of_draining,
    nobody,
    stuck_after_draining,
)
from dispatch_audit.pipeline.replay.blocking.stalls.sendable import Divided, causes
from dispatch_audit.pipeline.replay.blocking.stalls.situation import Situation
from dispatch_audit.pipeline.replay.state.causes import Cause
from dispatch_audit.pipeline.replay.state.records import NOBODY

Mask = NDArray[np.bool_]


class Gate(NamedTuple):
    """A cause for which the broker sends nothing although consumers could take it.

    Attributes:
        cause: its name in table `blocking`.
        contract: the section of the contract that has it.
        holds: the entries that it holds back, for people.
        because: the clause of the report, after "because"; `{holder}` says who held older entries.
        sure: which of `parts.free` it certainly holds back.
        blames: the consumer to blame, NOBODY: none.
    """

    cause: Cause
    contract: str
    holds: str
    because: str
    sure: Callable[[Situation, Divided], Mask]
    blames: Callable[[Situation, Divided], int]


def cause_of(situation: Situation, parts: Divided) -> tuple[Cause, int]:
    """The cause of a stall and the consumer to blame, NOBODY: none; UNEXPLAINED where something could be sent."""
    free = parts.free
    if free.slot.size == 0:
        return _of_unavailable(situation, parts.waiting, np.flatnonzero(parts.unavailable).tolist())
    holds_oldest: list[Gate] = []
    first = at_position(situation.state, free, oldest(situation.state, free.slot)[0])
    behind = np.zeros(free.slot.size, dtype=np.bool_)
    for gate in GATES:
        sure = gate.sure(situation, parts)
        if bool(sure.all()):
            return gate.cause, gate.blames(situation, parts)
        behind |= sure
        if bool(sure[first].all()):
            holds_oldest.append(gate)
    if not bool(behind.all()):
        return Cause.UNEXPLAINED, NOBODY
    return holds_oldest[0].cause, holds_oldest[0].blames(situation, parts)


def _of_unavailable(situation: Situation, waiting: Waiters, unavailable: list[int]) -> tuple[Cause, int]:
    """The cause where no entry could have been sent, because of its owner or because its hash drains."""
    blocking = most_waited_for(waiting, unavailable)
    if blocking == NOBODY:
        return Cause.DRAINING, holder_of_draining(situation.state, waiting.where(waiting.drains))
    no_permits = causes(situation, situation.since_us)[blocking] == Cause.NO_PERMITS
    return Cause.NO_PERMITS if no_permits else Cause.UNACKED_LIMIT_CONSUMER, blocking


GATES: Final[Sequence[Gate]] = (
    Gate(
        Cause.RECENTLY_JOINED,
        "6.1, 6.2, 6.4",
        "3.x and classic: those of consumers that joined after older entries were read, until mark-delete reaches that "
        "position; and what was not read and comes after such entries, on releases that do not read past replay",
        "consumers that had joined recently got no new entries while {holder} (known bug F5)",
        behind_joins,
        blames_joins,
    ),
    Gate(
        Cause.LOOK_AHEAD_LIMIT,
        "4.6, 4.7",
        "what was not read, while replay has as many entries as the look-ahead limit allows",
        "the replay queue had reached the look-ahead limit",
        behind_look_ahead,
        blames_look_ahead,
    ),
    Gate(
        Cause.NO_OWNER,
        "4.2, 4.11",
        "what was not read and comes after entries of hashes that no consumer has; on the draining dispatcher for no "
        "longer than 100 ms for each of these",
        "no consumer owned the hash",
        behind_unowned,
        nobody,
    ),
    Gate(
        Cause.ACK_HOLES_LIMIT,
        "4.2, step 9b",
        "what was not read, while `dispatcherPauseOnAckStatePersistentEnabled` is on and more ranges of entries are "
        "acknowledged above mark-delete than `managedLedgerMaxUnackedRangesToPersist`",
        "the cursor had more ranges of acknowledged entries than it persists, and the dispatcher pauses until "
        "acknowledgements close them (dispatcherPauseOnAckStatePersistentEnabled)",
        behind_ack_holes,
        blames_ack_holes,
    ),
    Gate(
        Cause.UNACKED_LIMIT_SUBSCRIPTION,
        "4.14",
        "what was not read, while `maxUnackedMessagesPerSubscription` messages are unacknowledged, and until half of "
        "them are",
        "the subscription had reached its limit of unacknowledged messages",
        behind_full_subscription,
        blames_subscription,
    ),
    Gate(
        Cause.DRAINING_STUCK,
        "3.9",
        "those of hashes that had drained, of which their owners hold nothing, and which are findings of the rule of "
        "that name",
        "their hashes had drained from {blocking} but were still not sent to the new owner",
        stuck_after_draining,
        blames_drained,
    ),
)
"""All gates, in the order in which the first that holds everything is the cause."""
