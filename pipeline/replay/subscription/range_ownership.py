"""The owners of ranges of hashes over time: one row for each range and owner, not one for each range and epoch.

A membership change moves a few of the ranges, but a consistent hashing ring has a hundred for each consumer (contract
2.1), so the ranges of every epoch would be too many rows. They are columns, because one row in Python costs as much as
a hundred in an array.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dispatch_audit.pipeline.assignment import Epoch
from dispatch_audit.pipeline.assignment.ranges.hash_ranges import touched
from dispatch_audit.pipeline.assignment.ranges.reported_ranges import ReportedRanges
from dispatch_audit.pipeline.checkpointed import checkpointed
from dispatch_audit.pipeline.packing.membership_rows import TracePoint
from dispatch_audit.pipeline.replay.membership.history import PlacedEpoch
from dispatch_audit.pipeline.replay.state.records import Ints


@checkpointed("beginning")
class Beginning(NamedTuple):
    """A membership change that gave ranges to consumers."""

    epoch: int  # the number of the epoch that it began
    since: TracePoint  # the point at which it took effect
    change: str  # the change in words
    hashes_moved: int  # how many hashes got another owner


@checkpointed("owned_ranges")
class OwnedRanges(NamedTuple):
    """Ranges of the selector, each from the change that gave it these bounds and this owner; all end together.

    If the owner of a part of a range is open for some of that time, that time has a row of its own.
    """

    held: ReportedRanges  # the ranges and the trace's numbers of their owners
    epochs: Ints  # the number of the epoch with which each ownership began
    open: NDArray[np.bool_]  # for each range whether another consumer may own a part of it
    # The changes with which the ownerships began, by the number of the epoch; perhaps others too.
    beginnings: Mapping[int, Beginning]
    names: Mapping[int, str]  # the names of the owners, by the trace's number; perhaps others too
    because: str  # why another consumer may own a part of the open ones
    last_epoch: int | None = None  # the number of the last epoch; None while the ownerships go on
    until: TracePoint | None = None  # the point at which they ended; None while they go on

    def only(self, which: Ints) -> "OwnedRanges":
        """The ranges that an index selects."""
        held = ReportedRanges(self.held.starts[which], self.held.ends[which], self.held.owners[which])
        return self._replace(held=held, epochs=self.epochs[which], open=self.open[which])


@checkpointed("range_ownership")
class RangeOwnership:
    """The owned ranges of one subscription, from its epochs in their order."""

    __slots__ = ("_epoch", "_going_on", "_until")

    def __init__(self) -> None:
        nothing = np.empty(0, dtype=np.int64)
        self._going_on = OwnedRanges(ReportedRanges.of(()), nothing, nothing.astype(np.bool_), {}, {}, "")
        self._epoch = -1
        self._until: TracePoint | None = None

    def follow(self, epochs: Iterable[PlacedEpoch]) -> list[OwnedRanges]:
        """Takes the next epochs; returns the owned ranges that had ended by the beginning of the last of them.

        An epoch may come twice in a row: while it is open, and when it has ended.
        """
        ended: list[OwnedRanges] = []
        for epoch, since, until in epochs:
            if epoch.number == self._epoch:
                self._until = until
                continue
            before, now = self._going_on, _begun(epoch, since)
            # Epochs with unknown consumers are left out, and all ranges before such a gap end at it; so they do where
            # nobody is left.
            if since == self._until and now.epochs.size:
                stays, former, over = _same(now, before)
                now.epochs[stays] = before.epochs[former]
                now = now._replace(beginnings=_used({**before.beginnings, **now.beginnings}, now.epochs))
                before = before.only(over)
            if before.epochs.size:
                ended.append(before._replace(last_epoch=self._epoch, until=self._until))
            self._going_on, self._epoch, self._until = now, epoch.number, until
        return ended

    def going_on(self) -> list[OwnedRanges]:
        """The owned ranges of the latest epoch; none before the first."""
        return [self._going_on] if self._going_on.epochs.size else []


def _begun(epoch: Epoch, since: TracePoint) -> OwnedRanges:
    """The ranges of an epoch, as if all of them began with it."""
    beginning = Beginning(epoch.number, since, epoch.change, epoch.hashes_moved)
    ranges, because = epoch.undecided
    size = epoch.owned.starts.size
    is_open = touched(epoch.owned.starts, epoch.owned.ends, ranges)
    epochs = np.full(size, epoch.number, dtype=np.int64)
    return OwnedRanges(epoch.owned, epochs, is_open, {epoch.number: beginning}, epoch.names, because)


def _used(beginnings: Mapping[int, Beginning], epochs: Ints) -> Mapping[int, Beginning]:
    """The beginnings of some epochs, and perhaps others, so that only few calls look for them."""
    if len(beginnings) <= 2 * epochs.size:
        return beginnings
    return {epoch: beginnings[epoch] for epoch in np.unique(epochs).tolist()}


def _same(now: OwnedRanges, before: OwnedRanges) -> tuple[Ints, Ints, Ints]:
    """The indexes of ranges that are the same in one epoch and in the one before, now and then, and of others then."""
    # Ascending: a range that several consumers share comes once for each, in the order of their numbers.
    keys, then = ((of.held.starts << 31) + of.held.owners for of in (now, before))
    at = np.minimum(keys.searchsorted(then), keys.size - 1)
    open_now = now.open[at]
    same = (keys[at] == then) & (now.held.ends[at] == before.held.ends) & (open_now == before.open)
    same &= (now.because == before.because) | ~open_now
    former = np.flatnonzero(same)
    return at[former], former, np.flatnonzero(~same)
