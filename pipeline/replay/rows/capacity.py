"""Rows of `capacity`: the distance to the limits, and the time until they would be reached (Q20, Q21)."""

from collections.abc import Sequence
from itertools import pairwise

from dispatch_audit.pipeline.replay.blocking.capacity_samples import Sample
from dispatch_audit.pipeline.replay.verdicts.naming import Rows


def capacity(samples: Sequence[Sample]) -> Rows:
    """A row for each interval between two samples."""
    rows: Rows = []
    for before, after in pairwise(samples):
        seconds = (after.ts_us - before.ts_us) / 1e6
        if seconds <= 0:
            continue  # the wall clock stepped back
        growth = (after.replay_size - before.replay_size) / seconds
        limit = after.look_ahead_limit
        headroom = None if limit is None else limit - after.replay_size
        rows.append(
            {
                "from_ts_us": before.ts_us,
                "to_ts_us": after.ts_us,
                "consumers": after.consumers,
                "replay_size": after.replay_size,
                "replay_size_reported": after.reported,
                "look_ahead_limit": limit,
                "headroom": headroom,
                "growth_per_second": growth,
                "seconds_left": _seconds_left(headroom, growth),
                "ack_holes": after.ack_holes,
                "ack_holes_limit": after.ack_holes_max or None,
                "mark_delete_gap": after.mark_delete_gap,
                "waiting": after.waiting,
            }
        )
    return rows


def _seconds_left(headroom: int | None, growth: float) -> float | None:
    """The seconds until normal reads stop if the growth (entries per second) continues; None: they do not stop."""
    if headroom is None or (headroom > 0 and growth <= 0):
        return None
    return headroom / growth if headroom > 0 else 0.0
