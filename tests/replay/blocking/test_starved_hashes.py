"""No progress for any consumer although entries wait: why, whom everybody waits for, and what ends it (Q12).

Consumer 1 owns HIGH and HIGHEST, consumer 2 the rest. Rows take no time here: what passes is written down.
"""

import pytest
from local_replay import AUTO_SPLIT, HIGH, HIGHEST, LOW, LOWEST, Log, Replay, Wait, replayed

from dispatch_audit.pipeline.replay.verdicts.stalls.stall_findings import stuck_findings

SECOND = 1_000_000
# Two consumers together: four entries in replay.
NARROW = {**AUTO_SPLIT, "keySharedLookAheadMsgInReplayThresholdPerConsumer": 2}
LOW_HASH, HIGH_HASH = 21_772, 41_358


def _log(first: int | None = None, second: int | None = None) -> Log:
    """Both consumers, with so many permits."""
    log = Log(step_us=0)
    log.join(1)
    log.join(2)
    if first is not None:
        log.flow(1, first)
    if second is not None:
        log.flow(2, second)
    log.now_us += SECOND
    return log


def _sent(log: Log, consumer: int, entry: int, key: bytes) -> int:
    log.publish(entry, key)
    return log.dispatch(consumer, entry, key)


def _stall(replay: Replay) -> Wait:
    (wait,) = replay.waits_of("subscription")
    return wait


def _look_ahead_full(log: Log | None = None) -> Log:
    """Consumer 1 has no permits; four entries wait for it in replay, and one that is not read for consumer 2."""
    log = log or _log(first=1, second=100)
    _sent(log, 1, 0, HIGH)
    for entry in (1, 2, 3, 4):
        log.publish(entry, HIGH)
    _sent(log, 2, 5, LOW)
    log.publish(6, LOW)
    log.now_us += 2 * SECOND
    return log


def test_a_full_replay_queue_stops_everybody_for_the_consumer_that_fills_it() -> None:
    log = _look_ahead_full()
    log.flow(1, 10)
    goes_on = log.dispatch(1, 1, HIGH)
    wait = _stall(replayed(log.rows, settings=NARROW))
    assert (wait.cause, wait.blocking, wait.consumer, wait.hash) == ("look_ahead_limit", 1, -1, -1)
    assert (wait.from_seq, wait.to_seq, wait.ended_by) == (15, goes_on, "flow")
    assert wait.from_us + 2 * SECOND == wait.to_us
    assert (wait.entries, wait.waited_us) == (5, 5 * 2 * SECOND)
    assert wait.roots == ((1, 0),)
    assert wait.detail == {
        "no_progress": True,
        "consumers": 2,
        "with_permits": 1,
        "replay_size_at_least": 4,
        "replay_size_reported": None,
        "look_ahead_limit": 4,
        "hashes": [HIGH_HASH],
        "waiting_for_it": 4,
    }


def test_the_leave_of_who_fills_it_ends_the_stall_and_is_still_to_blame() -> None:
    log = _look_ahead_full()
    log.leave(1)
    goes_on = log.dispatch(2, 0, HIGH)
    wait = _stall(replayed(log.rows, settings=NARROW))
    assert (wait.cause, wait.blocking) == ("look_ahead_limit", 1)
    assert (wait.to_seq, wait.ended_by) == (goes_on, "leave")


def test_a_stall_goes_on_to_the_end_of_the_trace() -> None:
    log = _look_ahead_full()
    last = log.publish(7, LOW)
    wait = _stall(replayed(log.rows, settings=NARROW))
    assert (wait.cause, wait.to_seq, wait.ended_by) == ("look_ahead_limit", last, "open")


def test_the_replay_queue_may_have_grown_since_a_snapshot_that_says_less() -> None:
    log = _look_ahead_full()
    log.snapshot(msg_in_replay=3)
    log.now_us += SECOND
    log.dispatch(2, 6, LOW)
    wait = _stall(replayed(log.rows, settings=NARROW))
    assert (wait.cause, wait.detail["replay_size_reported"]) == ("look_ahead_limit", 3)


def test_a_snapshot_from_before_the_stall_says_nothing_of_it() -> None:
    log = _log(first=1, second=100)
    log.snapshot(msg_in_replay=0)
    log.now_us += SECOND
    _look_ahead_full(log)
    log.dispatch(2, 6, LOW)
    wait = _stall(replayed(log.rows, settings=NARROW))
    assert (wait.cause, wait.detail["replay_size_reported"]) == ("look_ahead_limit", None)


@pytest.mark.parametrize(("idle_us", "number"), [(SECOND - 1, 0), (SECOND, 1)])
def test_less_than_a_second_is_no_stall(idle_us: int, number: int) -> None:
    log = _log(10, 10)
    _sent(log, 1, 0, HIGH)
    log.publish(1, LOW)
    log.now_us += idle_us
    log.dispatch(2, 1, LOW)
    assert len(replayed(log.rows).waits_of("subscription")) == number


