"""The broker's counts of cleared draining hashes (`drainingHashesClearedTotal`), which prove that a hash drained.

A hash drains if its holder has pending entries of it when it moves away. If the holder settles the last of them between
the rows around the change, the rows do not show whether they were still pending. Two snapshots around such an episode
may: the broker's count grows by one with each hash whose last entry is settled, and with each that returns
(contract 3.2).
"""

from collections import defaultdict
from collections.abc import Iterator
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dispatch_audit.pipeline.checkpointed import checkpointed
from dispatch_audit.pipeline.replay.packing.membership_rows import TracePoint
from dispatch_audit.pipeline.replay.packing.snapshot import ConsumerSnapshot, Snapshot
from dispatch_audit.pipeline.replay.state.output import STILL_OPEN
from dispatch_audit.pipeline.replay.state.records import UNKNOWN, Ints, Records, chosen

# The largest distance of the snapshots from the end of the episode. Windows report later, so that both are known.
_NEAR_US = 10_000_000
# The row of an acknowledgement or a redelivery precedes its effect by less than this.
_SETTLED_US = 100_000
# The most snapshots after the episode that are tried.
_TRIED_MAX = 32


@checkpointed("cleared_total")
class _Total(NamedTuple):
    """The count of one consumer in a snapshot between the rows `seq_begin` and `seq_end + 1`."""

    seq_begin: int
    seq_end: int
    ts_us: int
    cleared: int


@checkpointed("cleared_hashes")
class ClearedHashes:
    """The counts of cleared hashes, by the index of the consumer, in the order of their snapshots."""

    __slots__ = ("_totals",)

    def __init__(self) -> None:
        self._totals: defaultdict[int, list[_Total]] = defaultdict(list)

    def begin(self, consumer: int, at: TracePoint) -> None:
        """Notes that a consumer connects, with a count of 0."""
        self._totals[consumer] = [_Total(at.seq, at.seq, at.ts_us, 0)]

    def note(self, snapshot: Snapshot, taken_us: int, index: int, consumer: ConsumerSnapshot) -> None:
        """Takes one consumer of the next snapshot, which was taken at about `taken_us`, and its index."""
        if consumer.cleared is not None:
            self._totals[index].append(_Total(snapshot.seq_begin, snapshot.seq_end, taken_us, consumer.cleared))

    def interrupt(self) -> None:
        """Drops all counts, because the rows that would explain their growth are missing."""
        self._totals.clear()

    def forget(self, before_us: int) -> None:
        """Drops the counts up to `before_us`."""
        for consumer, totals in list(self._totals.items()):
            self._totals[consumer] = [total for total in totals if total.ts_us > before_us]
            if not self._totals[consumer]:
                del self._totals[consumer]

    def certain(self, episodes: Records, changes: Ints) -> Records:
        """The episodes whose hash certainly drained, as rows or counts show.

        Args:
            episodes: all episodes.
            changes: the rows at which the assignment changed, ascending.
        """
        open_to_doubt = _open_to_doubt(episodes)
        if not open_to_doubt.any():
            return episodes
        keep = ~open_to_doubt
        for at in np.flatnonzero(open_to_doubt).tolist():
            of_holder = episodes.holder == episodes.holder[at]
            keep[at] = self._drained(chosen(episodes, of_holder), episodes.from_seq[at], episodes.to_ts[at], changes)
        return chosen(episodes, keep)

    def _drained(self, of_holder: Records, from_seq: int, to_us: int, changes: Ints) -> bool:
        """Whether two counts show that the hash of an episode, given by its beginning and end, drained."""
        for before, after in self._around(int(of_holder.holder[0]), from_seq, to_us):
            unsettled = of_holder.to_ts > before.ts_us - _SETTLED_US
            inside = chosen(
                of_holder,
                ((of_holder.to_seq > before.seq_begin) | unsettled) & (of_holder.from_seq <= after.seq_end),
            )
            # Each return counts too. An episode has only its last return, but a hash returns only with a change.
            since = np.maximum(inside.from_seq, before.seq_begin)
            changed = np.searchsorted(changes, since, "right") < np.searchsorted(changes, after.seq_end, "right")
            if (changed & (inside.returned_seq != UNKNOWN)).any():
                continue
            # All other episodes that may have been cleared between the two.
            others = np.count_nonzero((inside.ended_by != STILL_OPEN) & (inside.to_seq <= after.seq_end)) - 1
            if after.cleared - before.cleared > others:
                return True
        return False

    def _around(self, consumer: int, from_seq: int, to_us: int) -> Iterator[tuple[_Total, _Total]]:
        totals = self._totals.get(consumer, [])
        near = [t for t in totals if abs(t.ts_us - to_us) <= _NEAR_US]
        earlier = [t for t in reversed(near) if t.seq_end <= from_seq]
        later = [t for t in near if t.ts_us >= to_us + _SETTLED_US and t.seq_begin > from_seq]
        # Earlier errors of the broker are in both counts.
        return product(earlier[:1], later[:_TRIED_MAX])


def _open_to_doubt(episodes: Records) -> NDArray[np.bool_]:
    """Whether each episode may never have begun, because the last entries were settled while the hash moved."""
    doubt: NDArray[np.bool_] = (episodes.ended_by != STILL_OPEN) & (episodes.to_seq < episodes.doubtful_to_seq)
    return doubt
