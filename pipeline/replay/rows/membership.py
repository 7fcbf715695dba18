"""Rows of `assignments` and `consumers`."""

from collections.abc import Sequence

from pipeline.replay.rows.names import Rows
from pipeline.replay.subscription import PlacedEpoch, Replayed


def assignments(topic: str, subscription: str, epochs: Sequence[PlacedEpoch]) -> Rows:
    """A row for each range of each epoch."""
    return [
        {
            "topic": topic,
            "subscription": subscription,
            "epoch": row.epoch,
            "consumer": row.consumer,
            "consumer_name": row.consumer_name,
            "range_start": row.range_start,
            "range_end": row.range_end,
            "from_seq": placed.since.seq,
            "to_seq": None if placed.until is None else placed.until.seq,
            "from_ts_us": placed.since.ts_us,
            "to_ts_us": None if placed.until is None else placed.until.ts_us,
            "change": row.change,
            "hashes_moved": row.hashes_moved,
        }
        for placed in epochs
        for row in placed.epoch.rows()
    ]


def consumers(topic: str, subscription: str, found: Replayed) -> Rows:
    """A row for each consumer that the trace names."""
    total = sum(dispatched for dispatched, _ in found.counts.values())
    rows: Rows = []
    for number, stay in found.stays.items():
        dispatched, acked = found.counts[number]
        rows.append(
            {
                "topic": topic,
                "subscription": subscription,
                "consumer": number,
                "consumer_name": stay.row.name,
                "joined_at_us": None if stay.joined is None else stay.joined.ts_us,
                "left_at_us": None if stay.left is None else stay.left.ts_us,
                "dispatched": dispatched,
                "acked": acked,
                "traffic_share": dispatched / total if total else None,
            }
        )
    return rows
