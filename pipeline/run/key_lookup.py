"""Looks up the keys of findings in the trace at the end, because the replay has only their hashes.

A finding names its entry, and readers need the key. There are so few findings that a scan of a few columns finds all
keys.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from dispatch_audit.pipeline.trace.parquet.arrow_columns import integers
from dispatch_audit.pipeline.trace.parquet.worker_reader import Share, by_workers, read_columns

_ENTRY = ["topic", "ledger_id", "entry_id"]
_NAMING = ("publish", "dispatch")
# Combines a position into one number, which is fast to search for; collisions are resolved afterwards.
_MIXER = 0x1000003
_SCHEMA = "topic STRING, ledger_id LONG, entry_id LONG, key BINARY"
_ARROW = pa.schema([("topic", pa.string()), ("ledger_id", pa.int64()), ("entry_id", pa.int64()), ("key", pa.binary())])


def with_keys(rows: DataFrame, keys: DataFrame) -> DataFrame:
    """Returns rows with `topic`, `ledger_id` and `entry_id` with their column `key` filled in."""
    named = keys.withColumn("key", _as_text(sf.col("key")))
    return rows.drop("key").join(sf.broadcast(named), _ENTRY, "left")


def keys_of(
    entries: Sequence[DataFrame],
    trace: DataFrame | Sequence[Share],
    spark: SparkSession,
    earlier: DataFrame | None = None,
) -> DataFrame:
    """Returns the key of each entry, where the trace has one.

    Args:
        entries: frames with `topic`, `ledger_id` and `entry_id`; few rows.
        trace: rows of `dispatch_audit.pipeline.trace.read_events`, whose refused rows are skipped, or shares of plain
            files.
        spark: the session.
        earlier: rows of `dispatch_audit.pipeline.trace.read_events` before those, searched for the entries that `trace`
            lacks.

    Returns:
        The three columns and `key`, binary; a local frame.
    """
    # A finding about a hash or a consumer has no entry.
    named = (frame.select(*_ENTRY).dropna().collect() for frame in entries)
    wanted = {tuple(row) for rows in named for row in rows}
    if not wanted:
        return spark.createDataFrame([], _SCHEMA)
    keys = _looked_up(spark, trace, wanted)
    if earlier is not None and wanted - keys.keys():
        keys |= _looked_up(spark, earlier, wanted - keys.keys())
    return spark.createDataFrame([(*entry, key) for entry, key in sorted(keys.items())], _SCHEMA)


def _looked_up(
    spark: SparkSession, trace: DataFrame | Sequence[Share], wanted: set[tuple[Any, ...]]
) -> dict[tuple[Any, ...], bytes]:
    if isinstance(trace, DataFrame):
        found = _in_rows(trace, spark.createDataFrame(sorted(wanted), _SCHEMA.rpartition(",")[0]))
    else:
        found = _in_files(spark, trace, wanted)
    keys: dict[tuple[Any, ...], bytes] = {}
    for row in found.collect():
        entry, key = tuple(row[name] for name in _ENTRY), bytes(row["key"])
        # If rows of one entry have different keys, the lowest is taken, so that the result is the same every time.
        keys[entry] = min(key, keys.get(entry, key))
    return keys


def _in_rows(events: DataFrame, wanted: DataFrame) -> DataFrame:
    named = events.where("refused IS NULL AND key IS NOT NULL").where(sf.col("event").isin(*_NAMING))
    keys = named.join(sf.broadcast(wanted), _ENTRY, "left_semi").groupBy(*_ENTRY)
    return keys.agg(sf.min("key").alias("key"))


def _in_files(spark: SparkSession, shares: Sequence[Share], wanted: set[tuple[str, int, int]]) -> DataFrame:
    mixed = np.unique(np.array([ledger * _MIXER + entry for _, ledger, entry in wanted], dtype=np.int64))

    def look(shares_of_task: Iterator[Share]) -> Iterator[pa.RecordBatch]:
        found: dict[tuple[str, int, int], bytes] = {}
        for share in shares_of_task:
            for rows in read_columns(share, ["event", *_ARROW.names]):
                for entry, key in _among(rows, mixed, wanted):
                    found[entry] = min(key, found.get(entry, key))
        columns = [[entry[at] for entry in found] for at in range(3)]
        arrays = [pa.array(c, f.type) for c, f in zip([*columns, found.values()], _ARROW, strict=True)]
        yield pa.record_batch(arrays, schema=_ARROW)

    return by_workers(spark, shares, look, _SCHEMA)


def _among(
    rows: pa.RecordBatch, mixed: NDArray[np.int64], wanted: set[tuple[str, int, int]]
) -> Iterator[tuple[tuple[str, int, int], bytes]]:
    """Yields the wanted entries in a batch, with their keys."""
    ledger, entry = (integers(rows.column(name)) for name in _ENTRY[1:])
    at = np.minimum(np.searchsorted(mixed, ledger * _MIXER + entry), mixed.size - 1)
    for row in rows.take(pa.array(np.flatnonzero(mixed[at] == ledger * _MIXER + entry))).to_pylist():
        position = (row["topic"], row["ledger_id"], row["entry_id"])
        if row["event"] in _NAMING and row["key"] is not None and position in wanted:
            yield position, row["key"]


def _as_text(key: Column) -> Column:
    text = key.cast("string")
    return sf.when(sf.is_valid_utf8(text), text).otherwise(sf.base64(key))
