"""When a consumer can be sent nothing: for lack of permits, or with too much unacknowledged (contract 4.8, 4.14).

Consumer 1 owns HIGH and HIGHEST, consumer 2 the rest. Rows take no time here: what passes is written down.
"""

import pytest
from local_replay import AUTO_SPLIT, HIGH, HIGHEST, LOW, Log, Wait, replayed, reported

SECOND = 1_000_000
HIGH_HASH, HIGHEST_HASH = 41_358, 63_679
FOUR_UNACKED = {**AUTO_SPLIT, "maxUnackedMessagesPerConsumer": 4}


def _log(permits: int | None = None) -> Log:
    log = Log(step_us=0)
    log.join(1)
    log.join(2)
    if permits is not None:
        log.flow(1, permits)
        log.flow(2, 100)
    log.now_us += SECOND
    return log


def _sent(log: Log, consumer: int, *entries: int, key: bytes = HIGH) -> int:
    """Publishes and sends at once; returns the seq of the last dispatch."""
    seq = -1
    for entry in entries:
        log.publish(entry, key)
        seq = log.dispatch(consumer, entry, key)
    return seq


def _consumers(log: Log, **settings: object) -> list[Wait]:
    return replayed(log.rows, settings={**AUTO_SPLIT, **settings}).waits_of("consumer")


def _causes(log: Log, **settings: object) -> list[tuple[str, int, str]]:
    """Of each interval of a consumer its cause, where it ended and how."""
    return [(wait.cause, wait.to_seq, wait.ended_by) for wait in _consumers(log, **settings)]


@pytest.mark.parametrize(("repeated", "counted", "waits"), [(True, 4, 1), (True, 3, 0), (False, 4, 0)])
def test_a_snapshot_shows_who_is_at_the_limit_with_what_was_sent_twice(
    repeated: bool, counted: int, waits: int
) -> None:
    """Rows show three messages; the broker counts what overlapping reads sent again once more (F10)."""
    log = _log(permits=100)
    _sent(log, 1, 0, 1, 2)
    if repeated:
        log.dispatch(1, 2, HIGH)
    log.publish(3, HIGH)
    log.now_us += SECOND
    shown = log.snapshot(reported(1, unacked_messages=counted))
    log.now_us += SECOND
    acked = log.ack(1, 0)
    found = [wait for wait in _consumers(log, maxUnackedMessagesPerConsumer=4) if wait.hash == -1]
    assert [(wait.cause, wait.from_seq, wait.to_seq, wait.ended_by) for wait in found] == [
        ("unacked_limit_consumer", shown, acked, "ack")
    ][:waits]


# Without permits.


