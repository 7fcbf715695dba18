"""Rows of a trace to staged packed batches on Spark: the first half of the replay.

files or rows of a trace -> mapInArrow(check, count, pack) -> rows of `STAGED_SCHEMA`
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from dispatch_audit.pipeline.contract.profile import Profile
from dispatch_audit.pipeline.replay.packing.distinct_keys import DistinctKeys
from dispatch_audit.pipeline.replay.packing.flat_rows import flattened, restored
from dispatch_audit.pipeline.replay.packing.pack import COLUMNS, pack
from dispatch_audit.pipeline.replay.packing.staged_batches import (
    STAGED_SCHEMA,
    Kind,
    staged,
    staged_lines,
    staged_payload,
    staged_refused,
)
from dispatch_audit.pipeline.trace.quarantine.row_counts import COUNTED_BY, RowCounts
from dispatch_audit.pipeline.trace.workers.by_workers import by_workers
from dispatch_audit.pipeline.trace.workers.read_share import read_share
from dispatch_audit.pipeline.trace.workers.shares import Share

_COUNTED: Final = tuple(name for name in COUNTED_BY if name != "refused")
_COLUMNS: Final = (*COLUMNS, *(name for name in _COUNTED if name not in COLUMNS))

_Batches = Iterable[pa.RecordBatch]


def packed_files(spark: SparkSession, shares: Sequence[Share], profile: Profile, chunk_rows: int) -> DataFrame:
    """Packs the files of a trace, which workers read; `STAGED_SCHEMA`, in no order.

    Args:
        spark: the session.
        shares: at least one.
        profile: of the broker.
        chunk_rows: most rows that are packed at a time.
    """

    def read(own: Iterator[Share]) -> Iterator[pa.RecordBatch]:
        packer = _Packer(profile)
        yield from _staged(own, chunk_rows, _COLUMNS, packer.counts, packer.packed, lambda refused: refused)
        yield from packer.rest()

    return by_workers(spark, shares, read, STAGED_SCHEMA)


def checked_files(spark: SparkSession, shares: Sequence[Share], chunk_rows: int) -> DataFrame:
    """Reads and checks the files of a trace without packing them; `STAGED_SCHEMA`, in no order.

    Of the refused rows it has those at which a log ends too early, and the first of each batch.

    Args:
        spark: the session.
        shares: at least one.
        chunk_rows: most rows that are checked at a time.
    """

    def read(own: Iterator[Share]) -> Iterator[pa.RecordBatch]:
        counts = RowCounts()
        yield from _staged(own, chunk_rows, _COUNTED, counts, lambda good: iter(()), _shown)
        yield staged_payload(Kind.COUNTS, counts.encode())

    return by_workers(spark, shares, read, STAGED_SCHEMA)


def packed_rows(events: DataFrame, profile: Profile) -> DataFrame:
    """Packs the rows of `dispatch_audit.pipeline.trace.read_events`, as `packed_files` does."""

    def read(batches: _Batches) -> Iterator[pa.RecordBatch]:
        packer = _Packer(profile)
        for batch in map(restored, batches):
            packer.counts.add(batch)
            yield from packer.packed(batch.filter(pc.is_null(batch.column("refused"))))
        yield from packer.rest()

    return flattened(events, (*_COLUMNS, "refused")).mapInArrow(read, STAGED_SCHEMA)


def packed_publishes(events: DataFrame, topics: Iterable[str], profile: Profile) -> DataFrame:
    """Packs only the publishes of some topics, and counts nothing; `STAGED_SCHEMA`, in no order.

    Args:
        events: rows of `dispatch_audit.pipeline.trace.read_events`.
        topics: the topics.
        profile: of the broker.
    """

    def read(batches: _Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield staged(pack(restored(batch), profile))

    published = events.where("refused IS NULL AND event = 'publish'").where(sf.col("topic").isin(sorted(topics)))
    return flattened(published, COLUMNS).mapInArrow(read, STAGED_SCHEMA)


def _staged(
    shares: Iterator[Share],
    chunk_rows: int,
    columns: Sequence[str],
    counts: RowCounts,
    packed: Callable[[pa.RecordBatch], Iterator[pa.RecordBatch]],
    kept: Callable[[pa.RecordBatch], pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """Yields what a task stages of its shares, and counts their rows.

    Args:
        shares: the shares of the task.
        chunk_rows: most good rows of a batch.
        columns: of the good rows.
        counts: gets all rows.
        packed: yields what is staged of a batch of good rows.
        kept: returns the refused rows to stage.
    """
    for share in shares:
        lines = 0
        for part in read_share(share, columns, chunk_rows):
            counts.add(part.good.append_column("refused", pa.nulls(part.good.num_rows, pa.string())))
            counts.add(part.refused)
            yield from packed(part.good)
            lines += part.lines
            refused = kept(part.refused)
            if refused.num_rows:
                yield staged_refused(share.path, share.begin, refused)
        if share.kind == "json":
            yield staged_lines(share.path, share.begin, lines)


def _shown(refused: pa.RecordBatch) -> pa.RecordBatch:
    """Returns the rows that a message may name: those at which a log ends too early, and the first."""
    shown = pc.equal(refused.column("refused"), "cut_off").to_numpy(zero_copy_only=False).copy()
    shown[:1] = True
    return refused.filter(pa.array(shown))


class _Packer:
    """Packs the good rows of a task.

    Attributes:
        counts: of all rows of the task; the caller adds them.
    """

    def __init__(self, profile: Profile) -> None:
        self.counts = RowCounts()
        self._keys = DistinctKeys()
        self._profile = profile

    def packed(self, good: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Yields the packed batches of good rows, as `STAGED_SCHEMA`."""
        self._keys.add(good.column("key"))
        yield staged(pack(good, self._profile))
        if self._keys.is_full:
            yield from self._new_keys()

    def rest(self) -> Iterator[pa.RecordBatch]:
        """Yields what else the task has found, as `STAGED_SCHEMA`."""
        yield from self._new_keys()
        # The worker is used again: release the memory of packing before it replays.
        pa.default_memory_pool().release_unused()
        yield staged_payload(Kind.COUNTS, self.counts.encode())

    def _new_keys(self) -> Iterator[pa.RecordBatch]:
        payload = self._keys.take()
        if payload is not None:
            yield staged_payload(Kind.KEYS, payload)
