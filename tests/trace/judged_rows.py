"""Rows with the verdicts of the checks: each reason has rows that yield it, and nothing that is legitimate does."""

import json
from collections.abc import Mapping
from typing import Any

from trace_rows import (
    ACK,
    DISPATCH,
    DISPATCH_END,
    END,
    FLOW,
    GAP,
    GAP_OF_ALL,
    GOOD_ROWS,
    HEARTBEAT,
    JOIN,
    LEAVE,
    PUBLISH,
    REDELIVER,
    RESET,
    SETTINGS,
    STATS,
    without,
)


def position(**changes: Any) -> dict[str, Any]:
    return {**ACK, "positions": [{"ledger_id": 31, "entry_id": 1, **changes}]}


def snapshot(**changes: Any) -> dict[str, Any]:
    return {**STATS, "snapshot": {**STATS["snapshot"], **changes}}


def text(row: Mapping[str, Any]) -> str:
    return json.dumps(row)


BAD_ROWS: tuple[tuple[Mapping[str, Any] | str, str, str | None], ...] = (
    # What is not exactly one JSON object.
    ("garbage", "broken_json", "expecting value at character 1"),
    ('{"event": "ack",', "broken_json", "expecting property name enclosed in double quotes at character 17"),
    ("null", "broken_json", "not an object"),
    ("5", "broken_json", "not an object"),
    (f"[{text(FLOW)}]", "broken_json", "not an object"),
    (text(FLOW) + text(FLOW), "broken_json", f"extra data at character {len(text(FLOW)) + 1}"),
    (text(FLOW) + "," + text(FLOW), "broken_json", "several objects in one line"),
    (text(FLOW) + " x", "broken_json", f"extra data at character {len(text(FLOW)) + 2}"),
    (text(FLOW) + "}", "broken_json", f"extra data at character {len(text(FLOW)) + 1}"),
    (
        text(FLOW).replace('"', "'"),
        "broken_json",
        "expecting property name enclosed in double quotes at character 2",
    ),
    ('{"event":"flow","x":' + "[" * 5000 + "]" * 5000 + "}", "broken_json", "nested deeper than 500 brackets"),
    # Values of other types.
    ({**FLOW, "seq": "6"}, "wrong_type", 'seq = "6", not a whole number of 64 bits'),
    ({**FLOW, "seq": 6.0}, "wrong_type", "seq = 6.0, not a whole number of 64 bits"),
    ({**FLOW, "seq": 10**30}, "wrong_type", f"seq = {10**30}, not a whole number of 64 bits"),
    ({**FLOW, "permits": 2**31}, "wrong_type", f"permits = {2**31}, not a whole number of 32 bits"),
    (
        {**ACK, "positions": {"ledger_id": 1, "entry_id": 1}},
        "wrong_type",
        'positions = {"ledger_id":1,"entry_id":1}, not a list',
    ),
    (position(ledger_id="31"), "wrong_type", 'positions[0].ledger_id = "31", not a whole number of 64 bits'),
    ({**JOIN, "allow_out_of_order": "false"}, "wrong_type", 'allow_out_of_order = "false", not true or false'),
    ({**JOIN, "entry_bucket_dispatch": "yes"}, "wrong_type", 'entry_bucket_dispatch = "yes", not true or false'),
    ({**STATS, "snapshot": "full"}, "wrong_type", 'snapshot = "full", not an object'),
    # Keys.
    ({**PUBLISH, "key_b64": "key-4!"}, "bad_key", "key_b64 = key-4!"),
    ({**DISPATCH, "key_b64": "a==="}, "bad_key", "key_b64 = a==="),
    # Events and phases.
    ({**FLOW, "event": "assign"}, "unknown_event", "event = assign"),
    ({**FLOW, "event": "FLOW"}, "unknown_event", "event = FLOW"),
    ({**ACK, "phase": "middle"}, "unknown_phase", "phase = middle"),
    ({**RESET, "phase": ""}, "unknown_phase", "phase = "),
    # Fields that an event needs.
    ({}, "missing_field", "event"),
    (without(FLOW, "seq"), "missing_field", "seq"),
    ({**FLOW, "ts_us": None}, "missing_field", "ts_us"),
    (without(FLOW, "topic"), "missing_field", "topic"),
    *(
        (without(row, "subscription"), "missing_field", "subscription")
        for row in GOOD_ROWS
        if row not in (PUBLISH, GAP, SETTINGS)
    ),
    *(
        (without(row, "consumer"), "missing_field", "consumer")
        for row in (DISPATCH, DISPATCH_END, ACK, REDELIVER, FLOW, JOIN, LEAVE)
    ),
    *((without(row, "entry_id"), "missing_field", "entry_id") for row in (PUBLISH, DISPATCH, DISPATCH_END)),
    *((without(row, "ledger_id"), "missing_field", "ledger_id") for row in (PUBLISH, DISPATCH, DISPATCH_END)),
    *((without(row, "batch_size"), "missing_field", "batch_size") for row in (PUBLISH, DISPATCH)),
    *((without(row, "key_b64"), "missing_field", "key") for row in (PUBLISH, DISPATCH)),
    (without(ACK, "ack_type"), "missing_field", "ack_type"),
    (without(ACK, "positions"), "missing_field", "positions"),
    ({**ACK, "positions": []}, "missing_field", "positions"),
    (without(REDELIVER, "positions"), "missing_field", "positions"),
    (without(FLOW, "permits"), "missing_field", "permits"),
    ({**JOIN, "ranges": []}, "missing_field", "ranges"),
    (without(JOIN, "ranges"), "missing_field", "ranges"),
    (without(RESET, "reason"), "missing_field", "reason"),
    (without(STATS, "snapshot"), "missing_field", "snapshot"),
    (snapshot(seq_end=None), "missing_field", "snapshot.seq_end"),
    # Values that cannot be.
    ({**FLOW, "seq": -1}, "impossible_value", "seq = -1"),
    ({**FLOW, "ts_us": -1}, "impossible_value", "ts_us = -1"),
    ({**FLOW, "ts_us": 2**60}, "impossible_value", f"ts_us = {2**60}"),
    (
        {**FLOW, "ts_us": 1_764_000_000_000_000_000},
        "impossible_value",
        "ts_us = 1764000000000000000, which looks like nanoseconds; ts_us is in microseconds",
    ),
    ({**FLOW, "topic": ""}, "impossible_value", "topic = "),
    ({**FLOW, "subscription": ""}, "impossible_value", "subscription = "),
    ({**PUBLISH, "ledger_id": -1}, "impossible_value", "ledger_id = -1"),
    ({**DISPATCH, "entry_id": -1}, "impossible_value", "entry_id = -1"),
    ({**PUBLISH, "batch_size": 0}, "impossible_value", "batch_size = 0"),
    ({**DISPATCH, "batch_size": -4}, "impossible_value", "batch_size = -4"),
    ({**PUBLISH, "size_bytes": -1}, "impossible_value", "size_bytes = -1"),
    ({**DISPATCH, "redelivery_count": -1}, "impossible_value", "redelivery_count = -1"),
    ({**DISPATCH, "ack_set": [1, None]}, "impossible_value", "ack_set"),
    ({**ACK, "ack_type": "partial"}, "impossible_value", "ack_type = partial"),
    (position(ledger_id=-1), "impossible_value", "positions"),
    (position(entry_id=-1), "impossible_value", "positions"),
    (position(entry_id=None), "impossible_value", "positions"),
    (position(ack_set=[None]), "impossible_value", "positions"),
    ({**ACK, "positions": [None]}, "impossible_value", "positions"),
    ({**FLOW, "permits": -1}, "impossible_value", "permits = -1"),
    ({**JOIN, "key_shared_mode": "SPLIT"}, "impossible_value", "key_shared_mode = SPLIT"),
    ({**JOIN, "ranges": [{"start": 9, "end": 1}]}, "impossible_value", "ranges"),
    ({**JOIN, "ranges": [{"start": 0, "end": 65536}]}, "impossible_value", "ranges"),
    ({**RESET, "reason": "restart"}, "impossible_value", "reason = restart"),
    (snapshot(seq_begin=11), "impossible_value", "snapshot.seq_begin"),
    *(
        (snapshot(consumers=[consumer]), "impossible_value", "snapshot.consumers")
        for consumer in (
            {"consumer_name": "c"},
            {"consumer": 1, "key_hash_ranges": [[1]]},
            {"consumer": 1, "key_hash_ranges": [[2, 1]]},
            {"consumer": 1, "key_hash_ranges": [[None, 1]]},
            {"consumer": 1, "key_hash_ranges": [None]},
            {"consumer": 1, "draining_hashes": [{}]},
        )
    ),
)

LEGITIMATE_ROWS: tuple[Mapping[str, Any] | str, ...] = (
    *GOOD_ROWS,
    GAP_OF_ALL,
    HEARTBEAT,
    END,
    {**FLOW, "an_addition": {"a": [1]}, "_corrupt_record": "x"},
    # The last of equal names counts.
    text(FLOW).replace('"seq": 6', '"seq": 5, "seq": 6'),
    "  " + text(FLOW) + " \r",
    {**PUBLISH, "key_b64": ""},
    # Without its padding, as URL-minded encoders leave it.
    {**PUBLISH, "key_b64": "a2V5LTQ"},
    {**without(PUBLISH, "key_b64"), "key_source": "none"},
    {**ACK, "phase": None},
    position(ack_set=[-(2**63), 2**63 - 1]),
    without(FLOW, "consumer_name"),
    {**JOIN, "key_shared_mode": "AUTO_SPLIT", "ranges": []},
    {**LEAVE, "reason": "a reason of a later recorder"},
    {**PUBLISH, "phase": "of no meaning here"},
    snapshot(consumers=[], consumers_after_mark_delete_position={"c1": "1:2"}),
    snapshot(consumers=[{"consumer": 1, "key_hash_ranges": None, "draining_hashes": []}]),
)
