"""Rows of `assignments`."""

from collections.abc import Sequence

from pipeline.replay.subscription.range_ownership import OwnedRange
from pipeline.replay.verdicts.naming import Columns


def assignments(topic: str, subscription: str, range_ownership: Sequence[OwnedRange]) -> Columns:
    """A row for each tenure of a range, as columns: a consistent hashing ring has hundreds of them."""
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
        "from_seq": [place.seq for place in since],
        "to_seq": [None if place is None else place.seq for place in until],
        "from_ts_us": [place.ts_us for place in since],
        "to_ts_us": [None if place is None else place.ts_us for place in until],
        "change": changes,
        "hashes_moved": moved,
        "undecided": undecided,
    }
