"""Replay that grows without a limit while one consumer can be sent nothing (contract 6.2, F6; #23200, #26677)."""

import pytest
from local_replay import AUTO_SPLIT, HIGH, HIGHEST, LOW, Log, Replay, replayed, reported, two

CLASSIC = {**AUTO_SPLIT, "subscriptionKeySharedUseClassicPersistentImplementation": True}
SMALL_READS = {**AUTO_SPLIT, "dispatcherMaxReadBatchSize": 5}


def _behind_a_slow_consumer(entries: int, version: str, settings: dict[str, object], after_us: int = 0) -> Replay:
    """Consumer 1 has no permits; whatever it is to get goes into replay, and 2 is sent what comes after it."""
    log = two(permits=(0, 1_000))
    log.now_us += 1_000_000
    for entry in range(entries):
        log.publish(entry, HIGH)
        if entry % 100 == 99:
            log.publish((2, entry), LOW)
            log.dispatch(2, (2, entry), LOW)
    log.now_us += after_us
    log.publish((3, 0), LOW)
    return replayed(log.rows, version=version, settings=settings)


def _growing() -> Log:
    """Consumer 1 has no permits, a hundred entries for it are in replay, and 2 was sent what comes after them."""
    log = Log()
    log.join(1, ranges=[(30_001, 59_999)])
    log.join(2, ranges=[(0, 30_000)])
    log.flow(1, 0)
    log.flow(2, 1_000)
    for entry in range(100):
        log.publish(entry, HIGH)
    log.publish((2, 0), LOW)
    log.dispatch(2, (2, 0), LOW)
    return log


@pytest.mark.parametrize(
    ("version", "settings"), [("3.0.7", AUTO_SPLIT), ("4.0.8", CLASSIC), ("4.2.4", CLASSIC)], ids=["3.x", "4.0", "4.2"]
)
def test_ten_reads_of_entries_for_one_consumer_are_a_known_bug(version: str, settings: dict[str, object]) -> None:
    assert _behind_a_slow_consumer(1_000, version, settings).weighed == {("stalled", "known_bug"): 1}


def test_fewer_entries_are_none() -> None:
    assert _behind_a_slow_consumer(900, "3.0.7", dict(AUTO_SPLIT)).weighed == {}


def test_ten_small_reads_are_none() -> None:
    small = {**AUTO_SPLIT, "dispatcherMaxReadBatchSize": 5}
    assert _behind_a_slow_consumer(99, "3.0.7", small, 2_000_000).weighed == {}
    assert _behind_a_slow_consumer(100, "3.0.7", small, 2_000_000).weighed == {("stalled", "known_bug"): 1}


@pytest.mark.parametrize("apart_us", [50_000, 700_000])
def test_the_growth_goes_on_while_others_come_and_go(apart_us: int) -> None:
    """Also if it is too short between the two for a row of its own."""
    log = _growing()
    log.now_us += 600_000
    log.join(3, ranges=[(60_000, 65_535)])
    log.now_us += apart_us
    log.leave(3)
    log.now_us += 600_000
    log.publish((3, 0), LOW)
    assert replayed(log.rows, version="3.0.7", settings=SMALL_READS).weighed == {("stalled", "known_bug"): 1}


@pytest.mark.parametrize("rewound", [False, True], ids=["others join", "all have left"])
def test_a_read_position_shows_what_is_in_replay_until_it_is_rewound(rewound: bool) -> None:
    log = Log()
    log.join(1, ranges=[(30_001, 59_999)])
    log.join(2, ranges=[(0, 30_000)])
    log.flow(1, 0)
    for entry in range(100):
        log.publish(entry, HIGH)
    log.now_us += 200_000
    consumers = reported(1, available_permits=0), reported(2, available_permits=0)
    log.snapshot(*consumers, mark_delete_position="1:-1", read_position="1:100")
    log.now_us += 200_000
    if rewound:
        log.leave(1)
        log.leave(2)
        log.join(3, ranges=[(30_001, 59_999)])
        log.flow(3, 0)
    log.join(4, ranges=[(60_000, 65_535)])
    log.now_us += 1_200_000
    log.publish((3, 0), LOW)
    weighed = replayed(log.rows, version="3.0.7", settings=SMALL_READS).weighed
    assert weighed["stalled", "known_bug"] == (not rewound)


