"""Rows of `assignments`."""

from collections.abc import Sequence

from pipeline.replay.replayed import PlacedEpoch
from pipeline.replay.rows.names import Rows


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
