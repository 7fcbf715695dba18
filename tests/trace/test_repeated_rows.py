"""A row that is delivered twice counts once; of rows of one seq that differ one is used, the others are reported."""

import json
from collections import Counter
from itertools import permutations

import pyarrow as pa
import pytest
from arrow_rows import batch_of, encoded
from test_row_checks import PLAIN
from trace_rows import ACK, DISPATCH, DISPATCH_END, FLOW, LEAVE, STATS, TOPIC, Row

from dispatch_audit.pipeline.bad_rows import QuarantineCounts
from dispatch_audit.pipeline.contract.profile import profile_for
from dispatch_audit.pipeline.packing.pack import pack
from dispatch_audit.pipeline.packing.packed_batch import PackedBatch, merged

_GROUPS = {TOPIC: {"ks": 0}}
_PROFILE = profile_for("4.0.8", {})
# An acknowledgement of several entries, which is several events of one row.
_ROWS = [
    *PLAIN,
    {**ACK, "seq": 30, "positions": [{"ledger_id": 31, "entry_id": entry} for entry in range(3)]},
]
_SEQS = sorted(int(row["seq"]) for row in _ROWS)


def _chunks(*batches: list[Row]) -> list[PackedBatch]:
    rows = [_with_json(encoded(batch_of(batch))) for batch in batches]
    found = [chunk for batch in rows for chunk in pack(batch, _PROFILE)]
    return sorted(found, key=lambda chunk: chunk.first_seq)


def _with_json(batch: pa.RecordBatch) -> pa.RecordBatch:
    at = batch.schema.get_field_index("snapshot")
    reported = [None if row is None else json.dumps(row) for row in batch.column(at).to_pylist()]
    return batch.set_column(at, "snapshot", pa.array(reported, pa.string()))


@pytest.mark.parametrize(
    "batches",
    [
        [[*_ROWS, *_ROWS]],
        [_ROWS, _ROWS],
        [_ROWS[:4], _ROWS, _ROWS[4:]],
        [[row] for row in (*_ROWS, *_ROWS)],
    ],
    ids=["in one chunk", "in two chunks", "a whole log and its halves", "each row a chunk"],
)
@pytest.mark.parametrize("rows_min", [1, 1 << 16])
def test_a_row_that_is_delivered_twice_counts_once(batches: list[list[Row]], rows_min: int) -> None:
    (once,) = merged(_chunks(list(_ROWS)))
    parts = list(merged(_chunks(*batches), rows_min))
    assert sorted(row.seq for part in parts for row in part.repeated) == _SEQS
    assert [row for part in parts for row in part.contradicted] == []
    for name, column in once.events._asdict().items():
        assert [value for part in parts for value in part.events._asdict()[name].tolist()] == column.tolist(), name
    assert [row for part in parts for row in part.membership] == once.membership
    assert [row for part in parts for row in part.snapshots] == once.snapshots


_JOIN: Row = {**LEAVE, "event": "join", "phase": "end", "seq": 9}
_SHOWN = {**STATS["snapshot"], "msg_in_replay": 4}
_OF_TWO = {**ACK, "positions": [{"ledger_id": 31, "entry_id": entry} for entry in range(2)]}


@pytest.mark.parametrize(
    ("rows", "used", "contradicted"),
    [
        ((FLOW, {**FLOW, "permits": 101}), 0, 1),
        (({**FLOW, "ts_us": FLOW["ts_us"] + 1}, {**FLOW, "permits": 3}), 1, 1),
        ((FLOW, {**FLOW, "permits": 101}, FLOW), 0, 1),
        ((FLOW, {**FLOW, "permits": 101}, {**FLOW, "permits": 102}, {**FLOW, "permits": 101}), 0, 2),
        ((ACK, {**_OF_TWO, "ts_us": ACK["ts_us"] + 1}), 0, 1),
        ((_OF_TWO, {**ACK, "ts_us": ACK["ts_us"] + 1}, _OF_TWO), 0, 1),
        ((DISPATCH, {**DISPATCH_END, "seq": 2, "ts_us": DISPATCH["ts_us"] + 1}), 0, 1),
        # What is different stands beside the events, or one of them has it and the other has not.
        ((_JOIN, {**_JOIN, "consumer_name": "c1"}), 0, 1),
        (({**FLOW, "seq": 9}, {**_JOIN, "ts_us": FLOW["ts_us"] + 1}), 0, 1),
        (({**LEAVE, "reason": "close_consumer"}, {**LEAVE, "reason": "connection_closed"}), 0, 1),
        ((STATS, {**STATS, "snapshot": _SHOWN}), 0, 1),
        ((STATS, {**STATS, "snapshot": _SHOWN}, STATS, STATS), 0, 1),
    ],
)
@pytest.mark.parametrize("apart", [False, True], ids=["in one chunk", "each row a chunk"])
def test_of_rows_of_one_seq_one_is_used_whatever_comes_first(
    rows: tuple[Row, ...], used: int, contradicted: int, apart: bool
) -> None:
    (expected,) = merged(_chunks([rows[used]]))
    for order in permutations(rows):
        (found,) = merged(_chunks(*([row] for row in order)) if apart else _chunks(list(order)))
        for name, column in expected.events._asdict().items():
            assert found.events._asdict()[name].tolist() == column.tolist(), (name, order)
        assert (found.membership, found.snapshots) == (expected.membership, expected.snapshots)
        reported = Counter(row.reason for row in (*found.repeated, *found.contradicted))
        repeated = len(rows) - 1 - contradicted
        assert reported == Counter({"duplicate_seq": contradicted, "repeated_row": repeated})


@pytest.mark.parametrize(
    ("early", "late", "rows"), [(6, 0, 100), (0, 15, 100), (6, 15, 100), (0, 0, 100), (100, 0, 100), (0, 0, 0)]
)
@pytest.mark.parametrize("deliveries", [1, 2, 3])
def test_the_share_of_bad_rows_does_not_depend_on_how_often_a_log_is_delivered(
    early: int, late: int, rows: int, deliveries: int
) -> None:
    good = rows - early
    twice = QuarantineCounts(early * deliveries, late, good * (deliveries - 1))
    assert twice.rows == early * deliveries + late + good * (deliveries - 1)
    assert twice.bad_share(rows * deliveries) == pytest.approx((early + late) / rows if rows else 0)


def test_a_third_delivered_twice_makes_no_row_bad() -> None:
    assert QuarantineCounts(0, 0, 333).bad_share(1333) == 0
