"""Who may be blocked on a limit because the broker may count more than rows show, and until when (contract 4.14).

It may count what was skipped while a consumer held it, or was sent twice (E6, F10). A subscription may have reached
its limit for a moment that no row shows, too, and stays blocked until it is at half of it.
"""

from dispatch_audit.pipeline.replay.state.compiled import compiled
from dispatch_audit.pipeline.replay.state.seen import Seen, SeenByBlocking


@compiled
def note_may_be_blocked(state: SeenByBlocking, consumer: int, ts: int) -> None:
    """Notes when a consumer reaches what may be its limit, and half of it; called after every change of its count.

    Only an acknowledgement unblocks it, so a limit that is raised meanwhile does not (4.14).
    """
    waits, limit, uncounted = state.waits.consumers, state.common[0].blocks_at, state.consumers[consumer].uncounted
    counted = state.consumers[consumer].unacked + uncounted
    if uncounted > 0 and 0 < limit <= counted:
        waits[consumer].may_be_blocked = 1
    elif waits[consumer].may_be_blocked == 1:
        given_up = counted < waits[consumer].counted
        if limit == 0 or uncounted == 0 or (given_up and 2 * counted <= limit):
            waits[consumer].may_be_blocked = 0
            waits[consumer].may_be_blocked_ts = ts
    waits[consumer].counted = counted


@compiled
def blocked_until_ts(state: Seen, consumer: int, ts: int) -> int:
    """Until when a consumer was, or may have been, blocked: `ts` if it may be now, and 0 for nobody."""
    consumers, waits = state.consumers, state.waits.consumers
    if consumer < 0:
        return 0
    if consumers[consumer].blocked == 1 or waits[consumer].may_be_blocked == 1:
        return ts
    return int(max(consumers[consumer].unblocked_ts, waits[consumer].may_be_blocked_ts))


@compiled
def note_subscription_may_be_blocked(state: SeenByBlocking, ts: int) -> None:
    """Notes when the subscription has come down to half of its limit; called with every row.

    As with a consumer, a limit that is raised or removed meanwhile does not unblock it.
    """
    waits, unacked = state.waits.common, state.common[0].unacked
    given_up = unacked < waits[0].counted
    if is_half_of_limit(state, unacked):
        waits[0].may_be_blocked = 1
    elif waits[0].may_be_blocked == 1 and given_up and not is_half_of_limit(state, unacked + uncounted_of_all(state)):
        waits[0].may_be_blocked = 0
        waits[0].may_be_blocked_ts = ts
    waits[0].counted = unacked


@compiled
def uncounted_of_all(state: Seen) -> int:
    """The messages that the broker may count as unacknowledged beyond those that rows show (E6, F10)."""
    consumers, messages = state.consumers, 0
    for consumer in range(consumers.size):
        if consumers[consumer].connected == 1:
            messages += consumers[consumer].uncounted
    return int(messages)


@compiled
def is_half_of_limit(state: Seen, unacked: int) -> bool:
    """Whether so many unacknowledged messages are half of the limit of the subscription, or more."""
    return bool(0 < state.common[0].unacked_limit <= 2 * unacked)
