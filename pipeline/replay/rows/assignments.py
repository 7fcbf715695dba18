"""Rows of `assignments`."""

from collections.abc import Sequence

from dispatch_audit.pipeline.replay.subscription.range_ownership import OwnedRange
from dispatch_audit.pipeline.replay.verdicts.naming import Columns


def assignments(topic: str, subscription: str, range_ownership: Sequence[OwnedRange]) -> Columns:
    """A row for each owned range, as columns, because a consistent hashing ring has hundreds of ranges."""
    if not range_ownership:
        return {}
    ranges, names, began, undecided, last_epochs, until = zip(*range_ownership, strict=True)
    starts, ends, consumers = zip(*ranges, strict=True)
    epochs, since, changes, moved = zip(*began, strict=True)
    return {
        "topic": [topic] * len(range_ownership),
        "subscription": [subscription] * len(range_ownership),
        "epoch": epochs,
        "last_epoch": last_epochs,
        "consumer": consumers,
        "consumer_name": names,
        "range_start": starts,
        "range_end": ends,
        "from_seq": [point.seq for point in since],
        "to_seq": [None if point is None else point.seq for point in until],
        "from_ts_us": [point.ts_us for point in since],
        "to_ts_us": [None if point is None else point.ts_us for point in until],
        "change": changes,
        "hashes_moved": moved,
        "undecided": undecided,
    }
