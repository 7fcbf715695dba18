"""Looks up the keys of findings at the end, because the replay has only their hashes.

A finding names its entry and mostly the id of its key, and readers need the key. The workers staged every key once
while they packed the trace. The log is read again only for entries that were published before a window and do not occur
in it.
"""

from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import Final

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from dispatch_audit.pipeline.engine.arrow_schema import arrow_schema
from dispatch_audit.pipeline.packing.distinct_keys import keys_by_id
from dispatch_audit.pipeline.packing.events import Code
from dispatch_audit.pipeline.packing.packed_batch import PackedBatch
from dispatch_audit.pipeline.plan.place_on_spark import batches_of
from dispatch_audit.pipeline.plan.staged_batches import StagedKind, decoded_batches
from dispatch_audit.pipeline.tables.rows import TableRows
from dispatch_audit.pipeline.trace import Trace
from dispatch_audit.pipeline.trace.workers.good_columns import good_columns

Entry = tuple[str, int, int]
"""Topic, ledger and entry."""

_ENTRY: Final = ["topic", "ledger_id", "entry_id"]
_NAMING: Final = ("publish", "dispatch")
_NAMING_CODES: Final = (Code.PUBLISH, Code.PUBLISH_DELAYED, Code.DISPATCH_START, Code.DISPATCH_END)
# Combines a position into one number, which is fast to search for; collisions are resolved afterwards.
_MIXER: Final = 0x1000003
_SCHEMA: Final = "topic STRING, ledger_id LONG, entry_id LONG"
_IDS: Final = f"{_SCHEMA}, key_id LONG"
_IDS_ARROW: Final = arrow_schema(_IDS)
_KEYS: Final = "key_id LONG, key BINARY"
_KEYS_ARROW: Final = arrow_schema(_KEYS)


def with_keys(rows: TableRows, keys: Mapping[Entry, bytes]) -> TableRows:
    """Returns rows with `topic`, `ledger_id` and `entry_id` with their column `key` filled in."""
    named = {entry: key_text(key) for entry, key in keys.items()}

    def texts(batch: pa.RecordBatch) -> pa.Array:
        entries = zip(*(batch[name].to_pylist() for name in _ENTRY), strict=True)
        return pa.array([named.get(entry) for entry in entries], pa.string())

    return rows.with_column("key", texts)


def keys_of(
    rows: Sequence[TableRows], staged: DataFrame, spark: SparkSession, earlier: Trace | None = None
) -> dict[Entry, bytes]:
    """Returns the key of each entry, where the trace has one.

    Args:
        rows: rows with `topic`, `ledger_id`, `entry_id` and `key_id` (null: not known); few.
        staged: the staged rows of the trace.
        spark: the session.
        earlier: the rows before those; read only for entries that the trace does not name.
    """
    wanted = _wanted(rows)
    for entry, key_id in _ids_in(staged, {entry for entry, ids in wanted.items() if not ids}):
        wanted[entry].add(key_id)
    keys = _keys_in(staged, set().union(*wanted.values()))
    # If rows of one entry have different keys, the lowest is taken, so that the result is the same every time.
    found = {entry: min(keys[i] for i in ids & keys.keys()) for entry, ids in wanted.items() if ids & keys.keys()}
    if earlier is not None and wanted.keys() - found.keys():
        found |= _in_rows(spark, earlier, wanted.keys() - found.keys())
    return found


def _wanted(rows: Sequence[TableRows]) -> dict[Entry, set[int]]:
    """Returns the entries that rows name, with the known ids of their keys."""
    wanted: dict[Entry, set[int]] = {}
    for columns in (some.select(*_ENTRY, "key_id").to_pydict() for some in rows):
        for topic, ledger, entry, key_id in zip(*columns.values(), strict=True):
            if ledger is None or entry is None:
                continue  # a finding about a hash or a consumer has no entry
            ids = wanted.setdefault((topic, ledger, entry), set())
            if key_id is not None:
                ids.add(key_id)
    return wanted


def _ids_in(staged: DataFrame, wanted: Set[Entry]) -> Iterator[tuple[Entry, int]]:
    """Yields the ids of the keys of entries, as their publishes and dispatches have them."""
    if not wanted:
        return

    def look(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for packed in decoded_batches(batches):
            rows = [dict(zip(_IDS_ARROW.names, row, strict=True)) for row in _among(packed, wanted)]
            yield pa.RecordBatch.from_pylist(rows, schema=_IDS_ARROW)

    topics = sorted({topic for topic, _, _ in wanted})
    for row in batches_of(staged).where(sf.col("topic").isin(topics)).mapInArrow(look, _IDS).collect():
        yield (row["topic"], row["ledger_id"], row["entry_id"]), row["key_id"]


def _among(packed: PackedBatch, wanted: Set[Entry]) -> Iterator[tuple[str, int, int, int]]:
    """Yields the wanted entries of a packed batch with the ids of their keys."""
    mixed = np.array([ledger * _MIXER + entry for _, ledger, entry in wanted], dtype=np.int64)
    events = packed.events.wide()
    names_key = np.isin(events.code, _NAMING_CODES) & (events.murmur != -1)
    at = np.flatnonzero(names_key & np.isin(events.ledger * _MIXER + events.entry, mixed))
    for ledger, entry, key_id in zip(
        *(c[at].tolist() for c in (events.ledger, events.entry, events.key_id)), strict=True
    ):
        if (packed.topic, ledger, entry) in wanted:
            yield packed.topic, ledger, entry, key_id


def _keys_in(staged: DataFrame, wanted: Set[int]) -> Mapping[int, bytes]:
    """Returns the staged keys with the wanted ids."""
    if not wanted:
        return {}

    def look(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            found = keys_by_id(batch.column(0).to_pylist(), wanted)
            rows = [{"key_id": key_id, "key": key} for key_id, key in found.items()]
            yield pa.RecordBatch.from_pylist(rows, schema=_KEYS_ARROW)

    rows = staged.where(sf.col("kind") == int(StagedKind.KEYS)).select("events").mapInArrow(look, _KEYS).collect()
    return {row["key_id"]: bytes(row["key"]) for row in rows}


def _in_rows(spark: SparkSession, trace: Trace, wanted: Set[Entry]) -> dict[Entry, bytes]:
    """Returns the keys of entries that rows of a trace name."""
    rows = good_columns(spark, trace, ("event", *_ENTRY, "key"))
    named = rows.where("key IS NOT NULL").where(sf.col("event").isin(*_NAMING))
    entries = sf.broadcast(spark.createDataFrame(sorted(wanted), _SCHEMA))
    keys = named.join(entries, _ENTRY, "left_semi").groupBy(*_ENTRY).agg(sf.min("key").alias("key"))
    return {(row["topic"], row["ledger_id"], row["entry_id"]): bytes(row["key"]) for row in keys.collect()}


def key_text(key: bytes) -> str:
    """Returns a key as text if it is UTF-8, and in base64 if not."""
    try:
        return key.decode()
    except UnicodeDecodeError:
        return b64encode(key).decode()
