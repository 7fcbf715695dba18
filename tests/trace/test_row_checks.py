"""What is good beyond doubt is good: the tests of columns against the checks of single rows."""

import random
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import pyarrow as pa
import pytest
from arrow_rows import ARROW_SCHEMA, batch_of, encoded, typed
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from judged_rows import BAD_ROWS, LEGITIMATE_ROWS
from trace_rows import (
    ACK,
    END,
    FLOW,
    GAP,
    GAP_OF_ALL,
    GOOD_ROWS,
    HANG,
    HEARTBEAT,
    JOIN,
    LEAVE,
    PUBLISH,
    REDELIVER,
    REFUSED_JOIN,
    RESET,
    SETTINGS,
    STATS,
    without,
)

from dispatch_audit.pipeline.trace.checks.good_rows import good_rows
from dispatch_audit.pipeline.trace.checks.one_row import ALL_EVENTS, BY_EVENT, fault_of
from dispatch_audit.pipeline.trace.checks.snapshots import checked_structs
from dispatch_audit.pipeline.trace.reasons import REASONS, STRUCTURAL

# Columns have types, so these cannot stand in them; see `test_parquet_files` for wrong types and base64.
_OF_LINES = ("broken_json", "wrong_type", "bad_key")

# Rows that are rare are looked at one by one: consumers with ranges of their own, and what names no topic.
_ONE_BY_ONE = (JOIN, REFUSED_JOIN, GAP, GAP_OF_ALL, SETTINGS, HANG, HEARTBEAT, END)
_AUTO_SPLIT = {**JOIN, "key_shared_mode": "AUTO_SPLIT", "ranges": []}
# Good, of no meaning where they stand, and nothing that a recorder writes: not worth a test of their own there.
_ODD = ({**PUBLISH, "phase": "of no meaning here"},)
PLAIN = [row for row in GOOD_ROWS if row not in _ONE_BY_ONE] + [_AUTO_SPLIT]

KNOWN_BAD = [row for row, reason, _ in BAD_ROWS if reason not in _OF_LINES and isinstance(row, Mapping)]
BAD: Sequence[Mapping[str, Any]] = [
    *KNOWN_BAD,
    # What those leave to other faults of the same row, and where a limit lies.
    {**FLOW, "ts_us": 253_402_300_800_000_000},
    {**PUBLISH, "publish_time_ms": -1},
    {**PUBLISH, "deliver_at_ms": -1},
    {**FLOW, "topic": "orders-\ufffd"},
    without(_AUTO_SPLIT, "consumer"),
    {**_AUTO_SPLIT, "key_shared_mode": "SPLIT"},
    {**_AUTO_SPLIT, "ranges": [{"start": 9, "end": 1}]},
    {**ACK, "positions": [{"ledger_id": 1, "entry_id": 0}, None]},
    {**REDELIVER, "positions": [{"ledger_id": 1, "entry_id": 0}, {"ledger_id": 1, "entry_id": -1}]},
    {**STATS, "snapshot": {"seq_begin": None, "seq_end": 10}},
    {**STATS, "snapshot": {"seq_begin": 1, "seq_end": 1, "consumers": [None]}},
    *(
        {**STATS, "snapshot": {"seq_begin": 1, "seq_end": 1, "consumers": [{"consumer": 1, name: [[1, 2, 3]]}]}}
        for name in ("key_hash_ranges", "key_hash_ranges_changed")
    ),
    {**STATS, "snapshot": {"seq_begin": 1, "seq_end": 1, "consumers_as_before": [{"consumer": 1}, {}]}},
    without(HANG, "subscription"),
    without(HANG, "begun_us"),
    without(HANG, "seq_begin"),
    {**HANG, "begun_us": -1},
]
_AT_LIMITS = (
    {**FLOW, "ts_us": 253_402_300_799_999_999, "seq": 2**63 - 1, "permits": 0},
    {**without(_AUTO_SPLIT, "consumer"), "phase": "start"},
)
GOOD = [row for row in (*PLAIN, *LEGITIMATE_ROWS, *_AT_LIMITS) if isinstance(row, Mapping) and row not in _ONE_BY_ONE]