def test_time_without_anything_to_send_is_no_stall() -> None:
    log = _log(10, 10)
    _sent(log, 1, 0, HIGH)
    log.now_us += 9 * SECOND
    log.publish(1, LOW)
    log.now_us += SECOND // 2
    log.dispatch(2, 1, LOW)
    assert replayed(log.rows).waits_of("subscription") == []


def test_what_is_delayed_is_not_to_be_sent_yet() -> None:
    log = _log(10, 10)
    _sent(log, 1, 0, HIGH)
    log.publish(1, LOW, deliver_at_ms=log.now_us // 1000 + 8_500)
    log.now_us += 9 * SECOND
    log.dispatch(2, 1, LOW)
    assert replayed(log.rows).waits_of("subscription") == []


def test_nobody_has_permits() -> None:
    log = _log(1, 1)
    _sent(log, 1, 0, HIGH)
    _sent(log, 2, 1, LOW)
    log.publish(2, HIGH)
    log.publish(3, LOW)
    log.publish(4, LOWEST)
    log.now_us += 2 * SECOND
    log.flow(2, 10)
    log.dispatch(2, 3, LOW)
    wait = _stall(replayed(log.rows))
    # Consumer 2 is waited for by most.
    assert (wait.cause, wait.blocking, wait.detail["with_permits"]) == ("no_permits", 2, 0)
    assert (wait.detail["waiting_for_it"], wait.roots) == (2, ((1, 1),))


def test_everything_waits_for_a_consumer_at_its_limit() -> None:
    log = _log(100, 100)
    for entry in range(3):
        _sent(log, 1, entry, HIGH)
    log.publish(3, HIGH)
    log.now_us += 2 * SECOND
    log.ack(1, 0)
    log.dispatch(1, 3, HIGH)
    wait = _stall(replayed(log.rows, settings={**AUTO_SPLIT, "maxUnackedMessagesPerConsumer": 3}))
    assert (wait.cause, wait.blocking, wait.ended_by) == ("unacked_limit_consumer", 1, "ack")


def _subscription_full(acked_after_us: int) -> Log:
    """Six messages are all that may be unacknowledged; all of them are, and all but two are acknowledged at last."""
    log = _log(100, 100)
    for entry, consumer, key in ((0, 1, HIGH), (1, 2, LOW), (2, 1, HIGH), (3, 2, LOW), (4, 2, LOW), (5, 2, LOW)):
        _sent(log, consumer, entry, key)
    log.publish(6, HIGH)
    log.now_us += acked_after_us
    log.ack(2, 1, 3, 4)
    log.ack(1, 0)
    return log


def test_the_subscription_is_at_its_limit_until_less_than_half_is_left() -> None:
    log = _subscription_full(acked_after_us=2 * SECOND)
    log.dispatch(1, 6, HIGH)
    wait = _stall(replayed(log.rows, settings={**AUTO_SPLIT, "maxUnackedMessagesPerSubscription": 6}))
    # Before the acknowledgements, which leave one entry to each, consumer 2 held most.
    assert (wait.cause, wait.blocking, wait.ended_by) == ("unacked_limit_subscription", 2, "ack")
    assert wait.roots == tuple((1, entry) for entry in range(6))


def test_a_limit_that_was_reached_for_a_moment_only_explains_no_stall() -> None:
    log = _subscription_full(acked_after_us=SECOND // 10)
    log.now_us += 2 * SECOND
    log.dispatch(1, 6, HIGH)
    wait = _stall(replayed(log.rows, settings={**AUTO_SPLIT, "maxUnackedMessagesPerSubscription": 6}))
    assert wait.cause == "unexplained"


def test_everything_waits_for_hashes_that_drain() -> None:
    log = Log(step_us=0)
    log.join(1)
    log.flow(1, 10)
    _sent(log, 1, 0, LOW)
    log.join(2)
    log.flow(2, 10)
    log.publish(1, LOW)
    log.now_us += 2 * SECOND
    log.ack(1, 0)
    goes_on = log.dispatch(2, 1, LOW)
    wait = _stall(replayed(log.rows))
    assert (wait.cause, wait.blocking, wait.entries) == ("draining", 1, 1)
    assert (wait.to_seq, wait.ended_by) == (goes_on, "ack")


def _drained(*more: int) -> Log:
    """LOW has drained from 1 and waits for 2, which is sent the entries `more` of LOWEST, and then nothing."""
    log = Log(step_us=0)
    log.join(1)
    log.flow(1, 10)
    _sent(log, 1, 0, LOW)
    log.join(2)
    log.flow(2, 10)
    log.publish(1, LOW)
    log.ack(1, 0)
    for entry in more:
        log.now_us += SECOND // 2
        _sent(log, 2, entry, LOWEST)
    log.now_us += 2 * SECOND
    log.publish(9, LOW)
    return log


def test_a_stall_of_hashes_that_have_drained_is_found_as_any_other() -> None:
    replay = replayed(_drained().rows)
    wait = _stall(replay)
    assert (wait.cause, wait.blocking, wait.detail["hashes"], wait.ended_by) == ("unexplained", -1, [LOW_HASH], "open")
    assert replay.weighed == {("stalled", "violation"): 1}


def test_a_stall_of_a_drained_hash_that_was_passed_over_before_is_found_with_the_hash() -> None:
    replay = replayed(_drained(2, 3, 4).rows)
    wait = _stall(replay)
    assert (wait.cause, wait.blocking, wait.ended_by) == ("draining_stuck", 1, "open")
    assert replay.weighed == {("draining_stuck", "violation"): 1}


@pytest.mark.parametrize(("version", "severity"), [("4.0.6", "known_bug"), ("4.0.7", "violation")])
def test_a_stall_of_a_hash_that_was_counted_as_draining_twice_has_that_bug(version: str, severity: str) -> None:
    log = Log(step_us=0)
    log.join(1)
    log.flow(1, 10)
    _sent(log, 1, 0, LOW)
    # LOW moves from 1 to 2, back, and to 3 (contract 3.9).
    log.join(2)
    log.leave(2)
    log.join(3)
    log.flow(3, 10)
    log.publish(1, LOW)
    log.ack(1, 0)
    log.now_us += 2 * SECOND
    log.publish(2, LOW)
    assert replayed(log.rows, version=version).weighed == {("stalled", severity): 1}


def test_no_consumer_has_the_hash() -> None:
    log = Log(step_us=0)
    log.join(1, ranges=[(0, 30_000)])
    log.flow(1, 10)
    _sent(log, 1, 0, LOW)
    log.publish(1, HIGH)
    log.now_us += 2 * SECOND
    log.join(2, ranges=[(30_001, 65_535)])
    log.dispatch(2, 1, HIGH)
    wait = _stall(replayed(log.rows))
    assert (wait.cause, wait.blocking, wait.ended_by) == ("no_owner", -1, "join")


def _held_back(*acked: int, version: str) -> Wait:
    """Consumer 2 joined recently; nothing is sent to it, nor the entry after that to 1, which acknowledges some."""
    log = Log(step_us=0)
    log.join(1)
    _sent(log, 1, 0, HIGH)
    _sent(log, 1, 1, HIGH)
    log.join(2)
    log.publish(2, LOW)
    log.publish(3, HIGHEST)
    log.now_us += 2 * SECOND
    log.ack(1, *acked)
    log.dispatch(1, 3, HIGHEST)
    return _stall(replayed(log.rows, version=version))


@pytest.mark.parametrize("version", ["3.0.0", "3.0.4", "3.1.2", "3.2.2"])
def test_recently_joined_consumers_keep_everybody_from_what_is_new(version: str) -> None:
    wait = _held_back(0, version=version)
    assert (wait.cause, wait.blocking, wait.entries, wait.roots) == ("recently_joined", 1, 2, ((1, 0), (1, 1)))


@pytest.mark.parametrize("version", ["3.0.7", "3.3.2"])
def test_where_reads_go_past_replay_they_keep_nobody_else_from_it(version: str) -> None:
    assert _held_back(0, version=version).cause == "unexplained"


def test_who_lets_them_go_was_to_blame() -> None:
    wait = _held_back(0, 1, version="3.0.4")
    assert (wait.cause, wait.blocking) == ("recently_joined", 1)


# A stall that nothing explains is a finding of rule `stalled`.


def _told(replay: Replay) -> list[tuple[str, int]]:
    """Severity and seq of the findings of rule `stalled`."""
    findings = stuck_findings(replay.context)
    return [(one.severity, one.seq) for number in findings if number.rule == "stalled" for one in number.worst]


@pytest.mark.parametrize("permits", [10, None])
def test_what_nothing_explains_is_a_violation_or_not_provable_without_permits(permits: int | None) -> None:
    log = _log(permits, permits)
    last = _sent(log, 1, 0, HIGH)
    log.publish(1, LOW)
    log.now_us += 2 * SECOND
    goes_on = log.dispatch(2, 1, LOW)
    replay = replayed(log.rows)
    wait = _stall(replay)
    assert (wait.cause, wait.blocking, wait.from_seq, wait.to_seq) == ("unexplained", -1, last, goes_on)
    assert wait.detail["with_permits"] == (None if permits is None else 2)
    assert _told(replay) == [("not_provable" if permits is None else "violation", goes_on)]


def test_a_stall_with_a_cause_is_no_finding() -> None:
    log = _look_ahead_full()
    log.flow(1, 10)
    log.dispatch(1, 1, HIGH)
    assert _told(replayed(log.rows, settings=NARROW)) == []


def test_the_limit_counts_the_consumer_that_has_just_joined() -> None:
    log = _log(first=1, second=100)
    _sent(log, 1, 0, HIGH)
    for entry in (1, 2):
        log.publish(entry, HIGH)
    _sent(log, 2, 5, LOW)
    log.publish(6, LOW)
    log.now_us += 2 * SECOND
    log.dispatch(2, 6, LOW)
    # Two in replay are the limit of one consumer; of two consumers it is four.
    waits = replayed(log.rows, settings=NARROW).waits_of("hash")
    assert [wait.cause for wait in waits if wait.hash == LOW_HASH] == ["not_read_yet"]
