"""Indexes of consumers in the state's array, which compiled functions use instead of the trace's numbers.

The trace's numbers of consumers may be any integers. Indexes count consumers in the order in which the trace first
names them.
"""

from functools import cached_property

import numpy as np

from dispatch_audit.pipeline.assignment import Routing
from dispatch_audit.pipeline.checkpointed import checkpointed
from dispatch_audit.pipeline.entry_point import EntryPoint
from dispatch_audit.pipeline.replay.state.compiled import compiled
from dispatch_audit.pipeline.replay.state.state import NOBODY, Ints


@compiled
def look_up(ascending: Ints, index_of: Ints, numbers: Ints, indexes: Ints) -> None:
    """Fills in the index of each number, NOBODY where it is not among the ascending ones."""
    for row in range(numbers.size):
        at = np.searchsorted(ascending, numbers[row])
        known = at < ascending.size and ascending[at] == numbers[row]
        indexes[row] = index_of[at] if known else NOBODY


_look_up = EntryPoint(look_up)


@checkpointed("consumer_index")
class ConsumerIndex:
    """The consumers that a subscription has had so far.

    Attributes:
        numbers: the trace's numbers, in the order of their indexes.
        of: the index of each number.
    """

    __slots__ = ("__dict__", "numbers", "of")

    def __init__(self) -> None:
        self.numbers: list[int] = []
        self.of: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self.numbers)

    def add(self, number: int) -> bool:
        """Gives a consumer the next index; returns False if it has one."""
        if number in self.of:
            return False
        self.of[number] = len(self.numbers)
        self.numbers.append(number)
        vars(self).pop("_ascending", None)
        return True

    @cached_property
    def _ascending(self) -> tuple[Ints, Ints]:
        """The numbers ascending, and their indexes, for look-ups of whole columns."""
        ascending = sorted(self.of)
        return np.array(ascending, dtype=np.int64), np.array([self.of[number] for number in ascending], dtype=np.int64)

    def indexes(self, numbers: Ints) -> Ints:
        """The index of each number, `NOBODY` where it has none."""
        indexes = np.empty(numbers.size, dtype=np.int64)
        _look_up(*self._ascending, numbers, indexes)
        return indexes

    def routing(self, routing: Routing) -> Routing:
        """The same routing, to indexes instead of numbers."""
        return routing.with_owners(self.indexes)
