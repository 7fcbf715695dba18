"""Limits that no row shows and that may be why nothing is sent: then a stall is not provable.

| name | why it may hold back |
|---|---|
| unacked_limit_consumer | the limit is not what the trace claims, and a consumer that it may block holds messages |
| look_ahead_limit | delayed entries may be in replay: what cannot be sent goes there, due or not (contract 4.10) |
| dispatch_rate_limit | only a timer of the broker ends a pause as long as that of a limit (contract 4.2, step 5d) |
| lower_look_ahead_limit | replay has the size that it has in other stalls, or its largest, and no row says the limit |
| unacked_limit_subscription | half of the limit is unacknowledged: the broker reads on below that (contract 4.14) |
"""

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from dispatch_audit.pipeline.replay.blocking.attribution import Interval
from dispatch_audit.pipeline.replay.blocking.rate_limits import PAUSE_MAX_US
from dispatch_audit.pipeline.replay.blocking.stall_symptoms import Reported
from dispatch_audit.pipeline.replay.blocking.unshown.replay_levels import ALIKE
from dispatch_audit.pipeline.replay.state.state import CLAIM_DISREGARDED, UNKNOWN, WAITING, State, common_of

UNSHOWN_UNACKED: Final = "unacked_limit_consumer"
UNSHOWN_IN_REPLAY: Final = "look_ahead_limit"
UNSHOWN_RATE: Final = "dispatch_rate_limit"
UNSHOWN_SUBSCRIPTION: Final = "unacked_limit_subscription"
UNSHOWN_LOOK_AHEAD: Final = "lower_look_ahead_limit"

# A read takes up to 40 ms (contract 6.6).
_BROUGHT_ABOUT_US: Final = 100_000
# Nobody limits a consumer to fewer messages.
_LIMIT_MIN: Final = 3


def perhaps_blocked(state: State, since_us: int, *, said: bool, seen_only: bool = False) -> NDArray[np.bool_]:
    """Which consumers may be blocked on unacknowledged messages although the claimed limit does not say so.

    Args:
        state: the state.
        since_us: the beginning of the stall.
        said: whether a row says the limit.
        seen_only: whether only those count that were blocked before.
    """
    common, consumers = common_of(state), state.consumers.view(np.ndarray)
    if common["consumer_claim"] == CLAIM_DISREGARDED:
        # The limit is at least what a consumer was seen to hold; one that has reached it is blocked down to half of it.
        holding: NDArray[np.bool_] = 2 * consumers["unacked"] > common["most_held"]
        return holding
    if said:
        return np.zeros(consumers.size, dtype=np.bool_)
    # It came down to half of the claimed limit, but the broker's may be lower.
    perhaps: NDArray[np.bool_] = (consumers["unblocked_ts"] > since_us) & (consumers["unacked"] > 0)
    if not seen_only:
        # The limit may be as much as it ever held. What one held that has left is not known any more.
        left = (consumers["connected"] == 0) & (consumers["dispatched"] > consumers["acked"])
        perhaps |= left | ((consumers["most"] >= _LIMIT_MIN) & (2 * consumers["unacked"] > consumers["most"]))
    return perhaps


def may_be_full(state: State, limit: int, reported: Reported) -> bool:
    """Whether the subscription may have reached its limit of unacknowledged messages without being seen at it."""
    return 0 < limit <= 2 * max(int(common_of(state)["unacked"]), reported.unacked or 0)


def is_largest(reported: Reported) -> bool:
    """Whether replay has the largest size that any snapshot shows, or about that."""
    size = reported.in_replay or 0
    return size > 0 and size >= (1 - ALIKE) * reported.most_in_replay


def is_pause_of_a_rate(state: State, pause: Interval) -> bool:
    """Whether a pause that no event ended is no longer than one of a rate limit, and no publish ended it either."""
    if pause.to_ts - pause.from_ts > PAUSE_MAX_US:
        return False
    entries: Any = state.entries.view(np.ndarray)
    waiting = (entries["ledger"] != UNKNOWN) & (entries["marks"] & WAITING != 0)
    return bool((entries["since_ts"][waiting] < pause.to_ts - _BROUGHT_ABOUT_US).all())
