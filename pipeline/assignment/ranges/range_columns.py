"""Ranges of hashes with their owners, as columns: a consistent hashing ring has a hundred ranges for each consumer."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dispatch_audit.pipeline.assignment.ranges.routing import HashRangeOf
from dispatch_audit.pipeline.checkpointed import checkpointed
from dispatch_audit.udfs.sticky_key_hash import Int64Array


@checkpointed("range_columns")
@dataclass(frozen=True, eq=False, repr=False)
class RangeColumns:
    """Ranges, ascending, both ends inclusive: disjoint, but for a range that comes once for each of its several owners.

    Attributes:
        starts: the first hash of each range.
        ends: the last hash of each range.
        owners: the consumer that owns it.
    """

    starts: Int64Array
    ends: Int64Array
    owners: Int64Array

    @staticmethod
    def of(ranges: Iterable[HashRangeOf]) -> "RangeColumns":
        """The same ranges as columns."""
        # Each column by itself in memory, as a ring makes them, so that compiled walks see one kind of array.
        return RangeColumns(*np.array([*ranges], dtype=np.int64).reshape(-1, 3).T.copy())

    @cached_property
    def rows(self) -> tuple[HashRangeOf, ...]:
        """The same ranges one by one."""
        return tuple(zip(self.starts.tolist(), self.ends.tolist(), self.owners.tolist(), strict=True))

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, RangeColumns) or self.starts.size != other.starts.size:
            return False
        mine, theirs = (self.starts, self.ends, self.owners), (other.starts, other.ends, other.owners)
        return all(bool((column == as_well).all()) for column, as_well in zip(mine, theirs, strict=True))

    __hash__ = None  # type: ignore[assignment]  # compared, never looked up

    def __repr__(self) -> str:
        # In full, because tests compare what is printed; numpy leaves out the middle of a long array.
        return f"RangeColumns{self.rows}"