def test_a_consumer_without_permits_keeps_its_entries_waiting_until_it_asks_for_more() -> None:
    log = _log(permits=2)
    used_up = _sent(log, 1, 0, 1)
    log.publish(2, HIGH, batch_size=3)
    log.now_us += SECOND // 2
    log.publish(3, HIGHEST)
    log.publish(4, LOW)
    log.dispatch(2, 4, LOW)
    log.now_us += SECOND // 2
    asked = log.flow(1, 10)
    log.dispatch(1, 2, HIGH, batch_size=3)
    log.dispatch(1, 3, HIGHEST)
    whole, high, highest = replayed(log.rows).waits
    assert (whole.scope, whole.cause, whole.hash) == ("consumer", "no_permits", -1)
    assert (whole.consumer, whole.blocking) == (1, 1)
    assert (whole.from_seq, whole.to_seq, whole.ended_by) == (used_up, asked, "flow")
    assert whole.to_us - whole.from_us == SECOND
    # Three messages for a second, one for half of it.
    assert (whole.entries, whole.waited_us) == (2, 3 * SECOND + SECOND // 2)
    assert whole.roots == ((1, 0), (1, 1))
    assert whole.detail == {"hashes": [HIGH_HASH, HIGHEST_HASH], "in_replay": 2}
    for wait, sticky_hash, waited_us in ((high, HIGH_HASH, 3 * SECOND), (highest, HIGHEST_HASH, SECOND // 2)):
        assert (wait.scope, wait.hash, wait.consumer, wait.blocking) == ("hash", sticky_hash, 1, 1)
        assert (wait.cause, wait.entries, wait.waited_us) == ("no_permits", 1, waited_us)
        assert (wait.to_seq, wait.ended_by) == (asked, "flow")


def test_it_blocks_nobody_before_the_first_of_its_entries_waits() -> None:
    log = _log(permits=1)
    _sent(log, 1, 0)
    log.now_us += 5 * SECOND
    published = log.publish(1, HIGH)
    began_us = log.now_us
    log.now_us += SECOND
    log.flow(1, 10)
    (wait,) = _consumers(log)
    assert (wait.from_seq, wait.from_us, wait.waited_us) == (published, began_us, SECOND)


def test_with_nothing_waiting_for_it_a_consumer_blocks_nothing() -> None:
    log = _log(permits=1)
    _sent(log, 1, 0)
    log.publish(1, LOW)
    log.now_us += SECOND
    log.flow(1, 10)
    assert _consumers(log) == []


def test_what_waits_for_another_holder_is_not_charged_to_its_permits() -> None:
    log = Log(step_us=0)
    log.join(1)
    log.flow(1, 100)
    _sent(log, 1, 0, key=LOW)
    log.join(2)
    log.publish(1, LOW)
    log.flow(2, 0)
    log.now_us += SECOND
    log.flow(2, 10)
    assert _consumers(log) == []


@pytest.mark.parametrize(("waited_us", "number"), [(99_999, 0), (100_000, 1)])
def test_shorter_intervals_are_left_out(waited_us: int, number: int) -> None:
    log = _log(permits=1)
    _sent(log, 1, 0)
    log.publish(1, HIGH)
    log.now_us += waited_us
    log.flow(1, 10)
    assert len(_consumers(log)) == number


def test_a_batch_takes_as_many_permits_as_it_has_messages() -> None:
    log = _log(permits=5)
    log.publish(0, HIGH, batch_size=5)
    used_up = log.dispatch(1, 0, HIGH, batch_size=5)
    log.publish(1, HIGH)
    log.now_us += SECOND
    asked = log.flow(1, 1)
    (wait,) = _consumers(log)
    assert (wait.from_seq, wait.to_seq) == (used_up, asked)


@pytest.mark.parametrize("ending", ["leave", "reset", "open", "join"])
def test_what_else_ends_an_interval_without_permits(ending: str) -> None:
    log = _log(permits=1)
    _sent(log, 1, 0)
    log.publish(1, HIGH)
    log.now_us += SECOND
    if ending == "leave":
        log.leave(1)
    elif ending == "reset":
        log.reset("unload")
    elif ending == "join":
        log.join(3)
    else:
        log.publish(2, LOW)
    assert [(wait.cause, wait.ended_by) for wait in _consumers(log)] == [("no_permits", ending)]


def test_a_trace_without_permits_says_nothing_of_them() -> None:
    log = _log()
    _sent(log, 1, 0)
    log.publish(1, HIGH)
    log.now_us += SECOND
    log.dispatch(1, 1, HIGH)
    assert _consumers(log) == []


# Permits from snapshots.


def test_without_flow_rows_a_snapshot_tells_who_has_no_permits() -> None:
    log = _log()
    _sent(log, 1, 0)
    log.publish(1, HIGH)
    log.now_us += SECOND
    begins = log.snapshot(reported(1, available_permits=0), reported(2, available_permits=7))
    log.now_us += SECOND
    ends = log.snapshot(reported(1, available_permits=5))
    (wait,) = _consumers(log)
    assert (wait.cause, wait.consumer, wait.ended_by) == ("no_permits", 1, "flow")
    assert (wait.from_seq, wait.to_seq, wait.waited_us) == (begins, ends, SECOND)


def test_what_is_sent_to_a_consumer_shows_that_it_has_permits_again() -> None:
    log = _log()
    log.publish(0, HIGH)
    log.publish(1, HIGH)
    log.snapshot(reported(1, available_permits=-3))
    log.now_us += SECOND
    sent = log.dispatch(1, 0, HIGH)
    log.now_us += SECOND
    log.snapshot(reported(1, available_permits=5))
    assert _causes(log) == [("no_permits", sent, "dispatch")]


def test_with_flow_rows_the_snapshots_say_nothing_new_of_permits() -> None:
    log = _log(permits=10)
    log.publish(0, HIGH)
    # Taken a moment ago: it knows less than the rows.
    log.snapshot(reported(1, available_permits=0))
    log.now_us += SECOND
    log.snapshot(reported(1, available_permits=0))
    log.dispatch(1, 0, HIGH)
    assert _consumers(log) == []


# At the limit on unacknowledged messages.


def test_at_the_limit_a_consumer_is_sent_nothing_until_it_acknowledges() -> None:
    log = _log(permits=100)
    full = _sent(log, 1, 0, 1, 2, 3)
    log.publish(4, HIGH)
    log.now_us += SECOND
    acked = log.ack(1, 0)
    log.dispatch(1, 4, HIGH)
    (wait,) = _consumers(log, maxUnackedMessagesPerConsumer=4)
    assert (wait.cause, wait.consumer, wait.blocking) == ("unacked_limit_consumer", 1, 1)
    assert (wait.from_seq, wait.to_seq, wait.ended_by) == (full, acked, "ack")
    assert (wait.entries, wait.waited_us) == (1, SECOND)
    # Those that it held until the interval ended, also the one whose acknowledgement ended it.
    assert wait.roots == ((1, 0), (1, 1), (1, 2), (1, 3))


def test_of_several_entries_that_end_a_wait_the_oldest_is_named() -> None:
    log = _log(permits=4)
    _sent(log, 1, 0, 1, 2, 3)
    log.flow(1, 1)
    log.publish(4, HIGH)
    log.now_us += SECOND
    log.ack(1, 1, 0)
    log.dispatch(1, 4, HIGH)
    # What it asked for while it was blocked counts from half of the limit on (4.14).
    (wait,) = _consumers(log, maxUnackedMessagesPerConsumer=4)
    assert (wait.cause, wait.ended_by, wait.roots) == ("unacked_limit_consumer", "ack", ((1, 0),))


def test_the_limit_counts_messages_and_not_entries() -> None:
    log = _log(permits=100)
    log.publish(0, HIGH, batch_size=4)
    full = log.dispatch(1, 0, HIGH, batch_size=4)
    log.publish(1, HIGH)
    log.now_us += SECOND
    acked = log.ack(1, 0)
    assert [(w.from_seq, w.to_seq) for w in _consumers(log, **FOUR_UNACKED)] == [(full, acked)]


def test_no_limit_is_no_limit() -> None:
    log = _log(permits=100)
    _sent(log, 1, 0, 1, 2, 3)
    log.publish(4, HIGH)
    log.now_us += SECOND
    log.ack(1, 0)
    assert _consumers(log, maxUnackedMessagesPerConsumer=0) == []


def test_what_is_asked_for_at_the_limit_is_withheld_until_half_is_acknowledged() -> None:
    log = _log(permits=4)
    _sent(log, 1, 0, 1, 2, 3)
    log.flow(1, 10)
    log.publish(4, HIGH)
    log.now_us += SECOND
    log.ack(1, 0)
    log.now_us += SECOND
    half = log.ack(1, 1)
    log.dispatch(1, 4, HIGH)
    assert _causes(log, **FOUR_UNACKED) == [("unacked_limit_consumer", half, "ack")]


def test_what_was_asked_for_before_counts_below_the_limit() -> None:
    log = _log(permits=5)
    _sent(log, 1, 0, 1, 2, 3)
    log.flow(1, 10)
    log.publish(4, HIGH)
    log.now_us += SECOND
    below = log.ack(1, 0)
    log.now_us += SECOND
    log.ack(1, 1)
    # 4.8: the blocked flag is not asked, only how much is unacknowledged.
    assert _causes(log, **FOUR_UNACKED) == [("unacked_limit_consumer", below, "ack")]


def test_a_redeliver_command_hands_out_what_was_withheld() -> None:
    log = _log(permits=4)
    _sent(log, 1, 0, 1, 2, 3)
    log.flow(1, 10)
    log.publish(4, HIGHEST)
    log.now_us += SECOND
    nacked = log.redeliver(1, 3)
    log.now_us += SECOND
    log.ack(1, 0)
    assert _causes(log, **FOUR_UNACKED) == [("unacked_limit_consumer", nacked, "redeliver")]


def test_one_cause_that_follows_another_is_an_interval_of_its_own() -> None:
    log = _log(permits=4)
    _sent(log, 1, 0, 1, 2, 3)
    log.publish(4, HIGH)
    log.now_us += SECOND
    half = log.ack(1, 0, 1)
    log.now_us += SECOND
    asked = log.flow(1, 10)
    waits = [("unacked_limit_consumer", half, "ack"), ("no_permits", asked, "flow")]
    assert _causes(log, **FOUR_UNACKED) == waits
