"""What consumers may be sent: permits, unacked counts of consumers and the subscription, and who is blocked on them.

Source: contract 4.14.
"""

from typing import Final

from dispatch_audit.pipeline.packing.membership_rows import TracePoint
from dispatch_audit.pipeline.replay.blocking.consumer_availability import update_availability
from dispatch_audit.pipeline.replay.state.compiled import compiled
from dispatch_audit.pipeline.replay.state.output import By, Output
from dispatch_audit.pipeline.replay.state.records import UNKNOWN
from dispatch_audit.pipeline.replay.state.state import State
from dispatch_audit.pipeline.replay.state.values import SETS_COUNT, Mark

_GIVES_UP: Final = (By.ACK, By.REDELIVER, By.MARK_DELETE, By.RESET)


@compiled
def messages_left(state: State, slot: int) -> int:
    """The number of messages of an entry that no ack set has acknowledged; without batch-index acks all (5.3)."""
    entries = state.entries
    if entries[slot].words_at == UNKNOWN or state.common[0].ack_sets != SETS_COUNT:
        return int(entries[slot].messages)
    left = 0
    for message in range(entries[slot].messages):
        word = message >> 6
        if word < entries[slot].words and state.words[entries[slot].words_at + word] >> (message & 63) & 1 == 1:
            left += 1
    return left


@compiled
def charge(state: State, slot: int, consumer: int, messages: int) -> None:
    """Adds messages of an entry to the unacked counts of a consumer and the subscription (4.14)."""
    common = state.common
    state.consumers[consumer].unacked += messages
    if state.entries[slot].marks & Mark.MAYBE_SKIPPED != 0:
        count_as_maybe_skipped(state, consumer, messages)
    common[0].unacked += messages
    # Reads are blocked from the limit on, until less than half of it is left, or there is none any more.
    limit = common[0].unacked_limit
    if limit <= 0 or common[0].unacked < limit // 2:
        common[0].blocked_on_unacked = 0
        common[0].perhaps_blocked = 0
        return
    if common[0].unacked >= limit:
        common[0].blocked_on_unacked = 1
    if messages > 0 and common[0].unacked + common[0].settling >= limit:
        common[0].perhaps_blocked = 1


@compiled
def count_as_maybe_skipped(state: State, consumer: int, messages: int) -> None:
    """Counts messages that a consumer holds as perhaps skipped: some releases go on to count them (E6).

    They do so also when it gives them back, where `messages` is negative.
    """
    state.consumers[consumer].maybe_skipped += messages
    state.consumers[consumer].uncounted += max(messages, 0)


@compiled
def unblock(state: State, consumer: int, ts: int) -> None:
    """Unblocks a consumer: the permits that it asked for while blocked on unacked messages count from now on (4.14)."""
    consumers = state.consumers
    if consumers[consumer].blocked == 1:
        consumers[consumer].unblocked_ts = ts
    consumers[consumer].blocked = 0
    consumers[consumer].permits += consumers[consumer].withheld
    consumers[consumer].withheld = 0


@compiled
def note_capacity(
    state: State, out: Output, consumer: int, point: TracePoint, ended_by: int, report_min_us: int
) -> None:
    """Blocks or unblocks a consumer, and lets the observers note it; called after every change of what it may be sent.

    An interval ends here in which it could be sent nothing; it is reported if it is not shorter than `report_min_us`.
    """
    consumers, blocks_at = state.consumers, state.common[0].blocks_at
    half_free = blocks_at <= 0 or consumers[consumer].unacked <= blocks_at // 2
    if blocks_at > 0 and consumers[consumer].unacked >= blocks_at:
        consumers[consumer].blocked = 1
    # A new limit takes effect with the next acknowledgement: only what a consumer gives up unblocks it (4.14).
    elif consumers[consumer].blocked == 1 and half_free and ended_by in _GIVES_UP:
        unblock(state, consumer, point.ts_us)
    update_availability(state, out, consumer, point, ended_by, report_min_us)


@compiled
def note_capacities(state: State, out: Output, point: TracePoint, ended_by: int, report_min_us: int) -> None:
    """Calls `note_capacity` for all connected consumers."""
    for consumer in range(state.consumers.size):
        if state.consumers[consumer].connected == 1:
            note_capacity(state, out, consumer, point, ended_by, report_min_us)
