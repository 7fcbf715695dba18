"""Consumers that stay for about as long as a snapshot or the skew: on which side of a snapshot they were there."""

import pytest
from local_replay import HIGH, LOW, LOWEST, Log, replayed, reported

ALL, LOWER, UPPER = [[0, 65_536]], [[0, 32_768]], [[32_769, 65_536]]


def _ends_of_both(early_us: int) -> Log:
    """Only ends are recorded, and the end of a leave comes so long before that of the join."""
    log = Log()
    log.join(1, phases="end")
    log.publish(0, HIGH)
    log.dispatch(1, 0, HIGH, phases="end")
    log.now_us += 100_000
    log.leave(2, phases="end")
    log.now_us += early_us
    log.join(2, phases="end")
    log.now_us += 100_000
    for entry in range(1, 4):
        log.publish(entry, LOWEST)
        log.dispatch(1, entry, LOWEST, phases="end")
    log.now_us += 3_000_000
    log.publish(9, LOW)
    return log


@pytest.mark.parametrize("rows_per_batch", [None, 1])
def test_a_leave_that_is_recorded_before_the_join_ends_the_stay(rows_per_batch: int | None) -> None:
    replay = replayed(_ends_of_both(5_000).rows, rows_per_batch=rows_per_batch)
    assert replay.refused == []
    assert replay.broken == []
    assert [change for change, _ in replay.changes][1:] == ["join c2", "leave c2"]


@pytest.mark.parametrize("rows_per_batch", [None, 1])
def test_one_from_longer_before_is_refused(rows_per_batch: int | None) -> None:
    log = _ends_of_both(15_000)
    left = next(row["seq"] for row in log.rows if row["event"] == "leave")
    replay = replayed(log.rows, rows_per_batch=rows_per_batch)
    assert [(row.seq, row.reason) for row in replay.refused] == [(left, "unknown_consumer")]
    assert {rule for rule, _ in replay.broken} == {"ownership"}, "it stays, so that the hash is its own"


def test_a_leave_without_any_join_is_refused() -> None:
    log = Log()
    log.join(1)
    left = log.leave(2)
    assert [row.seq for row in replayed(log.rows).refused] == [left, left + 1]


def test_a_snapshot_that_lists_a_consumer_shows_that_it_had_not_joined_before_one_that_does_not() -> None:
    # Only ends are recorded, so that its leave may have come before both as far as its row shows.
    log = Log()
    log.join(1, phases="end")
    log.now_us += 100_000
    log.write("flow", consumer=1, permits=1)
    log.now_us += 7_000
    log.snapshot(reported(1, key_hash_ranges=ALL))
    log.join(2, phases="end")
    log.now_us += 1_000
    log.snapshot(reported(1, key_hash_ranges=UPPER), reported(2, key_hash_ranges=LOWER))
    log.leave(2, phases="end")
    log.now_us += 3_000_000
    log.publish(9, LOW)
    replay = replayed(log.rows)
    assert replay.agreement["assignment_mismatch"] == (3, 3)
    assert replay.disagreements == []
