"""Who may be blocked on a limit because the broker may count more than rows show (contract 4.14).

It may count what was skipped while a consumer held it, or was sent twice (E6, F10).
"""

from dispatch_audit.pipeline.replay.state.compiled import compiled
from dispatch_audit.pipeline.replay.state.seen import Seen


@compiled
def may_be_blocked(state: Seen, consumer: int) -> bool:
    """Whether a consumer may have been at its limit, and not have come down to half of it."""
    limit, uncounted = state.common[0].blocks_at, state.consumers[consumer].uncounted
    return bool(limit > 0 and uncounted > 0 and 2 * (state.consumers[consumer].unacked + uncounted) >= limit)


@compiled
def blocked_until_ts(state: Seen, consumer: int, ts: int) -> int:
    """Until when a consumer was, or may have been, blocked: `ts` if it may be now, and 0 for nobody."""
    if consumer < 0:
        return 0
    of = state.consumers[consumer]
    if of.blocked == 1 or may_be_blocked(state, consumer):
        return ts
    # With the last that it gave up it may have come down to half of the limit.
    perhaps_ts = of.gave_up_ts if of.uncounted > 0 and state.common[0].blocks_at > 0 else 0
    return int(max(of.unblocked_ts, perhaps_ts))
