"""What becomes of each kind of row on its way into the core's columns."""

import json

import pytest
from local_replay import HIGH, LOW, TOPIC, Log, batches, packed

from dispatch_audit.pipeline.contract.profile import profile_for
from dispatch_audit.pipeline.packing.events import Code, Events
from dispatch_audit.pipeline.packing.membership_rows import MembershipEvent
from dispatch_audit.pipeline.packing.pack import pack
from dispatch_audit.pipeline.packing.packed_batch import rows_for
from dispatch_audit.udfs.sticky_key_hash import NONE_KEY, hash_keys


def _codes(log: Log) -> list[Code]:
    return [Code(code) for code in packed(log.rows)[0].code]


def _hashes(key: bytes) -> tuple[int, int]:
    murmur, key_id = hash_keys([key])
    return int(murmur[0]), int(key_id[0])


def _keys(events: Events) -> list[tuple[int, int]]:
    return list(zip(events.murmur.tolist(), events.key_id.tolist(), strict=True))


def test_both_sides_of_every_interval_have_a_code() -> None:
    log = Log()
    log.join(1)
    log.dispatch(1, 0)
    log.ack(1, 0)
    log.ack(1, 0, ack_set=[1])
    log.leave(1)
    log.reset("seek")
    assert _codes(log) == [
        Code.JOIN_START,
        Code.JOIN_END,
        Code.DISPATCH_START,
        Code.DISPATCH_END,
        Code.ACK_START,
        Code.ACK_END,
        Code.ACK_PART_START,
        Code.ACK_PART_END,
        Code.LEAVE_START,
        Code.LEAVE_END,
        Code.RESET_START,
        Code.RESET_END,
    ]


def test_a_row_without_a_phase_is_the_end() -> None:
    log = Log()
    log.write("dispatch", consumer=1, ledger_id=1, entry_id=0, key=LOW)
    log.write("join", consumer=1, consumer_name="c1")
    assert _codes(log) == [Code.DISPATCH_END, Code.JOIN_END]
    assert packed(log.rows)[1][0].late


def test_rows_without_phases_have_one_code() -> None:
    log = Log()
    log.publish(0)
    log.publish(1, deliver_at_ms=5)
    log.redeliver(1, 0)
    log.write("flow", consumer=1, permits=10)
    assert _codes(log) == [Code.PUBLISH, Code.PUBLISH_DELAYED, Code.REDELIVER, Code.FLOW]


def test_an_ack_of_several_positions_becomes_a_row_each() -> None:
    log = Log()
    log.ack(7, 3, (2, 5), 4, phases="end")
    events, _ = packed(log.rows)
    assert events.part.tolist() == [0, 1, 2]
    assert list(zip(events.ledger.tolist(), events.entry.tolist(), strict=True)) == [(1, 3), (2, 5), (1, 4)]
    assert set(events.seq.tolist()) == {1}
    assert set(events.consumer.tolist()) == {7}


def test_an_ack_set_of_several_words_becomes_a_row_each() -> None:
    log = Log()
    log.ack(1, 3, 4, phases="start", ack_set=[-2, 0, 7])
    log.ack(1, 5, phases="start")
    events, _ = packed(log.rows)
    assert events.code.tolist() == [Code.ACK_PART_START] * 6 + [Code.ACK_START]
    assert events.entry.tolist() == [3, 3, 3, 4, 4, 4, 5]
    assert events.value.tolist() == [-2, 0, 7, -2, 0, 7, 1]
    assert events.word.tolist() == [0, 1, 2, 0, 1, 2, 0]
    assert events.words_left.tolist() == [2, 1, 0, 2, 1, 0, 0]
    assert events.part.tolist() == [0, 1, 2, 3, 4, 5, 0]


@pytest.mark.parametrize("ack_set", [None, []], ids=["null", "empty"])
def test_no_ack_set_is_the_whole_entry(ack_set: list[int] | None) -> None:
    log = Log()
    log.ack(1, 3, ack_set=ack_set)
    assert _codes(log) == [Code.ACK_START, Code.ACK_END]


def test_a_cumulative_ack_is_told_apart_however_many_positions_it_names() -> None:
    log = Log()
    log.ack(1, 3, 4, phases="end", ack_type="cumulative")
    log.ack(1, 5, phases="start", ack_type="cumulative", ack_set=[1])
    assert set(_codes(log)) == {Code.ACK_CUMULATIVE}


def test_a_redeliver_without_positions_is_of_everything() -> None:
    log = Log()
    log.redeliver(1)
    log.rows.append({**log.rows[0], "seq": 2, "positions": None})
    assert _codes(log) == [Code.REDELIVER_ALL, Code.REDELIVER_ALL]


def test_keys_are_hashed_where_they_are_and_absent_where_not() -> None:
    log = Log()
    log.publish(0, LOW)
    log.dispatch(1, 0, LOW, phases="start")
    log.dispatch(1, 0, None, phases="end")
    log.publish(1, b"")
    assert _keys(packed(log.rows)[0]) == [_hashes(LOW), _hashes(LOW), (-1, -1), _hashes(b"")]


