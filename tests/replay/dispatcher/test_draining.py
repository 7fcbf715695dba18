"""Draining episodes: when a hash begins to drain, what ends it, and who waited how long."""

import pytest
from local_replay import AUTO_SPLIT, HIGH, LOW, LOWEST, Log, replayed

LOW_HASH = 21_772
LOWEST_HASH = 5_536


def _moved(*keys: bytes, waiting: int = 0) -> Log:
    """Consumer 1 holds an entry of each key; then 2 joins and owns what is LOW and LOWEST."""
    log = Log()
    log.join(1)
    for entry, key in enumerate(keys):
        log.publish(entry, key)
        log.dispatch(1, entry, key)
    for entry in range(waiting):
        log.publish(100 + entry, keys[0])
    log.join(2)
    return log


def test_what_is_held_of_a_moved_hash_drains_from_the_change_to_its_last_ack() -> None:
    log = _moved(LOW, LOW, HIGH)
    joined = next(row["seq"] for row in log.rows if row["event"] == "join" and row["consumer"] == 2)
    log.ack(1, 1)
    last = log.ack(1, 0)
    (episode,) = replayed(log.rows).episodes
    assert (episode.hash, episode.holder, episode.new_owner) == (LOW_HASH, 1, 2)
    assert (episode.from_seq, episode.to_seq) == (joined, last)
    assert (episode.held_at_start, episode.ended_by, episode.returned_seq) == (2, "ack", -1)


def test_each_moved_hash_drains_apart() -> None:
    log = _moved(LOW, LOWEST, HIGH)
    log.ack(1, 0)
    episodes = replayed(log.rows).episodes
    assert [(episode.hash, episode.ended_by) for episode in episodes] == [(LOWEST_HASH, "open"), (LOW_HASH, "ack")]


def test_the_root_is_the_oldest_entry_that_the_holder_has() -> None:
    log = Log()
    log.join(1)
    for entry in (3, 1, 2):
        log.publish(entry)
        log.dispatch(1, entry)
    log.ack(1, 1)
    log.join(2)
    found = replayed(log.rows).replayed.episodes
    assert (found.root_ledger.tolist(), found.root_entry.tolist()) == ([1], [2])


@pytest.mark.parametrize("ending", ["ack", "redeliver", "redeliver all", "leave", "reset", "open"])
def test_what_ends_an_episode(ending: str) -> None:
    log = _moved(LOW)
    if ending == "ack":
        log.ack(1, 0)
    elif ending == "redeliver":
        log.redeliver(1, 0)
    elif ending == "redeliver all":
        log.redeliver(1)
    elif ending == "leave":
        log.leave(1)
    elif ending == "reset":
        log.reset("unload")
    (episode,) = replayed(log.rows).episodes
    assert episode.ended_by == ending.removesuffix(" all")


def test_an_ack_by_somebody_else_ends_it_as_well() -> None:
    log = _moved(LOW)
    log.ack(2, 0)
    (episode,) = replayed(log.rows).episodes
    assert episode.ended_by == "ack"


def test_an_ack_of_something_else_does_not_end_it() -> None:
    log = _moved(LOW, HIGH)
    log.ack(1, 1)
    (episode,) = replayed(log.rows).episodes
    assert episode.ended_by == "open"


def test_an_entry_sent_again_to_its_holder_does_not_end_it() -> None:
    log = _moved(LOW)
    log.dispatch(1, 0)
    (episode,) = replayed(log.rows).episodes
    assert episode.ended_by == "open"


def test_a_hash_that_returns_to_its_holder_is_away_no_more() -> None:
    log = _moved(LOW, waiting=1)
    left = log.leave(2)
    log.now_us += 1_000_000
    log.ack(1, 0)
    away, episode = replayed(log.rows).episodes
    assert (away.to_seq, away.ended_by, away.awaited) == (left, "returned", 1)
    assert away.waited_us < 10_000
    assert (episode.from_seq, episode.returned_seq, episode.ended_by) == (away.from_seq, left, "ack")
    assert (episode.awaited, episode.waited_us) == (0, 0)


def test_of_a_hash_that_moves_away_again_only_the_times_when_it_is_away_are_waited_for() -> None:
    log = _moved(LOW, waiting=1)
    log.now_us += 1_000_000
    left = log.leave(2)
    log.now_us += 5_000_000
    log.join(3)
    log.now_us += 2_000_000
    acked = log.ack(1, 0)
    away, episode = replayed(log.rows).episodes
    assert (away.new_owner, away.to_seq, away.ended_by, away.awaited) == (2, left, "returned", 1)
    assert 1_000_000 <= away.waited_us < 1_010_000
    assert (episode.new_owner, episode.from_seq, episode.to_seq) == (3, away.from_seq, acked)
    assert (episode.returned_seq, episode.ended_by, episode.awaited) == (-1, "ack", 1)
    assert 2_000_000 <= episode.waited_us < 2_010_000


