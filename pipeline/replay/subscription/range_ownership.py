"""Who held which range of hashes, and for how long: one row a range, not one a range and epoch.

A membership change moves a few of the ranges, and a consistent hashing ring has a hundred for each consumer
(contract 2.1): all ranges of all epochs would be rows by consumers times changes.
"""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from dispatch_audit.pipeline.assignment import Epoch
from dispatch_audit.pipeline.assignment.ranges.routing import HashRangeOf
from dispatch_audit.pipeline.replay.packing.membership_rows import TracePoint
from dispatch_audit.pipeline.replay.subscription.result import PlacedEpoch


class Beginning(NamedTuple):
    """A membership change that gave somebody a range.

    Attributes:
        epoch: number of the epoch that it began.
        since: where it took effect.
        change: the change in words.
        hashes_moved: how many hashes got another owner by it.
    """

    epoch: int
    since: TracePoint
    change: str
    hashes_moved: int


class OwnedRange(NamedTuple):
    """A range as the selector has it, from the change that gave it these bounds and this owner to the next.

    Where the owner of a part of it is open for some of that time, that time is a tenure of its own.

    Attributes:
        held: the range and the trace's number of who held it.
        name: of that consumer.
        began: with which change.
        undecided: why part of it may be somebody else's; None: it is nobody else's.
        last_epoch: number of the last epoch; None while it goes on.
        until: where it ended; None while it goes on.
    """

    held: HashRangeOf
    name: str
    began: Beginning
    undecided: str | None = None
    last_epoch: int | None = None
    until: TracePoint | None = None


class RangeOwnership:
    """The range_ownership of one subscription, out of its epochs in their order."""

    def __init__(self) -> None:
        """Starts in front of the first epoch."""
        self._going_on: dict[tuple[HashRangeOf, str | None], OwnedRange] = {}
        self._epoch = -1
        self._until: TracePoint | None = None

    def follow(self, epochs: Iterable[PlacedEpoch]) -> list[OwnedRange]:
        """Takes the next epochs; returns the range_ownership that had ended by the beginning of the last of them.

        An epoch may come twice in a row: while it goes on, and when it has ended.
        """
        ended: list[OwnedRange] = []
        for epoch, since, until in epochs:
            if epoch.number == self._epoch:
                self._until = until
                continue
            going_on, ranges = self._going_on, dict.fromkeys(_with_doubts(epoch))
            # Epochs in which not every consumer is known are not handed over; what was before them ended with them.
            over = [held for held in going_on if held not in ranges] if since == self._until else list(going_on)
            for held in over:
                tenure = going_on.pop(held)
                ended.append(tenure._replace(last_epoch=self._epoch, until=self._until))
            began = Beginning(epoch.number, since, epoch.change, epoch.hashes_moved)
            for held in ranges:
                if held not in going_on:
                    range_of, undecided = held
                    going_on[held] = OwnedRange(range_of, epoch.names[range_of[2]], began, undecided)
            self._epoch, self._until = epoch.number, until
        return ended

    def going_on(self) -> list[OwnedRange]:
        """The range_ownership of the latest epoch."""
        return list(self._going_on.values())


def _with_doubts(epoch: Epoch) -> list[tuple[HashRangeOf, str | None]]:
    """The ranges of an epoch, each with why its owner is open in part."""
    ranges, because = epoch.undecided
    if not ranges:
        return [(held, None) for held in epoch.ranges]
    starts, ends = np.array(ranges, dtype=np.int64).T
    bounds = np.array([(start, end) for start, end, _ in epoch.ranges], dtype=np.int64).reshape(-1, 2)
    first = np.searchsorted(ends, bounds[:, 0])
    touched = (first < ends.size) & (starts[np.minimum(first, ends.size - 1)] <= bounds[:, 1])
    return [(held, because if is_open else None) for held, is_open in zip(epoch.ranges, touched.tolist(), strict=True)]