@pytest.mark.parametrize("alone", [True, False])
def test_all_that_is_in_replay_is_for_the_only_consumer(alone: bool) -> None:
    """Rows do not show whether delayed entries are there: until 2 leaves, some may be with the tracker."""
    log = Log()
    log.join(1)
    log.join(2)
    log.flow(1, 0)
    for entry in range(110):
        log.publish(entry, LOW, deliver_at_ms=log.now_us // 1_000 + 60_000)
    if alone:
        log.leave(2)
    log.publish((2, 0), HIGH)
    log.now_us += 1_200_000
    log.snapshot(reported(1, available_permits=0), msg_in_replay=111)
    log.now_us += 10_000
    log.publish((3, 0), HIGH)
    assert replayed(log.rows, version="3.0.7", settings=SMALL_READS).weighed["stalled", "known_bug"] == alone


@pytest.mark.parametrize(
    ("in_replay", "sent_since", "grown"), [(105, False, True), (104, False, False), (105, True, False)]
)
def test_what_is_in_replay_for_nobody_else_is_for_the_consumer(in_replay: int, sent_since: bool, grown: bool) -> None:
    """Of five entries that wait for 2, all may be there; of what was sent since the snapshot, it is not known."""
    log = Log()
    log.join(1, ranges=[(30_001, 59_999)])
    log.join(2, ranges=[(0, 30_000)])
    log.flow(1, 0)
    log.flow(2, 1)
    log.publish(0, LOW)
    if not sent_since:
        log.dispatch(2, 0, LOW)
    for entry in range(1, 111):
        log.publish(entry, HIGH, deliver_at_ms=log.now_us // 1_000 + 60_000)
    for entry in range(5):
        log.publish((2, entry), LOW, deliver_at_ms=log.now_us // 1_000 + 60_000)
    log.publish((3, 1), HIGH)
    log.now_us += 1_200_000
    log.snapshot(reported(1, available_permits=0), reported(2, available_permits=0), msg_in_replay=in_replay)
    log.now_us += 20_000
    if sent_since:
        log.dispatch(2, 0, LOW)
    log.publish((3, 2), HIGH)
    found = replayed(log.rows, version="3.0.7", settings=SMALL_READS)
    assert found.weighed["stalled", "known_bug"] == grown


def test_two_waits_with_permits_between_them_are_not_one() -> None:
    log = _growing()
    log.publish((2, 1), HIGH)
    log.now_us += 600_000
    log.flow(1, 1)
    log.dispatch(1, 0, HIGH)
    log.now_us += 600_000
    log.publish((3, 0), LOW)
    assert replayed(log.rows, version="3.0.7", settings=SMALL_READS).weighed == {}


def test_what_was_in_replay_before_a_clear_grew_until_then() -> None:
    log = _growing()
    log.now_us += 1_200_000
    log.reset("clear")
    log.now_us += 200_000
    consumers = reported(1, available_permits=0), reported(2, available_permits=999)
    log.snapshot(*consumers, mark_delete_position="2:0", read_position="2:1")
    log.publish((3, 0), LOW)
    assert replayed(log.rows, version="3.0.7", settings=SMALL_READS).weighed == {("stalled", "known_bug"): 1}


def test_what_may_have_been_skipped_is_not_in_replay_any_more() -> None:
    log = _growing()
    log.now_us += 200_000
    log.reset("clear")
    log.publish((3, 0), HIGH)
    log.now_us += 1_200_000
    log.publish((3, 1), LOW)
    assert replayed(log.rows, version="3.0.7", settings=SMALL_READS).weighed == {}


def test_growth_is_found_although_others_get_what_waits_before_the_wait_is_over() -> None:
    log = two(permits=(0, 1_000))
    for entry in range(100):
        log.publish(entry, HIGH)
    log.publish(100, HIGHEST)
    log.publish((2, 0), LOW)
    log.dispatch(2, (2, 0), LOW)
    log.now_us += 1_200_000
    log.join(3)
    log.join(4)
    log.now_us += 200_000
    log.publish((3, 0), LOW)
    assert replayed(log.rows, version="3.0.7", settings=SMALL_READS).weighed == {("stalled", "known_bug"): 1}


def test_growth_for_less_than_a_stall_is_none() -> None:
    small = {**AUTO_SPLIT, "dispatcherMaxReadBatchSize": 5}
    assert _behind_a_slow_consumer(100, "3.0.7", small).weighed == {}


@pytest.mark.parametrize(
    ("version", "settings"),
    [("4.0.8", AUTO_SPLIT), ("4.0.14", CLASSIC), ("4.2.5", CLASSIC)],
    ids=["draining", "classic 4.0.14", "classic 4.2.5"],
)
def test_a_replay_queue_with_a_limit_does_not_grow_without_one(version: str, settings: dict[str, object]) -> None:
    assert _behind_a_slow_consumer(1_000, version, settings).weighed == {}
