"""The share of the hashes that a consumer owned while it was connected (Q17)."""

from collections import defaultdict
from pathlib import Path
from typing import Final

import numpy as np

from dispatch_audit.pipeline.assignment.epochs import Epoch
from dispatch_audit.pipeline.checkpointed import checkpointed
from dispatch_audit.pipeline.compilation.compiler import Compiler
from dispatch_audit.pipeline.entry_point import EntryPoint
from dispatch_audit.udfs.sticky_key_hash import Int64Array

_compiled: Final = Compiler([Path(__file__)])


@_compiled
def _add_widths(
    starts: Int64Array, ends: Int64Array, owners: Int64Array, consumers: Int64Array, widths: Int64Array
) -> None:
    """Adds the width of each range to that of its owner; `consumers` are ascending, with the widths of each.

    A range that several consumers share comes once for each, and is divided between them.
    """
    first = 0
    while first < starts.size:
        after = first + 1
        while after < starts.size and starts[after] == starts[first]:
            after += 1
        width, sharers = ends[first] - starts[first] + 1, after - first
        for at in range(first, after):
            part = width // sharers + (1 if at - first < width % sharers else 0)
            widths[np.searchsorted(consumers, owners[at])] += part
        first = after


_add = EntryPoint(_add_widths)


@checkpointed("hash_shares")
class HashShares:
    """Adds up the shares over epochs; memory grows with the number of consumers only."""

    __slots__ = ("_owned", "_there")

    def __init__(self) -> None:
        self._owned: defaultdict[int, int] = defaultdict(int)
        self._there: defaultdict[int, int] = defaultdict(int)

    def add(self, epoch: Epoch, lasted_us: int) -> None:
        """Adds an epoch that lasted so many microseconds."""
        if lasted_us <= 0:
            return  # the wall clock stepped back, or both changes are in one row
        consumers, owned = sorted(epoch.names), epoch.owned
        summed = np.zeros(len(consumers), dtype=np.int64)
        _add(owned.starts, owned.ends, owned.owners, np.array(consumers, dtype=np.int64), summed)
        widths = summed.tolist()
        space_us = sum(widths) * lasted_us
        for consumer, width in zip(consumers, widths, strict=True):
            self._there[consumer] += space_us
            self._owned[consumer] += width * lasted_us

    def of_all(self) -> dict[int, float]:
        """The share of every consumer, 0 to 1."""
        return {consumer: self._owned[consumer] / there for consumer, there in self._there.items() if there}
