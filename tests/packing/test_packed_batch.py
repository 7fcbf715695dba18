"""How chunks travel and how they are put together again."""

import random

import pytest
from examples import examples
from hypothesis import given
from hypothesis import strategies as st
from local_replay import HIGH, LOW, Columns, Log, batches, packed, same_rows

from dispatch_audit.pipeline.contract.profile import profile_for
from dispatch_audit.pipeline.packing.events import concatenated
from dispatch_audit.pipeline.packing.membership_rows import MembershipEvent
from dispatch_audit.pipeline.packing.narrow_events import decode_events, encode_events, narrow
from dispatch_audit.pipeline.packing.pack import pack
from dispatch_audit.pipeline.packing.packed_batch import PackedBatch, merged
from dispatch_audit.pipeline.packing.repeated_rows import REPEATED_ROW
from dispatch_audit.pipeline.plan.staged_batches import decoded_batches, encoded


def _log() -> Log:
    log = Log()
    log.join(1, ranges=[(0, 9), (20, 65_535)])
    for entry in range(12):
        log.publish(entry, LOW if entry % 2 else HIGH)
        log.dispatch(1, entry)
    log.ack(1, 0, 1, 2)
    log.ack(1, 3, 4, ack_set=[5, 6])
    log.redeliver(1)
    log.leave(1, reason="close_consumer")
    return log


def _rows_twice(rows: list[Columns], *seqs: int) -> list[Columns]:
    return rows + [row for row in rows if row["seq"] in seqs]


def test_events_come_back_as_they_were_sent() -> None:
    events, _ = packed(_log().rows)
    back = decode_events(encode_events(narrow(events))).wide()
    assert same_rows(back, events)
    assert [column.dtype for column in back] == [column.dtype for column in events]


def test_details_come_back_as_they_were_sent() -> None:
    log = _log()
    log.publish(12, producer_name="p", sequence_id=3, batch_size=2, batch_keys=["x", None])
    log.write("stats", snapshot='{"msg_in_replay": 4}')
    log.write("settings", settings=[("a", "1")], sources=[("a", "broker.conf")], subscription=None)
    chunks = _chunks(log.rows)
    back = list(decoded_batches([encoded(chunks)]))
    assert [(batch.details, batch.published) for batch in back] == [(c.details, c.published) for c in chunks]
    details = {type(row).__name__: row for batch in back for row in batch.details}
    assert details.keys() == {"MembershipEvent", "StatsRow", "SettingsRow"}
    join = next(row for batch in back for row in batch.details if isinstance(row, MembershipEvent))
    assert join.ranges == ((0, 9), (20, 65_535))
    assert [mixed.keys for batch in back for mixed in batch.published.mixed] == [("x", None)]


@examples(50)
@given(st.randoms(use_true_random=False), st.integers(1, 60))
def test_any_cutting_gives_the_same_rows(chance: random.Random, rows_per_batch: int) -> None:
    rows = _log().rows
    shuffled = chance.sample(rows, len(rows))
    events, membership = packed(shuffled, rows_per_batch=rows_per_batch)
    as_one, membership_as_one = packed(rows)
    assert same_rows(events, as_one)
    assert membership == membership_as_one


@examples(50)
@given(st.randoms(use_true_random=False), st.integers(1, 60), st.integers(0, 4), st.sampled_from([1, 3, 1 << 16]))
def test_chunks_cut_at_seqs_give_the_same_rows(
    chance: random.Random, rows_per_batch: int, span_bits: int, rows_min: int
) -> None:
    rows = _log().rows
    shuffled = chance.sample(rows, len(rows))
    with pytest.MonkeyPatch.context() as patch:
        # A log of a hundred rows is cut as one of millions.
        patch.setattr("dispatch_audit.pipeline.packing.pack._SPAN_BITS_MIN", span_bits)
        patch.setattr("dispatch_audit.pipeline.packing.pack._BATCH_ROWS_MIN", 1)
        chunks = _chunks(shuffled, *range(rows_per_batch, len(rows), rows_per_batch))
    parts = list(merged(chunks, rows_min))
    as_one, membership_as_one = packed(rows)
    assert same_rows(concatenated([part.events for part in parts]), as_one)
    assert [row for part in parts for row in part.membership] == membership_as_one


def test_a_long_part_is_handed_on_in_short_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = _rows_twice(_log().rows, 1, 5)
    (whole,) = merged(_chunks(rows))
    monkeypatch.setattr("dispatch_audit.pipeline.packing.packed_batch.ROWS_MAX", 7)
    parts = list(merged(_chunks(rows)))
    # A row of several positions is not divided.
    assert [part.events.part[0] for part in parts] == [0] * len(parts)
    assert max(part.events.seq.size for part in parts) <= 7 + int(whole.events.part.max())
    assert same_rows(concatenated([part.events for part in parts]), whole.events)
    assert [row for part in parts for row in part.membership] == whole.membership
    assert [row for part in parts for row in part.repeated] == whole.repeated


def test_a_batch_in_no_order_is_not_cut_to_single_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dispatch_audit.pipeline.packing.pack._SPAN_BITS_MIN", 0)
    monkeypatch.setattr("dispatch_audit.pipeline.packing.pack._BATCH_ROWS_MIN", 10)
    rows = _log().rows
    assert 1 < len(_chunks(rows)) <= len(rows) // 5


def _chunks(rows: list[Columns], *cuts: int) -> list[PackedBatch]:
    parts = [rows[start:stop] for start, stop in zip((0, *cuts), (*cuts, len(rows)), strict=True)]
    profile = profile_for("4.0.8", {})
    chunks = [c for part in parts for batch in batches(part) for c in pack(batch, profile)]
    return sorted(chunks, key=lambda chunk: chunk.first_seq)


def test_rows_are_handed_on_as_soon_as_they_are_complete() -> None:
    chunks = _chunks(_log().rows, 10, 20)
    bounds = [(int(part.events.seq[0]), int(part.events.seq[-1])) for part in merged(chunks, rows_min=1)]
    assert bounds == [(chunk.first_seq, int(chunk.events.column("seq")[-1])) for chunk in chunks]


def test_no_chunks_are_no_rows() -> None:
    assert list(merged([])) == []


@pytest.mark.parametrize("cuts", [(), (30,)], ids=["in the same chunk", "in another chunk"])
def test_a_row_that_is_there_twice_is_kept_once_and_counted(cuts: tuple[int, ...]) -> None:
    log = _log()
    ack_of_three = next(row["seq"] for row in log.rows if row["event"] == "ack")
    parts = list(merged(_chunks(_rows_twice(log.rows, 1, 5, ack_of_three), *cuts)))
    found = [(refused.seq, refused.reason) for part in parts for refused in part.repeated]
    assert found == [(seq, REPEATED_ROW) for seq in (1, 5, ack_of_three)]
    events, membership = packed(log.rows)
    assert [seq for part in parts for seq in part.events.seq.tolist()] == events.seq.tolist()
    assert [number for part in parts for number in part.events.part.tolist()] == events.part.tolist()
    assert [row for part in parts for row in part.membership] == membership
