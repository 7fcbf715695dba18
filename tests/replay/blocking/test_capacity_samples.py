"""How near a subscription is to its limits: the looks at it, and the rows of `capacity` between them (Q20, Q21)."""

import pytest
from local_replay import AUTO_SPLIT, HIGH, LOW, Log, replayed

from dispatch_audit.pipeline.groups.blocking_rows import capacity
from dispatch_audit.pipeline.replay.blocking.capacity_samples import Sample

SECOND = 1_000_000
SETTINGS = {
    **AUTO_SPLIT,
    "keySharedLookAheadMsgInReplayThresholdPerConsumer": 50,
    "managedLedgerMaxUnackedRangesToPersist": 7,
}


def _samples(log: Log, version: str = "4.0.8") -> list[Sample]:
    return replayed(log.rows, settings=SETTINGS, version=version).samples


def _log() -> Log:
    log = Log(step_us=0)
    log.join(1)
    return log


def test_a_snapshot_says_how_long_the_replay_queue_is() -> None:
    log = _log()
    log.join(2)
    log.snapshot(msg_in_replay=42)
    (sample,) = [sample for sample in _samples(log) if sample.reported]
    assert (sample.ts_us, sample.replay_size, sample.consumers) == (log.now_us, 42, 2)
    assert (sample.look_ahead_limit, sample.ack_holes_max) == (100, 7)


def test_a_snapshot_without_it_is_no_sample() -> None:
    log = _log()
    log.snapshot(mark_delete_position="1:5")
    assert _samples(log) == []


def test_without_snapshots_somebody_looks_every_ten_seconds() -> None:
    log = _log()
    began_us = log.now_us
    for entry in range(35):
        log.publish(entry, HIGH)
        log.now_us += SECOND
    looked = [(sample.ts_us - began_us) // SECOND for sample in _samples(log)]
    assert looked == [10, 20, 30]
    assert not any(sample.reported for sample in _samples(log))


def test_what_waits_and_was_read_is_in_replay_at_least() -> None:
    log = _log()
    for entry in range(5):
        log.publish(entry, HIGH)
    log.dispatch(1, 3, HIGH)
    log.now_us += 10 * SECOND
    log.publish(5, HIGH)
    (sample,) = _samples(log)
    # 0, 1 and 2 were read and wait, 4 was not read; 3 is held. The look is taken in front of the row.
    assert (sample.replay_size, sample.waiting, sample.mark_delete_gap) == (3, 4, 4)


def test_ack_holes_are_ranges_of_acknowledged_entries_of_one_ledger() -> None:
    log = _log()
    positions = [(1, entry) for entry in range(8)] + [(2, entry) for entry in range(4)]
    for position in positions:
        log.publish(position, HIGH)
        log.dispatch(1, position, HIGH)
    # Above mark-delete at 1:0: the ranges 1:2..3, 1:5, 1:7, 2:0, 2:2..3.
    log.ack(1, (1, 0), (1, 2), (1, 3), (1, 5), (1, 7), (2, 0), (2, 2), (2, 3))
    log.snapshot(msg_in_replay=0)
    (sample,) = [sample for sample in _samples(log) if sample.reported]
    assert (sample.ack_holes, sample.mark_delete_gap) == (5, 11)


def _with_two_holes() -> Log:
    """Consumer 1 holds 0 and 2 of the entries from 0 to 3, and has acknowledged the others."""
    log = _log()
    for entry in range(4):
        log.publish(entry, HIGH)
        log.dispatch(1, entry, HIGH)
    log.ack(1, 1, 3)
    return log


def test_holes_close_when_mark_delete_passes_them() -> None:
    log = _with_two_holes()
    log.snapshot(msg_in_replay=0)
    log.now_us += SECOND
    log.ack(1, 0)
    log.snapshot(msg_in_replay=0)
    samples = [sample for sample in _samples(log) if sample.reported]
    assert [(sample.ack_holes, sample.mark_delete_gap) for sample in samples] == [(2, 4), (1, 2)]


def test_what_is_acknowledged_was_read_although_the_cursor_is_rewound() -> None:
    log = _with_two_holes()
    log.leave(1)
    log.join(2)
    log.snapshot(msg_in_replay=0)
    (sample,) = [sample for sample in _samples(log) if sample.reported]
    assert (sample.ack_holes, sample.mark_delete_gap) == (2, 2)


@pytest.mark.parametrize("version", ["3.0.7", "3.3.2"])
def test_where_nothing_limits_the_look_ahead_there_is_no_limit(version: str) -> None:
    log = _log()
    log.publish(0, LOW)
    log.snapshot(msg_in_replay=5)
    assert [sample.look_ahead_limit for sample in _samples(log, version)] == [None]


# Rows.


def _sample(second: int, replay_size: int, limit: int | None = 100, holes_max: int = 7) -> Sample:
    return Sample(second * SECOND, 2, replay_size, True, limit, 3, holes_max, 11, 13)


def test_a_row_lies_between_two_looks() -> None:
    (row,) = capacity([_sample(10, 20), _sample(20, 60)])
    assert row == {
        "from_ts_us": 10 * SECOND,
        "to_ts_us": 20 * SECOND,
        "consumers": 2,
        "replay_size": 60,
        "replay_size_reported": True,
        "look_ahead_limit": 100,
        "headroom": 40,
        "growth_per_second": 4.0,
        # Forty entries at four a second.
        "seconds_left": 10.0,
        "ack_holes": 3,
        "ack_holes_limit": 7,
        "mark_delete_gap": 11,
        "waiting": 13,
    }


@pytest.mark.parametrize(
    ("before", "after", "limit", "headroom", "seconds_left"),
    [
        (20, 60, 100, 40, 10.0),
        (60, 60, 100, 40, None),
        (60, 20, 100, 80, None),
        (60, 100, 100, 0, 0.0),
        (100, 100, 100, 0, 0.0),
        (120, 110, 100, -10, 0.0),
        (20, 60, None, None, None),
    ],
)
def test_when_the_limit_would_be_reached(
    before: int, after: int, limit: int | None, headroom: int | None, seconds_left: float | None
) -> None:
    (row,) = capacity([_sample(10, before, limit), _sample(20, after, limit)])
    assert (row["headroom"], row["seconds_left"]) == (headroom, seconds_left)


def test_no_limit_on_holes_is_no_limit() -> None:
    (row,) = capacity([_sample(10, 0, holes_max=0), _sample(20, 0, holes_max=0)])
    assert row["ack_holes_limit"] is None


def test_a_clock_that_steps_back_makes_no_row() -> None:
    rows = capacity([_sample(20, 0), _sample(10, 5), _sample(30, 5)])
    assert [(row["from_ts_us"], row["to_ts_us"]) for row in rows] == [(10 * SECOND, 30 * SECOND)]


def test_one_look_is_no_interval() -> None:
    assert capacity([_sample(10, 5)]) == []
