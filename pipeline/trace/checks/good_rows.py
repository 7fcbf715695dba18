"""Finds the rows of a batch that are good beyond doubt, column by column.

The checks of a row are defined once (`dispatch_audit.pipeline.trace.checks.one_row`). This module only decides which
rows surely pass them; the others are looked at one by one. So these tests may be stricter than the checks, but never
more lenient; tests compare the two.
"""

from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dispatch_audit.pipeline.trace.arrow_columns import integers, places
from dispatch_audit.pipeline.trace.checks.one_row import BY_EVENT, RESETS, TS_US_MAX

_EVENTS: Final = list(BY_EVENT)
_PHASES: Final = ["start", "end"]
_WORDS: Final = {
    "ack_type": ["individual", "cumulative"],
    # Consumers that declare ranges are rare, so their rows may be looked at one by one.
    "key_shared_mode": ["AUTO_SPLIT"],
}
_OF_CONSUMER: Final = ("dispatch", "ack", "redeliver", "flow", "leave")
_NOT_NEGATIVE: Final = (
    "seq",
    "ts_us",
    "ledger_id",
    "entry_id",
    "publish_time_ms",
    "size_bytes",
    "deliver_at_ms",
    "redelivery_count",
    "permits",
    "sticky_hash",
)
CHECKED: Final = (
    "event",
    "phase",
    "topic",
    "subscription",
    "batch_size",
    "key",
    "key_source",
    "consumer",
    "ack_set",
    "ack_type",
    "positions",
    "key_shared_mode",
    "ranges",
    "reason",
    "seq_end",
    "dropped",
    "dropped_events",
    "settings",
    "seq_begin",
    "begun_us",
    "snapshot",
    *_NOT_NEGATIVE,
)
"""The columns that the checks look at."""
_REQUIRED: Final = ("event", "seq", "ts_us", "topic")

Mask = NDArray[np.bool_]


def good_rows(batch: pa.RecordBatch) -> Mask:
    """Returns which rows pass every check of `dispatch_audit.pipeline.trace.checks.one_row` for certain.

    Args:
        batch: `CHECKED` with the types of `EVENT_SCHEMA`, texts perhaps dictionary-encoded; `snapshot` as text, null
            unless the snapshot has passed its checks.
    """
    good = np.ones(batch.num_rows, dtype=np.bool_)
    if batch.num_rows:
        for bad in _bad(batch):
            good &= ~bad
    return good


def _bad(batch: pa.RecordBatch) -> Iterator[Mask]:
    """Yields the rows that fail a test, for each test that not all rows pass."""
    column = batch.column
    event, phase = places(column("event"), _EVENTS), places(column("phase"), _PHASES)
    yield from (_is_null(column(name)) for name in _REQUIRED if column(name).null_count)
    yield from (bad for name in _NOT_NEGATIVE for bad in _below(column(name), 0))
    yield from _below(column("batch_size"), 1)
    if (pc.max(column("ts_us")).as_py() or 0) > TS_US_MAX:
        yield integers(column("ts_us")) > TS_US_MAX
    yield from (bad for name in ("topic", "subscription") for bad in _no_names(column(name)))
    yield from _other_words(column("event"), event)
    yield from _other_words(column("phase"), phase)
    for name, words in _WORDS.items():
        # Most columns of words are null throughout.
        if column(name).null_count < batch.num_rows:
            yield from _other_words(column(name), places(column(name), words))
    if column("ranges").null_count < batch.num_rows:
        yield _lengths(column("ranges")) > 0
    # Gaps, settings and hangs are rare too.
    yield from (event == _EVENTS.index(name) for name in ("gap", "settings", "hang"))
    yield from _nulls_within(column("ack_set"))
    yield from _no_positions(column("positions"))
    yield from _absent(batch, {word: event == number for number, word in enumerate(_EVENTS)}, phase == 0)


