"""What is seen of the assignment that is in force behind membership changes: a report of the broker, or dispatches."""

from collections.abc import Callable
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np

from dispatch_audit.pipeline.assignment.ranges.reported_ranges import ReportedRanges
from dispatch_audit.pipeline.assignment.ranges.routing import NOBODY, Routing
from dispatch_audit.udfs.sticky_key_hash import Int64Array

Sent = tuple[Int64Array, Int64Array]
"""The sticky hash of each dispatch, and the consumer that it went to."""

MISTAKES: Final = 1
"""So many dispatches to somebody else may be the broker's mistake; more of them rule an assignment out."""


class SeenDispatches:
    """The dispatches under one assignment."""

    def __init__(self, sent: Callable[[], Sent], in_order: bool = True) -> None:
        """Takes the dispatches. Nearly no change needs them, so `sent` is called when one does.

        Args:
            sent: returns them.
            in_order: whether all of them were decided under this assignment; what is recorded late may be of before.
        """
        self._sent = sent
        self._in_order = in_order
        self._pairs: dict[int, Sent] = {}
        self._split: dict[tuple[int, int], tuple[Int64Array, Int64Array]] = {}

    @cached_property
    def _by_hash(self) -> Sent:
        hashes, consumers = self._sent()
        order = np.argsort(hashes, kind="stable")
        return hashes[order], consumers[order]

    def owner_of_range(self, start: int, end: int) -> int:
        """The consumer that was sent all that was sent between two bounds, inclusive; `NOBODY`: several, or too few."""
        hashes, consumers = self._by_hash
        first, last = np.searchsorted(hashes, (start, end + 1))
        seen = consumers[first:last]
        # A single one may be the broker's mistake.
        return int(seen[0]) if seen.size > 1 and bool((seen == seen[0]).all()) else NOBODY

    def unexplained(self, routing: Routing) -> int:
        """How many of them go to somebody else than a routing says."""
        hashes, consumers = self._by_hash
        return int(np.count_nonzero(routing.owners_of(hashes) != consumers))

    def rule_out(self, consumer: int, ends: Int64Array, modulus: int = 0) -> bool:
        """Whether they show that a range of a consumer ends elsewhere.

        What a consumer is sent lies in a range of its own, and that reaches to the next of its ends: between the two
        nobody else is sent anything. Where a hash lies behind the last end nothing is known.

        Args:
            consumer: whose ranges.
            ends: where they may end, ascending.
            modulus: what a hash is reduced by first; 0 for nothing.
        """
        if not self._in_order:
            return False
        mine, others = self._mine_and_others(consumer, modulus)
        used, first, count = np.unique(np.searchsorted(ends, mine), return_index=True, return_counts=True)
        known = used < ends.size
        used, first, count = used[known], first[known], count[known]
        lowest, next_lowest = mine[first], mine[np.minimum(first + 1, first + count - 1)]
        at = np.searchsorted(others, ends[used], side="right")
        padded = np.concatenate(([-1, -1], others))
        highest, next_highest = padded[at + 1], padded[at]
        # How many pairs of dispatches contradict each other, up to two that share none; each pair holds a mistake.
        pairs = (highest > lowest).astype(np.int64)
        pairs += (count > 1) & (highest > next_lowest) & (next_highest > lowest)
        return int(pairs.sum()) > MISTAKES

    def _mine_and_others(self, consumer: int, modulus: int) -> tuple[Int64Array, Int64Array]:
        """The distinct slots that a consumer was sent, and those that others were sent, ascending."""
        if (consumer, modulus) not in self._split:
            if modulus not in self._pairs:
                hashes, consumers = self._by_hash
                slots = hashes % modulus if modulus else hashes
                distinct = np.unique(np.stack((slots, consumers)), axis=1)
                self._pairs[modulus] = distinct[0], distinct[1]
            slots, consumers = self._pairs[modulus]
            self._split[consumer, modulus] = slots[consumers == consumer], slots[consumers != consumer]
        return self._split[consumer, modulus]


class Behind(NamedTuple):
    """What is known of the assignment behind membership changes.

    Attributes:
        reported: what the broker reports; None: nothing.
        sent: dispatches under that assignment.
    """

    reported: ReportedRanges | None
    sent: SeenDispatches

    def owner_of_range(self, start: int, end: int) -> int:
        """The consumer that owns all hashes between two bounds, inclusive; `NOBODY`: not known."""
        return (self.sent if self.reported is None else self.reported).owner_of_range(start, end)


def _none() -> Sent:
    nothing = np.zeros(0, dtype=np.int64)
    return nothing, nothing


NO_DISPATCHES: Final = SeenDispatches(_none)
