"""Which rows of a log belong to a window: those of a range of `seq`, the order in which they are replayed.

A row without a readable `seq` lies in no range; `pipeline.windows.rows_without_seq` deals with such rows.
"""

from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc


class SeqRange(NamedTuple):
    """A range of `seq`.

    Attributes:
        first: the lowest in it; None: there is no lowest.
        behind: the lowest behind it; None: it has no end.
    """

    first: int | None = None
    behind: int | None = None

    @property
    def sql(self) -> str:
        """The condition on a row as Spark SQL; of the range of all rows it is true of those without a seq too."""
        lowest = [] if self.first is None else [f"seq >= {self.first}"]
        highest = [] if self.behind is None else [f"seq < {self.behind}"]
        return " AND ".join([*lowest, *highest]) or "true"

    def of(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows of a batch that lie in the range; without a column `seq` none does, unless all are meant."""
        if self == ALL:
            return batch
        if "seq" not in batch.schema.names:
            return batch.slice(0, 0)
        seq = batch.column("seq")
        inside = pc.is_valid(seq)
        if self.first is not None:
            inside = pc.and_(inside, pc.fill_null(pc.greater_equal(seq, self.first), False))
        if self.behind is not None:
            inside = pc.and_(inside, pc.fill_null(pc.less(seq, self.behind), False))
        return batch if pc.all(inside).as_py() else batch.filter(inside)

    def meets(self, lowest: int, highest: int) -> bool:
        """Whether rows between these two seqs, themselves included, may lie in the range."""
        return (self.first is None or highest >= self.first) and (self.behind is None or lowest < self.behind)


ALL = SeqRange()
"""Every row, also without a seq."""