# For each column what it could hold; the row decides what of it is good.
_NUMBERS = (None, -(2**31), -1, 0, 1, 2**31 - 1)
_LONGS = (*_NUMBERS, -(2**63), 2**63 - 1, 253_402_300_799_999_999, 253_402_300_800_000_000)
_CONSUMERS: Sequence[Any] = (None, [], [None], [{}])
_KEY_HASH_RANGES: Sequence[Any] = (None, [], [None], [[]], [[1]], [[1, 2]], [[2, 1]], [[1, None]], [[1, 2, 3]])
_DRAINING_HASHES: Sequence[Any] = ([], [None], [{}], [{"hash": -1}], [{"hash": 1}, {"unacked_messages": 1}])
_VALUES: Mapping[str, Sequence[Any]] = {
    "event": [None, "", "assign", "FLOW", *(row["event"] for row in GOOD_ROWS)],
    "phase": [None, "", "start", "end", "middle"],
    "topic": [None, "", "a", "a\ufffd"],
    "subscription": [None, "", "a", "\ufffda"],
    "ack_type": [None, "", "individual", "cumulative", "partial"],
    "key_source": [None, "none", "NONE", "ordering_key"],
    "key_shared_mode": [None, "AUTO_SPLIT", "STICKY", "SPLIT"],
    "reason": [None, "", "seek", "clear", "restart", "close_consumer"],
    "key": [None, b"", b"k", b"\xff"],
    "ack_set": [None, [], [0], [1, None], [None]],
    "positions": [
        None,
        [],
        [None],
        *([{"ledger_id": ledger, "entry_id": entry}] for ledger, entry in product((None, -1, 0), repeat=2)),
        *([{"ledger_id": 1, "entry_id": 1, "ack_set": words}] for words in ([], [0], [-1, None])),
        [{"ledger_id": 1, "entry_id": 1, "ack_set": [3]}, {"ledger_id": 1, "entry_id": 2}],
        [{"ledger_id": 1, "entry_id": 1}, None],
        [{"ledger_id": 1, "entry_id": 1}, {"ledger_id": 1, "entry_id": -1}],
    ],
    "ranges": [
        None,
        [],
        [None],
        [{"start": 0, "end": 65_535}],
        [{"start": 2, "end": 1}],
        [{"start": 0, "end": 65_536}],
        [{"start": -1, "end": 1}],
        [{"start": None, "end": 1}],
    ],
    "snapshot": [
        None,
        {},
        {"seq_begin": 1},
        {"seq_end": 1},
        {"seq_begin": 2, "seq_end": 1},
        *({"seq_begin": 1, "seq_end": 1, "consumers": consumers} for consumers in _CONSUMERS),
        *(
            {"seq_begin": 1, "seq_end": 1, "consumers": [{"consumer": 1, name: ranges}]}
            for name in ("key_hash_ranges", "key_hash_ranges_changed")
            for ranges in _KEY_HASH_RANGES
        ),
        *(
            {"seq_begin": 1, "seq_end": 1, "consumers": [{"consumer": 1, "draining_hashes": hashes}]}
            for hashes in _DRAINING_HASHES
        ),
        {"seq_begin": 1, "seq_end": 1, "consumers": [{"consumer": 1}, {"consumer_name": "c"}]},
        {"seq_begin": 1, "seq_end": 1, "consumers_after_mark_delete_position": {"c": "1:2"}},
        {"seq_begin": 1, "seq_end": 1, "consumers_as_before": [{"consumer": 1, "key_hash_ranges_changed": [[3, 4]]}]},
        {"seq_begin": 1, "seq_end": 1, "consumers_as_before": [None]},
        {"seq_begin": 1, "seq_end": 1, "consumers_as_before": [{"consumer": 1, "key_hash_ranges_changed": [[4, 3]]}]},
    ],
    **{
        field.name: _LONGS if field.type == pa.int64() else _NUMBERS
        for field in ARROW_SCHEMA
        if pa.types.is_integer(field.type)
    },
}


def surely_good(batch: pa.RecordBatch) -> list[bool]:
    """Which rows are good beyond doubt."""
    texts, bad = checked_structs(batch.column("snapshot"))
    checked = batch.set_column(batch.schema.get_field_index("snapshot"), "snapshot", texts)
    return list((good_rows(checked) & ~bad).tolist())


