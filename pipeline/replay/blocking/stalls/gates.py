"""Gates: the causes for which nothing is sent although consumers could take it, a row each, and the decision.

Each gate says of every entry that its owner could take whether it certainly held that entry back. A stall has a cause
if every such entry is behind a gate; it is that of the first gate in the table that holds all of them, else of the
first that holds the oldest. An entry behind no gate makes the stall `unexplained`. docs/BLOCKING.md has the table.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from dispatch_audit.pipeline.packing.snapshot import Position
from dispatch_audit.pipeline.replay.blocking.attribution import Waiters, are_before, held_by, in_order, most_waited_for
from dispatch_audit.pipeline.replay.blocking.capacity_samples import ack_holes
from dispatch_audit.pipeline.replay.blocking.passed_over import are_found, unserved_since_drained
from dispatch_audit.pipeline.replay.blocking.stalls.reported import may_be_skipped, reported_as_read, shown_as_read
from dispatch_audit.pipeline.replay.blocking.stalls.situation import Mask, Situation
from dispatch_audit.pipeline.replay.durations import READ_AND_PAUSE_US, SNAPSHOT_LAG_US
from dispatch_audit.pipeline.replay.settings.settings_in_force import UNACKED_PER_BROKER
from dispatch_audit.pipeline.replay.state.memories import WAIT
from dispatch_audit.pipeline.replay.state.records import NOBODY, Ints, record_of
from dispatch_audit.pipeline.replay.state.state import Seen, common_of
from dispatch_audit.pipeline.replay.state.values import Cause


def _ahead(situation: Situation, ahead: Waiters) -> Ints:
    """How many of some entries are before each that could be sent."""
    entries: Any = situation.state.entries.view(np.ndarray)
    both = np.concatenate([ahead.slot, situation.free.slot])
    # Of equal positions the one that asks comes first: an entry is not ahead of itself.
    asks = np.concatenate([np.ones(ahead.slot.size, np.int64), np.zeros(situation.free.slot.size, np.int64)])
    order = np.lexsort((asks, entries["entry"][both], entries["ledger"][both]))
    counted = np.empty(both.size, dtype=np.int64)
    counted[order] = np.cumsum(asks[order])
    found: Ints = counted[ahead.slot.size :]
    return found


def behind_joins(situation: Situation) -> Mask:
    """Recently joined consumers hold back their own entries, and those of others as long as these are not read.

    The broker reads in order and puts what it holds back into replay. Some releases do not read on while replay has
    entries (6.4); the others do (6.2), and take a read and a pause at most for each entry that comes first and was not
    read before.
    """
    state, waiting = situation.state, situation.waiting
    if not situation.held_back:
        return situation.behind_joins
    if not situation.limits.reads_past_replay:
        late: Mask = _ahead(situation, waiting) > 0
    else:
        late = situation.duration_us <= _ahead(situation, waiting.where(~waiting.was_read)) * READ_AND_PAUSE_US
    behind: Mask = situation.behind_joins | (late & ~reported_as_read(state, situation.free, situation.reported))
    return behind


def blames_joins(situation: Situation) -> int:
    """The holder of the oldest entry that the first of the recently joined consumers waits for."""
    first = situation.recent.waiting[0]
    holder = holder_of_oldest(situation, first.until)
    # Else the holder has just acknowledged the entry that mark-delete waited for.
    return first.holder if holder == NOBODY else holder


def behind_full_replay(situation: Situation) -> Mask:
    """What comes after as many entries as replay may have, and was not read: the look-ahead limit (4.6, 4.7).

    The broker reads on without a dispatch as long as replay is below the limit, so the entries that cannot be sent and
    come before one that can are in replay by then. What was read is sent at any size of replay. If the read position
    stands still for longer than a read and a pause while replay is below the limit, something else stops it.
    """
    limit, reported, free = situation.look_ahead_limit, situation.reported, situation.free
    if limit is None:
        return np.zeros(free.slot.size, dtype=np.bool_)
    if reported.in_replay is not None and reported.in_replay >= limit:
        return ~free.was_read
    stood_us = reported.position_us - max(reported.stands_us, situation.since_us)
    if reported.in_replay is not None and stood_us >= READ_AND_PAUSE_US + SNAPSHOT_LAG_US:
        return np.zeros(free.slot.size, dtype=np.bool_)
    # The queue may have grown since a snapshot with a smaller size. Due entries after one that can be sent do not
    # count: the broker would have had to read, and send, that one first.
    stuck = situation.waiting.where(situation.held & ~may_be_skipped(situation.state, situation.waiting, reported))
    read = shown_as_read(situation.state, stuck, reported)
    full: Mask = ~free.was_read & (np.count_nonzero(read) + _ahead(situation, stuck.where(~read)) >= limit)
    return full


def blames_full_replay(situation: Situation) -> int:
    """The consumer that most of the entries in replay wait for."""
    waiting = situation.waiting
    blocking = most_waited_for(waiting.where(waiting.was_read), np.flatnonzero(situation.unavailable).tolist())
    return holder_of_draining(situation.state, waiting.where(waiting.drains)) if blocking == NOBODY else blocking


def behind_unowned(situation: Situation) -> Mask:
    """Entries that nobody owns and that come first keep the cursor from what was not read.

    A read has no more entries than the consumers have permits, and one that brings nothing to send is followed by a
    pause (4.2). So few permits and many unowned entries keep the cursor long, but the dispatcher of draining hashes
    puts them into replay and reads on (4.11): each of them costs it a read at most.
    """
    ahead = _ahead(situation, situation.waiting.where(situation.waiting.owner == NOBODY))
    behind: Mask = ~situation.free.was_read & (ahead > 0)
    if not situation.recent.applies:
        behind &= situation.duration_us <= ahead * READ_AND_PAUSE_US
    return behind


def behind_ack_holes(situation: Situation) -> Mask:
    """More ranges are acknowledged than the cursor persists."""
    paused = 0 < situation.pauses_at < ack_holes(situation.state)
    return ~situation.free.was_read & paused


def holder_of_oldest(situation: Situation, below: Position | None = None) -> int:
    """The holder of the oldest unacknowledged entry, or of the oldest below a position: mark-delete waits for it."""
    state = situation.state
    held = held_by(state)
    if below is not None:
        held = held[are_before(state, held, below)]
    return int(state.entries.view(np.ndarray)["holder"][held[in_order(state, held)[0]]]) if held.size else NOBODY


def behind_full_subscription(situation: Situation) -> Mask:
    """What was read is sent although the subscription is at its limit (4.2, step 8)."""
    return ~situation.free.was_read & is_full(situation)


def is_full(situation: Situation) -> bool:
    """Whether the subscription is blocked on unacknowledged messages at the end, or was until shortly before.

    Nothing was sent in the interval, so the limit was reached before it or not at all.
    """
    common, unacked = common_of(situation.state), situation.reported.unacked
    # The broker may count what an administrator has skipped (5.10).
    counted = unacked is not None and 0 < common["unacked_limit"] <= unacked
    full_until_us = record_of(situation.state.waits.common, WAIT)["blocked_on_unacked_until_ts"]
    full = counted or common["blocked_on_unacked"] == 1 or bool(full_until_us > situation.since_us)
    # What a limit of the whole broker blocks looks the same.
    return full or (situation.reported.full and situation.in_force.lowest(UNACKED_PER_BROKER) <= 0)


def most_unacked(situation: Situation) -> int:
    """The consumer with the most unacknowledged messages."""
    return int(np.argmax(situation.consumers["unacked"]))


def stuck_after_draining(situation: Situation) -> Mask:
    """Each hash had drained and is a finding by itself, so that the stall is not another one."""
    state, free = situation.state, situation.free
    stuck = not situation.recent.applies and bool(unserved_since_drained(state, free).all())
    stuck = stuck and are_found(state, free, situation.stall_threshold_us, situation.sent)
    return np.full(free.slot.size, stuck)


def blames_drained(situation: Situation) -> int:
    """The consumer from which the first hash drained."""
    return int(situation.state.hashes.view(np.ndarray)["drained_from"][situation.free.hash_at[0]])


def holder_of_draining(state: Seen, waiting: Waiters) -> int:
    """The holder of the draining hashes that most entries wait for."""
    if waiting.slot.size == 0:
        return NOBODY
    hashes = state.hashes.view(np.ndarray)[waiting.hash_at]
    holders = np.where(hashes["away"] == 1, hashes["holder"], hashes["drained_from"])
    found, counts = np.unique(holders, return_counts=True)
    return int(found[np.argmax(counts)])


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
        "them are, or a snapshot shows it blocked on them",
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
