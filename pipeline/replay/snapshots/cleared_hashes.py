"""How many draining hashes of a consumer the broker has cleared (`drainingHashesClearedTotal`), and what that decides.

A hash drains if its holder has pending entries of it when it moves away. Where the holder gives up the last of them
between the rows around the change, the rows leave open whether they were still pending. The broker counts what has
drained, so two of its snapshots around such an episode may decide it (contract 3.2: the count goes up by one with each
hash whose last entry is gone, and with each that returns).
"""

from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from dispatch_audit.pipeline.checkpointed import checkpointed
from dispatch_audit.pipeline.replay.packing.membership_rows import TracePoint
from dispatch_audit.pipeline.replay.packing.snapshot import ConsumerSnapshot, Snapshot
from dispatch_audit.pipeline.replay.state.output import STILL_OPEN
from dispatch_audit.pipeline.replay.state.records import UNKNOWN, Ints, Records, chosen

# How far the two snapshots are from the episode at most. What a window reports is older, so that both are known.
_NEAR_US = 10_000_000
# The row of an acknowledgement or a redelivery comes before its effect, by less than this.
_SETTLED_US = 100_000
# How many snapshots after the episode are tried.
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
        """Notes that a consumer connects: nothing of it has been cleared."""
        self._totals[consumer] = [_Total(at.seq, at.seq, at.ts_us, 0)]

    def note(self, snapshot: Snapshot, taken_us: int, index: int, consumer: ConsumerSnapshot) -> None:
        """Takes one consumer, and its index, of the next snapshot, which was taken at about a time."""
        if consumer.cleared is not None:
            self._totals[index].append(_Total(snapshot.seq_begin, snapshot.seq_end, taken_us, consumer.cleared))

    def interrupt(self) -> None:
        """Drops all counts, because rows are missing that would explain how they grow."""
        self._totals.clear()

    def forget(self, before_us: int) -> None:
        """Drops the counts up to `before_us`."""
        for consumer, totals in list(self._totals.items()):
            self._totals[consumer] = [total for total in totals if total.ts_us > before_us]
            if not self._totals[consumer]:
                del self._totals[consumer]

    def certain(self, episodes: Records, changes: Ints) -> Records:
        """The episodes that have certainly drained; those are left out of which neither rows nor counts show it.

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
        """Whether two counts show that an episode of a holder, which began at a row, has drained."""
        for before, after in self._around(int(of_holder.holder[0]), from_seq, to_us):
            unsettled = of_holder.to_ts > before.ts_us - _SETTLED_US
            inside = chosen(
                of_holder,
                ((of_holder.to_seq > before.seq_begin) | unsettled) & (of_holder.from_seq <= after.seq_end),
            )
            # Each return counts too. An episode knows only its last one, but hashes return with changes only.
            since = np.maximum(inside.from_seq, before.seq_begin)
            changed = np.searchsorted(changes, since, "right") < np.searchsorted(changes, after.seq_end, "right")
            if (changed & (inside.returned_seq != UNKNOWN)).any():
                continue
            # All that may have been cleared between the two, but for this one.
            others = np.count_nonzero((inside.ended_by != STILL_OPEN) & (inside.to_seq <= after.seq_end)) - 1
            if after.cleared - before.cleared > others:
                return True
        return False

    def _around(self, consumer: int, from_seq: int, to_us: int) -> Iterator[tuple[_Total, _Total]]:
        totals = self._totals.get(consumer, [])
        near = [t for t in totals if abs(t.ts_us - to_us) <= _NEAR_US]
        earlier = [t for t in reversed(near) if t.seq_end <= from_seq]
        later = [t for t in near if t.ts_us >= to_us + _SETTLED_US and t.seq_begin > from_seq]
        # What a broker counted wrongly earlier is in both of them.
        for before in earlier[:1]:
            for after in later[:_TRIED_MAX]:
                yield before, after


def _open_to_doubt(episodes: Records) -> "np.ndarray[tuple[int], np.dtype[np.bool_]]":
    """Which episodes may never have begun: what their holders had was given up while their hashes moved."""
    doubt: np.ndarray[tuple[int], np.dtype[np.bool_]]
    doubt = (episodes.ended_by != STILL_OPEN) & (episodes.to_seq < episodes.doubtful_to_seq)
    return doubt
