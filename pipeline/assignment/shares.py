"""The share of the hashes that a consumer owned while it was connected (Q17)."""

from collections import defaultdict

import numpy as np

from dispatch_audit.pipeline.assignment.epochs import Epoch


class HashShares:
    """Adds up the shares over epochs; memory grows with the number of consumers only."""

    def __init__(self) -> None:
        self._owned: defaultdict[int, int] = defaultdict(int)
        self._there: defaultdict[int, int] = defaultdict(int)

    def add(self, epoch: Epoch, lasted_us: int) -> None:
        """Adds an epoch that lasted so many microseconds."""
        if lasted_us <= 0:
            return  # the wall clock stepped back, or the changes came in one row
        consumers, owned = np.array(sorted(epoch.names), dtype=np.int64), epoch.owned
        # The sums of floats are exact: no hash is above 2^31.
        widths = np.bincount(np.searchsorted(consumers, owned.owners), owned.ends - owned.starts + 1, consumers.size)
        space = int(widths.sum())
        for consumer, width in zip(consumers.tolist(), widths.tolist(), strict=True):
            self._there[consumer] += space * lasted_us
            self._owned[consumer] += int(width) * lasted_us

    def of_all(self) -> dict[int, float]:
        """The share of every consumer, 0 to 1."""
        return {consumer: self._owned[consumer] / there for consumer, there in self._there.items() if there}
