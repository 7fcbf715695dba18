"""The share of the hashes that a consumer owned while it was connected (Q17)."""

from collections import defaultdict

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
        space = sum(end - start + 1 for start, end, _ in epoch.ranges)
        for consumer in epoch.names:
            self._there[consumer] += space * lasted_us
        for start, end, consumer in epoch.ranges:
            self._owned[consumer] += (end - start + 1) * lasted_us

    def of_all(self) -> dict[int, float]:
        """The share of every consumer, 0 to 1."""
        return {consumer: self._owned[consumer] / there for consumer, there in self._there.items() if there}