def plain(batch: pa.RecordBatch) -> bool:
    return all(surely_good(batch))


def _changed(row: Mapping[str, Any], **changes: Any) -> dict[str, Any]:
    return {name: value for name, value in row.items() if not (name == "key_b64" and "key" in changes)} | changes


@pytest.mark.parametrize("row", BAD, ids=str)
def test_a_bad_row_is_not_plain(row: Mapping[str, Any]) -> None:
    assert not plain(batch_of([row]))
    assert not plain(encoded(batch_of([row])))
    among = batch_of([*PLAIN, row, *PLAIN])
    assert not plain(among)
    assert not plain(encoded(among))


def test_every_bad_row_that_columns_can_hold_is_tried() -> None:
    of_columns = {reason for row, reason, _ in BAD_ROWS if row in KNOWN_BAD}
    assert of_columns == {"unknown_event", "unknown_phase", "missing_field", "impossible_value"}


@pytest.mark.parametrize("row", GOOD, ids=str)
def test_a_good_row_is_plain(row: Mapping[str, Any]) -> None:
    expected = row not in _ODD
    assert plain(batch_of([row])) == expected
    assert plain(encoded(batch_of([row]))) == expected


def test_good_rows_together_are_plain() -> None:
    assert plain(batch_of(PLAIN))
    assert plain(encoded(batch_of(PLAIN)))
    assert plain(batch_of([]))
    assert plain(encoded(batch_of([])))


@pytest.mark.parametrize("row", _ONE_BY_ONE, ids=lambda row: f"{row['event']}-{row['seq']}")
def test_rare_rows_are_looked_at_one_by_one(row: Mapping[str, Any]) -> None:
    assert not plain(batch_of([row]))
    assert not plain(encoded(batch_of([row])))


def test_reasons_of_leaves_are_no_reasons_of_resets() -> None:
    leave = {**LEAVE, "reason": "close_consumer"}
    assert plain(batch_of([leave, RESET]))
    assert plain(encoded(batch_of([leave, RESET])))
    assert not plain(encoded(batch_of([{**leave, "reason": "seek"}, {**RESET, "reason": "close_consumer"}])))


def test_what_is_behind_null_lists_is_not_looked_at_and_what_is_before_a_slice_neither() -> None:
    bad = {**ACK, "positions": [{"ledger_id": -1, "entry_id": 0}]}
    rows = batch_of([bad, *PLAIN, bad])
    assert plain(rows.slice(1, len(PLAIN)))
    assert plain(encoded(rows).slice(1, len(PLAIN)))
    assert not plain(rows.slice(1))
    assert not plain(rows.slice(0, len(PLAIN)))


def _mutated() -> list[dict[str, Any]]:
    """Every good row with every value in every column, one at a time."""
    rows = (*PLAIN, JOIN, GAP)
    return [_changed(row, **{name: value}) for row in rows for name, values in _VALUES.items() for value in values]


def _mutated_twice(chance: random.Random, count: int) -> list[dict[str, Any]]:
    """Good rows with two columns changed: what hides one fault may be another field's value."""
    names = sorted(_VALUES)
    return [
        _changed(chance.choice(PLAIN), **{name: chance.choice(_VALUES[name]) for name in chance.sample(names, 2)})
        for _ in range(count)
    ]


def _verdicts(rows: Sequence[Mapping[str, Any]]) -> list[tuple[str, str | None] | None]:
    """The verdict of the checks of single rows."""
    return [fault_of(typed(row)) for row in rows]


def test_the_bad_rows_are_bad_and_the_good_ones_good() -> None:
    assert None not in _verdicts(BAD)
    assert set(_verdicts(GOOD)) == {None}


