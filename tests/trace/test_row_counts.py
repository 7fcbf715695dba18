"""Rows are counted as they pass: by subscription and reason, whatever the batches."""

import random
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest

from dispatch_audit.pipeline.trace.checks.rows_with_texts import OF_ROW
from dispatch_audit.pipeline.trace.quarantine import row_counts
from dispatch_audit.pipeline.trace.quarantine.row_counts import RowCounts, decoded, together

TYPES = {
    **dict.fromkeys(("seq", "ts_us", "consumer", "dropped"), pa.int64()),
    "entry_bucket_dispatch": pa.bool_(),
}


def _batch(rows: list[dict[str, Any]], *, encoded: bool) -> pa.RecordBatch:
    names = [*OF_ROW, *(["refused"] if any(row.get("refused") for row in rows) else [])]
    columns = [pa.array([row.get(name) for row in rows], TYPES.get(name, pa.string())) for name in names]
    if encoded:
        columns = [c.dictionary_encode() if c.type == pa.string() else c for c in columns]
    return pa.record_batch(columns, names=names)


def _rows(count: int) -> list[dict[str, Any]]:
    chance = random.Random(1)
    return [
        {
            "topic": chance.choice(["t", "u", None]),
            "subscription": chance.choice(["ks", None]),
            "refused": chance.choice([None, None, "wrong_type"]),
            "seq": chance.choice([seq, None]),
            "ts_us": 10 * seq,
            "event": "publish",
        }
        for seq in range(count)
    ]


@pytest.mark.parametrize("encoded", [False, True])
@pytest.mark.parametrize("rows_per_batch", [1, 7, 1_000])
def test_counts_do_not_depend_on_the_batches(rows_per_batch: int, encoded: bool) -> None:
    rows = _rows(300)  # in more batches than are kept apart
    counts = RowCounts()
    for start in range(0, len(rows), rows_per_batch):
        counts.add(_batch(rows[start : start + rows_per_batch], encoded=encoded))
    kinds = Counter((row["topic"], row["subscription"], row["refused"]) for row in rows)
    found = {(count.topic, count.subscription, count.refused): count for count in counts.counts()}
    assert {kind: count.rows for kind, count in found.items()} == kinds
    for kind, count in found.items():
        of_kind = [row for row in rows if (row["topic"], row["subscription"], row["refused"]) == kind]
        seqs = [row["seq"] for row in of_kind if row["seq"] is not None]
        assert (count.first_seq, count.last_seq) == (min(seqs), max(seqs))
        assert (count.first_ts_us, count.last_ts_us) == (of_kind[0]["ts_us"], of_kind[-1]["ts_us"])


def test_names_of_which_64_bits_number_too_few_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    batch = _batch(_rows(300), encoded=False)
    counted, renumbered = RowCounts(), RowCounts()
    counted.add(batch)
    monkeypatch.setattr(row_counts, "_NUMBERS_MAX", 4)
    renumbered.add(batch)
    assert len(counted.counts()) > 4
    assert sorted(map(str, renumbered.counts())) == sorted(map(str, counted.counts()))


def test_an_empty_batch_counts_nothing() -> None:
    counts = RowCounts()
    counts.add(_batch([], encoded=False))
    assert counts.counts() == []


@pytest.mark.parametrize(
    ("changed", "asked"),
    [({}, True), ({"consumer": None}, False), ({"entry_bucket_dispatch": False}, False), ({"event": "leave"}, False)],
)
def test_a_join_by_entry_buckets_is_noticed(changed: dict[str, Any], asked: bool) -> None:
    join = {"topic": "t", "subscription": "ks", "event": "join", "consumer": 1, "entry_bucket_dispatch": True, "seq": 1}
    counts = RowCounts()
    counts.add(
        _batch([{**join, "ts_us": 1, **changed}, {**join, "ts_us": 1, "entry_bucket_dispatch": None}], encoded=True)
    )
    (count,) = counts.counts()
    assert bool(count.entry_buckets) == asked


def test_counts_of_several_tasks_are_added_up() -> None:
    one, other = RowCounts(), RowCounts()
    one.add(_batch(_rows(10), encoded=False))
    other.add(_batch(_rows(10), encoded=False))
    counts = together(count._asdict() for part in (one, other) for count in part.counts())
    assert sum(count.rows for count in counts) == 20
    assert decoded([one.encode(), other.encode()]) == counts


@pytest.mark.parametrize("encoded", [False, True])
def test_a_gap_that_was_delivered_twice_is_one(encoded: bool) -> None:
    gap = {"topic": "t", "subscription": "ks", "event": "gap", "seq": 5, "ts_us": 50, "dropped": 3}
    # Of another recorder, and two that begin with other rows.
    others = [{**gap, "broker": "b"}, {**gap, "seq": 6}, {**gap, "dropped": 4}]
    rows = [{"topic": "t", "subscription": "ks", "event": "flow", "seq": 4, "ts_us": 40}, gap, *others]
    one, other = RowCounts(), RowCounts()
    for counts in (one, other):
        counts.add(_batch(rows, encoded=encoded))
    found = decoded([one.encode(), other.encode()])
    assert sorted(count.dropped for count in found if count.gap is not None) == [3, 3, 3, 4]
    assert sum(count.rows for count in found) == 2 * len(rows)
    assert [(count.rows, count.dropped) for count in found if count.gap is None] == [(2, 0)]
