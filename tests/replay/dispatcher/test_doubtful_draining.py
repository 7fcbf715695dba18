"""Draining is counted only where a hash certainly had pending entries when it moved."""

import pytest
from local_replay import AUTO_SPLIT, LOW, Episode, Log, replayed


def _held(entries: int = 1) -> Log:
    log = Log()
    log.join(1)
    for entry in range(entries):
        log.publish(entry, LOW)
        log.dispatch(1, entry, LOW)
    log.now_us += 300_000
    return log


def _episodes(log: Log, **settings: object) -> list[Episode]:
    log.now_us += 3_000_000
    log.publish(9, LOW)
    return replayed(log.rows, settings={**AUTO_SPLIT, **settings}).episodes


@pytest.mark.parametrize("how", ["ack", "redeliver", "redeliver all", "parts"])
def test_what_is_given_up_while_its_hash_moves_has_perhaps_never_drained(how: str) -> None:
    log = _held()
    log.join(2, phases="start")
    log.now_us += 10_000
    if how == "ack":
        log.ack(1, 0)
    elif how == "redeliver":
        log.redeliver(1, 0)
    elif how == "redeliver all":
        log.redeliver(1)
    else:
        log.ack(1, 0, ack_set=[0])
    log.join(2, phases="end")
    assert _episodes(log) == []
    assert replayed(log.rows).agreement == {}


def test_so_it_is_where_only_one_side_of_acknowledgements_is_recorded() -> None:
    for side in ("start", "end"):
        log = _held()
        log.join(2, phases="start")
        log.now_us += 10_000
        log.ack(1, 0, phases=side)
        log.join(2, phases="end")
        assert _episodes(log) == []


def test_one_entry_that_stays_is_enough() -> None:
    log = _held(2)
    log.join(2, phases="start")
    log.now_us += 10_000
    log.ack(1, 0)
    log.join(2, phases="end")
    last = log.ack(1, 1)
    (episode,) = _episodes(log)
    assert (episode.to_seq, episode.ended_by) == (last, "ack")


def test_what_is_sent_again_to_its_holder_after_the_change_is_another_matter() -> None:
    # Given back in between, and acknowledged after the change.
    log = _held(2)
    log.join(2, phases="start")
    log.now_us += 10_000
    log.redeliver(1, 0)
    log.join(2, phases="end")
    log.ack(1, 1)
    assert [episode.held_at_start for episode in _episodes(log)] == [2]
