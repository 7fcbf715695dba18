"""Indexes of consumers in the state's array, which compiled functions use instead of the trace's numbers.

The trace's numbers of consumers may be any integers. Indexes count consumers in the order in which the trace first
names them.
"""

from functools import cached_property

import numpy as np

from dispatch_audit.pipeline.assignment import Routing
from dispatch_audit.pipeline.checkpointed import checkpointed
from dispatch_audit.pipeline.entry_point import EntryPoint
from dispatch_audit.pipeline.replay.packing.snapshot import ConsumerSnapshot, Snapshot
from dispatch_audit.pipeline.replay.state.compiled import compiled
from dispatch_audit.pipeline.replay.state.index.pair_index import Slots, empty_table, find, put_all
from dispatch_audit.pipeline.replay.state.records import Ints


@EntryPoint
@compiled
def _look_up(table: Slots, zeros: Ints, known: Ints, numbers: Ints, indexes: Ints) -> None:
    """Fills in the index of each number among the known ones, NOBODY where it is not among them."""
    for row in range(numbers.size):
        indexes[row] = find(table, zeros, known, 0, numbers[row])


_put_all = EntryPoint(put_all)


@checkpointed("consumer_index")
class ConsumerIndex:
    """The consumers that a subscription has had so far."""

    __slots__ = ("__dict__", "numbers", "of")

    def __init__(self) -> None:
        self.numbers: list[int] = []  # the trace's numbers, in the order of their indexes
        self.of: dict[int, int] = {}  # the index of each number

    def __len__(self) -> int:
        return len(self.numbers)

    def add(self, number: int) -> bool:
        """Gives a consumer the next index; returns False if it has one."""
        if number in self.of:
            return False
        self.of[number] = len(self.numbers)
        self.numbers.append(number)
        vars(self).pop("_table", None)
        return True

    @cached_property
    def _table(self) -> tuple[Slots, Ints, Ints]:
        """A table of the numbers, with both parts of their keys, for look-ups of whole columns."""
        numbers = np.array(self.numbers, dtype=np.int64)
        table, zeros = empty_table(numbers.size), np.zeros(numbers.size, dtype=np.int64)
        _put_all(table, zeros, numbers)
        return table, zeros, numbers

    def indexes(self, numbers: Ints) -> Ints:
        """The index of each number, `NOBODY` where it has none."""
        indexes = np.empty(numbers.size, dtype=np.int64)
        _look_up(*self._table, numbers, indexes)
        return indexes

    def known_in(self, snapshot: Snapshot) -> list[tuple[int, ConsumerSnapshot]]:
        """The consumers of a snapshot that rows have named, each with its index."""
        return [(self.of[c.consumer], c) for c in snapshot.consumers if c.consumer in self.of]

    def routing(self, routing: Routing) -> Routing:
        """The same routing, to indexes instead of numbers."""
        return routing.with_owners(self.indexes)
