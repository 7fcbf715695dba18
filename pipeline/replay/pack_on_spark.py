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
from dispatch_audit.pipeline.replay.packing.staged_batches import STAGED_SCHEMA, Kind, staged, staged_payload
from dispatch_audit.pipeline.trace.parquet.worker_reader import NotPlainError, Share, by_workers, read_share
from dispatch_audit.pipeline.trace.quarantine.row_counts import COUNTED_BY, RowCounts

_COLUMNS: Final = (*COLUMNS, *(name for name in COUNTED_BY if name not in COLUMNS))

_Batches = Iterable[pa.RecordBatch]
_Pack = Callable[[_Batches], Iterator[pa.RecordBatch]]


def packed_rows(events: DataFrame, profile: Profile) -> DataFrame:
    """Packs the rows of `dispatch_audit.pipeline.trace.read_events`; `STAGED_SCHEMA`, in no order.

    Args:
        events: the rows.
        profile: of the broker.
    """
    packed = _packer(profile)

    def read(batches: _Batches) -> Iterator[pa.RecordBatch]:
        return packed(map(restored, batches))

    return flattened(events, _COLUMNS).mapInArrow(read, STAGED_SCHEMA)


def packed_files(spark: SparkSession, shares: Sequence[Share], profile: Profile, chunk_rows: int) -> DataFrame:
    """Packs files that the workers read, as `packed_rows` does; the counts report a file that is not plain."""
    packed = _packer(profile)

    def read(own: Iterator[Share]) -> Iterator[pa.RecordBatch]:
        return packed(batch for share in own for batch in read_share(share, _COLUMNS, chunk_rows))

    return by_workers(spark, shares, read, STAGED_SCHEMA)


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


def _packer(profile: Profile) -> _Pack:
    def packed(batches: _Batches) -> Iterator[pa.RecordBatch]:
        counts, keys = RowCounts(), DistinctKeys()

        def of_batch(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
            counts.add(batch)
            refused = batch.column("refused")
            good = batch if refused.null_count == batch.num_rows else batch.filter(pc.is_null(refused))
            keys.add(good.column("key"))
            yield staged(pack(good, profile))
            if keys.is_full:
                yield from _keys(keys)

        try:
            # No variable for a batch, because it would keep the last one while memory is released.
            for rows in map(of_batch, batches):
                yield from rows
        except NotPlainError:
            counts.give_up()
        yield from _keys(keys)
        # The worker is used again: release the memory of packing before it replays.
        pa.default_memory_pool().release_unused()
        yield staged_payload(Kind.COUNTS, counts.encode())

    return packed


def _keys(keys: DistinctKeys) -> Iterator[pa.RecordBatch]:
    payload = keys.take()
    if payload is not None:
        yield staged_payload(Kind.KEYS, payload)
