"""Snapshots whose row comes after many others: they show the state at their `seq_begin`, whatever happened since."""

from collections.abc import Callable

import pytest
from local_replay import HIGH, LOW, Log, replayed, reported

LOWER, UPPER = [[0, 32_768]], [[32_769, 65_536]]
LOW_HASH = 21_772
# What happens between the moment of the snapshot and its row.
MEANWHILE: dict[str, Callable[[Log], object]] = {
    "nothing": lambda log: None,
    "a leave": lambda log: log.leave(1),
    "a leave of the new owner": lambda log: log.leave(2),
    "a join": lambda log: log.join(3),
    "an acknowledgement": lambda log: log.ack(1, 0),
    "a redelivery": lambda log: log.redeliver(1, 0),
    "a dispatch": lambda log: log.dispatch(1, 1, HIGH),
    "a seek": lambda log: log.reset("seek"),
}


def _log(meanwhile: str, late_us: int, entries: int) -> Log:
    """Consumer 1 holds an entry of LOW, which drains to consumer 2; a snapshot counts so many."""
    log = Log()
    log.join(1)
    log.publish(0, LOW)
    log.publish(1, HIGH)
    log.dispatch(1, 0, LOW)
    log.join(2)
    log.now_us += 200_000
    taken = log.flow(2, 1)
    begun_us = log.now_us
    log.now_us += 5_000
    MEANWHILE[meanwhile](log)
    log.now_us = begun_us + late_us
    values = {"unacked_messages": entries, "draining_hashes": [{"hash": LOW_HASH, "unacked_messages": entries}]}
    first = reported(1, key_hash_ranges=UPPER, **values)
    log.snapshot(first, reported(2, key_hash_ranges=LOWER), seq_begin=taken, seq_end=taken)
    log.now_us += 3_000_000
    log.publish(2, HIGH)
    return log


@pytest.mark.parametrize("late_us", [50_000, 190_000, 900_000])
@pytest.mark.parametrize("meanwhile", MEANWHILE)
def test_a_late_snapshot_is_compared_with_the_moment_at_which_it_was_taken(meanwhile: str, late_us: int) -> None:
    for entries, agreed in ((1, 1), (2, 0)):
        replay = replayed(_log(meanwhile, late_us, entries).rows)
        assert replay.agreement["unacked_messages"] == (agreed, 1)
        assert replay.agreement["draining_mismatch"] == (agreed, 1)
        assert replay.agreement["assignment_mismatch"] == (2, 2)


@pytest.mark.parametrize("rows_per_batch", [None, 1, 7])
def test_one_that_is_later_still_shows_nothing(rows_per_batch: int | None) -> None:
    # The state of that moment is gone.
    replay = replayed(_log("a leave", 1_100_000, 2).rows, rows_per_batch=rows_per_batch)
    assert replay.agreement == {}
    assert replay.disagreements == []


@pytest.mark.parametrize("rows_per_batch", [1, 7])
def test_how_the_rows_are_cut_does_not_matter(rows_per_batch: int) -> None:
    rows = _log("a leave", 900_000, 2).rows
    whole, cut = replayed(rows), replayed(rows, rows_per_batch=rows_per_batch)
    assert (whole.agreement, whole.disagreements) == (cut.agreement, cut.disagreements)


def test_an_entry_given_back_shortly_before_may_still_be_counted() -> None:
    # Its row comes before its effect, and long before that of the snapshot.
    for entries in (0, 1):
        log = Log()
        log.join(1)
        log.publish(0, LOW)
        log.dispatch(1, 0, LOW)
        given_back = log.redeliver(1, 0)
        log.flow(1, 1)
        log.now_us += 400_000
        log.snapshot(reported(1, unacked_messages=entries), seq_begin=given_back, seq_end=given_back)
        log.now_us += 3_000_000
        log.publish(1, HIGH)
        assert replayed(log.rows).agreement["unacked_messages"] == (1, 1)
