"""Converts Arrow columns to numpy arrays; texts may be dictionary-encoded, as in Parquet."""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray


def integers(column: pa.Array, absent: int = -1) -> NDArray[np.int64]:
    """Returns the values of a column of integers, with `absent` for null, as an array that the caller may change."""
    if column.null_count == len(column):
        return np.full(len(column), absent, dtype=np.int64)
    valid, data = column.buffers()
    rows = slice(column.offset, column.offset + len(column))
    values = np.frombuffer(data, dtype=column.type.to_pandas_dtype())[rows]
    filled = values.astype(np.int64)
    if column.null_count:
        bits = np.unpackbits(np.frombuffer(valid, dtype=np.uint8), count=rows.stop, bitorder="little")
        # Two sums and a product, which wrap around and back. `np.where`, which decides row by row, takes three times as
        # long, and Arrow's own way of filling nulls takes twice as long as that.
        filled -= absent
        filled *= bits[rows]
        filled += absent
    return filled


def numbered(texts: pa.Array) -> tuple[list[str | None], NDArray[np.int64]]:
    """Returns the different texts, with None last, and the index of each of `texts` among them."""
    if texts.null_count == len(texts):
        return [None], np.zeros(len(texts), dtype=np.int64)
    encoded = texts if pa.types.is_dictionary(texts.type) else pc.dictionary_encode(texts)
    different = [*encoded.dictionary.to_pylist(), None]
    return different, integers(encoded.indices, len(different) - 1)


def places(texts: pa.Array, words: Sequence[str]) -> NDArray[np.int8]:
    """Returns the index of each text in `words` (at most 127); -1 for a null or another text."""
    if texts.null_count == len(texts):
        return np.full(len(texts), -1, dtype=np.int8)
    if pa.types.is_dictionary(texts.type):
        known = places(texts.dictionary, words)
        return np.append(known, np.int8(-1))[integers(texts.indices, len(known))]
    return integers(pc.index_in(texts, value_set=_set_of(tuple(words)))).astype(np.int8)


@lru_cache(maxsize=64)
def _set_of(words: tuple[str, ...]) -> pa.Array:
    return pa.array(words)
