"""What the entries of a hash wait for that no other consumer holds and whose owner could be sent something.

Consumer 1 owns HIGH and HIGHEST, consumer 2 the rest. Rows take no time here: what passes is written down.
"""

import pytest
from local_replay import AUTO_SPLIT, HIGH, HIGHEST, LOW, LOWEST, Log, Replay, Wait, replayed, reported

from dispatch_audit.pipeline.groups.blocking_rows import blocking
from dispatch_audit.udfs.sticky_key_hash import sticky_hashes

SECOND = 1_000_000
LOWEST_HASH, LOW_HASH, HIGH_HASH, HIGHEST_HASH = 5_536, 21_772, 41_358, 63_679
NARROW = {**AUTO_SPLIT, "keySharedLookAheadMsgInReplayThresholdPerConsumer": 2}


def _log() -> Log:
    log = Log(step_us=0)
    log.join(1)
    log.join(2)
    log.flow(1, 1_000)
    log.flow(2, 1_000)
    log.now_us += SECOND
    return log


def _sent(log: Log, consumer: int, entry: int, key: bytes) -> int:
    log.publish(entry, key)
    return log.dispatch(consumer, entry, key)


def _pass(log: Log, us: int, entry: int = 100) -> None:
    """Time passes in which something is sent to consumer 2, so that it is no stall."""
    for _ in range(4):
        log.now_us += us // 4
        log.publish(entry, LOWEST)
        log.dispatch(2, entry, LOWEST)
        log.ack(2, entry)
        entry += 1


def _hashes(log: Log, settings: dict[str, object] | None = None, version: str = "4.0.8") -> list[Wait]:
    return replayed(log.rows, settings=settings or dict(AUTO_SPLIT), version=version).waits_of("hash")


def _sentence(replay: Replay) -> str:
    """What is said of the only hash that waited."""
    (row,) = [row for row in blocking(replay.context) if row["scope"] == "hash"]
    return str(row["explanation"])


def test_what_was_published_behind_everything_that_was_read_is_not_read_yet() -> None:
    log = _log()
    published = log.publish(1_000, HIGH, batch_size=2)
    began_us = log.now_us
    _pass(log, 2 * SECOND)
    sent = log.dispatch(1, 1_000, HIGH, batch_size=2)
    (wait,) = _hashes(log)
    assert (wait.cause, wait.hash, wait.consumer, wait.blocking) == ("not_read_yet", HIGH_HASH, 1, -1)
    assert (wait.from_seq, wait.from_us) == (published, began_us)
    assert (wait.to_seq, wait.ended_by) == (sent, "dispatch")
    assert (wait.entries, wait.waited_us, wait.roots) == (1, 2 * 2 * SECOND, ((1, 1_000),))


@pytest.mark.parametrize("swept", [False, True])
@pytest.mark.parametrize(("between_us", "intervals"), [(100_000, [2]), (101_000, [1, 1])])
def test_waits_with_time_between_them_are_two_intervals(between_us: int, swept: bool, intervals: list[int]) -> None:
    """However the slots of hashes are freed in between, when nothing is open."""
    keys = [b"key-%d" % number for number in range(9_000)]
    of_the_other = [key for key, h in zip(keys, sticky_hashes(keys, "auto_split"), strict=True) if h < LOW_HASH]
    log = _log()
    for entry in (1_000, 5_000):
        log.publish(entry, HIGH)
        _pass(log, SECOND, entry=entry + 100)
        log.dispatch(1, entry, HIGH)
        log.ack(1, entry)
        log.now_us += between_us
        log.snapshot()  # the rows after it are replayed by themselves
        for number, key in enumerate(of_the_other if swept else ()):
            _sent(log, 2, entry + 200 + number, key)
            log.ack(2, entry + 200 + number)
    replay = replayed(log.rows, rows_per_batch=100)
    assert [wait.entries for wait in replay.waits_of("hash") if wait.hash == HIGH_HASH] == intervals


def test_what_was_read_before_waits_in_replay() -> None:
    log = _log()
    log.publish(0, HIGH)
    _pass(log, 2 * SECOND)
    log.dispatch(1, 0, HIGH)
    (wait,) = _hashes(log)
    # The first later dispatch shows that it was read, a quarter of the time after it was published.
    assert (wait.cause, wait.entries, wait.roots) == ("replay_queue", 1, ((1, 0),))