def _more_lenient(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    verdicts = _verdicts(rows)
    reasons = {None if verdict is None else verdict[0] for verdict in verdicts}
    assert {None, "missing_field", "impossible_value", "unknown_event", "unknown_phase"} == reasons
    found = surely_good(batch_of(rows))
    # Neither side may be trivial.
    assert 0.2 < sum(found) / len(found) < 0.8
    return [row for row, verdict, is_good in zip(rows, verdicts, found, strict=True) if is_good and verdict]


@pytest.mark.parametrize(
    ("changed", "fault"),
    [
        ({}, None),
        ({"subscription": None}, None),
        ({"subscription": None, "topic": None}, None),
        ({"dropped_events": []}, None),
        ({"dropped_events": ["an event of a later format"]}, None),
        ({"topic": None}, ("missing_field", "topic")),
        ({"seq_end": None}, ("missing_field", "seq_end")),
        ({"dropped": None}, ("missing_field", "dropped")),
        ({"seq_end": 11}, ("impossible_value", "seq_end = 11")),
        ({"dropped": 0}, ("impossible_value", "dropped = 0")),
        ({"dropped_events": [None]}, ("impossible_value", "dropped_events")),
    ],
    ids=str,
)
def test_a_gap_says_what_was_lost(changed: dict[str, Any], fault: tuple[str, str] | None) -> None:
    assert _verdicts([{**GAP, **changed}]) == [fault]


@pytest.mark.parametrize(
    ("changed", "fault"),
    [
        ({}, None),
        ({"subscription": None}, None),
        ({"subscription": None, "topic": None}, None),
        ({"sources": None, "seq_begin": None}, None),
        ({"settings": {"maxUnackedMessagesPerConsumer": None}}, None),
        ({"settings": {"a setting of a later release": "[1]"}}, None),
        ({"settings": {"dispatchThrottlingRatePerTopicInMsg": "-1"}}, None),
        ({"topic": None}, ("missing_field", "topic")),
        ({"settings": None}, ("missing_field", "settings")),
        ({"settings": {"": "1"}}, ("impossible_value", "settings = {'': '1'}")),
        (
            {"settings": {"maxUnackedMessagesPerConsumer": "many"}},
            ("impossible_value", "settings = {'maxUnackedMessagesPerConsumer': 'many'}"),
        ),
        (
            {"settings": {"delayedDeliveryEnabled": "1"}},
            ("impossible_value", "settings = {'delayedDeliveryEnabled': '1'}"),
        ),
        ({"seq_begin": 23}, ("impossible_value", "seq_begin = 23")),
        ({"seq_begin": -1}, ("impossible_value", "seq_begin = -1")),
    ],
    ids=str,
)
def test_settings_say_what_is_in_force(changed: dict[str, Any], fault: tuple[str, str] | None) -> None:
    assert _verdicts([{**SETTINGS, **changed}]) == [fault]


def test_no_change_of_one_field_is_surely_good_and_refused() -> None:
    assert _more_lenient(_mutated()) == []


@settings(max_examples=3, deadline=None)
@given(st.integers(0, 2**32))
def test_no_change_of_two_fields_is_surely_good_and_refused(seed: int) -> None:
    assert _more_lenient(_mutated_twice(random.Random(seed), 2_000)) == []


@examples(200)
@given(st.randoms(use_true_random=False), st.integers(1, 6), st.integers(0, 3))
def test_each_row_of_a_batch_is_judged_by_itself(chance: random.Random, size: int, before: int) -> None:
    rows = [chance.choice([*PLAIN, *_mutated_twice(chance, 1)]) for _ in range(size)]
    ahead = _mutated_twice(chance, before)
    each = [plain(batch_of([row])) for row in rows]
    assert surely_good(batch_of(rows)) == each
    assert surely_good(encoded(batch_of(rows))) == each
    assert surely_good(batch_of([*ahead, *rows]).slice(before)) == each


def test_the_good_rows_are_of_every_event() -> None:
    assert {row["event"] for row in (*PLAIN, *_ONE_BY_ONE)} == set(BY_EVENT)


def test_the_checks_use_the_catalogue() -> None:
    used = {check.reason for checks in (ALL_EVENTS, *BY_EVENT.values()) for check in checks}
    assert used <= set(STRUCTURAL)
    assert set(STRUCTURAL) < set(REASONS)


def test_every_structural_reason_but_cut_off_has_a_bad_row() -> None:
    assert {reason for _, reason, _ in BAD_ROWS} == set(STRUCTURAL) - {"cut_off"}
