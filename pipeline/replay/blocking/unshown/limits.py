"""Limits that no row shows and that may be why nothing is sent: then a stall is not provable.

| name | why it may hold back |
|---|---|
| unacked_limit_consumer | the limit is not what the trace claims, and a consumer that it may block holds messages |
| look_ahead_limit | delayed entries may be in replay: what cannot be sent goes there, due or not (contract 4.10) |
| dispatch_rate_limit | only a timer of the broker ends a pause as long as that of a limit (contract 4.2, step 5d) |
| lower_look_ahead_limit | replay has about the size that it had when the broker read on, and no row says the limit |
| unacked_limit_subscription | half of the limit is unacknowledged: the broker reads on below that (contract 4.14) |
"""

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from dispatch_audit.pipeline.replay.blocking.attribution import Interval
from dispatch_audit.pipeline.replay.blocking.stall_symptoms import Reported
from dispatch_audit.pipeline.replay.blocking.unshown.half_full import OF_CONSUMER_MIN, may_be_half_full
from dispatch_audit.pipeline.replay.blocking.unshown.rate_limits import PAUSE_MAX_US
from dispatch_audit.pipeline.replay.blocking.unshown.replay_levels import ALIKE
from dispatch_audit.pipeline.replay.state.memories import LIMIT, WAIT
from dispatch_audit.pipeline.replay.state.seen import Seen
from dispatch_audit.pipeline.replay.state.state import CLAIM_DISREGARDED, UNKNOWN, WAITING, common_of, record_of

UNSHOWN_UNACKED: Final = "unacked_limit_consumer"
UNSHOWN_IN_REPLAY: Final = "look_ahead_limit"
UNSHOWN_RATE: Final = "dispatch_rate_limit"
UNSHOWN_SUBSCRIPTION: Final = "unacked_limit_subscription"
UNSHOWN_LOOK_AHEAD: Final = "lower_look_ahead_limit"

# A read takes up to 40 ms (contract 6.6).
_BROUGHT_ABOUT_US: Final = 100_000
# Nobody limits replay to fewer entries.
_OF_REPLAY_MIN: Final = 100


def perhaps_blocked(
    state: Seen, since_us: int, lately_us: int, unseen: NDArray[np.bool_] | bool = True
) -> NDArray[np.bool_]:
    """Which consumers may be blocked on unacknowledged messages although the claimed limit does not say so.

    Args:
        state: the state.
        since_us: the beginning of the stall.
        lately_us: those count too that may have been blocked later than this.
        unseen: which count although they were not seen blocked before, and the broker counts no more for them.
    """
    common, consumers = common_of(state), state.consumers.view(np.ndarray)
    counted, filled = consumers["unacked"] + consumers["uncounted"], consumers["filled"]
    half_full_ts: Any = state.waits.consumers.view(np.ndarray)["half_full_ts"]
    lately: NDArray[np.bool_] = half_full_ts > lately_us
    limits = record_of(state.limits.common, LIMIT)
    if limits["consumer_claim"] == CLAIM_DISREGARDED:
        # The limit is at least what a consumer was seen to hold; one that has reached it is blocked down to half of it.
        holding: NDArray[np.bool_] = (2 * counted > limits["consumer_most"]) | lately
        return holding
    blocks_at = int(common["blocks_at"])
    counts_more: NDArray[np.bool_] = consumers["uncounted"] > 0
    perhaps: NDArray[np.bool_] = np.zeros(consumers.size, dtype=np.bool_)
    if blocks_at > 0:
        perhaps = counts_more & (filled >= blocks_at) & (counted > blocks_at // 2)
    if common["consumer_said"] == 1:
        return perhaps
    # The limit may be what it had when it was sent something last; then it is blocked down to half of that.
    lower = ((filled >= OF_CONSUMER_MIN) & (2 * counted > filled)) | lately
    # It came down to half of the claimed limit, but the broker's may be lower.
    perhaps |= (consumers["unblocked_ts"] > since_us) & (consumers["unacked"] > 0) | (counts_more & lower)
    # What one held that has left is not known any more.
    perhaps |= unseen & (lower | ((consumers["connected"] == 0) & (consumers["dispatched"] > consumers["acked"])))
    return perhaps


def makes_room(state: Seen, sent_us: int) -> NDArray[np.bool_]:
    """Which consumers, if they are sent something at a time, may have been at a limit lowered to what they held.

    A policy may lower a limit below what a consumer holds. That one is sent nothing until it holds less than the limit
    (contract 4.8), far from half of what it held after its last dispatch. So what it gives up brings a dispatch about.
    """
    consumers: Any = state.consumers.view(np.ndarray)
    held = consumers["unacked"] + consumers["gave_up"]
    lately = consumers["gave_up_ts"] >= sent_us - _BROUGHT_ABOUT_US
    room: NDArray[np.bool_] = lately & (held >= OF_CONSUMER_MIN) & (common_of(state)["consumer_said"] == 0)
    return room


def may_be_full(state: Seen, since_us: int, reported: Reported) -> bool:
    """Whether the subscription may have reached a limit of unacknowledged messages without being seen at it.

    Args:
        state: the state.
        since_us: it counts too if it may have been full later than this.
        reported: what snapshots of the stall say.
    """
    common, consumers = common_of(state), state.consumers.view(np.ndarray)
    more = int(consumers["uncounted"][consumers["connected"] == 1].sum())
    counted = max(int(common["unacked"]) + more, reported.unacked or 0)
    return bool(record_of(state.waits.common, WAIT)["half_full_ts"] > since_us) or bool(
        may_be_half_full(state, counted)
    )


def may_be_too_long(in_replay: int, reported: Reported) -> bool:
    """Whether so many entries in replay may have reached a limit that no row says: about as many as when it read on."""
    return in_replay >= max(_OF_REPLAY_MIN, (1 - ALIKE) * reported.replay_at_read)


def is_pause_of_a_rate(state: Seen, pause: Interval) -> bool:
    """Whether a pause that no event ended is no longer than one of a rate limit, and no publish ended it either."""
    if pause.to_ts - pause.from_ts > PAUSE_MAX_US:
        return False
    entries: Any = state.entries.view(np.ndarray)
    waiting = (entries["ledger"] != UNKNOWN) & (entries["marks"] & WAITING != 0)
    return bool((entries["since_ts"][waiting] < pause.to_ts - _BROUGHT_ABOUT_US).all())
