"""Rows of `assignments`: who owned which range of hashes, and how many hashes each change moved (Q15, Q16)."""

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from dispatch_audit.pipeline.groups.columns import Columns
from dispatch_audit.pipeline.packing.packed_batch import Group
from dispatch_audit.pipeline.replay.state.records import Ints
from dispatch_audit.pipeline.replay.subscription.range_ownership import Beginning, OwnedRanges

_BYTE_MAX: Final = 128
"""The number of values that a signed index of one byte distinguishes."""


def assignments(group: Group, parts: Sequence[OwnedRanges]) -> Columns:
    """A row for each owned range, as columns, because a consistent hashing ring has hundreds of ranges.

    The ranges of a part are ordered by the change that began them, so rows with equal values are adjacent.
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
    began_with, owned_by = _index_of(epochs, sorted(beginnings)), _index_of(owners, sorted(names))
    began = [beginnings[epoch] for epoch in sorted(beginnings)]
    until = [(None, None) if part.until is None else tuple(part.until) for part in parts]
    because = [part.because or None for part in parts]
    throughout, of_its_part = pa.array(np.zeros(rows, dtype=np.int8)), _narrow(of_part, len(parts))
    return {
        "topic": _texts([group.topic], throughout),
        "subscription": _texts([group.subscription], throughout),
        "epoch": epochs,
        "last_epoch": _numbers([part.last_epoch for part in parts], of_its_part),
        "consumer": owners,
        "consumer_name": _texts([names[owner] for owner in sorted(names)], owned_by),
        "range_start": starts,
        "range_end": ends,
        "from_seq": _numbers([of.since.seq for of in began], began_with),
        "to_seq": _numbers([seq for seq, _ in until], of_its_part),
        "from_ts_us": _numbers([of.since.ts_us for of in began], began_with),
        "to_ts_us": _numbers([ts_us for _, ts_us in until], of_its_part),
        "change": _texts([of.change for of in began], began_with),
        "hashes_moved": _numbers([of.hashes_moved for of in began], began_with),
        "undecided": _texts([None, *because], _narrow(np.where(is_open, of_part + 1, 0), len(parts) + 1)),
    }


def _index_of(numbers: Ints, ascending: Sequence[int]) -> pa.Array:
    return _narrow(np.searchsorted(np.array(ascending, dtype=np.int64), numbers), len(ascending))


def _narrow(index: Ints, values: int) -> pa.Array:
    """An index in the narrowest type that distinguishes so many values; columns share it."""
    return pa.array(index.astype(np.int8 if values <= _BYTE_MAX else np.int32))


# Columns are dictionaries, because a thousand rows have a few dozen different values.
def _numbers(values: Sequence[int | None], index: pa.Array) -> pa.Array:
    return pa.DictionaryArray.from_arrays(index, pa.array(values, pa.int64()))


def _texts(values: Sequence[str | None], index: pa.Array) -> pa.Array:
    return pa.DictionaryArray.from_arrays(index, pa.array(values, pa.string()))
