"""Finds slots of the state: of a pair of integers, and of the number of a consumer.

The index of pairs uses open addressing. The records are in arrays of the caller (the key columns are passed in); the
table contains slot numbers only, so it can be rebuilt at another size without moving a record. Linear probing with
backward-shift deletion leaves no tombstones, so look-ups stay fast over hundreds of millions of events. Values are also
summed by pairs without sorting them.
"""

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dispatch_audit.pipeline.assignment import Routing
from dispatch_audit.pipeline.checkpointed import checkpointed
from dispatch_audit.pipeline.entry_point import EntryPoint
from dispatch_audit.pipeline.packing.snapshot import ConsumerSnapshot, Snapshot
from dispatch_audit.pipeline.replay.state.compiled import compiled
from dispatch_audit.pipeline.replay.state.records import NOBODY, Ints

Slots = NDArray[np.int32]


def empty_table(capacity: int) -> Slots:
    """A table for up to `capacity` records, at most half full."""
    return np.full(1 << max(4, (2 * capacity - 1).bit_length()), NOBODY, dtype=np.int32)


@compiled
def _home(a: int, b: int, mask: int) -> int:
    # Neighbouring entries share a cache line, but runs of sixteen are scattered: entries come in long ascending
    # runs, and overlapping runs of two ledgers would make probing linear. Nothing here overflows 63 bits.
    mixed = ((b >> 4) & 0xFFFFFF) * 2654435761 + (a & 0xFFFFFF) * 2246822507
    mixed ^= mixed >> 19
    return ((mixed << 4) | (b & 15)) & mask


@compiled
def find(table: Slots, keys_a: Ints, keys_b: Ints, a: int, b: int) -> int:
    """The slot of (a, b), or -1."""
    mask = table.size - 1
    at = _home(a, b, mask)
    while True:
        slot = table[at]
        if slot < 0:
            return NOBODY
        if keys_a[slot] == a and keys_b[slot] == b:
            return int(slot)
        at = (at + 1) & mask


@compiled
def put(table: Slots, a: int, b: int, slot: int) -> None:
    """Adds `slot` for (a, b), which must not be in the table; the caller has made room for it."""
    mask = table.size - 1
    at = _home(a, b, mask)
    while table[at] >= 0:
        at = (at + 1) & mask
    table[at] = slot


@compiled
def put_all(table: Slots, keys_a: Ints, keys_b: Ints) -> None:
    """Adds the slots of all keys, none of which is in the table; a slot whose first key is negative is free."""
    for slot in range(keys_a.size):
        if keys_a[slot] >= 0:
            put(table, keys_a[slot], keys_b[slot], slot)


@compiled
def drop(table: Slots, keys_a: Ints, keys_b: Ints, a: int, b: int) -> None:
    """Removes (a, b), which must be in the table, and closes the gap in its run."""
    mask = table.size - 1
    hole = _home(a, b, mask)
    while not (keys_a[table[hole]] == a and keys_b[table[hole]] == b):
        hole = (hole + 1) & mask
    at = hole
    while True:
        at = (at + 1) & mask
        slot = table[at]
        if slot < 0:
            break
        home = _home(keys_a[slot], keys_b[slot], mask)
        # The record may fill the hole only if probing from its home passes the hole before it ends here.
        if ((at - home) & mask) >= ((at - hole) & mask):
            table[hole] = slot
            hole = at
    table[hole] = NOBODY


def sums_of_pairs(a: Ints, b: Ints, values: Ints) -> tuple[Ints, Ints]:
    """Sums the values of equal pairs; `a`, `b` and `values` have a number for each row.

    Returns:
        The row of the first of each pair, ascending, and the sum of the values of that pair.
    """
    sums = np.empty(a.size, dtype=np.int64)
    firsts = np.empty(a.size, dtype=np.int64)
    count = _sum_up(empty_table(a.size), a, b, values, firsts, sums)
    firsts = firsts[:count]
    return firsts, sums[firsts]


@EntryPoint
@compiled
def _sum_up(table: Slots, a: Ints, b: Ints, values: Ints, firsts: Ints, sums: Ints) -> int:
    """Fills in the first rows of pairs, and at these rows the sums; returns the number of pairs.

    The table is an empty one with room for all rows, and gets the first row of each pair.
    """
    count = 0
    for row in range(a.size):
        first = find(table, a, b, a[row], b[row])
        if first < 0:
            put(table, a[row], b[row], row)
            sums[row] = values[row]
            firsts[count] = row
            count += 1
        else:
            sums[first] += values[row]
    return count


@EntryPoint
@compiled
def _look_up(table: Slots, zeros: Ints, known: Ints, numbers: Ints, indexes: Ints) -> None:
    """Fills in the index of each number among the known ones, NOBODY where it is not among them."""
    for row in range(numbers.size):
        indexes[row] = find(table, zeros, known, 0, numbers[row])


_put_all = EntryPoint(put_all)


@checkpointed("consumer_index")
class ConsumerIndex:
    """Indexes of the consumers that a subscription has had so far, in the order in which the trace first names them.

    Compiled functions use them instead of the trace's numbers, which may be any integers.
    """

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
