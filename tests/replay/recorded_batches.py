"""The rows of recordings as the audit reads them: batches by the product's own readers, which takes a tenth of the time
that rows in Python take. Tests that change rows, or look at single ones, take `local_replay.recorded_logs`.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from recorded import RECORDINGS

from dispatch_audit.pipeline.packing.pack import COLUMNS
from dispatch_audit.pipeline.trace import open_traces
from dispatch_audit.pipeline.trace.workers.file_part import FilePart
from dispatch_audit.pipeline.trace.workers.shares import shares_of

Batches = Sequence[pa.RecordBatch]

# pyarrow.compute has no types.
_compute: Any = pc
# More than the largest log has.
_ROWS = 1_000_000


# Tests of one recording run one after the other (conftest).
@lru_cache(maxsize=2)
def recorded_batches(name: str) -> Batches:
    """The rows of a recorded trace, log by log."""
    (trace,) = open_traces([RECORDINGS / name])
    shares = [share for log in trace.logs for share in shares_of(log, trace.seqs) or ()]
    read = [rows for share in shares for rows in FilePart(share).read(COLUMNS, _ROWS)]
    assert read
    assert all(rows.refused.num_rows == 0 for rows in read)
    return [rows.good for rows in read]


def seqs_of(batches: Batches) -> list[int]:
    """The seqs of all rows, ascending."""
    found: list[int] = np.sort(np.concatenate([batch["seq"].to_numpy() for batch in batches])).tolist()
    return found


def from_seq(batches: Batches, seq: int) -> Batches:
    """The rows from a seq on."""
    return [batch.filter(_compute.greater_equal(batch["seq"], seq)) for batch in batches]


def joined(batches: Batches) -> set[int]:
    """The consumers that joined."""
    joins = [batch.filter(_compute.equal(batch["event"], "join")) for batch in batches]
    return {consumer for batch in joins for consumer in batch["consumer"].to_pylist() if consumer is not None}
