"""Gates: the causes for which nothing is sent although consumers could take it, a row each, and the decision.

Each gate says of every entry that its owner could take whether it certainly held that entry back. A stall has a cause
if every such entry is behind a gate; it is that of the first gate in the table that holds all of them, else of the
first that holds the oldest. An entry behind no gate makes the stall `unexplained`. docs/BLOCKING.md has the table.
"""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import numpy as np

from dispatch_audit.pipeline.replay.blocking.attribution import in_order, most_waited_for
from dispatch_audit.pipeline.replay.blocking.stalls.held_reads import (
    behind_ack_holes,
    behind_full_replay,
    behind_full_subscription,
    behind_joins,
    behind_unowned,
    blames_drained,
    blames_full_replay,
    blames_joins,
    holder_of_draining,
    holder_of_oldest,
    most_unacked,
    stuck_after_draining,
)
from dispatch_audit.pipeline.replay.blocking.stalls.situation import Mask, Situation
from dispatch_audit.pipeline.replay.state.records import NOBODY
from dispatch_audit.pipeline.replay.state.values import Cause


def nobody(_situation: Situation) -> int:
    """No consumer is to blame."""
    return NOBODY


class Gate(NamedTuple):
    """A cause for which the broker sends nothing although consumers could take it.

    Attributes:
        cause: its name in table `blocking`.
        contract: the section of the contract that has it.
        holds: the entries that it holds back, for people.
        because: the clause of the report, after "because"; `{holder}` says who held older entries.
        sure: which of the entries that could be sent (`Situation.free`) it certainly holds back.
        blames: the consumer to blame, NOBODY: none.
    """

    cause: Cause
    contract: str
    holds: str
    because: str
    sure: Callable[[Situation], Mask]
    blames: Callable[[Situation], int] = nobody


def cause_of(situation: Situation) -> tuple[Cause, int]:
    """The cause of a stall and the consumer to blame, NOBODY: none; UNEXPLAINED where something could be sent."""
    free = situation.free
    if free.slot.size == 0:
        return _of_unavailable(situation)
    oldest = in_order(situation.state, free.slot)[0]
    holds_oldest: list[Gate] = []
    behind = np.zeros(free.slot.size, dtype=np.bool_)
    for gate in GATES:
        sure = gate.sure(situation)
        if bool(sure.all()):
            return gate.cause, gate.blames(situation)
        behind |= sure
        if sure[oldest]:
            holds_oldest.append(gate)
    return (holds_oldest[0].cause, holds_oldest[0].blames(situation)) if behind.all() else (Cause.UNEXPLAINED, NOBODY)


def _of_unavailable(situation: Situation) -> tuple[Cause, int]:
    """The cause where no entry could have been sent, because of its owner or because its hash drains."""
    waiting = situation.waiting
    blocking = most_waited_for(waiting, np.flatnonzero(situation.unavailable).tolist())
    if blocking == NOBODY:
        return Cause.DRAINING, holder_of_draining(situation.state, waiting.where(waiting.drains))
    no_permits = situation.causes[blocking] == Cause.NO_PERMITS
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
        behind_full_replay,
        blames_full_replay,
    ),
    Gate(
        Cause.NO_OWNER,
        "4.2, 4.11",
        "what was not read and comes after entries of hashes that no consumer has; on the draining dispatcher for no "
        "longer than 100 ms for each of these",
        "no consumer owned the hash",
        behind_unowned,
    ),
    Gate(
        Cause.ACK_HOLES_LIMIT,
        "4.2, step 9b",
        "what was not read, while `dispatcherPauseOnAckStatePersistentEnabled` is on and more ranges of entries are "
        "acknowledged above mark-delete than `managedLedgerMaxUnackedRangesToPersist`",
        "the cursor had more ranges of acknowledged entries than it persists, and the dispatcher pauses until "
        "acknowledgements close them (dispatcherPauseOnAckStatePersistentEnabled)",
        behind_ack_holes,
        holder_of_oldest,
    ),
    Gate(
        Cause.UNACKED_LIMIT_SUBSCRIPTION,
        "4.14",
        "what was not read, while `maxUnackedMessagesPerSubscription` messages are unacknowledged, and until half of "
        "them are",
        "the subscription had reached its limit of unacknowledged messages",
        behind_full_subscription,
        most_unacked,
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
