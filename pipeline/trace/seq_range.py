"""The range of `seq` that selects the rows of a window; rows are replayed in the order of `seq`.

A row without a readable `seq` is in no range; `dispatch_audit.pipeline.windows.rows_without_seq` handles such rows.
"""

from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc


class SeqRange(NamedTuple):
    """A range of `seq`.

    Attributes:
        first: the lowest seq in it; None: it has no beginning.
        end: the lowest seq after it; None: it has no end.
    """

    first: int | None = None
    end: int | None = None

    @property
    def sql(self) -> str:
        """The condition on a row as Spark SQL; for the range of all rows it also holds for rows without a seq."""
        lowest = [] if self.first is None else [f"seq >= {self.first}"]
        highest = [] if self.end is None else [f"seq < {self.end}"]
        return " AND ".join([*lowest, *highest]) or "true"

    def of(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Returns the rows of a batch in the range; without a column `seq` only the range of all rows has any."""
        if self == ALL:
            return batch
        if "seq" not in batch.schema.names:
            return batch.slice(0, 0)
        seq = batch.column("seq")
        inside = pc.is_valid(seq)
        if self.first is not None:
            inside = pc.and_(inside, pc.fill_null(pc.greater_equal(seq, self.first), False))
        if self.end is not None:
            inside = pc.and_(inside, pc.fill_null(pc.less(seq, self.end), False))
        return batch if pc.all(inside).as_py() else batch.filter(inside)

    def meets(self, lowest: int, highest: int) -> bool:
        """Whether rows from `lowest` to `highest`, both included, may be in the range."""
        return (self.first is None or highest >= self.first) and (self.end is None or lowest < self.end)


ALL = SeqRange()
"""The range of all rows, also those without a seq."""