@pytest.mark.parametrize(("version", "key"), [("4.0.8", b"p-17"), ("3.0.7", NONE_KEY)])
def test_a_keyless_publish_has_the_key_of_its_version(version: str, key: bytes) -> None:
    log = Log()
    log.publish(0, None, producer_name="p", sequence_id=17)
    log.publish(1, None, producer_name="p", sequence_id=17, deliver_at_ms=5)
    log.publish(2, HIGH)
    assert _keys(packed(log.rows, version)[0]) == [_hashes(key), _hashes(key), _hashes(HIGH)]


def test_a_batch_counts_its_messages_and_is_one_message_where_it_does_not_say() -> None:
    log = Log()
    log.publish(0, batch_size=40)
    log.publish(1, batch_size=None)
    assert packed(log.rows)[0].value.tolist() == [40, 1]


def test_a_publish_goes_to_all_subscriptions_of_its_topic_and_only_there() -> None:
    log = Log()
    log.publish(0)
    log.ack(1, 0, 1, phases="end")
    log.rows.append({**log.rows[1], "seq": 3, "subscription": "other"})
    log.rows.append({**log.rows[0], "seq": 4, "topic": "elsewhere"})
    log.rows.append({**log.rows[1], "seq": 5, "subscription": "unheard of"})
    (batch,) = batches(log.rows)
    chunks = pack(batch, profile_for("4.0.8", {}))
    seqs = {(chunk.topic, chunk.subscription): chunk.events.column("seq").tolist() for chunk in chunks}
    assert seqs == {
        (TOPIC, "ks"): [2, 2],
        (TOPIC, "other"): [3, 3],
        (TOPIC, "unheard of"): [5, 5],
        (TOPIC, None): [1],
        ("elsewhere", None): [4],
    }
    of_other = [own for c in chunks if c.topic == TOPIC and (own := rows_for("other", c)) is not None]
    assert sorted(seq for own in of_other for seq in own.events.column("seq").tolist()) == [1, 3, 3]


def test_publishes_stand_among_the_rows_of_the_only_subscription_of_a_batch() -> None:
    log = Log()
    log.publish(0)
    log.ack(1, 0, phases="end")
    log.publish(1)
    log.join(1)
    log.publish(2, producer_name="p")
    (batch,) = batches(log.rows)
    (chunk,) = pack(batch, profile_for("4.0.8", {}))
    assert (chunk.subscription, chunk.shared) == ("ks", True)
    assert rows_for("ks", chunk) == chunk
    of_other = rows_for("other", chunk)
    assert of_other is not None
    assert of_other.events.column("seq").tolist() == [1, 3, 6]
    assert (of_other.details, of_other.published) == ((), chunk.published)


def test_rows_of_one_subscription_without_a_publish_are_not_shared() -> None:
    log = Log()
    log.join(1)
    (batch,) = batches(log.rows)
    (chunk,) = pack(batch, profile_for("4.0.8", {}))
    assert not chunk.shared
    assert rows_for("other", chunk) is None


def test_rows_of_two_recorders_are_packed_apart() -> None:
    log = Log()
    for entry, broker in enumerate(("a", None, "a")):
        log.publish(entry, broker=broker)
    (batch,) = batches(log.rows)
    chunks = pack(batch, profile_for("4.0.8", {}))
    assert {c.broker: c.events.column("seq").tolist() for c in chunks} == {"a": [1, 3], None: [2]}


def test_rows_of_a_batch_are_put_in_order() -> None:
    log = Log()
    for entry in range(5):
        log.publish(entry)
    assert packed(log.rows[::-1])[0].entry.tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("12:34", (Code.MARK_DELETE, 12, 34)),
        ("12:-1", (Code.MARK_DELETE, 12, -1)),
        (None, (Code.OTHER, -1, -1)),
        ("earliest", (Code.OTHER, -1, -1)),
    ],
)
def test_a_snapshot_tells_mark_delete_if_it_can_be_read(text: str | None, expected: tuple[Code, int, int]) -> None:
    log = Log()
    log.write("stats", snapshot=json.dumps({"mark_delete_position": text}))
    events, _ = packed(log.rows)
    assert (events.code[0], events.ledger[0], events.entry[0]) == expected


def test_membership_rows_keep_what_only_they_carry() -> None:
    log = Log()
    log.join(3, ranges=[(0, 9), (20, 29)], allow_out_of_order=True)
    log.publish(0)
    log.leave(3, phases="start", reason="closed_by_broker")
    log.reset("unload", phases="start")
    us = log.rows[0]["ts_us"]
    _, rows = packed(log.rows)
    join = MembershipEvent(1, us, "join", False, 3, "c3", True, True, ((0, 9), (20, 29)), "")
    assert rows[:2] == [join, join._replace(seq=2, ts_us=us + 1000, late=True)]
    assert [(row.kind, row.late, row.consumer, row.reason) for row in rows[2:]] == [
        ("leave", False, 3, "closed_by_broker"),
        ("reset", False, -1, "unload"),
    ]


def test_no_rows_are_no_chunks() -> None:
    log = Log()
    log.publish(0)
    (batch,) = batches(log.rows)
    assert pack(batch.slice(0, 0), profile_for("4.0.8", {})) == []
