"""How long a consumer could be sent nothing: it had no permits, or too many unacknowledged messages (contract 4.14)."""

from typing import Final

from dispatch_audit.pipeline.replay.state.compiled import compiled
from dispatch_audit.pipeline.replay.state.seen import Seen

READY: Final = 0
"""No cause: the consumer can be sent something, or the hash has no open interval (`blocking.causes` has the others)."""


@compiled
def unavailable_us(state: Seen, consumer: int, ts: int) -> int:
    """The time since its join for which a consumer could be sent nothing; 0 for nobody."""
    if consumer < 0:
        return 0
    consumers = state.waits.consumers
    open_us = ts - consumers[consumer].cause_ts if consumers[consumer].cause != READY else 0
    return int(consumers[consumer].unavailable_us + open_us)


@compiled
def unserved_us(state: Seen, consumer: int, ts: int) -> int:
    """The time since its join for which the broker did not read for a consumer; 0 for nobody.

    For one that is blocked on unacknowledged messages it does not, although it may send it what it reads for others
    (4.2, 4.8).
    """
    if consumer < 0:
        return 0
    consumers = state.waits.consumers
    since_ts = consumers[consumer].unserved_since_ts
    return int(consumers[consumer].unserved_us + (ts - since_ts if since_ts > 0 else 0))
