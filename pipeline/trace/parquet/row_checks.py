"""Finds batches whose rows are all good, column by column.

The checks of a row are defined once, in SQL (`dispatch_audit.pipeline.trace.validate`). This module only decides
whether all rows of a batch surely pass them; if not, no row is refused, but the trace is left to Spark. So these tests
may be stricter than the checks, but never more lenient; tests compare the two.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dispatch_audit.pipeline.trace.parquet.arrow_columns import places
from dispatch_audit.pipeline.trace.validate import BY_EVENT, RESETS, TS_US_MAX

_EVENTS: Final = list(BY_EVENT)
_OF_CONSUMER: Final = ("dispatch", "ack", "redeliver", "flow", "leave")
_NOT_NEGATIVE: Final = (
    "seq",
    "ledger_id",
    "entry_id",
    "publish_time_ms",
    "size_bytes",
    "deliver_at_ms",
    "redelivery_count",
    "permits",
)

Mask = NDArray[np.bool_]


def plain(batch: pa.RecordBatch) -> bool:
    """Whether every row passes every check of `dispatch_audit.pipeline.trace.validate` for certain.

    Args:
        batch: columns of `EVENT_SCHEMA` with its types, texts perhaps dictionary-encoded; `snapshot` as structs.
    """
    return batch.num_rows == 0 or all(_tests(batch))


def _tests(batch: pa.RecordBatch) -> Iterable[bool]:
    """Yields the result of each test, the cheap ones first."""
    column = batch.column
    yield all(column(name).null_count == 0 for name in ("event", "seq", "ts_us", "topic"))
    yield all(_lowest(column(name)) >= 0 for name in (*_NOT_NEGATIVE, "ts_us"))
    yield pc.max(column("ts_us")).as_py() <= TS_US_MAX
    yield _lowest(column("batch_size"), 1) >= 1
    yield _words(column("event")) <= set(_EVENTS)
    yield _words(column("phase")) <= {"start", "end", None}
    yield all(_are_names(_words(column(name))) for name in ("topic", "subscription"))
    yield _words(column("ack_type")) <= {"individual", "cumulative", None}
    # Consumers that declare ranges are rare, so Spark may check their rows.
    yield _words(column("key_shared_mode")) <= {"AUTO_SPLIT", None}
    yield column("ranges").null_count == batch.num_rows or not pc.sum(pc.list_value_length(column("ranges"))).as_py()
    event, start = _is(column("event"), _EVENTS), _is(column("phase"), ["start"])["start"]
    yield _present(column("subscription"), ~event["publish"])
    of_consumer = np.logical_or.reduce([event[name] for name in _OF_CONSUMER]) | (event["join"] & ~start)
    yield _present(column("consumer"), of_consumer)
    entry = event["publish"] | event["dispatch"]
    described = entry & ~(event["dispatch"] & ~start)
    yield all(_present(column(name), entry) for name in ("ledger_id", "entry_id"))
    yield _present(column("batch_size"), described)
    yield _present(column("key"), described & ~_is(column("key_source"), ["none"])["none"])
    yield _present(column("permits"), event["flow"])
    yield _present(column("ack_type"), event["ack"])
    yield _present(column("positions"), event["ack"] | event["redeliver"])
    yield _are_positions(column("positions"), event["ack"])
    yield _flat(column("ack_set")).null_count == 0
    # Row by row and not by the dictionary, which also holds the reasons of leaves.
    resets = np.logical_or.reduce([*_is(column("reason"), RESETS).values()])
    yield bool(resets[event["reset"]].all())
    yield _present(column("snapshot"), event["stats"])
    yield all(_is_snapshot(snapshot) for snapshot in column("snapshot").filter(pa.array(event["stats"])).to_pylist())


def _lowest(column: pa.Array, absent: int = 0) -> int:
    lowest = pc.min(column).as_py()
    return absent if lowest is None else int(lowest)


def _words(column: pa.Array) -> set[str | None]:
    """Returns the different texts; None stands for absent ones."""
    if column.null_count == len(column):
        return {None} if len(column) else set()
    words = column.dictionary if pa.types.is_dictionary(column.type) else pc.unique(column)
    return {*words.to_pylist(), *([None] if column.null_count else [])}


def _are_names(words: set[str | None]) -> bool:
    return all(word is None or (word != "" and "\ufffd" not in word) for word in words)


def _is(column: pa.Array, words: Sequence[str]) -> Mapping[str, Mask]:
    """Returns for each word the mask of the rows that have it."""
    indexes = places(column, words)
    return {word: indexes == number for number, word in enumerate(words)}


def _present(column: pa.Array, where: Mask) -> bool:
    """Whether every row of the mask has a value."""
    return column.null_count == 0 or bool(pc.is_valid(column).to_numpy(zero_copy_only=False)[where].all())


def _flat(lists: pa.Array) -> pa.Array:
    return pa.nulls(0) if lists.null_count == len(lists) else pc.list_flatten(lists)


def _are_positions(positions: pa.Array, acks: Mask) -> bool:
    flat = _flat(positions)
    if len(flat) == 0:
        return not acks.any()
    lengths = pc.fill_null(pc.list_value_length(positions), 0).to_numpy(zero_copy_only=False)
    ids = [pc.struct_field(flat, name) for name in ("ledger_id", "entry_id")]
    words = _flat(pc.struct_field(flat, "ack_set"))
    complete = flat.null_count == 0 and words.null_count == 0 and all(i.null_count == 0 for i in ids)
    return complete and bool((lengths[acks] > 0).all()) and all(_lowest(i) >= 0 for i in ids)


def _is_snapshot(snapshot: Mapping[str, Any]) -> bool:
    begin, end, consumers = snapshot.get("seq_begin"), snapshot.get("seq_end"), snapshot.get("consumers") or ()
    return begin is not None and end is not None and begin <= end and all(map(_is_consumer, consumers))


def _is_consumer(consumer: Mapping[str, Any] | None) -> bool:
    if consumer is None or consumer.get("consumer") is None:
        return False
    ranges = consumer.get("key_hash_ranges") or ()
    in_order = all(r is not None and len(r) == 2 and None not in r and r[0] <= r[1] for r in ranges)
    return in_order and all(d is not None and d.get("hash") is not None for d in consumer.get("draining_hashes") or ())
