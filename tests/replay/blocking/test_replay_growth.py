"""Replay that grows without a limit while one consumer can be sent nothing (contract 6.2, F6; #23200, #26677)."""

import pytest
from local_replay import AUTO_SPLIT, HIGH, LOW, Log, Replay, replayed

CLASSIC = {**AUTO_SPLIT, "subscriptionKeySharedUseClassicPersistentImplementation": True}


def _behind_a_slow_consumer(entries: int, version: str, settings: dict[str, object], after_us: int = 0) -> Replay:
    """Consumer 1 has no permits; whatever it is to get goes into replay, and 2 is sent what comes after it."""
    log = Log()
    log.join(1)
    log.join(2)
    log.flow(1, 0)
    log.flow(2, 1_000)
    log.now_us += 1_000_000
    for entry in range(entries):
        log.publish(entry, HIGH)
        if entry % 100 == 99:
            log.publish((2, entry), LOW)
            log.dispatch(2, (2, entry), LOW)
    log.now_us += after_us
    log.publish((3, 0), LOW)
    return replayed(log.rows, version=version, settings=settings)


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
