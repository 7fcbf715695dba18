"""How often a draining hash blocked entries for another consumer, by snapshots (`blockedAttempts`)."""

from collections import defaultdict
from collections.abc import Set

from dispatch_audit.pipeline.checkpointed import checkpointed
from dispatch_audit.pipeline.replay.packing.snapshot import ConsumerSnapshot, Snapshot


@checkpointed("blocked_attempts")
class BlockedAttempts:
    """The last count of each draining episode, by holder and hash.

    A hash that the previous snapshot did not list, or whose count fell, has begun to drain again. Memory grows only
    with such episodes.
    """

    __slots__ = ("_counts", "_listed")

    def __init__(self) -> None:
        self._counts: defaultdict[tuple[int, int], list[tuple[int, int, int]]] = defaultdict(list)
        self._listed: dict[int, frozenset[int]] = {}

    def note(self, snapshot: Snapshot, index: int, consumer: ConsumerSnapshot) -> None:
        """Takes one consumer of the next snapshot, and its index in the state."""
        before = self._listed.get(index, frozenset())
        self._listed[index] = frozenset(consumer.refused)
        for sticky_hash, attempts in consumer.refused.items():
            counts = self._counts[index, sticky_hash]
            if counts and sticky_hash in before and counts[-1][1] <= attempts:
                counts.pop()
            counts.append((snapshot.seq_begin, attempts, snapshot.ts_us))

    def forget(self, before_us: int, draining: Set[tuple[int, int]]) -> None:
        """Drops the counts up to `before_us`, except those of the holders and hashes in `draining`."""
        over = [key for key, counts in self._counts.items() if counts[-1][2] <= before_us and key not in draining]
        for holder_and_hash in over:
            del self._counts[holder_and_hash]

    def within(self, holder: int, sticky_hash: int, from_seq: int, to_seq: int) -> int | None:
        """The highest count in snapshots between two rows; None: there is none."""
        counts = self._counts.get((holder, sticky_hash), [])
        return max((attempts for seq, attempts, _ in counts if from_seq <= seq <= to_seq), default=None)
