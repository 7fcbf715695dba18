"""Sums by pairs of integers, without sorting them."""

import numpy as np

from dispatch_audit.pipeline.entry_point import EntryPoint
from dispatch_audit.pipeline.replay.state.compiled import compiled
from dispatch_audit.pipeline.replay.state.pair_index import Slots, empty_table, find, put
from dispatch_audit.pipeline.replay.state.records import Ints


def sums_of_pairs(a: Ints, b: Ints, values: Ints) -> tuple[Ints, Ints]:
    """Sums the values of equal pairs (a, b).

    Args:
        a: n first parts.
        b: n second parts.
        values: n values.

    Returns:
        The row of the first of each pair, ascending, and the sum of the values of that pair.
    """
    sums = np.empty(a.size, dtype=np.int64)
    firsts = np.empty(a.size, dtype=np.int64)
    count = _sum_up(empty_table(a.size), a, b, values, firsts, sums)
    firsts = firsts[:count]
    return firsts, sums[firsts]


@compiled
def sum_up(table: Slots, a: Ints, b: Ints, values: Ints, firsts: Ints, sums: Ints) -> int:
    """Fills in the first rows of pairs, and at these rows the sums; returns the number of pairs.

    Args:
        table: an empty one, with room for all rows; it gets the first row of each pair.
        a: first parts.
        b: second parts.
        values: what to sum.
        firsts: gets the first rows.
        sums: gets the sums.
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


_sum_up = EntryPoint(sum_up)