def test_a_hash_that_moves_on_has_its_latest_owner() -> None:
    log = _moved(LOWEST)
    log.join(3)
    (episode,) = replayed(log.rows).episodes
    assert (episode.holder, episode.new_owner) == (1, 3)


def test_message_seconds_count_every_message_that_waits_while_it_waits() -> None:
    log = Log(step_us=0)
    log.join(1)
    log.publish(0)
    log.dispatch(1, 0)
    log.publish(1, batch_size=10)
    log.now_us += 7_000_000
    log.join(2)
    log.now_us += 1_000_000
    log.publish(2, batch_size=5)
    log.publish(3, HIGH, batch_size=1000)
    log.now_us += 2_000_000
    log.ack(1, 0)
    log.now_us += 1_000_000
    log.dispatch(2, 1)
    (episode,) = replayed(log.rows).episodes
    assert episode.waited_us == 10 * 3_000_000 + 5 * 2_000_000
    assert episode.awaited == 2


def test_what_is_acknowledged_waits_no_longer() -> None:
    log = Log(step_us=0)
    log.join(1)
    log.publish(0)
    log.dispatch(1, 0)
    log.publish(1)
    log.join(2)
    log.now_us += 1_000_000
    log.ack(2, 1)
    log.now_us += 1_000_000
    log.ack(1, 0)
    (episode,) = replayed(log.rows).episodes
    assert episode.waited_us == 1_000_000


def test_what_is_given_back_waits_for_the_rest() -> None:
    log = _moved(LOW, LOW)
    log.step_us = 0
    log.redeliver(1, 0)
    log.now_us += 1_000_000
    log.ack(1, 1)
    (episode,) = replayed(log.rows).episodes
    assert (episode.awaited, episode.waited_us) == (1, 1_000_000)


def test_what_a_leaver_had_itself_was_not_waited_for() -> None:
    log = _moved(LOW, LOW, LOW)
    log.leave(1)
    (episode,) = replayed(log.rows).episodes
    assert (episode.awaited, episode.waited_us) == (0, 0)


def test_a_clock_that_steps_back_counts_no_time_twice() -> None:
    log = _moved(LOW, waiting=1)
    log.step_us = 0
    log.now_us += 1_000_000
    log.publish(200)
    log.now_us -= 400_000
    log.publish(201)
    log.now_us += 400_000
    log.ack(1, 0)
    (episode,) = replayed(log.rows).episodes
    assert 1_000_000 <= episode.waited_us < 1_010_000


# Where the promise is broken.


def test_with_two_holders_the_first_one_drains() -> None:
    log = _moved(LOW)
    log.dispatch(2, 50, LOW)
    (episode,) = replayed(log.rows).episodes
    assert (episode.holder, episode.held_at_start) == (1, 1)


def test_when_the_first_of_two_holders_is_done_the_other_one_is_the_holder() -> None:
    log = _moved(LOW)
    log.dispatch(2, 50, LOW)
    log.ack(1, 0)
    for consumer in (3, 4, 5, 6):
        log.join(consumer)  # the last of them takes LOW from 2
    episodes = [(e.holder, e.new_owner, e.ended_by) for e in replayed(log.rows).episodes]
    assert episodes == [(1, 2, "ack"), (2, 6, "open")]


def test_a_hash_whose_holder_never_owned_it_does_not_drain() -> None:
    log = Log()
    log.join(1)
    log.join(2)
    log.publish(0, HIGH)
    log.dispatch(2, 0, HIGH)
    log.join(3)
    log.join(4)
    assert replayed(log.rows).episodes == []


# Where nothing drains.


def test_the_first_and_the_last_consumer_leave_nothing_draining() -> None:
    log = Log()
    log.join(1)
    log.publish(0)
    log.dispatch(1, 0)
    log.leave(1)
    log.join(2)
    assert replayed(log.rows).episodes == []


@pytest.mark.parametrize("version", ["3.0.7", "3.3.2"])
def test_older_brokers_do_not_drain(version: str) -> None:
    assert replayed(_moved(LOW).rows, version=version).episodes == []


def test_the_classic_dispatcher_does_not_drain() -> None:
    classic = {**AUTO_SPLIT, "subscriptionKeySharedUseClassicPersistentImplementation": True}
    assert replayed(_moved(LOW).rows, settings=classic).episodes == []
