"""Collects the different sticky keys of rows, because packed batches have only their hashes and reports show the keys.

A topic has few keys in comparison to its messages. So each worker passes on every key that it meets once, and a report
looks its keys up by their ids (`dispatch_audit.udfs.sticky_key_hash.key_ids`) instead of reading the trace again.
"""

from collections.abc import Iterable, Mapping, Set
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dispatch_audit.pipeline.arrow_stream import stream_of
from dispatch_audit.udfs.sticky_key_hash import key_ids

# Beyond this a worker forgets which keys it has passed on, so that its memory is bounded; a key may come twice then.
_BYTES_MAX: Final = 16 << 20
# Bytes of a key in a set of Python, besides its own.
_OVERHEAD: Final = 100


class DistinctKeys:
    """The keys of rows that were not passed on yet."""

    def __init__(self) -> None:
        self._known: set[bytes] = set()
        self._new: list[bytes] = []
        self._bytes = 0

    def add(self, keys: pa.Array) -> None:
        """Adds a column of keys, which may be dictionary-encoded."""
        for key in _distinct(keys):
            if key not in self._known:
                self._known.add(key)
                self._new.append(key)
                self._bytes += len(key) + _OVERHEAD

    @property
    def is_full(self) -> bool:
        """Whether the keys should be taken now."""
        return self._bytes >= _BYTES_MAX

    def take(self) -> bytes | None:
        """Returns the keys as an Arrow IPC stream; None: there are none since the last time."""
        if not self._new:
            return None
        batch = pa.record_batch([pa.array(self._new, pa.binary())], names=["key"])
        self._new = []
        if self.is_full:
            self._known.clear()
            self._bytes = 0
        return bytes(stream_of(batch))


def keys_by_id(payloads: Iterable[bytes], wanted: Set[int]) -> Mapping[int, bytes]:
    """Returns the keys with the wanted ids among those that `DistinctKeys.take` passed on."""
    found: dict[int, bytes] = {}
    ids = np.array(sorted(wanted), dtype=np.int64)
    for payload in payloads:
        with pa.ipc.open_stream(payload) as stream:
            for batch in stream:
                keys = batch.column("key")
                own = key_ids(keys)
                at = np.flatnonzero(np.isin(own, ids))
                found.update(zip(own[at].tolist(), keys.take(pa.array(at)).to_pylist(), strict=True))
    return found


def _distinct(keys: pa.Array) -> list[bytes]:
    if pa.types.is_dictionary(keys.type):
        used = pc.unique(keys.indices).drop_null()
        distinct = keys.dictionary.take(used)
    else:
        distinct = pc.unique(keys).drop_null()
    return distinct.cast(pa.binary()).to_pylist()  # type: ignore[no-any-return]  # Arrow has no stubs
