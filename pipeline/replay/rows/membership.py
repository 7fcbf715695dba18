"""Rows of `assignments`."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from pipeline.replay.replayed import PlacedEpoch
from pipeline.replay.rows.names import Columns


def assignments(topic: str, subscription: str, epochs: Sequence[PlacedEpoch]) -> Columns:
    """A row for each range of each epoch, as columns: a consistent hashing ring has hundreds of them."""
    columns: defaultdict[str, list[Any]] = defaultdict(list)
    for epoch, since, until in epochs:
        count = len(epoch.ranges)
        if count == 0:
            continue
        starts, ends, consumers = zip(*epoch.ranges, strict=True)
        columns["consumer"] += consumers
        columns["consumer_name"] += map(epoch.names.__getitem__, consumers)
        columns["range_start"] += starts
        columns["range_end"] += ends
        for name, value in (
            ("topic", topic),
            ("subscription", subscription),
            ("epoch", epoch.number),
            ("from_seq", since.seq),
            ("to_seq", None if until is None else until.seq),
            ("from_ts_us", since.ts_us),
            ("to_ts_us", None if until is None else until.ts_us),
            ("change", epoch.change),
            ("hashes_moved", epoch.hashes_moved),
        ):
            columns[name] += [value] * count
    return columns
