"""Whether a consumer whose join overlaps a seek joined before it, and was closed, or after it (contract 5.10).

Consumer 1 was there before, 2 joins around the seek, and no row tells which consumers the seek closed. Where 2 joined
before, 3 is alone afterwards; where it joined after, 2 and 3 share the hashes.
"""

from collections.abc import Callable

import pytest
from local_replay import HIGH, LOW, LOWEST, Log, replayed, reported

KEYS = [LOWEST, LOW, HIGH]
LOWER, UPPER, ALL = [[0, 32_768]], [[32_769, 65_536]], [[0, 65_536]]


def _sent(log: Log, consumer: int, entry: int) -> int:
    """An entry that is acknowledged at once, so that only its owner matters."""
    seq = log.dispatch(consumer, entry, KEYS[entry % 3])
    log.ack(consumer, entry)
    return seq


def _with_entries() -> Log:
    """A second after consumer 1 has joined and sixty entries were published."""
    log = Log()
    log.join(1)
    for entry in range(60):
        log.publish(entry, KEYS[entry % 3])
    log.now_us += 1_000_000
    return log


def _seek_around_join(between: Callable[[Log], object], closed: bool = False) -> Log:
    """The join of 2 begins before the seek and ends after it."""
    log = _with_entries()
    log.join(2, phases="start")
    log.reset("seek", phases="start")
    between(log)
    if closed:
        log.leave(1, phases="start", reason="closed_by_broker")
    log.reset("seek", phases="end")
    log.join(2, phases="end")
    log.now_us += 50_000
    return log


def _both_listed(log: Log) -> None:
    log.snapshot(reported(1, key_hash_ranges=UPPER), reported(2, key_hash_ranges=LOWER))


def _both_sent_to(log: Log) -> None:
    _sent(log, 2, 1)
    _sent(log, 1, 2)


def _two_sent_to_and_one_listed(log: Log) -> None:
    _sent(log, 2, 1)
    log.snapshot(reported(1), reported(2))


BEFORE = [_both_listed, _both_sent_to, _two_sent_to_and_one_listed]


@pytest.mark.parametrize("shown", BEFORE)
def test_a_consumer_seen_before_the_last_sign_of_an_older_one_was_closed(shown: Callable[[Log], None]) -> None:
    log = _seek_around_join(shown)
    log.join(3)
    for entry in range(3, 9):
        _sent(log, 3, entry)
    found = replayed(log.rows)
    assert [name for name, _ in found.changes] == ["join c1", "join c2", "reset", "join c3"]
    assert found.violated == []


@pytest.mark.parametrize("shown", BEFORE)
def test_what_breaks_the_contract_after_it_is_found(shown: Callable[[Log], None]) -> None:
    log = _seek_around_join(shown)
    log.join(3)
    _sent(log, 3, 3)
    log.now_us += 50_000
    log.join(4)
    log.now_us += 50_000
    found = [replayed([*log.rows, *_one_more(log, consumer)]).violated for consumer in (3, 4)]
    # One of them owns the hash, and the other does not.
    assert sorted(map(len, found)) == [0, 1]


def _one_more(log: Log, consumer: int) -> list[dict[str, object]]:
    more = Log(rows=[*log.rows], now_us=log.now_us)
    _sent(more, consumer, 7)
    return more.rows[len(log.rows) :]


def _two_alone_listed(log: Log) -> None:
    log.snapshot(reported(2, key_hash_ranges=ALL))


def _nothing(log: Log) -> None:
    """No row lies between."""


def test_a_consumer_that_is_there_without_the_older_ones_was_not_closed() -> None:
    log = _seek_around_join(_two_alone_listed)
    _sent(log, 2, 2)
    log.join(3)
    log.now_us += 50_000
    sent = _sent(log, 3, 5)
    assert replayed(log.rows).violated == [("ownership", sent)]


def test_the_row_of_a_closed_consumer_shows_that_another_one_was_not_closed() -> None:
    log = _seek_around_join(_nothing, closed=True)
    log.join(3)
    log.now_us += 50_000
    sent = _sent(log, 3, 5)
    assert replayed(log.rows).violated == [("ownership", sent)]


def test_without_any_sign_nothing_is_judged_that_depends_on_it() -> None:
    log = _seek_around_join(_nothing)
    log.join(3)
    log.now_us += 50_000
    _sent(log, 3, 5)
    found = replayed(log.rows)
    assert found.violated == []
    assert [rule for rule, _ in found.broken] in ([], ["ownership"])


def test_dispatches_after_the_seek_show_that_the_consumer_was_not_closed() -> None:
    log = _seek_around_join(_nothing)
    for entry in range(9, 30):
        _sent(log, 2, entry)
    log.join(3)
    log.now_us += 50_000
    sent = _sent(log, 3, 32)
    assert replayed(log.rows).violated == [("ownership", sent)]


