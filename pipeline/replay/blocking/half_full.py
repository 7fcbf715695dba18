"""Who may be blocked on a limit of unacknowledged messages that no row shows, and until when (contract 4.14).

A limit that no row says may have any value, and policies may change it. The lowest value blocks whomever a higher one
blocks: it is reached first, and half of it last. So a consumer may be blocked if the lowest limit that anybody sets
would block it. The acknowledgement that ends a wait takes the count below half, so the last time before is noted.
"""

from typing import Final

from dispatch_audit.pipeline.replay.blocking.durations import unserved_us
from dispatch_audit.pipeline.replay.state.compiled import compiled
from dispatch_audit.pipeline.replay.state.output import OF_CONSUMER, OF_SUBSCRIPTION
from dispatch_audit.pipeline.replay.state.seen import Seen, SeenByBlocking
from dispatch_audit.pipeline.replay.state.state import CLAIM_DISREGARDED

OF_CONSUMER_MIN: Final = 3
"""Assumed: nobody limits a consumer to fewer messages."""
OF_SUBSCRIPTION_MIN: Final = 20
"""Assumed: nobody limits a subscription to fewer messages."""


@compiled
def note_half_full_consumer(state: SeenByBlocking, consumer: int, ts: int) -> None:
    """Notes when a consumer reaches what may be its limit, and half of it; called after every change of its count.

    Only an acknowledgement unblocks it, so a limit that is raised meanwhile does not (4.14).
    """
    waits, least = state.waits.consumers, _least_of_consumer(state, consumer)
    counted = state.consumers[consumer].unacked + state.consumers[consumer].uncounted
    if 0 < least <= counted:
        waits[consumer].half_full = 1
    elif waits[consumer].half_full == 1:
        given_up = counted < waits[consumer].half_full_count
        if least == 0 or (given_up and 2 * counted <= least):
            waits[consumer].half_full = 0
            waits[consumer].half_full_ts = ts
    waits[consumer].half_full_count = counted


@compiled
def note_perhaps_blocked(state: SeenByBlocking, consumer: int, messages: int, ts: int) -> None:
    """Counts a pause of a consumer as time in which the broker did not read for it; call before it is sent something.

    A limit that no row says may have blocked it since its last message if it has given up half of what it held then,
    which is what unblocks it.
    """
    of, waits = state.consumers[consumer], state.waits.consumers
    counted, held = of.unacked + of.uncounted, waits[consumer].sent_count
    unserved = unserved_us(state, consumer, ts)
    if 0 < _least_of_consumer(state, consumer) <= held and 2 * counted <= held and of.gave_up_ts > of.sent_ts:
        more = max(of.gave_up_ts - of.sent_ts - (unserved - waits[consumer].sent_unserved_us), 0)
        waits[consumer].unserved_us += more
        unserved += more
    waits[consumer].sent_count = counted + messages
    waits[consumer].sent_unserved_us = unserved


@compiled
def _least_of_consumer(state: Seen, consumer: int) -> int:
    """The lowest limit that may block a consumer without rows showing it; 0: none does."""
    common = state.common
    if common[0].consumer_said == 0 or state.limits.claims[OF_CONSUMER].claim == CLAIM_DISREGARDED:
        return OF_CONSUMER_MIN
    # Messages that the broker counts and rows do not show may also have reached a limit that a row says.
    return int(common[0].blocks_at) if state.consumers[consumer].uncounted > 0 else 0


@compiled
def blocked_until_ts(state: Seen, consumer: int, ts: int) -> int:
    """Until when a consumer was, or may have been, blocked: `ts` if it may be now, and 0 for nobody."""
    consumers, waits = state.consumers, state.waits.consumers
    if consumer < 0:
        return 0
    if consumers[consumer].blocked == 1 or waits[consumer].half_full == 1:
        return ts
    return int(max(consumers[consumer].unblocked_ts, waits[consumer].half_full_ts))


@compiled
def note_half_full_subscription(state: SeenByBlocking, ts: int) -> None:
    """Notes when the subscription has come down to half of what may be its limit; called with every row.

    As with a consumer, a limit that is raised or removed meanwhile does not unblock it.
    """
    waits, unacked = state.waits.common, state.common[0].unacked
    given_up = unacked < waits[0].half_full_count
    if may_be_half_full(state, unacked):
        waits[0].half_full = 1
    elif waits[0].half_full == 1 and given_up and not may_be_half_full(state, unacked + uncounted_of_all(state)):
        waits[0].half_full = 0
        waits[0].half_full_ts = ts
    waits[0].half_full_count = unacked


@compiled
def uncounted_of_all(state: Seen) -> int:
    """The messages that the broker may count as unacknowledged beyond those that rows show (E6, F10)."""
    consumers, messages = state.consumers, 0
    for consumer in range(consumers.size):
        if consumers[consumer].connected == 1:
            messages += consumers[consumer].uncounted
    return int(messages)


@compiled
def may_be_half_full(state: Seen, unacked: int) -> bool:
    """Whether so many unacknowledged messages are half of what may be the limit of the subscription, or more."""
    common, least = state.common, OF_SUBSCRIPTION_MIN
    if common[0].subscription_said == 1 and state.limits.claims[OF_SUBSCRIPTION].claim != CLAIM_DISREGARDED:
        least = common[0].unacked_limit
    return bool(0 < least <= 2 * unacked)