def test_what_was_read_only_in_the_last_moment_was_not_read_before() -> None:
    log = _log()
    log.publish(1_000, HIGH)
    _pass(log, 2 * SECOND)
    _sent(log, 2, 1_001, LOW)
    log.dispatch(1, 1_000, HIGH)
    assert [wait.cause for wait in _hashes(log)] == ["not_read_yet"]


@pytest.mark.parametrize(("waited_us", "number"), [(99_996, 0), (100_000, 1)])
def test_shorter_waits_are_left_out(waited_us: int, number: int) -> None:
    log = _log()
    log.publish(1_000, HIGH)
    _pass(log, waited_us)
    log.dispatch(1, 1_000, HIGH)
    assert len(_hashes(log)) == number


def test_what_was_given_back_waits_to_be_replayed() -> None:
    log = _log()
    _sent(log, 1, 0, HIGH)
    nacked = log.redeliver(1, 0)
    _pass(log, 2 * SECOND)
    sent = log.dispatch(1, 0, HIGH)
    (wait,) = _hashes(log)
    assert (wait.cause, wait.from_seq, wait.to_seq) == ("nack_delay", nacked, sent)
    assert (wait.entries, wait.waited_us) == (1, 2 * SECOND)


def test_what_its_producer_delayed_waits_for_that() -> None:
    log = _log()
    log.publish(0, HIGH, deliver_at_ms=(log.now_us + 2 * SECOND) // 1_000)
    _pass(log, 2 * SECOND)
    log.dispatch(1, 0, HIGH)
    assert [wait.cause for wait in _hashes(log)] == ["delayed_delivery"]


def test_what_is_due_waits_for_something_else() -> None:
    log = _log()
    began_us = log.now_us
    log.publish(0, HIGH, deliver_at_ms=(log.now_us + 2 * SECOND) // 1_000)
    _pass(log, 5 * SECOND)
    log.dispatch(1, 0, HIGH)
    delayed, due = _hashes(log)
    # A tick of a second may pass before the broker looks at it (4.13).
    assert (delayed.cause, delayed.to_us - began_us, delayed.ended_by) == ("delayed_delivery", 3 * SECOND, "due")
    assert (due.cause, due.from_us - began_us, due.ended_by) == ("overdue", 3 * SECOND, "dispatch")


def test_what_was_delayed_and_nacked_waits_to_be_replayed() -> None:
    log = _log()
    log.publish(0, HIGH, deliver_at_ms=1)
    log.dispatch(1, 0, HIGH)
    log.redeliver(1, 0)
    _pass(log, 2 * SECOND)
    log.dispatch(1, 0, HIGH)
    assert [wait.cause for wait in _hashes(log)] == ["nack_delay"]


def test_what_may_have_been_skipped_was_not_given_back() -> None:
    log = _log()
    log.publish(0, HIGH)
    log.reset("skip")
    _pass(log, 2 * SECOND)
    log.dispatch(1, 0, HIGH)
    assert [wait.cause for wait in _hashes(log)] == ["replay_queue"]


def test_what_was_delayed_and_left_behind_was_not_given_back() -> None:
    log = _log()
    log.publish(0, HIGH, deliver_at_ms=1)
    log.dispatch(1, 0, HIGH)
    log.leave(1)
    _pass(log, 2 * SECOND)
    log.dispatch(2, 0, HIGH)
    assert [wait.cause for wait in _hashes(log)] == ["replay_queue"]


def test_a_full_replay_queue_is_the_reason_why_others_are_not_read() -> None:
    log = _log()
    log.flow(1, -999)
    _sent(log, 1, 0, HIGH)
    for entry in (1, 2, 3, 4):
        log.publish(entry, HIGH)
    _sent(log, 2, 5, LOW)
    log.publish(6, LOW)
    log.publish(7, LOWEST)
    log.now_us += SECOND // 2
    log.ack(2, 5)
    log.flow(1, 1_000)
    for entry in (1, 2, 3, 4):
        log.dispatch(1, entry, HIGH)
    log.dispatch(2, 6, LOW)
    log.dispatch(2, 7, LOWEST)
    waits = {(wait.hash, wait.cause) for wait in _hashes(log, NARROW)}
    assert waits == {(LOWEST_HASH, "look_ahead_limit"), (LOW_HASH, "look_ahead_limit"), (HIGH_HASH, "no_permits")}


def test_a_subscription_at_its_limit_is_the_reason_why_others_are_not_read() -> None:
    log = _log()
    for entry in range(4):
        _sent(log, 2, entry, LOW)
    log.publish(1_000, HIGH)
    log.now_us += SECOND // 2
    log.ack(2, 0, 1, 2)
    log.dispatch(1, 1_000, HIGH)
    settings = {**AUTO_SPLIT, "maxUnackedMessagesPerSubscription": 4}
    assert [(wait.cause, wait.hash) for wait in _hashes(log, settings)] == [("unacked_limit_subscription", HIGH_HASH)]


def test_a_hash_that_no_consumer_has_waits_for_an_owner() -> None:
    log = Log(step_us=0)
    log.join(1, ranges=[(0, 30_000)])
    published = log.publish(0, HIGH)
    log.now_us += SECOND // 2
    joined = log.join(2, ranges=[(30_001, 65_535)])
    log.dispatch(2, 0, HIGH)
    (wait,) = _hashes(log)
    assert (wait.cause, wait.hash, wait.consumer, wait.blocking) == ("no_owner", HIGH_HASH, -1, -1)
    assert (wait.from_seq, wait.ended_by) == (published, "join")
    assert joined <= wait.to_seq <= joined + 1
    assert wait.waited_us == SECOND // 2


def test_what_its_owner_may_not_have_yet_waits_for_that() -> None:
    log = Log(step_us=0)
    log.join(1)
    _sent(log, 1, 0, HIGH)
    _sent(log, 1, 1, HIGH)
    log.join(2)
    log.publish(2, LOW)
    log.now_us += SECOND // 2
    log.publish(3, LOW)
    log.dispatch(2, 2, LOW)
    replay = replayed(log.rows, settings=dict(AUTO_SPLIT), version="3.0.7")
    assert [(wait.cause, wait.consumer) for wait in replay.waits_of("hash")] == [("recently_joined", 2)]
    assert (
        "(consumer 2) had joined recently and got no new entries while older ones were not acknowledged"
        in _sentence(replay)
    )


def test_an_owner_that_goes_from_one_ack_to_the_next_at_its_limit_is_the_reason() -> None:
    log = _log()
    for entry in range(4):
        _sent(log, 1, entry, HIGH)
    log.publish(1_000, HIGHEST)
    for acked, sent in ((0, 4), (1, 5), (2, 6)):
        log.now_us += 90_000
        log.ack(1, acked)
        log.now_us += 60_000
        _sent(log, 1, sent, HIGH)
    log.now_us += 90_000
    log.ack(1, 3)
    log.dispatch(1, 1_000, HIGHEST)
    settings = {**AUTO_SPLIT, "maxUnackedMessagesPerConsumer": 4}
    # Full for 90 ms at a time, too short for an interval of the consumer; not full for 180 ms in all.
    replay = replayed(log.rows, settings=settings)
    assert [wait.cause for wait in replay.waits_of("consumer")] == []
    assert [(wait.cause, wait.hash) for wait in replay.waits_of("hash")] == [("unacked_limit_consumer", HIGHEST_HASH)]
    assert "because c1 (consumer 1) had reached the limit of unacknowledged messages of a consumer" in _sentence(replay)


def test_one_cause_is_one_interval_however_many_entries_go_in_between() -> None:
    log = _log()
    published = log.publish(1_000, HIGH)
    for entry in (1_001, 1_002):
        log.publish(entry, HIGH)
    sent = 0
    for entry in (1_000, 1_001, 1_002):
        _pass(log, SECOND // 2, entry=4 * entry - 3_900)
        sent = log.dispatch(1, entry, HIGH)
    (wait,) = _hashes(log)
    assert (wait.from_seq, wait.to_seq, wait.entries) == (published, sent, 3)
    assert wait.waited_us == (3 + 2 + 1) * SECOND // 2


def test_time_in_which_its_owner_had_no_permits_is_not_told_twice() -> None:
    log = _log()
    log.flow(1, -999)
    _sent(log, 1, 0, HIGH)
    log.publish(1_000, HIGHEST)
    _pass(log, SECOND)
    log.flow(1, 10)
    log.dispatch(1, 1_000, HIGHEST)
    assert [wait.cause for wait in _hashes(log)] == ["no_permits"]


def test_a_wait_that_goes_on_before_and_after_a_lack_of_permits_counts_the_rest_only() -> None:
    log = _log()
    log.publish(1_000, HIGHEST)
    _pass(log, SECOND)
    log.flow(1, -999)
    _sent(log, 1, 0, HIGH)
    _pass(log, SECOND)
    log.flow(1, 10)
    _pass(log, SECOND)
    log.dispatch(1, 1_000, HIGHEST)
    waits = {wait.cause: wait for wait in _hashes(log)}
    assert waits["no_permits"].waited_us == SECOND
    own = waits["not_read_yet"]
    assert (own.to_us - own.from_us, own.waited_us) == (3 * SECOND, 2 * SECOND)


def test_what_waited_while_its_hash_drained_does_not_wait_for_permits_meanwhile() -> None:
    log = Log(step_us=0)
    log.join(1)
    log.flow(1, 1_000)
    _sent(log, 1, 0, LOW)
    log.join(2)
    log.flow(2, 1)
    _sent(log, 2, 1, LOWEST)
    log.publish(2, LOW)
    log.now_us += 2 * SECOND
    log.ack(1, 0)
    log.now_us += SECOND
    log.flow(2, 10)
    log.dispatch(2, 2, LOW)
    waits = {wait.cause: wait for wait in replayed(log.rows).waits if wait.hash == LOW_HASH}
    assert waits["no_permits"].waited_us == SECOND
    (episode,) = replayed(log.rows).drainings
    assert episode.waited_us == 2 * SECOND


@pytest.mark.parametrize(("permits", "cause"), [((0, 0, 0), "no_permits"), ((0, 0, 3), "replay_queue")])
def test_an_owner_that_goes_from_one_message_to_the_next_has_no_permits_in_any_snapshot(
    permits: tuple[int, ...], cause: str
) -> None:
    """It is sent one whenever it asks for one, so no row says how long it had none."""
    log = Log(step_us=0)
    log.join(1)
    log.join(2)
    log.publish(0, HIGH)
    for entry in (1, 2, 3):
        log.publish(entry, HIGHEST)
    _sent(log, 2, 4, LOW)
    for number, shown in enumerate(permits):
        log.snapshot(reported(1, available_permits=shown), reported(2, available_permits=100))
        log.now_us += SECOND // 2
        log.dispatch(1, number + 1, HIGHEST)
        log.now_us += SECOND // 2
    log.dispatch(1, 0, HIGH)
    of_hash = [wait for wait in _hashes(log) if wait.hash == HIGH_HASH]
    # Between a snapshot and the next dispatch it certainly has none.
    assert max(of_hash, key=lambda wait: wait.to_us - wait.from_us).cause == cause


def test_what_still_waits_at_the_end_is_open() -> None:
    log = _log()
    log.publish(1_000, HIGH)
    _pass(log, SECOND)
    assert [(wait.cause, wait.ended_by) for wait in _hashes(log)] == [("not_read_yet", "open")]


def test_what_comes_after_a_delayed_entry_did_not_wait_for_as_long() -> None:
    log = Log()
    log.join(1)
    log.flow(1, 100)
    log.publish(0, LOW, deliver_at_ms=log.now_us // 1000 + 60_000)
    log.now_us += 5 * 1_000_000
    log.publish(1, LOW)
    log.dispatch(1, 1, LOW)
    (wait,) = [wait for wait in replayed(log.rows).waits_of("hash") if wait.ended_by == "dispatch"]
    assert wait.cause == "delayed_delivery"


def test_a_delayed_entry_that_is_due_is_not_unread_while_later_ones_are_sent() -> None:
    log = _log()
    log.publish(0, HIGH, deliver_at_ms=(log.now_us + SECOND) // 1_000)
    log.now_us += 2 * SECOND
    for entry in (1, 2, 3):
        log.now_us += SECOND
        _sent(log, 1, entry, HIGH)
        log.ack(1, entry)
    log.now_us += SECOND
    log.publish(4, LOW)
    (overdue,) = [wait for wait in _hashes(log) if wait.cause != "delayed_delivery"]
    assert (overdue.cause, overdue.roots, overdue.entries, overdue.ended_by) == ("overdue", ((1, 0),), 4, "open")


def test_all_entries_that_waited_at_any_time_are_counted() -> None:
    log = _log()
    for entry in (1_000, 1_001, 1_002):
        log.publish(entry, HIGH)
        _pass(log, SECOND, entry=entry - 1_000 + 10 * (entry - 999))
    log.dispatch(1, 1_000, HIGH)
    log.publish(1_003, HIGH)
    _pass(log, SECOND, entry=90)
    for entry in (1_001, 1_002, 1_003):
        log.dispatch(1, entry, HIGH)
    (wait,) = [wait for wait in _hashes(log) if wait.hash == HIGH_HASH]
    assert (wait.entries, wait.ended_by) == (4, "dispatch")
