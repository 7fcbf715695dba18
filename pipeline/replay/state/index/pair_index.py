"""An open-addressing index from a pair of integers to the slot of its record.

The records are in arrays of the caller (the key columns are passed in); the table contains slot numbers only, so it can
be rebuilt at another size without moving a record. Linear probing with backward-shift deletion leaves no tombstones, so
look-ups stay fast over hundreds of millions of events. Values are also summed by pairs without sorting them.
"""

import numpy as np
from numpy.typing import NDArray

from dispatch_audit.pipeline.entry_point import EntryPoint
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