def test_a_snapshot_after_the_seek_shows_that_the_consumer_was_closed() -> None:
    log = _seek_around_join(_nothing)
    log.join(3)
    log.snapshot(reported(3, key_hash_ranges=ALL))
    log.now_us += 200_000
    _sent(log, 3, 5)
    found = replayed(log.rows)
    assert found.violated == []
    assert [name for name, _ in found.changes][:3] == ["join c1", "join c2", "reset"]


def test_a_consumer_that_is_sent_to_after_a_seek_was_not_closed_by_it() -> None:
    # Its leave has a late row only, so by its rows alone it may have left before the seek as well as long after it.
    log = _with_entries()
    log.reset("seek", phases="start")
    log.leave(1, phases="start", reason="closed_by_broker")
    log.join(2, phases="end")
    log.reset("seek", phases="end")
    log.dispatch(2, 0, KEYS[0])
    log.leave(2, phases="end")
    log.join(3)
    found = replayed(log.rows)
    assert [name for name, _ in found.changes] == ["join c1", "leave c1", "join c2", "leave c2", "join c3"]
    assert found.violated == []


def test_a_join_whose_row_came_late_may_have_ended_before_the_seek_began() -> None:
    log = _with_entries()
    log.snapshot(reported(1, key_hash_ranges=UPPER), reported(2, key_hash_ranges=LOWER))
    log.reset("seek", phases="start")
    log.join(2, phases="end")
    for entry in range(3, 9):
        _sent(log, 1 if KEYS[entry % 3] == HIGH else 2, entry)
    for consumer in (1, 2):
        log.leave(consumer, phases="start", reason="closed_by_broker")
    log.reset("seek", phases="end")
    log.join(3)
    found = replayed(log.rows)
    assert [name for name, _ in found.changes][:2] == ["join c1", "join c2"]
    assert found.violated == []


@pytest.mark.parametrize("sent_to", [True, False])
def test_who_never_left_joined_after_the_unload_of_nobody(sent_to: bool) -> None:
    # All had left by themselves, so no row names a consumer that the unload closed.
    log = Log()
    log.join(1)
    for entry in range(3):
        log.publish(entry, KEYS[entry])
    log.now_us += 1_000_000
    log.leave(1)
    log.now_us += 1_000_000
    log.reset("unload", phases="start")
    log.join(2, phases="end")
    log.reset("unload", phases="end")
    if sent_to:
        for entry in range(3):
            _sent(log, 2, entry)
    log.join(3)
    log.now_us += 50_000
    found = replayed(log.rows)
    assert [name for name, _ in found.changes] == ["join c1", "leave c1", "join c2", "join c3"]
    assert found.violated == []


def test_a_dispatch_amid_the_next_join_shows_who_joined_after_the_unload() -> None:
    log = Log()
    log.join(1)
    log.publish(0, LOWEST)
    log.now_us += 1_000_000
    log.leave(1)
    log.now_us += 1_000_000
    log.reset("unload", phases="start")
    log.join(2, phases="end")
    log.reset("unload", phases="end")
    log.join(3, phases="start")
    _sent(log, 2, 0)
    log.join(3, phases="end")
    found = replayed(log.rows)
    assert [name for name, _ in found.changes] == ["join c1", "leave c1", "join c2", "join c3"]
    assert not any(placed.epoch.undecided.ranges for placed in found.epochs)


def test_who_asks_to_join_amid_a_seek_does_not_show_that_it_has_closed_the_others() -> None:
    log = _with_entries()
    log.reset("seek", phases="start")
    log.join(2, phases="start")
    for entry in range(9):
        _sent(log, 1, entry)
    log.snapshot(reported(1, key_hash_ranges=ALL))
    log.join(3, phases="start", name="c1")
    log.leave(1, phases="start", reason="closed_by_broker")
    log.reset("seek", phases="end")
    log.join(3, phases="end", name="c1")
    log.join(2, phases="end")
    for entry in range(9, 18):
        _sent(log, 2 if KEYS[entry % 3] == HIGH else 3, entry)
    found = replayed(log.rows)
    assert found.violated == []
    assert [name for name, _ in found.changes][:2] == ["join c1", "leave c1"]


def test_who_joins_amid_a_seek_and_leaves_soon_after_it_was_not_closed_by_it() -> None:
    log = _with_entries()
    log.reset("seek", phases="start")
    _sent(log, 1, 0)
    log.now_us += 50_000
    log.join(2)
    log.snapshot(reported(2, key_hash_ranges=ALL))
    log.now_us += 50_000
    log.leave(1, phases="start", reason="closed_by_broker")
    log.reset("seek", phases="end")
    for entry in range(3, 9):
        _sent(log, 2, entry)
    log.now_us += 500_000
    log.leave(2)
    found = replayed(log.rows)
    assert found.violated == []
    assert [name for name, _ in found.changes][:3] == ["join c1", "reset", "join c2"]
