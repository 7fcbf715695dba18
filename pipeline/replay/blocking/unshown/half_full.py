"""Who may be blocked on a limit of unacknowledged messages that no row shows, and until when (contract 4.14).

Whoever has reached a limit is blocked until it has come down to half of it. A limit that no row says may have been
reached with what was sent last. The acknowledgement that ends a wait has taken the count below half by then, so it is
noted until when it was not.
"""

from typing import Final

from dispatch_audit.pipeline.replay.state.compiled import compiled
from dispatch_audit.pipeline.replay.state.seen import Seen, SeenByBlocking
from dispatch_audit.pipeline.replay.state.state import CLAIM_DISREGARDED

OF_CONSUMER_MIN: Final = 3
"""Nobody limits a consumer to fewer messages."""
OF_SUBSCRIPTION_MIN: Final = 20
"""And nobody a subscription."""


@compiled
def note_half_full_consumer(state: SeenByBlocking, consumer: int, ts: int) -> None:
    """Notes when a consumer has come down to half of what may be its limit; called after every change of its count."""
    limits, consumers, waits = state.limits.common, state.consumers, state.waits.consumers
    # A limit that the broker does not have is at least what a consumer was seen to hold.
    disregarded = limits[0].consumer_claim == CLAIM_DISREGARDED
    reached = limits[0].consumer_most if disregarded else consumers[consumer].filled
    counted = consumers[consumer].unacked + consumers[consumer].uncounted
    if reached >= OF_CONSUMER_MIN and 2 * counted > reached:
        waits[consumer].half_full = 1
    elif waits[consumer].half_full == 1:
        waits[consumer].half_full = 0
        waits[consumer].half_full_ts = ts


@compiled
def blocked_until_ts(state: Seen, consumer: int, ts: int) -> int:
    """Until when a consumer was, or may have been, blocked: `ts` if it may be now, and 0 for nobody."""
    consumers, waits = state.consumers, state.waits.consumers
    if consumer < 0:
        return 0
    disregarded = state.limits.common[0].consumer_claim == CLAIM_DISREGARDED
    # What the broker counts and rows do not show may have reached a limit that a row says, too.
    doubtful = disregarded or state.common[0].consumer_said == 0 or consumers[consumer].uncounted > 0
    if consumers[consumer].blocked == 1 or (doubtful and waits[consumer].half_full == 1):
        return ts
    until = consumers[consumer].unblocked_ts
    return int(max(until, waits[consumer].half_full_ts) if doubtful else until)


@compiled
def note_half_full_subscription(state: SeenByBlocking, ts: int) -> None:
    """Notes when the subscription has come down to half of what may be its limit; called with every row."""
    waits = state.waits.common
    if may_be_half_full(state, state.common[0].unacked):
        waits[0].half_full = 1
    elif waits[0].half_full == 1:
        waits[0].half_full = 0
        waits[0].half_full_ts = ts


@compiled
def may_be_half_full(state: Seen, unacked: int) -> bool:
    """Whether so many unacknowledged messages may block the subscription, if they once reached its limit.

    A limit that no row says, or that the broker does not have, was above what there was before the last read, and that
    read has reached it.
    """
    common = state.common
    if 0 < common[0].unacked_limit <= 2 * unacked:
        return True
    disregarded = state.limits.common[0].subscription_claim == CLAIM_DISREGARDED
    unknown = disregarded or common[0].subscription_said == 0
    return bool(unknown and common[0].filled >= OF_SUBSCRIPTION_MIN and common[0].before_read <= 2 * unacked)
