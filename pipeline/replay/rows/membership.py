"""Rows of `assignments`."""

from collections.abc import Iterable

from pipeline.replay.rows.names import Columns, columns_of
from pipeline.replay.tenures import Tenure


def assignments(topic: str, subscription: str, tenures: Iterable[Tenure]) -> Columns:
    """A row for each tenure of a range."""
    return columns_of(
        [
            {
                "topic": topic,
                "subscription": subscription,
                "epoch": tenure.epoch,
                "last_epoch": tenure.last_epoch,
                "consumer": tenure.held[2],
                "consumer_name": tenure.name,
                "range_start": tenure.held[0],
                "range_end": tenure.held[1],
                "from_seq": tenure.since.seq,
                "to_seq": None if tenure.until is None else tenure.until.seq,
                "from_ts_us": tenure.since.ts_us,
                "to_ts_us": None if tenure.until is None else tenure.until.ts_us,
                "change": tenure.change,
                "hashes_moved": tenure.hashes_moved,
            }
            for tenure in tenures
        ]
    )
