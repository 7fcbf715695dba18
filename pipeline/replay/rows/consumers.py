"""Rows of `producers` (Q29), and of `consumers`: its share, and the statistics of the broker by its names (contract 7).

These statistics are those at the moment when the consumer left or the trace ended. The columns `..._max` are the
largest values at any moment.
"""

from collections.abc import Sequence

import numpy as np

from dispatch_audit.pipeline.plural import entries
from dispatch_audit.pipeline.replay.packing.producer_summary import Producers
from dispatch_audit.pipeline.replay.state.output import BY_RESET, STILL_OPEN
from dispatch_audit.pipeline.replay.state.records import NOBODY, UNKNOWN, Records, chosen
from dispatch_audit.pipeline.replay.state.state import sent_before_joins
from dispatch_audit.pipeline.replay.subscription.result import ReplayResult
from dispatch_audit.pipeline.replay.subscription.watermark import ReportRange
from dispatch_audit.pipeline.replay.verdicts.naming import Rows, position

# The bytes that the broker needs for a draining hash, as PIP-379 estimates.
_BYTES_A_HASH = 80


def consumers(found: ReplayResult) -> Rows:
    """A row for each consumer that was connected in the reported range."""
    dispatcher, counts = found.dispatcher, found.dispatcher.counts
    shares, read_before = found.membership.owners.epochs.shares.of_all(), sent_before_joins(dispatcher.seen)
    total = sum(dispatched for dispatched, _ in counts.values())
    rows: Rows = []
    episodes = chosen(found.episodes, found.episodes.to_seq > found.report_range.since.seq)
    by_holder = {holder: chosen(episodes, episodes.holder == holder) for holder in set(episodes.holder.tolist())}
    by_none = _draining(chosen(episodes, episodes.holder == NOBODY), found.report_range)
    for number, stay in found.membership.stays.items():
        dispatched, acked = counts[number]
        gone = stay.left is not None and stay.left.seq <= found.report_range.since.seq
        if gone and not dispatched and not acked:
            continue  # an earlier window has reported it
        index = dispatcher.consumers.of[number]
        rows.append(
            {
                "consumer": number,
                "consumer_name": stay.row.name,
                "joined_at_us": None if stay.joined is None or stay.unseen else stay.joined.ts_us,
                "left_at_us": None if stay.left is None else stay.left.ts_us,
                "leave_reason": stay.leave_reason or None,
                "dispatched": dispatched,
                "acked": acked,
                "hash_share": shares.get(number),
                "traffic_share": dispatched / total if total else None,
                **(_draining(by_holder[index], found.report_range) if index in by_holder else by_none),
                "readPositionWhenJoining": _written(found.snapshots.joined_at.get(number)),
                "last_sent_position_when_joining": _written(read_before[index]),
                "consumersAfterMarkDeletePosition": _written(found.monitor.recent.held_from.get(index)),
            }
        )
    return rows


def _draining(episodes: Records, report_range: ReportRange) -> dict[str, object]:
    """The statistics of PIP-379 for the hashes that one consumer drained, from its episodes."""
    is_open = episodes.ended_by == STILL_OPEN
    here = is_open & (episodes.returned_seq == UNKNOWN)
    held = episodes.held_at_end[here].tolist()
    cleared = ~is_open & (episodes.ended_by != BY_RESET) & report_range.holds(episodes.to_seq)
    most = _most_at_once(episodes)
    return {
        "drainingHashesCount": len(held),
        "drainingHashesClearedTotal": int(np.count_nonzero(cleared)),
        "drainingHashesUnackedMessages": sum(held),
        "drainingHashes": [f"{h} ({entries(n)})" for h, n in zip(episodes.hash[here].tolist(), held, strict=True)],
        "draining_hashes_max": most,
        "draining_bytes_max": most * _BYTES_A_HASH,
    }


def _most_at_once(episodes: Records) -> int:
    """The largest number of hashes that drained at the same time."""
    returned = episodes.returned_seq != UNKNOWN
    ends = np.where(returned, episodes.returned_seq, episodes.to_seq)
    seqs = np.concatenate((episodes.from_seq, ends))
    steps = np.concatenate((np.ones(returned.size, np.int64), -np.ones(returned.size, np.int64)))
    # At the same row ends count before beginnings.
    order = np.lexsort((steps, seqs))
    return int(np.cumsum(steps[order]).max(initial=0))


def _written(at: Sequence[int] | None) -> str | None:
    return None if at is None else position(at[0], at[1])


def producers(sent: Producers) -> Rows:
    """A row for each producer of the topic."""
    return [
        {
            "producer_name": producer.producer,
            "entries": producer.entries,
            "messages": producer.messages,
            "batches": producer.batches,
            "batches_inspected": producer.batches_inspected,
            "mixed_batches": producer.mixed_batches,
            "keyless_entries": producer.keyless,
            "chunked_entries": producer.chunked,
        }
        for producer in sent.all()
        if producer.entries
    ]