def _absent(batch: pa.RecordBatch, event: Mapping[str, Mask], start: Mask) -> Iterator[Mask]:
    """Yields the rows that lack a value which their event needs, given the rows of each event and those at a start."""
    column = batch.column
    yield from _missing(column("subscription"), ~event["publish"])
    of_consumer = np.logical_or.reduce([event[name] for name in _OF_CONSUMER]) | (event["join"] & ~start)
    yield from _missing(column("consumer"), of_consumer)
    entry = event["publish"] | event["dispatch"]
    described = entry & ~(event["dispatch"] & ~start)
    yield from (bad for name in ("ledger_id", "entry_id") for bad in _missing(column(name), entry))
    yield from _missing(column("batch_size"), described)
    yield from _missing(column("key"), described & (places(column("key_source"), ["none"]) < 0))
    yield from _missing(column("permits"), event["flow"])
    yield from _missing(column("ack_type"), event["ack"])
    yield from _missing(column("positions"), event["redeliver"])
    yield event["ack"] & (_lengths(column("positions")) == 0)
    # Row by row and not by the dictionary, which also holds the reasons of leaves.
    yield event["reset"] & (places(column("reason"), RESETS) < 0)
    yield from _missing(column("snapshot"), event["stats"])


def _is_null(column: pa.Array) -> Mask:
    return np.asarray(pc.is_null(column).to_numpy(zero_copy_only=False), dtype=np.bool_)


def _below(column: pa.Array, lowest: int) -> Iterator[Mask]:
    found = pc.min(column).as_py()
    if found is not None and found < lowest:
        yield integers(column, lowest) < lowest


def _other_words(column: pa.Array, known: NDArray[np.int8]) -> Iterator[Mask]:
    """Yields the rows that have a text, but none of the known ones, given the `places` of the texts."""
    other = known < 0
    yield other & ~_is_null(column) if column.null_count else other


def _no_names(column: pa.Array) -> Iterator[Mask]:
    if column.null_count == len(column):
        return
    words = column.dictionary if pa.types.is_dictionary(column.type) else column
    is_name = pc.and_(pc.not_equal(words, ""), pc.invert(pc.match_substring(words, "\ufffd")))
    if not pc.all(is_name).as_py():
        of_rows = is_name.take(column.indices) if pa.types.is_dictionary(column.type) else is_name
        yield ~np.asarray(pc.fill_null(of_rows, True).to_numpy(zero_copy_only=False))


def _missing(column: pa.Array, where: Mask) -> Iterator[Mask]:
    """Yields the rows of the mask without a value."""
    if column.null_count:
        yield where & _is_null(column)


def _lengths(lists: pa.Array) -> NDArray[np.int64]:
    """Returns the number of elements of each list; 0 for null."""
    return integers(pc.list_value_length(lists), 0)


def _flat(lists: pa.Array) -> pa.Array:
    """Returns the elements of all lists."""
    return pa.nulls(0) if lists.null_count == len(lists) else pc.list_flatten(lists)


def _rows_with(lists: pa.Array, elements: Mask) -> Mask:
    """Returns the rows with an element in the mask."""
    rows = np.zeros(len(lists), dtype=np.bool_)
    rows[np.repeat(np.arange(len(lists)), _lengths(lists))[elements]] = True
    return rows


def _nulls_within(lists: pa.Array) -> Iterator[Mask]:
    flat = _flat(lists)
    if flat.null_count:
        yield _rows_with(lists, _is_null(flat))


def _no_positions(positions: pa.Array) -> Iterator[Mask]:
    flat = _flat(positions)
    if len(flat) == 0:
        return
    if flat.null_count:
        yield _rows_with(positions, _is_null(flat))
    for name in ("ledger_id", "entry_id"):
        numbers = pc.struct_field(flat, name)
        if numbers.null_count or pc.min(numbers).as_py() < 0:
            yield _rows_with(positions, integers(numbers) < 0)
    yield from (_rows_with(positions, bad) for bad in _nulls_within(pc.struct_field(flat, "ack_set")))
