"""How long causes of consumers and of the subscription have lasted, open intervals included."""

import numpy as np

from dispatch_audit.pipeline.replay.state.causes import Cause
from dispatch_audit.pipeline.replay.state.compiled import compiled
from dispatch_audit.pipeline.replay.state.records import UNKNOWN
from dispatch_audit.pipeline.replay.state.seen import Seen


@compiled
def unavailable_us(state: Seen, consumer: int, ts: int) -> int:
    """The time since its join for which a consumer could be sent nothing; 0 for nobody."""
    if consumer < 0:
        return 0
    consumers = state.waits.consumers
    open_us = ts - consumers[consumer].cause_ts if consumers[consumer].cause != Cause.READY else 0
    return int(consumers[consumer].unavailable_us + open_us)


@compiled
def unserved_us(state: Seen, consumer: int, ts: int) -> int:
    """The time since its join for which the broker did not read for a consumer; 0 for nobody.

    It does not for one that is blocked on unacknowledged messages, but may send it what it reads for others (4.2, 4.8).
    """
    if consumer < 0:
        return 0
    consumers = state.waits.consumers
    since_ts = consumers[consumer].unserved_since_ts
    return int(consumers[consumer].unserved_us + (ts - since_ts if since_ts > 0 else 0))


@compiled
def look_ahead_us(state: Seen, ts: int) -> int:
    """The total time for which the look-ahead limit has been reached."""
    since = state.waits.common[0].look_ahead_since_ts
    return int(state.waits.common[0].look_ahead_us + (ts - since if since != UNKNOWN else 0))


@compiled
def blocked_on_unacked_us(state: Seen, ts: int) -> int:
    """The total time for which the subscription has been blocked on unacknowledged messages."""
    since = state.waits.common[0].blocked_on_unacked_since_ts
    return int(state.waits.common[0].blocked_on_unacked_us + (ts - since if since != UNKNOWN else 0))


def short_until_us(state: Seen, consumer: int, ts: int) -> int:
    """The last time up to `ts` at which a consumer had no permits or was at its limit; UNKNOWN: never."""
    wait = state.waits.consumers.view(np.ndarray)[consumer]
    if wait["cause"] != Cause.READY:
        return ts
    return int(wait["cause_ts"]) if wait["former"] != Cause.READY else UNKNOWN
