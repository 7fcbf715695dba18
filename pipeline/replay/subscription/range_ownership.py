"""The owners of ranges of hashes over time: one row for each range and owner, not one for each range and epoch.

A membership change moves a few of the ranges, but a consistent hashing ring has a hundred for each consumer (contract
2.1), so the ranges of every epoch would be too many rows.
"""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from dispatch_audit.pipeline.assignment import Epoch
from dispatch_audit.pipeline.assignment.ranges.routing import HashRangeOf
from dispatch_audit.pipeline.replay.packing.membership_rows import TracePoint
from dispatch_audit.pipeline.replay.subscription.result import PlacedEpoch


class Beginning(NamedTuple):
    """A membership change that gave a range to a consumer.

    Attributes:
        epoch: the number of the epoch that it began.
        since: the point at which it took effect.
        change: the change in words.
        hashes_moved: how many hashes got another owner.
    """

    epoch: int
    since: TracePoint
    change: str
    hashes_moved: int


class OwnedRange(NamedTuple):
    """A range of the selector, from the change that gave it these bounds and this owner until the next.

    If the owner of a part of it is open for some of that time, that time has an `OwnedRange` of its own.

    Attributes:
        held: the range and the trace's number of its owner.
        name: the name of that consumer.
        began: the change with which the ownership began.
        undecided: why another consumer may own part of it; None: no other can.
        last_epoch: the number of the last epoch; None while the ownership goes on.
        until: the point at which it ended; None while it goes on.
    """

    held: HashRangeOf
    name: str
    began: Beginning
    undecided: str | None = None
    last_epoch: int | None = None
    until: TracePoint | None = None


class RangeOwnership:
    """The owned ranges of one subscription, from its epochs in their order."""

    def __init__(self) -> None:
        """Starts before the first epoch."""
        self._going_on: dict[tuple[HashRangeOf, str | None], OwnedRange] = {}
        self._epoch = -1
        self._until: TracePoint | None = None

    def follow(self, epochs: Iterable[PlacedEpoch]) -> list[OwnedRange]:
        """Takes the next epochs; returns the owned ranges that had ended by the beginning of the last of them.

        An epoch may come twice in a row: while it is open, and when it has ended.
        """
        ended: list[OwnedRange] = []
        for epoch, since, until in epochs:
            if epoch.number == self._epoch:
                self._until = until
                continue
            going_on, ranges = self._going_on, dict.fromkeys(_with_doubts(epoch))
            # Epochs with unknown consumers are left out, and all ranges before such a gap end at it.
            over = [held for held in going_on if held not in ranges] if since == self._until else list(going_on)
            for held in over:
                owned = going_on.pop(held)
                ended.append(owned._replace(last_epoch=self._epoch, until=self._until))
            began = Beginning(epoch.number, since, epoch.change, epoch.hashes_moved)
            for held in ranges:
                if held not in going_on:
                    range_of, undecided = held
                    going_on[held] = OwnedRange(range_of, epoch.names[range_of[2]], began, undecided)
            self._epoch, self._until = epoch.number, until
        return ended

    def going_on(self) -> list[OwnedRange]:
        """The owned ranges of the latest epoch."""
        return list(self._going_on.values())


def _with_doubts(epoch: Epoch) -> list[tuple[HashRangeOf, str | None]]:
    """The ranges of an epoch, each with the reason why part of it has an open owner, or None."""
    ranges, because = epoch.undecided
    if not ranges:
        return [(held, None) for held in epoch.ranges]
    starts, ends = np.array(ranges, dtype=np.int64).T
    bounds = np.array([(start, end) for start, end, _ in epoch.ranges], dtype=np.int64).reshape(-1, 2)
    first = np.searchsorted(ends, bounds[:, 0])
    touched = (first < ends.size) & (starts[np.minimum(first, ends.size - 1)] <= bounds[:, 1])
    return [(held, because if is_open else None) for held, is_open in zip(epoch.ranges, touched.tolist(), strict=True)]
