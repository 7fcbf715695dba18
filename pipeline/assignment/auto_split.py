"""AutoSplit: each consumer owns one interval, a newcomer halves the widest.

Source: SEMANTICS 2.3; Pulsar's `HashRangeAutoSplitStickyKeyConsumerSelector`, the same from 3.0.0 to 5.0.1.
"""

from bisect import bisect_left

from pipeline.assignment.routing import HashRangeOf, Routing, routing_of_ranges
from pipeline.assignment.selector import DeclaredRanges, Selector
from pipeline.errors import AssignmentError

# The broker's intervals end at the size of the hash range, one above the highest hash there is.
_TOP = 65_536


class AutoSplit(Selector):
    """Adjacent intervals (lower, upper] with one owner each; the lowest also holds 0.

    Names do not matter, the order of joins and leaves does. Each of them concerns one other consumer at most.
    """

    def __init__(self, modulus: int = 0) -> None:
        """Starts without consumers.

        Args:
            modulus: what a hash is reduced by before the look-up (3.x); 0 if it is a slot already.
        """
        super().__init__()
        self._modulus = modulus
        self._uppers: list[int] = []
        self._owners: list[int] = []

    def ranges(self) -> list[HashRangeOf]:
        """The ranges as the broker reports them: ascending, from 0 to 65536."""
        lowers = [0, *(upper + 1 for upper in self._uppers)]
        return [*zip(lowers, self._uppers, self._owners, strict=False)]

    def select(self, sticky_hash: int) -> int | None:
        """The consumer of the interval that the hash lies in."""
        at = bisect_left(self._uppers, sticky_hash % self._modulus if self._modulus else sticky_hash)
        return self._owners[at] if at < len(self._owners) else None

    def routing(self) -> Routing:
        """The owner of every hash."""
        return routing_of_ranges(self.ranges(), self._modulus)

    def _place(self, consumer: int, name: str, ranges: DeclaredRanges) -> None:
        if not self._uppers:
            self._uppers, self._owners = [_TOP], [consumer]
            return
        widths = [upper - lower for lower, upper in zip([0, *self._uppers[:-1]], self._uppers, strict=True)]
        # The lowest of the widest ones, as the broker replaces its candidate by a wider one only.
        at = widths.index(max(widths))
        if widths[at] <= 1:
            raise AssignmentError(f"no interval is left to split for consumer {consumer} ({name})")
        self._uppers.insert(at, self._uppers[at] - widths[at] // 2)
        self._owners.insert(at, consumer)

    def _withdraw(self, consumer: int) -> None:
        at = self._owners.index(consumer)
        del self._owners[at]
        # The neighbour above takes over; above the topmost there is none, so the one below grows upwards.
        del self._uppers[at]
        if self._uppers:
            self._uppers[-1] = _TOP
