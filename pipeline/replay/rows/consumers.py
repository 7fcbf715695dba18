"""Rows of `consumers`: the share of each consumer, and the broker's statistics under the broker's names (contract 7).

The broker's statistics describe a moment; here it is the moment at which the consumer left or the trace ended. The
columns `..._max` are the largest values at any moment.
"""

from collections.abc import Sequence

import numpy as np

from dispatch_audit.pipeline.plural import entries
from dispatch_audit.pipeline.replay.state.output import BY_RESET, STILL_OPEN
from dispatch_audit.pipeline.replay.state.state import UNKNOWN, Records, chosen
from dispatch_audit.pipeline.replay.subscription.result import Joined, ReplayResult
from dispatch_audit.pipeline.replay.subscription.watermark import ReportRange
from dispatch_audit.pipeline.replay.verdicts.naming import Rows, position

# The memory that the broker needs for a draining hash, by the estimate of PIP-379.
_BYTES_A_HASH = 80


def consumers(topic: str, subscription: str, found: ReplayResult) -> Rows:
    """A row for each consumer that was connected in the reported range."""
    total = sum(dispatched for dispatched, _ in found.counts.values())
    index_of = {number: index for index, number in enumerate(found.numbers)}
    rows: Rows = []
    episodes = chosen(found.episodes, found.episodes.to_seq > found.report_range.since.seq)
    holders = episodes.holder
    drained_nothing = _draining(episodes[:0].view(np.recarray), found.report_range)
    drainers = set(holders.tolist())
    for number, stay in found.stays.items():
        dispatched, acked = found.counts[number]
        gone = stay.left is not None and stay.left.seq <= found.report_range.since.seq
        if gone and not dispatched and not acked:
            continue  # an earlier window has reported it
        index = index_of[number]
        rows.append(
            {
                "topic": topic,
                "subscription": subscription,
                "consumer": number,
                "consumer_name": stay.row.name,
                "joined_at_us": None if stay.joined is None else stay.joined.ts_us,
                "left_at_us": None if stay.left is None else stay.left.ts_us,
                "leave_reason": stay.leave_reason or None,
                "dispatched": dispatched,
                "acked": acked,
                "hash_share": found.hash_shares.get(number),
                "traffic_share": dispatched / total if total else None,
                **(
                    _draining(chosen(episodes, holders == index), found.report_range)
                    if index in drainers
                    else drained_nothing
                ),
                **_joined(found.joins[index]),
                "consumersAfterMarkDeletePosition": _written(found.monitor.recent.held_behind.get(index)),
            }
        )
    return rows


def _draining(episodes: Records, report_range: ReportRange) -> dict[str, object]:
    """The statistics of PIP-379 for the hashes that one consumer drained."""
    here = chosen(episodes, (episodes.ended_by == STILL_OPEN) & (episodes.returned_seq == UNKNOWN))
    cleared = ~np.isin(episodes.ended_by, (STILL_OPEN, BY_RESET)) & report_range.holds(episodes.to_seq)
    most = _most_at_once(episodes)
    return {
        "drainingHashesCount": int(here.size),
        "drainingHashesClearedTotal": int(np.count_nonzero(cleared)),
        "drainingHashesUnackedMessages": int(here.held_at_end.sum()),
        "drainingHashes": [f"{h} ({entries(held)})" for h, held in zip(here.hash, here.held_at_end, strict=True)],
        "draining_hashes_max": most,
        "draining_bytes_max": most * _BYTES_A_HASH,
    }


def _most_at_once(episodes: Records) -> int:
    """The largest number of hashes that drained at the same time."""
    if not episodes.size:
        return 0
    returned = episodes.returned_seq != UNKNOWN
    ends = np.where(returned, episodes.returned_seq, episodes.to_seq)
    seqs = np.concatenate((episodes.from_seq, ends))
    steps = np.concatenate((np.ones(episodes.size, np.int64), -np.ones(episodes.size, np.int64)))
    # At one row ends count before beginnings.
    order = np.lexsort((steps, seqs))
    return int(np.cumsum(steps[order]).max(initial=0))


def _joined(joined: Joined) -> dict[str, object]:
    return {
        "readPositionWhenJoining": _written(joined.reported),
        "last_sent_position_when_joining": _written(joined.read),
    }


def _written(at: Sequence[int] | None) -> str | None:
    return None if at is None else position(at[0], at[1])
