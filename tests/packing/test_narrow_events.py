"""Narrow rows against the same rows as the replay takes them."""

from collections.abc import Sequence

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from local_replay import Log, packed, same_rows

from dispatch_audit.pipeline.packing.events import DTYPES, Events, concatenated
from dispatch_audit.pipeline.packing.narrow_events import (
    NarrowEvents,
    decode_events,
    encode_events,
    narrow,
    together,
)

_Row = tuple[int, ...]


def _numbers(least: int, most: int) -> st.SearchStrategy[int]:
    """Any, and often such that a column of them is of any width."""
    near = st.sampled_from([0, 1, 255, 256, 65_535, 65_536, 2**31 - 1, 2**31, 2**32 - 1, 2**32])
    return st.one_of(st.just(7), near.filter(lambda n: n <= most), st.integers(least, most))


_ROW = st.tuples(*(_numbers(np.iinfo(dtype).min, np.iinfo(dtype).max) for dtype in DTYPES.values()))
_PARTS = st.lists(st.lists(_ROW, min_size=1, max_size=4), min_size=1, max_size=4)


def _events(rows: Sequence[_Row]) -> Events:
    columns = zip(*rows, strict=True) if rows else ([] for _ in DTYPES)
    return Events(*(np.array(c, dtype=dtype) for c, dtype in zip(columns, DTYPES.values(), strict=True)))


def _received(events: Events) -> NarrowEvents:
    return decode_events(encode_events(narrow(events)))


@given(st.lists(_ROW, max_size=5))
def test_any_numbers_come_back_as_they_were_sent(rows: list[_Row]) -> None:
    events = _events(rows)
    back = _received(events).wide()
    assert same_rows(back, events)
    assert [column.dtype for column in back] == [column.dtype for column in events]


def test_a_column_costs_the_bytes_that_its_values_differ_by() -> None:
    log = Log()
    log.join(1)
    for entry in range(1_000):
        log.publish(entry)
    events, _ = packed(log.rows)
    # Eight for the id of the key, four for its hash, eleven for the rest; as they stand they take 77.
    assert len(encode_events(narrow(events))) < 24 * events.seq.size


@given(_PARTS)
def test_what_was_put_together_is_as_wide_as_it_has_to_be_and_travels_on(parts: list[list[_Row]]) -> None:
    wide = concatenated([_events(rows) for rows in parts])
    whole = together([_received(_events(rows)) for rows in parts])
    assert same_rows(whole.wide(), wide)
    assert encode_events(whole) == encode_events(narrow(wide))


@given(_PARTS)
def test_rows_are_ordered_by_seq_and_else_stay_as_they_were(parts: list[list[_Row]]) -> None:
    wide = concatenated([_events(rows) for rows in parts])
    ordered = together([_received(_events(rows)) for rows in parts]).in_order()
    assert same_rows(ordered.wide(), wide.take(np.argsort(wide.seq, kind="stable")))


@given(st.lists(_ROW, min_size=1, max_size=6), st.data())
def test_a_piece_is_found_by_its_seq(rows: list[_Row], data: st.DataObject) -> None:
    events = _events(sorted(rows, key=lambda row: row[Events._fields.index("seq")]))
    whole = _received(events)
    seq = data.draw(st.sampled_from(events.seq.tolist())) + data.draw(st.integers(-1, 1))
    cut = whole.number_before(seq)
    assert cut == sum(found < seq for found in events.seq.tolist())
    assert same_rows(whole.some(0, cut).wide(), events.rows(0, cut))
    # A piece has the bounds of the whole, and is cut as that is.
    assert whole.some(cut, len(rows)).number_before(seq) == 0


@given(st.lists(st.tuples(_ROW, st.booleans()), min_size=1, max_size=6))
def test_some_rows_of_many(rows: list[tuple[_Row, bool]]) -> None:
    events, kept = _events([row for row, _ in rows]), np.array([is_kept for _, is_kept in rows])
    some = _received(events).take(kept)
    assert some.rows == kept.sum()
    assert same_rows(some.wide(), events.take(kept))
