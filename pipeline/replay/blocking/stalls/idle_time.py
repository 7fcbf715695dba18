"""The time in which nothing is sent to any consumer although entries wait."""

from dispatch_audit.pipeline.replay.blocking.attribution import Interval
from dispatch_audit.pipeline.replay.packing.membership_rows import TracePoint
from dispatch_audit.pipeline.replay.state.seen import Seen
from dispatch_audit.pipeline.replay.state.state import common_of


def idle_interval(state: Seen, at: TracePoint, ended_by: int, shortest_us: int) -> Interval | None:
    """The time since the last dispatch while entries waited; None if it is shorter than `shortest_us`."""
    common, since_us = common_of(state), silent_since_us(state)
    if since_us is None or at.ts_us - since_us < shortest_us:
        return None
    by_dispatch = common["last_dispatch_ts"] >= common["waiting_since_ts"]
    since_seq = common["last_dispatch_seq" if by_dispatch else "waiting_since_seq"]
    return Interval(int(since_seq), since_us, at.seq, at.ts_us, ended_by)


def silent_since_us(state: Seen) -> int | None:
    """Since when entries wait and nothing was sent to any consumer; None: nothing waits."""
    common = common_of(state)
    return int(max(common["last_dispatch_ts"], common["waiting_since_ts"])) if common["waiting"] else None
