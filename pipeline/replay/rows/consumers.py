"""Rows of `consumers`: each with its share, and with the broker's statistics under the broker's names (contract 7).

The broker's statistics are point-in-time; here they are as of the moment when the consumer left, or the trace ended,
and beside them stands the most that there was at one time.
"""

from collections.abc import Sequence

import numpy as np

from pipeline.replay.state.output import BY_RESET, STILL_OPEN
from pipeline.replay.state.state import UNKNOWN, Records
from pipeline.replay.subscription.result import Joined, ReplayResult
from pipeline.replay.subscription.watermark import ReportRange
from pipeline.replay.verdicts.naming import Rows, position

# What the broker needs to keep a draining hash, by the estimate of PIP-379.
_BYTES_A_HASH = 80


def consumers(topic: str, subscription: str, found: ReplayResult) -> Rows:
    """A row for each consumer that the trace names, and that was there in what is told."""
    total = sum(dispatched for dispatched, _ in found.counts.values())
    place_of = {number: place for place, number in enumerate(found.numbers)}
    rows: Rows = []
    episodes = found.episodes[found.episodes.to_seq > found.report_range.since.seq]
    for number, stay in found.stays.items():
        dispatched, acked = found.counts[number]
        gone = stay.left is not None and stay.left.seq <= found.report_range.since.seq
        if gone and not dispatched and not acked:
            continue  # all of it was told
        place = place_of[number]
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
                **_draining(episodes[episodes.holder == place].view(np.recarray), found.report_range),
                **_joined(found.joins[place]),
                "consumersAfterMarkDeletePosition": _written(found.monitor.recent.held_behind.get(place)),
            }
        )
    return rows


def _draining(episodes: Records, report_range: ReportRange) -> dict[str, object]:
    """The statistics of PIP-379 for the hashes that one consumer drained."""
    here = episodes[(episodes.ended_by == STILL_OPEN) & (episodes.returned_seq == UNKNOWN)]
    cleared = ~np.isin(episodes.ended_by, (STILL_OPEN, BY_RESET)) & report_range.holds(episodes.to_seq)
    most = _most_at_once(episodes)
    return {
        "drainingHashesCount": int(here.size),
        "drainingHashesClearedTotal": int(np.count_nonzero(cleared)),
        "drainingHashesUnackedMessages": int(here.held_at_end.sum()),
        "drainingHashes": [f"{h} ({held} entries)" for h, held in zip(here.hash, here.held_at_end, strict=True)],
        "draining_hashes_max": most,
        "draining_bytes_max": most * _BYTES_A_HASH,
    }


def _most_at_once(episodes: Records) -> int:
    """How many hashes drained at the same time, at most."""
    returned = episodes.returned_seq != UNKNOWN
    ends = np.where(returned, episodes.returned_seq, episodes.to_seq)
    seqs = np.concatenate((episodes.from_seq, ends))
    steps = np.concatenate((np.ones(episodes.size, np.int64), -np.ones(episodes.size, np.int64)))
    # What ends with a row does so before anything begins with it.
    order = np.lexsort((steps, seqs))
    return int(np.cumsum(steps[order]).max(initial=0))


def _joined(joined: Joined) -> dict[str, object]:
    return {
        "readPositionWhenJoining": _written(joined.reported),
        "last_sent_position_when_joining": _written(joined.read),
    }


def _written(at: Sequence[int] | None) -> str | None:
    return None if at is None else position(at[0], at[1])
