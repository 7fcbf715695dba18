"""Rows of `assignments`."""

from collections.abc import Sequence
from itertools import chain, repeat

import numpy as np

from dispatch_audit.pipeline.replay.subscription.range_ownership import OwnedRanges
from dispatch_audit.pipeline.replay.verdicts.naming import Columns


def assignments(topic: str, subscription: str, parts: Sequence[OwnedRanges]) -> Columns:
    """A row for each owned range, as columns, because a consistent hashing ring has hundreds of ranges."""
    alike = [ranges for part in parts for ranges in _by_beginning(part)]
    if not alike:
        return {}
    sizes = [ranges.epochs.size for ranges in alike]
    began = [ranges.beginnings[int(ranges.epochs[0])] for ranges in alike]
    until = [(None, None) if ranges.until is None else tuple(ranges.until) for ranges in alike]
    because = [
        [ranges.because if is_open else None for is_open in ranges.open.tolist()]
        if ranges.because
        else [None] * ranges.epochs.size
        for ranges in alike
    ]
    return {
        "topic": [topic] * sum(sizes),
        "subscription": [subscription] * sum(sizes),
        "epoch": np.repeat([of.epoch for of in began], sizes),
        "last_epoch": _repeated([ranges.last_epoch for ranges in alike], sizes),
        "consumer": np.concatenate([ranges.held.owners for ranges in alike]),
        "consumer_name": [ranges.names[owner] for ranges in alike for owner in ranges.held.owners.tolist()],
        "range_start": np.concatenate([ranges.held.starts for ranges in alike]),
        "range_end": np.concatenate([ranges.held.ends for ranges in alike]),
        "from_seq": np.repeat([of.since.seq for of in began], sizes),
        "to_seq": _repeated([seq for seq, _ in until], sizes),
        "from_ts_us": np.repeat([of.since.ts_us for of in began], sizes),
        "to_ts_us": _repeated([ts_us for _, ts_us in until], sizes),
        "change": _repeated([of.change for of in began], sizes),
        "hashes_moved": np.repeat([of.hashes_moved for of in began], sizes),
        "undecided": [reason for of in because for reason in of],
    }


def _by_beginning(part: OwnedRanges) -> list[OwnedRanges]:
    """The ranges that began with the same change, by change: rows that say the same stand one behind the other."""
    return [part.only(part.epochs == epoch) for epoch in np.unique(part.epochs)]


def _repeated(values: Sequence[object], times: Sequence[int]) -> list[object]:
    """Each value as often as the ranges that it is about; None stays None, as in no array of numbers."""
    return [*chain.from_iterable(map(repeat, values, times))]
