"""Rows of `assignments`."""

from collections.abc import Sequence

from pipeline.replay.subscription.range_ownership import OwnedRange
from pipeline.replay.verdicts.naming import Columns


def assignments(topic: str, subscription: str, tenures: Sequence[OwnedRange]) -> Columns:
    """A row for each tenure of a range, as columns: a consistent hashing ring has hundreds of them."""
    if not tenures:
        return {}
    ranges, names, began, undecided, last_epochs, until = zip(*tenures, strict=True)
    starts, ends, consumers = zip(*ranges, strict=True)
    epochs, since, changes, moved = zip(*began, strict=True)
    return {
        "topic": [topic] * len(tenures),
        "subscription": [subscription] * len(tenures),
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
