"""Computes the sticky key hash of Key_Shared, vectorized: from key bytes to the integer that a selector routes by.

It takes two steps, because only the first is costly. `hash_keys` reads the bytes and returns the 31-bit murmur value;
`sticky_from_murmur` folds that into the hash range of one selector. A packed trace stores only the murmur value, so
that it can be judged under any selector.

Source: contract 1.1 to 1.3; Pulsar's `Murmur3_32Hash`, `StickyKeyConsumerSelectorUtils`, `Commands`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import mmh3
import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from dispatch_audit.pipeline.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import Column

Int64Array: TypeAlias = npt.NDArray[np.int64]
Keys: TypeAlias = "Sequence[bytes | None] | pd.Series[Any] | pa.Array | pa.ChunkedArray"

NONE_KEY = b"NONE_KEY"
"""The key that the broker hashes for an entry without a key that it can read (contract 1.1, step 5)."""

_MURMUR_MASK = 0x7FFF_FFFF


@dataclass(frozen=True)
class HashRange:
    """The hashes that a selector works with, both ends inclusive.

    Attributes:
        first: lowest hash of the range.
        last: highest hash of the range.
        zero_means_unset: whether 0 stands for "no hash" and a key that folds to it gets 1.
    """

    first: int
    last: int
    zero_means_unset: bool = True

    @property
    def size(self) -> int:
        """How many hashes the range has."""
        return self.last - self.first + 1


HASH_RANGES: Mapping[str, HashRange] = {
    "consistent_hashing": HashRange(1, 65_535),
    "auto_split": HashRange(0, 65_535),
    "exclusive": HashRange(0, 65_535),
    "classic": HashRange(1, 2**31 - 2),
    # 3.x routes by the unchanged murmur value and has no unset hash.
    "raw": HashRange(0, 2**31 - 1, zero_means_unset=False),
}
"""Hash range by selector name (contract 1.3); `classic` is 4.x's classic dispatcher, `raw` is 3.x."""


def hash_range(selector: str) -> HashRange:
    """The hash range of `selector`.

    Raises:
        UsageError: there is no selector of that name.
    """
    try:
        return HASH_RANGES[selector]
    except KeyError:
        raise UsageError(f"there is no selector {selector!r}", f"use one of: {', '.join(HASH_RANGES)}") from None


def sticky_hashes(keys: Keys, selector: str) -> Int64Array:
    """The sticky hash of each key, as the broker's selector computes it.

    Args:
        keys: n sticky keys. None is an entry whose metadata gives no key at all and hashes as `NONE_KEY`, as
            the broker does; a keyless message is another case and has a key from `keyless_keys`.
        selector: a name in `HASH_RANGES`.

    Returns:
        n hashes inside `hash_range(selector)`.

    Raises:
        UsageError: there is no selector of that name.
    """
    hash_range(selector)
    return sticky_from_murmur(murmur31(keys), selector)


def sticky_from_murmur(murmur: npt.ArrayLike, selector: str) -> Int64Array:
    """Folds murmur values into the hash range of a selector.

    Args:
        murmur: n integers in 0..2^31-1, as `murmur31` gives them; any shape.
        selector: a name in `HASH_RANGES`.

    Returns:
        Hashes of the same shape.

    Raises:
        UsageError: there is no selector of that name.
    """
    target = hash_range(selector)
    # 64 bits, whatever the packed width: adding `first` must not overflow.
    folded = np.asarray(murmur, dtype=np.int64) % target.size + target.first
    return np.where(folded == 0, 1, folded) if target.zero_means_unset else folded


def hash_keys(keys: Keys) -> tuple[Int64Array, Int64Array]:
    """Both hashes of each key; each distinct key of the batch is hashed once.

    Args:
        keys: n sticky keys, None as in `sticky_hashes`.

    Returns:
        n murmur values (see `murmur31`) and n key ids (see `key_ids`).
    """
    distinct, codes = _distinct(keys)
    return _murmur31(distinct)[codes], _key_ids(distinct)[codes]


def murmur31(keys: Keys) -> Int64Array:
    """MurmurHash3 (x86, 32 bit, seed 0) of each key without its sign bit: n values in 0..2^31-1."""
    distinct, codes = _distinct(keys)
    return _murmur31(distinct)[codes]


