"""Observations of the assignment after membership changes: a report of the broker, or dispatches."""

from collections.abc import Callable
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np

from dispatch_audit.pipeline.assignment.ranges.reported_ranges import ReportedRanges
from dispatch_audit.pipeline.assignment.ranges.routing import NOBODY, Routing
from dispatch_audit.udfs.sticky_key_hash import Int64Array

Sent = tuple[Int64Array, Int64Array]
"""The sticky hash of each dispatch, and its receiver."""

MISTAKES: Final = 1
"""The number of dispatches to a wrong consumer that may be the broker's mistake; more exclude an assignment."""


class SeenDispatches:
    """The dispatches under one assignment."""

    def __init__(self, sent: Callable[[], Sent], in_order: bool = True) -> None:
        """Takes a function for the dispatches, which is called only when needed, because few changes need them.

        Args:
            sent: returns the dispatches.
            in_order: whether all of them were decided under this assignment; one recorded late may be older.
        """
        self._sent = sent
        self._in_order = in_order
        self._pairs: dict[int, Sent] = {}
        self._split: dict[tuple[int, int], tuple[Int64Array, Int64Array]] = {}
        # A search asks for the same ends of a consumer in many orders.
        self._ruled_out: dict[tuple[int, int, bytes], bool] = {}

    @cached_property
    def _by_hash(self) -> Sent:
        hashes, consumers = self._sent()
        order = np.argsort(hashes, kind="stable")
        return hashes[order], consumers[order]

    def owner_of_range(self, start: int, end: int) -> int:
        """The receiver of all dispatches between two bounds, inclusive; `NOBODY`: several, or too few dispatches."""
        hashes, consumers = self._by_hash
        first, last = np.searchsorted(hashes, (start, end + 1))
        seen = consumers[first:last]
        # A single dispatch may be the broker's mistake.
        return int(seen[0]) if seen.size > 1 and bool((seen == seen[0]).all()) else NOBODY

    def unexplained(self, routing: Routing) -> int:
        """The number of dispatches that go to another consumer than the routing's."""
        hashes, consumers = self._by_hash
        return int(np.count_nonzero(routing.owners_of(hashes) != consumers))

    def rule_out(self, consumer: int, ends: Int64Array, modulus: int = 0) -> bool:
        """Whether the dispatches show that a range of a consumer ends at another hash.

        A hash that was sent to the consumer lies in one of its ranges, which extends to the next of its ends. So no
        hash between the two goes to another consumer. Hashes after the last end show nothing.

        Args:
            consumer: the owner of the ranges.
            ends: the possible ends of the ranges, ascending.
            modulus: the number by which hashes are reduced first; 0: they are not.
        """
        # `NO_DISPATCHES` is never dropped, so it must not remember what was asked.
        if not self._in_order or not self._by_hash[0].size:
            return False
        asked = consumer, modulus, ends.tobytes()
        if asked not in self._ruled_out:
            self._ruled_out[asked] = self._contradict(consumer, ends, modulus)
        return self._ruled_out[asked]

    def _contradict(self, consumer: int, ends: Int64Array, modulus: int) -> bool:
        """Whether more pairs of dispatches than may be mistakes contradict that the ranges have these ends."""
        received, others = self._received_and_others(consumer, modulus)
        used, first, count = np.unique(np.searchsorted(ends, received), return_index=True, return_counts=True)
        known = used < ends.size
        used, first, count = used[known], first[known], count[known]
        lowest, next_lowest = received[first], received[np.minimum(first + 1, first + count - 1)]
        at = np.searchsorted(others, ends[used], side="right")
        padded = np.concatenate(([-1, -1], others))
        highest, next_highest = padded[at + 1], padded[at]
        # The number of contradicting pairs of dispatches, up to two disjoint ones; each pair contains a mistake.
        pairs = (highest > lowest).astype(np.int64)
        pairs += (count > 1) & (highest > next_lowest) & (next_highest > lowest)
        return int(pairs.sum()) > MISTAKES

    def _received_and_others(self, consumer: int, modulus: int) -> tuple[Int64Array, Int64Array]:
        """The distinct slots that were sent to a consumer, and those sent to others, ascending."""
        if (consumer, modulus) not in self._split:
            if modulus not in self._pairs:
                hashes, consumers = self._by_hash
                slots = hashes % modulus if modulus else hashes
                distinct = np.unique(np.stack((slots, consumers)), axis=1)
                self._pairs[modulus] = distinct[0], distinct[1]
            slots, consumers = self._pairs[modulus]
            self._split[consumer, modulus] = slots[consumers == consumer], slots[consumers != consumer]
        return self._split[consumer, modulus]


class Observed(NamedTuple):
    """The observations of the assignment after membership changes.

    Attributes:
        reported: the ranges that the broker reports; None: there is no report.
        sent: the dispatches under that assignment.
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
