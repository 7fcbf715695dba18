"""Hot keys and hashes: what is counted, and which are reported."""

import random

import pytest
from examples import examples
from hypothesis import given
from hypothesis import strategies as st
from local_replay import HIGH, LOW, LOWEST, Columns, Log, recorded_tables, tables_of
from recorded import of_each

from dispatch_audit.pipeline.groups.traffic_rows import covered_us
from dispatch_audit.udfs.sticky_key_hash import NONE_KEY, hash_keys, sticky_hashes

LOW_HASH, LOWEST_HASH, HIGH_HASH = sticky_hashes([LOW, LOWEST, HIGH], "auto_split").tolist()


def _hot(log: Log, **options: object) -> list[Columns]:
    return tables_of(log.rows, **options)["hot_keys"]  # type: ignore[arg-type]  # passed on as given


def _key_id(key: bytes) -> int:
    return int(hash_keys([key])[1][0])


def _traffic() -> Log:
    log = Log()
    log.join(1)
    for entry, key in enumerate([LOW, HIGH, LOW, LOW, LOWEST, HIGH]):
        log.publish(entry, key)
        log.dispatch(1, entry, key)
    return log


def test_keys_are_counted_and_the_hottest_comes_first() -> None:
    rows = _hot(_traffic())
    assert [(row["sticky_hash"], row["dispatched"], row["hash_dispatched"], row["keys_on_hash"]) for row in rows] == [
        (LOW_HASH, 3, 3, 1),
        (HIGH_HASH, 2, 2, 1),
        (LOWEST_HASH, 1, 1, 1),
    ]
    assert [row["dispatched_share"] for row in rows] == [3 / 6, 2 / 6, 1 / 6]
    assert (rows[0]["key_id"], rows[0]["ledger_id"], rows[0]["entry_id"]) == (_key_id(LOW), 1, 0)


def test_pending_at_one_time_is_the_most_there_ever_was() -> None:
    log = _traffic()
    log.ack(1, 0, 2)
    log.publish(6, LOW)
    log.dispatch(1, 6, LOW)
    assert [row["unacked_max"] for row in _hot(log)] == [3, 2, 1]


def test_a_redelivery_counts_again() -> None:
    log = _traffic()
    log.redeliver(1, 4)
    log.dispatch(1, 4, LOWEST)
    assert {row["sticky_hash"]: row["dispatched"] for row in _hot(log)}[LOWEST_HASH] == 2


def test_a_dispatch_without_a_key_has_that_of_its_publish() -> None:
    log = Log()
    log.join(1)
    log.publish(0, None, producer_name="p", sequence_id=7)
    log.dispatch(1, 0, None)
    log.dispatch(1, 1, None)  # no row says the key of this one
    (row,) = _hot(log)
    assert (row["key_id"], row["dispatched"], row["dispatched_share"]) == (_key_id(b"p-7"), 1, 0.5)


def test_keyless_messages_are_one_hot_key_in_3x() -> None:
    log = _traffic()
    for entry in range(6, 10):
        log.publish(entry, None, producer_name="p", sequence_id=entry)
        log.dispatch(1, entry, None)
    rows = _hot(log, version="3.0.7")
    assert (rows[0]["key_id"], rows[0]["dispatched"]) == (_key_id(NONE_KEY), 4)


def test_where_only_ends_are_recorded_they_are_counted() -> None:
    log = Log()
    log.join(1)
    for entry in range(3):
        log.publish(entry)
        log.dispatch(1, entry, phases="end")
    assert [row["dispatched"] for row in _hot(log)] == [3]


@pytest.mark.heavy
def test_two_keys_on_one_hash_are_told_apart() -> None:
    wanted = int(sticky_hashes([LOW], "auto_split")[0])
    same = next(k for i in range(10**6) if int(sticky_hashes([k := f"other-{i}".encode()], "auto_split")[0]) == wanted)
    log = Log()
    log.join(1)
    for entry, key in enumerate([LOW, same, same]):
        log.publish(entry, key)
        log.dispatch(1, entry, key)
    rows = _hot(log)
    assert [(row["key_id"], row["dispatched"]) for row in rows] == [(_key_id(same), 2), (_key_id(LOW), 1)]
    assert {(row["sticky_hash"], row["keys_on_hash"], row["hash_dispatched"]) for row in rows} == {(wanted, 2, 3)}


def test_a_hash_that_others_waited_for_is_reported_with_the_time() -> None:
    log = Log()
    log.join(1)
    log.publish(0, LOWEST)
    log.dispatch(1, 0, LOWEST)
    log.publish(1, LOW)
    log.dispatch(1, 1, LOW)
    log.ack(1, 1)
    log.join(2)  # takes the lower half: the hash of entry 0 drains at consumer 1
    waited_from = log.now_us
    log.publish(2, LOWEST)
    log.now_us += 900_000
    acked = log.now_us
    log.ack(1, 0)
    log.dispatch(2, 2, LOWEST)
    of_hash = next(row for row in _hot(log, hot_keys_max=1) if row["sticky_hash"] == LOWEST_HASH)
    assert of_hash["blocked_seconds"] == pytest.approx((acked - waited_from) / 1e6, abs=0.01)


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50))))
def test_time_that_several_intervals_cover_counts_once(bounds: list[tuple[int, int]]) -> None:
    intervals = [(min(pair), max(pair)) for pair in bounds]
    assert covered_us(intervals) == len({moment for start, end in intervals for moment in range(start, end)})


@examples(10)
@given(st.randoms(use_true_random=False), st.integers(3, 60))
def test_any_cutting_gives_the_same_rows(chance: random.Random, rows_per_batch: int) -> None:
    log = _traffic()
    for entry in range(6, 40):
        log.publish(entry, chance.choice([LOW, HIGH, LOWEST]))
        log.dispatch(1, entry, None)
        if chance.random() < 0.5:
            log.ack(1, entry)
    assert _hot(log, rows_per_batch=rows_per_batch) == _hot(log)


@of_each(["hot-key-4.0.8"])
def test_the_hot_key_of_a_recording_comes_first(name: str) -> None:
    rows = recorded_tables(name)["hot_keys"]
    # The story sends two fifths of its 5,001 entries under one key.
    assert rows[0]["dispatched"] > 100 * rows[1]["dispatched"]
    assert rows[0]["unacked_max"] == max(row["unacked_max"] for row in rows)
    assert rows[0]["key_id"] == _key_id(b"hot")