def key_ids(keys: Keys) -> Int64Array:
    """A 64-bit identity of each key, to tell apart keys that share a sticky hash.

    It is the first half of MurmurHash3's 128-bit variant (x64, seed 0), signed. No value is reserved: the
    empty key has id 0. Some two of n distinct keys share an id with a probability of about n^2 / 2^65, three
    in a million for ten million keys. None has the id of `NONE_KEY`: the broker cannot tell them apart.
    """
    distinct, codes = _distinct(keys)
    return _key_ids(distinct)[codes]


def keyless_keys(producer_names: Sequence[str | None], sequence_ids: Sequence[int | None], rule: str) -> pa.Array:
    """The sticky keys that the broker makes up for messages without ordering key and partition key.

    Args:
        producer_names: n names of producers, None where the metadata lacks it.
        sequence_ids: n sequence ids, of the first message of a batch; None where the metadata lacks it.
        rule: `producer_sequence` (4.x: a key of its own for each entry) or `none_key` (3.x: one for all); see
            `Profile.keyless`.

    Returns:
        A BinaryArray of n keys without nulls.

    Raises:
        UsageError: there is no rule of that name.
    """
    if rule == "none_key":
        return pa.array([NONE_KEY] * len(producer_names), pa.binary())
    if rule != "producer_sequence":
        raise UsageError(f"there is no keyless rule {rule!r}", "use one of: producer_sequence, none_key")
    names = pa.array(producer_names, pa.string())
    numbers = pa.array(sequence_ids, pa.int64()).cast(pa.string())
    # A null in either part makes the joined text null, and then the constant applies.
    return pc.fill_null(pc.binary_join_element_wise(names, numbers, "-").cast(pa.binary()), NONE_KEY)


def sticky_hash_udf(selector: str) -> "Callable[[Column | str], Column]":
    """Returns `sticky_hashes` as a pandas UDF from a binary column to a bigint column.

    It is deterministic and needs `pyspark.sql` only, so it runs under Spark Connect too.

    Raises:
        UsageError: there is no selector of that name.
    """
    # Imported here, because the replay imports this module and must not load Spark. PySpark's stubs lack this name in
    # `functions`, where it is documented.
    from pyspark.sql.functions import pandas_udf  # type: ignore[attr-defined]  # noqa: PLC0415

    hash_range(selector)

    def sticky_hash(keys: pd.Series) -> pd.Series:
        return pd.Series(sticky_hashes(keys, selector))

    udf: Callable[[Column | str], Column] = pandas_udf(sticky_hash, "bigint")
    return udf


def _distinct(keys: Keys) -> tuple[npt.NDArray[np.object_], Int64Array]:
    """The d distinct keys as bytes, and n codes into them."""
    array = keys if isinstance(keys, (pa.Array, pa.ChunkedArray)) else pa.array(keys, pa.binary())
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if pa.types.is_dictionary(array.type):
        # Keys from Parquet: hashing a key of the dictionary that no row has costs less than looking for such keys.
        distinct = [*pc.fill_null(array.dictionary.cast(pa.large_binary()), NONE_KEY).to_pylist(), NONE_KEY]
        codes = pc.fill_null(array.indices, len(distinct) - 1).to_numpy(zero_copy_only=False)
        return np.array(distinct, dtype=np.object_), codes.astype(np.int64)
    encoded = pc.fill_null(array.cast(pa.large_binary()), NONE_KEY).dictionary_encode()
    distinct = encoded.dictionary.to_numpy(zero_copy_only=False)
    return distinct, encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)


def _murmur31(distinct: npt.NDArray[np.object_]) -> Int64Array:
    # numpy reads the digests of all keys at once, and mmh3.hash would make an object of Python for each key.
    digests = b"".join(map(mmh3.mmh3_32_digest, distinct))
    return np.frombuffer(digests, dtype="<u4").astype(np.int64) & _MURMUR_MASK


def _key_ids(distinct: npt.NDArray[np.object_]) -> Int64Array:
    digests = b"".join(map(mmh3.mmh3_x64_128_digest, distinct))
    return np.frombuffer(digests, dtype="<i8")[::2].astype(np.int64)
