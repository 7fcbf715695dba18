"""Rows of `consumers`: shares, and the broker's own statistics under the broker's names (contract 7, PIP-379).

Consumer 1 owns everything at first, 2 takes the lower half, 3 the lowest quarter.
"""

from typing import Any

import pytest
from local_replay import HIGH, LOW, LOWEST, Log, replayed, reported

from dispatch_audit.pipeline.groups.traffic_rows import consumers

SECOND = 1_000_000
LOW_HASH, LOWEST_HASH = 21_772, 5_536


def _rows(log: Log, version: str = "4.0.8") -> dict[int, dict[str, Any]]:
    return {row["consumer"]: row for row in consumers(replayed(log.rows, version=version).context)}


def _held(*keys: bytes) -> Log:
    """Consumer 1 holds an entry of each key."""
    log = Log(step_us=0)
    log.join(1)
    for entry, key in enumerate(keys):
        log.publish(entry, key)
        log.dispatch(1, entry, key)
    return log


def _drained(row: dict[str, Any]) -> tuple[object, ...]:
    return (
        row["drainingHashesCount"],
        row["drainingHashesClearedTotal"],
        row["drainingHashesUnackedMessages"],
        row["drainingHashes"],
        row["draining_hashes_max"],
    )


def test_when_a_consumer_was_there() -> None:
    log = _held()
    began_us = log.now_us
    log.now_us += SECOND
    log.join(2, name="worker")
    log.now_us += SECOND
    log.leave(2, reason="close_consumer")
    log.publish(0, LOW)
    rows = _rows(log)
    assert (rows[1]["joined_at_us"], rows[1]["left_at_us"], rows[1]["leave_reason"]) == (began_us, None, None)
    assert (rows[2]["consumer_name"], rows[2]["leave_reason"]) == ("worker", "close_consumer")
    assert rows[2]["left_at_us"] - rows[2]["joined_at_us"] == SECOND


def test_the_share_of_the_hashes_against_the_share_of_the_traffic() -> None:
    log = _held(HIGH, HIGH, HIGH)
    log.now_us += SECOND
    log.join(2)
    log.now_us += SECOND
    log.publish(3, LOW)
    log.dispatch(2, 3, LOW)
    log.ack(2, 3)
    rows = _rows(log)
    # Alone for one second of two, then with half of [0, 65536].
    assert rows[1]["hash_share"] == pytest.approx(0.75, abs=1e-4)
    assert rows[2]["hash_share"] == pytest.approx(0.5, abs=1e-4)
    assert (rows[1]["traffic_share"], rows[2]["traffic_share"]) == (0.75, 0.25)
    assert (rows[1]["dispatched"], rows[1]["acked"], rows[2]["dispatched"], rows[2]["acked"]) == (3, 0, 1, 1)


def test_without_any_dispatch_there_is_no_share_of_the_traffic() -> None:
    assert _rows(_held())[1]["traffic_share"] is None


def test_what_drains_at_the_end_is_listed_under_its_holder() -> None:
    log = _held(LOW, LOW, LOWEST, HIGH)
    log.join(2)
    rows = _rows(log)
    hashes = [f"{LOWEST_HASH} (1 entry)", f"{LOW_HASH} (2 entries)"]
    count, cleared, unacked, listed, most = _drained(rows[1])
    assert (count, cleared, unacked, most) == (2, 0, 3, 2)
    assert isinstance(listed, list)
    assert sorted(listed) == sorted(hashes)
    assert rows[1]["draining_bytes_max"] == 160
    assert _drained(rows[2]) == (0, 0, 0, [], 0)


def test_what_drained_is_cleared() -> None:
    log = _held(LOW, LOW, LOWEST)
    log.join(2)
    log.ack(1, 0, 1)
    assert _drained(_rows(log)[1]) == (1, 1, 1, [f"{LOWEST_HASH} (1 entry)"], 2)


def test_what_is_left_of_it_counts_and_not_what_there_was() -> None:
    log = _held(LOW, LOW, LOW)
    log.join(2)
    log.ack(1, 1)
    assert _drained(_rows(log)[1]) == (1, 0, 2, [f"{LOW_HASH} (2 entries)"], 1)


@pytest.mark.parametrize(("version", "cleared"), [("4.0.8", 1), ("4.0.4", 0)])
def test_a_hash_that_came_back_drains_no_more_and_counts_as_cleared_from_4_0_7_on(version: str, cleared: int) -> None:
    log = _held(LOW)
    log.join(2)
    log.leave(2)
    assert _drained(_rows(log, version)[1]) == (0, cleared, 0, [], 1)


def test_a_leave_clears_and_a_reset_does_not() -> None:
    left = _held(LOW)
    left.join(2)
    left.leave(1)
    assert _drained(_rows(left)[1]) == (0, 1, 0, [], 1)
    reset = _held(LOW)
    reset.join(2)
    reset.reset("unload")
    assert _drained(_rows(reset)[1]) == (0, 0, 0, [], 1)


def test_hashes_that_drain_one_after_the_other_are_one_at_a_time() -> None:
    log = _held(LOW)
    log.join(2)
    log.ack(1, 0)
    log.publish(1, b"order-42")
    log.dispatch(1, 1, b"order-42")
    # The upper half of what is left to consumer 1 goes to consumer 4, and HIGH lies in it.
    log.join(3)
    log.join(4)
    assert _drained(_rows(log)[1])[4] == 1


def test_where_a_consumer_joined() -> None:
    log = _held(HIGH, HIGH)
    log.join(2)
    log.snapshot(reported(2, read_position_when_joining="1:2"))
    row = _rows(log, version="3.0.7")[2]
    assert row["readPositionWhenJoining"] == "1:2"
    assert row["last_sent_position_when_joining"] == "1:1"
    assert row["consumersAfterMarkDeletePosition"] == "1:2"


def test_where_nobody_is_held_back_there_is_no_such_position() -> None:
    log = _held(HIGH, HIGH)
    log.join(2)
    rows = _rows(log)
    assert (rows[1]["last_sent_position_when_joining"], rows[2]["last_sent_position_when_joining"]) == (None, "1:1")
    assert rows[2]["readPositionWhenJoining"] is None
    assert rows[2]["consumersAfterMarkDeletePosition"] is None
