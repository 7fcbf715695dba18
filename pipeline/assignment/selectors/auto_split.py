"""AutoSplit: each consumer owns one interval, a newcomer halves the widest.

Source: contract 2.3; Pulsar's `HashRangeAutoSplitStickyKeyConsumerSelector`, the same from 3.0.0 to 5.0.1.
"""

from bisect import bisect_left
from collections.abc import Hashable, Iterator
from typing import TypeVar

import numpy as np

from dispatch_audit.pipeline.assignment.ranges.membership_change import Change, DeclaredRanges
from dispatch_audit.pipeline.assignment.ranges.observed import Observed
from dispatch_audit.pipeline.assignment.ranges.reported_ranges import ReportedRanges
from dispatch_audit.pipeline.assignment.ranges.routing import HashRangeOf, Routing, routing_of_ranges
from dispatch_audit.pipeline.assignment.selectors.selector import SlotSelector
from dispatch_audit.pipeline.checkpointed import checkpointed
from dispatch_audit.pipeline.errors import AssignmentError

# The broker's intervals end at the size of the hash range, one above the highest hash there is.
_TOP = 65_536


_S = TypeVar("_S", bound="AutoSplit")


@checkpointed("auto_split")
class AutoSplit(SlotSelector):
    """Adjacent intervals (lower, upper] with one owner each; the lowest also contains 0.

    The order of joins and leaves matters, names do not. Each join or leave changes at most one other consumer.
    """

    __slots__ = ("_owners", "_uppers")

    def __init__(self, modulus: int = 0) -> None:
        super().__init__(modulus)
        self._uppers: list[int] = []
        self._owners: list[int] = []

    def ranges(self) -> ReportedRanges:
        """The ranges as the broker reports them: ascending, from 0 to 65536."""
        return ReportedRanges.of(self._intervals())

    def _intervals(self) -> Iterator[HashRangeOf]:
        lowers = [0, *(upper + 1 for upper in self._uppers)]
        return zip(lowers, self._uppers, self._owners, strict=False)

    def select(self, sticky_hash: int) -> int | None:
        """The consumer of the interval that the hash lies in."""
        at = bisect_left(self._uppers, self._slot(sticky_hash))
        return self._owners[at] if at < len(self._owners) else None

    def routing(self) -> Routing:
        """The owner of every hash."""
        return routing_of_ranges(self._intervals(), self._modulus)

    def copy(self: _S) -> _S:
        """A selector in the same state that later joins and leaves of this one do not change."""
        twin = super().copy()
        twin._uppers, twin._owners = list(self._uppers), list(self._owners)
        return twin

    def commute(self, one: Change, other: Change) -> bool:
        """Whether both are leaves; a join splits what is widest at that moment."""
        return one.kind == other.kind == "leave"

    def state(self) -> Hashable:
        """The intervals and their owners."""
        return tuple(self._uppers), tuple(self._owners)

    def may_become(self, consumer: int, observed: Observed, leaves_to_come: bool) -> bool:
        """Whether its interval ends where observations show it: a join does not change the upper end of others.

        Only a leave of the owner of the highest interval changes the upper end of another consumer, to the highest.
        """
        upper, reported = self._uppers[self._owners.index(consumer)], observed.reported
        if reported is None:
            possible = np.array([upper, _TOP] if upper < _TOP else [_TOP], dtype=np.int64)
            return not observed.sent.rule_out(consumer, possible, self._modulus)
        ends = reported.ends_of(consumer)
        if not ends.size:
            return True
        end = int(ends[-1])
        return upper == end or (leaves_to_come and end == _TOP)

    def adopt(self, reported: ReportedRanges) -> bool:
        """Takes the intervals of a report that has one for each connected consumer, without gaps up to 65536."""
        uppers, owners = reported.ends.tolist(), reported.owners.tolist()
        gapless = [*reported.starts.tolist(), _TOP + 1] == [0, *(upper + 1 for upper in uppers)]
        if not gapless or sorted(owners) != sorted(self._consumers):
            return False
        self._uppers, self._owners = uppers, owners
        return True

    def _place(self, consumer: int, name: str, ranges: DeclaredRanges) -> None:
        if not self._uppers:
            self._uppers, self._owners = [_TOP], [consumer]
            return
        widths = [upper - lower for lower, upper in zip([0, *self._uppers[:-1]], self._uppers, strict=True)]
        # The lowest of the widest intervals, because the broker replaces its candidate only by a wider one.
        at = widths.index(max(widths))
        if widths[at] <= 1:
            raise AssignmentError(f"no interval is left to split for consumer {consumer} ({name})")
        self._uppers.insert(at, self._uppers[at] - widths[at] // 2)
        self._owners.insert(at, consumer)

    def _withdraw(self, consumer: int) -> None:
        at = self._owners.index(consumer)
        del self._owners[at]
        # The neighbour above takes over; if there is none, the neighbour below extends to the top.
        del self._uppers[at]
        if self._uppers:
            self._uppers[-1] = _TOP
