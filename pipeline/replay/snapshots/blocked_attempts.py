"""How often a draining hash kept entries from another consumer, as snapshots of the broker say (`blockedAttempts`)."""

from collections import defaultdict
from collections.abc import Set

from dispatch_audit.pipeline.replay.packing.snapshot import Snapshot


class BlockedAttempts:
    """The last count that snapshots in a row gave of a hash that drained at a consumer.

    A hash that was not on the list before, or whose count is smaller, has begun to drain anew: memory grows with that
    only.
    """

    def __init__(self) -> None:
        self._counts: defaultdict[tuple[int, int], list[tuple[int, int, int]]] = defaultdict(list)
        self._listed: dict[int, frozenset[int]] = {}

    def note(self, snapshot: Snapshot, places: dict[int, int]) -> None:
        """Takes in a snapshot; `places` are those of the consumers in the state."""
        for consumer in snapshot.consumers:
            place = places.get(consumer.consumer)
            if place is None:
                continue
            before = self._listed.get(place, frozenset())
            self._listed[place] = frozenset(consumer.refused)
            for sticky_hash, attempts in consumer.refused.items():
                counts = self._counts[place, sticky_hash]
                if counts and sticky_hash in before and counts[-1][1] <= attempts:
                    counts.pop()
                counts.append((snapshot.seq_begin, attempts, snapshot.ts_us))

    def forget(self, before_us: int, draining: Set[tuple[int, int]]) -> None:
        """Drops the counts up to `before_us` of hashes that drain no more; `draining` are those that do, by holder."""
        over = [of for of, counts in self._counts.items() if counts[-1][2] <= before_us and of not in draining]
        for holder_and_hash in over:
            del self._counts[holder_and_hash]

    def within(self, holder: int, sticky_hash: int, from_seq: int, to_seq: int) -> int | None:
        """The highest count that was said between two rows; None: none was."""
        counts = self._counts.get((holder, sticky_hash), [])
        return max((attempts for seq, attempts, _ in counts if from_seq <= seq <= to_seq), default=None)
