"""Who held which range of hashes, and for how long: one row a range, not one a range and epoch.

A membership change moves a few of the ranges, and a consistent hashing ring has a hundred for each consumer
(SEMANTICS 1.4): all ranges of all epochs would be rows by consumers times changes.
"""

from collections.abc import Iterable
from typing import NamedTuple

from pipeline.assignment.routing import HashRangeOf
from pipeline.replay.membership import Place
from pipeline.replay.replayed import PlacedEpoch


class Tenure(NamedTuple):
    """A range as the selector has it, from the change that gave it these bounds and this owner to the next.

    Attributes:
        held: the range and the trace's number of who held it.
        name: of that consumer.
        epoch: number of the first epoch,
        last_epoch: and of the last one; None while it goes on.
        since: where it began,
        until: and ended; None while it goes on.
        change: the membership change that it began with.
        hashes_moved: how many hashes got another owner by that change.
    """

    held: HashRangeOf
    name: str
    epoch: int
    last_epoch: int | None
    since: Place
    until: Place | None
    change: str
    hashes_moved: int


class Tenures:
    """The tenures of one subscription, out of its epochs in their order."""

    def __init__(self) -> None:
        """Starts in front of the first epoch."""
        self._going_on: dict[HashRangeOf, Tenure] = {}
        self._epoch = -1
        self._until: Place | None = None

    def follow(self, epochs: Iterable[PlacedEpoch]) -> list[Tenure]:
        """Takes the next epochs; returns the tenures that had ended by the beginning of the last of them.

        An epoch may come twice in a row: while it goes on, and when it has ended.
        """
        ended: list[Tenure] = []
        for epoch, since, until in epochs:
            if epoch.number == self._epoch:
                self._until = until
                continue
            before = self._going_on
            # Epochs in which not every consumer is known are not handed over; what was before them ended with them.
            adjoins = since == self._until
            self._going_on = {
                held: before[held]
                if adjoins and held in before
                else Tenure(
                    held, epoch.names[held[2]], epoch.number, None, since, None, epoch.change, epoch.hashes_moved
                )
                for held in epoch.ranges
            }
            ended += (
                tenure._replace(last_epoch=self._epoch, until=self._until)
                for held, tenure in before.items()
                if self._going_on.get(held) is not tenure
            )
            self._epoch, self._until = epoch.number, until
        return ended

    def going_on(self) -> list[Tenure]:
        """The tenures of the latest epoch."""
        return list(self._going_on.values())
