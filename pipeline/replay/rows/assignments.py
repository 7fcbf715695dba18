"""Rows of `assignments`: who owned which range of hashes, and how many hashes each change moved (Q15, Q16)."""

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from dispatch_audit.pipeline.replay.state.state import Ints
from dispatch_audit.pipeline.replay.subscription.range_ownership import Beginning, OwnedRanges
from dispatch_audit.pipeline.replay.verdicts.naming import Columns

_BYTE_MAX: Final = 128
"""The number of values that an index of one byte distinguishes."""


def assignments(topic: str, subscription: str, parts: Sequence[OwnedRanges]) -> Columns:
    """A row for each owned range, as columns, because a consistent hashing ring has hundreds of ranges.

    The ranges of a part stand in the order of the changes with which they began: rows that say the same stand together.
    """
    sizes = [part.epochs.size for part in parts]
    rows = sum(sizes)
    if not rows:
        return {}
    of_part = np.repeat(np.arange(len(parts)), sizes)
    order = np.lexsort((np.concatenate([part.epochs for part in parts]), of_part))
    epochs, owners, starts, ends, is_open = (
        np.concatenate(columns)[order]
        for columns in zip(*((p.epochs, p.held.owners, p.held.starts, p.held.ends, p.open) for p in parts), strict=True)
    )
    beginnings: dict[int, Beginning] = {}
    names: dict[int, str] = {}
    for part in parts:
        beginnings |= part.beginnings
        names |= part.names
    began_with, owned_by = _indexes(sorted(beginnings), epochs), _indexes(sorted(names), owners)
    began = [beginnings[epoch] for epoch in sorted(beginnings)]
    until = [(None, None) if part.until is None else tuple(part.until) for part in parts]
    because = [part.because or None for part in parts]
    throughout = np.zeros(rows, dtype=np.int64)
    return {
        "topic": _texts([topic], throughout),
        "subscription": _texts([subscription], throughout),
        "epoch": epochs,
        "last_epoch": _numbers([part.last_epoch for part in parts], of_part),
        "consumer": owners,
        "consumer_name": _texts([names[owner] for owner in sorted(names)], owned_by),
        "range_start": starts,
        "range_end": ends,
        "from_seq": _numbers([of.since.seq for of in began], began_with),
        "to_seq": _numbers([seq for seq, _ in until], of_part),
        "from_ts_us": _numbers([of.since.ts_us for of in began], began_with),
        "to_ts_us": _numbers([ts_us for _, ts_us in until], of_part),
        "change": _texts([of.change for of in began], began_with),
        "hashes_moved": _numbers([of.hashes_moved for of in began], began_with),
        "undecided": _texts([None, *because], np.where(is_open, of_part + 1, 0)),
    }


def _indexes(numbers: Sequence[int], which: Ints) -> Ints:
    """The index of each of some numbers among all, which are ascending."""
    return np.searchsorted(np.array(numbers, dtype=np.int64), which)


def _numbers(values: Sequence[int | None], at: Ints) -> pa.Array:
    return _repeated(pa.array(values, pa.int64()), at)


def _texts(values: Sequence[str | None], at: Ints) -> pa.Array:
    return _repeated(pa.array(values, pa.string()), at)


def _repeated(values: pa.Array, at: Ints) -> pa.Array:
    """The values at some indexes, as a dictionary: a thousand rows say a few dozen of them."""
    index = at.astype(np.int8 if len(values) <= _BYTE_MAX else np.int32)
    return pa.DictionaryArray.from_arrays(index, values)
