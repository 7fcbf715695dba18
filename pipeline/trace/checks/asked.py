"""Good rows whose texts are wanted, because the replay refused them; it names them by topic and seq.

Gaps that hold for all topics name none, and every topic may refuse them: they are named by their seq alone.
"""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dispatch_audit.pipeline.trace.arrow_columns import integers, numbered
from dispatch_audit.pipeline.trace.checks.good_rows import Mask
from dispatch_audit.pipeline.trace.checks.one_row import Values
from dispatch_audit.pipeline.trace.seq_range import SeqRange

ASKED_BY = ("topic", "seq")


class AskedRows:
    """Names good rows by topic and seq.

    Args:
        seqs: of each topic, in any order.
    """

    def __init__(self, seqs: Mapping[str, NDArray[np.int64]]) -> None:
        self._seqs: dict[str | None, NDArray[np.int64]] = {
            None: np.unique(np.concatenate([np.zeros(0, np.int64), *seqs.values()])),
            **{topic: np.unique(of_topic) for topic, of_topic in seqs.items()},
        }

    @classmethod
    def of(cls, rows: pa.Table) -> "AskedRows":
        """Returns the rows that a table names by its columns `ASKED_BY`."""
        by_topic = rows.select(ASKED_BY).group_by("topic").aggregate([("seq", "list")])
        topics, seqs = by_topic.column("topic").to_pylist(), by_topic.column("seq_list")
        return cls({topic: integers(of_topic.values) for topic, of_topic in zip(topics, seqs, strict=True)})

    @property
    def seqs(self) -> SeqRange:
        """The smallest range with all of these seqs."""
        every = self._seqs[None]
        return SeqRange(int(every.min()), int(every.max()) + 1)

    def among(self, batch: pa.RecordBatch) -> Mask:
        """Returns which rows of a batch with the columns `ASKED_BY` are named."""
        topics, of_row = numbered(batch.column("topic"))
        seq, found = integers(batch.column("seq")), np.zeros(batch.num_rows, dtype=np.bool_)
        for number, topic in enumerate(topics):
            if topic in self._seqs:
                found |= (of_row == number) & np.isin(seq, self._seqs[topic])
        return found

    def has(self, row: Values) -> bool:
        """Returns whether a row is named."""
        seqs = self._seqs.get(row.get("topic"), np.zeros(0, np.int64))
        return bool(np.isin(row["seq"], seqs))
