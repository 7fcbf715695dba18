"""What rows and snapshots show of why entries that wait in a stall could not be sent, or need not be."""

from typing import Any

import pytest
from local_replay import AUTO_SPLIT, HIGH, LOW, LOWEST, Log, replayed, reported

SECOND_US = 1_000_000
CLASSIC = {**AUTO_SPLIT, "subscriptionKeySharedUseClassicPersistentImplementation": True}


def _one(permits: int = 1_000) -> Log:
    log = Log()
    log.join(1)
    log.flow(1, permits)
    return log


def _two() -> Log:
    """Consumer 1 has HIGH and permits, 2 has LOW and none."""
    log = _one()
    log.join(2)
    log.flow(2, 0)
    return log


def test_what_an_administrator_may_have_skipped_need_not_be_sent() -> None:
    log = _one()
    log.publish(0)
    log.dispatch(1, 0)
    log.publish(1)
    log.reset("skip")
    log.now_us += 3 * SECOND_US
    log.publish(2)
    assert replayed(log.rows).weighed == {}


def test_what_came_back_before_a_skip_need_not_be_sent_again() -> None:
    log = _one()
    log.publish(0)
    log.dispatch(1, 0)
    log.redeliver(1, 0)
    log.reset("skip")
    log.now_us += 3 * SECOND_US
    log.publish(1)
    assert replayed(log.rows).weighed == {}


def test_what_was_sent_and_came_back_after_a_skip_has_to_be_sent_again() -> None:
    log = _one()
    log.publish(0)
    log.reset("skip")
    log.now_us += 2 * SECOND_US
    log.dispatch(1, 0)
    log.redeliver(1, 0)
    log.now_us += 3 * SECOND_US
    log.publish(1)
    assert replayed(log.rows).weighed == {("stalled", "violation"): 1}


def test_what_is_published_after_a_skip_has_to_be_sent() -> None:
    log = _one()
    log.publish(0)
    log.dispatch(1, 0)
    log.reset("skip")
    log.now_us += SECOND_US
    log.publish(1)
    log.now_us += 3 * SECOND_US
    log.publish(2)
    assert replayed(log.rows).weighed == {("stalled", "violation"): 1}


def test_a_snapshot_whose_mark_delete_is_below_an_entry_shows_that_it_was_not_skipped() -> None:
    log = _one()
    log.publish(0)
    log.dispatch(1, 0)
    log.publish(1)
    log.reset("skip")
    log.now_us += 2 * SECOND_US
    log.snapshot(reported(1, available_permits=999), mark_delete_position="1:0", read_position="1:1")
    log.now_us += 2 * SECOND_US
    log.publish(2)
    assert replayed(log.rows).weighed == {("stalled", "known_bug"): 1}


def test_a_delayed_entry_that_may_be_skipped_is_not_passed_over() -> None:
    log = _one()
    log.publish(0, LOW, deliver_at_ms=log.now_us // 1000 + 100)
    log.reset("expire")
    for entry in range(1, 7):
        log.now_us += SECOND_US // 2
        log.publish(entry, HIGH)
        log.dispatch(1, entry, HIGH)
    assert replayed(log.rows).weighed == {}


def test_a_snapshot_that_shows_no_permits_explains_what_flow_rows_do_not() -> None:
    # A limit that no row names withholds what the client asked for.
    log = _one()
    log.publish(0)
    log.now_us += SECOND_US
    log.snapshot(reported(1, available_permits=0, unacked_messages=20))
    log.now_us += SECOND_US
    log.dispatch(1, 0)
    assert replayed(log.rows).weighed == {}


def test_a_snapshot_that_shows_permits_does_not() -> None:
    log = _one()
    log.publish(0)
    log.now_us += SECOND_US
    log.snapshot(reported(1, available_permits=20, unacked_messages=20))
    log.now_us += SECOND_US
    log.dispatch(1, 0)
    assert replayed(log.rows).weighed == {("stalled", "violation"): 1}


def _behind_the_limit(stuck_first: bool) -> Log:
    """Four entries wait for 2, which has no permits, and one for 1, after or before them; the limit is four."""
    log = _two()
    keys = [LOW] * 4 + [HIGH] if stuck_first else [HIGH] + [LOW] * 4
    for entry, key in enumerate(keys):
        log.publish(entry, key)
    log.now_us += 2 * SECOND_US
    log.publish(5, HIGH)
    return log


NARROW = {**AUTO_SPLIT, "keySharedLookAheadMsgInReplayThresholdPerConsumer": 2}


def test_entries_that_cannot_be_sent_and_come_first_fill_replay_without_a_dispatch() -> None:
    assert replayed(_behind_the_limit(stuck_first=True).rows, settings=NARROW).weighed == {}


def test_a_large_read_batch_fills_replay_with_nothing_that_comes_later() -> None:
    assert replayed(_behind_the_limit(stuck_first=False).rows, settings=NARROW).weighed == {("stalled", "violation"): 1}


def test_a_limit_that_was_raised_explains_the_wait_until_then() -> None:
    log = _behind_the_limit(stuck_first=True)
    log.write("settings", settings={"keySharedLookAheadMsgInReplayThresholdPerConsumer": "1000"})
    log.dispatch(1, 4, HIGH)
    assert replayed(log.rows, settings=NARROW).weighed == {}


@pytest.mark.parametrize(
    ("says", "cause"),
    [
        ({"unacked_messages": 4}, "unacked_limit_subscription"),
        # It is read nothing new for until less than half of the limit is left, which is 2.
        ({"unacked_messages": 3, "blocked_subscription_on_unacked_msgs": True}, "unacked_limit_subscription"),
        ({"unacked_messages": 3, "blocked_subscription_on_unacked_msgs": False}, "unexplained"),
    ],
)
def test_a_snapshot_shows_that_the_subscription_is_at_its_limit_after_a_skip(says: dict[str, int], cause: str) -> None:
    # The broker goes on to count what an administrator has skipped.
    limited = {**AUTO_SPLIT, "maxUnackedMessagesPerSubscription": 4}
    log = _one()
    for entry in range(4):
        log.publish(entry)
        log.dispatch(1, entry)
    log.ack(1, 1, 2, 3)
    log.now_us += SECOND_US
    log.publish(4)
    log.now_us += SECOND_US
    log.snapshot(reported(1, available_permits=996), **says)
    log.now_us += SECOND_US
    log.publish(5)
    found = replayed(log.rows, settings=limited)
    assert [wait.cause for wait in found.waits_of("subscription")] == [cause]
    assert (("stalled", "violation") in found.weighed) == (cause == "unexplained")


@pytest.mark.parametrize(("position", "cause"), [("1:4", "unacked_limit_subscription"), ("1:5", "unexplained")])
def test_the_limit_of_the_subscription_does_not_hold_up_what_a_snapshot_shows_to_be_read(
    position: str, cause: str
) -> None:
    log = _one()
    for entry in range(4):
        log.publish(entry)
        log.dispatch(1, entry)
    log.publish(4)
    log.now_us += SECOND_US // 2
    log.snapshot(reported(1, available_permits=996), read_position=position, mark_delete_position="1:-1")
    log.now_us += 2 * SECOND_US
    log.publish(5)
    found = replayed(log.rows, settings={**AUTO_SPLIT, "maxUnackedMessagesPerSubscription": 4})
    assert [wait.cause for wait in found.waits_of("subscription")] == [cause]


def test_it_does_while_the_snapshot_may_show_a_read_that_has_just_ended() -> None:
    log = _one()
    for entry in range(4):
        log.publish(entry)
        log.dispatch(1, entry)
    log.publish(4)
    log.now_us += 2 * SECOND_US
    log.snapshot(reported(1, available_permits=996), read_position="1:5", mark_delete_position="1:-1")
    log.now_us += SECOND_US // 10
    log.publish(5)
    found = replayed(log.rows, settings={**AUTO_SPLIT, "maxUnackedMessagesPerSubscription": 4})
    assert [wait.cause for wait in found.waits_of("subscription")] == ["unacked_limit_subscription"]


@pytest.mark.parametrize(
    ("after_us", "causes"), [(100_000, ["unexplained"]), (2_000_000, ["unexplained", "no_permits"])]
)
def test_what_explains_the_end_of_a_wait_does_not_explain_its_beginning(after_us: int, causes: list[str]) -> None:
    # 1 could have been sent the entry for three seconds; then it leaves, and 3, which gets the hash, has no permits.
    log = _one()
    log.join(2)
    log.publish(0, HIGH)
    log.now_us += 3 * SECOND_US
    log.leave(1)
    log.join(3)
    log.now_us += after_us
    log.publish(1, HIGH)
    found = replayed(log.rows)
    assert found.weighed == {("stalled", "violation"): 1}
    assert [wait.cause for wait in found.waits_of("subscription")] == causes
    first, *rest = found.waits_of("subscription")
    assert [wait.from_seq for wait in rest] == [first.to_seq] * len(rest)


@pytest.mark.parametrize(
    ("waited_us", "stalled"), [(SECOND_US // 2, {}), (3 * SECOND_US, {("stalled", "violation"): 1})]
)
def test_a_skip_does_not_explain_why_nothing_was_sent_before_it(waited_us: int, stalled: dict[Any, int]) -> None:
    log = _one()
    log.publish(0)
    log.now_us += waited_us
    log.reset("skip")
    log.now_us += SECOND_US
    log.publish(1)
    assert replayed(log.rows).weighed == stalled


@pytest.mark.parametrize(("skip", "found"), [("", {}), ("expire", {("stalled", "not_provable"): 1})])
def test_what_may_have_been_skipped_may_fill_replay_or_not(skip: str, found: dict[Any, int]) -> None:
    # LOW waits for its owner's permits and fills replay; HIGH comes later.
    log = _two()
    for entry in range(2):
        log.publish(entry, LOW)
    log.now_us += SECOND_US // 10
    if skip:
        log.reset(skip)
        log.now_us += SECOND_US // 10
    log.publish(3, HIGH)
    log.now_us += 2 * SECOND_US
    log.publish(4, HIGH)
    narrow = {**AUTO_SPLIT, "keySharedLookAheadMsgInReplayThresholdPerConsumer": 1}
    assert replayed(log.rows, settings=narrow).weighed == found


def _newcomer(position: int) -> Log:
    """Consumer 2 joins when 1 holds entry 0 and was sent up to 3; then an entry of 2 waits at a position."""
    log = _one()
    for entry in range(4):
        if entry != position:
            log.publish(entry, HIGH)
            log.dispatch(1, entry, HIGH)
        else:
            log.publish(entry, LOW)
    log.join(2)
    log.flow(2, 100)
    if position > 3:
        log.publish(position, LOW)
    log.now_us += 3 * SECOND_US
    log.publish(10, HIGH)
    return log


def test_a_recently_joined_consumer_gets_nothing_new() -> None:
    found = replayed(_newcomer(4).rows, settings=CLASSIC)
    assert found.weighed == {}
    assert [wait.cause for wait in found.waits_of("subscription")] == ["recently_joined"]


def test_a_recently_joined_consumer_gets_what_was_read_before_it_joined() -> None:
    assert replayed(_newcomer(1).rows, settings=CLASSIC).weighed == {("stalled", "violation"): 1}


def test_without_a_dispatch_that_shows_how_far_was_read_a_join_may_hold_back_its_consumer() -> None:
    log = _one(permits=0)
    for entry in range(3):
        log.publish(entry, LOWEST if entry else HIGH)
    log.join(2)
    log.flow(2, 100)
    log.now_us += 3 * SECOND_US
    log.publish(3, HIGH)
    assert replayed(log.rows, settings=CLASSIC).weighed == {("stalled", "not_provable"): 1}


@pytest.mark.parametrize(
    ("joined_at", "severity"), [("1:1", "violation"), ("1:2", "not_provable"), (None, "not_provable")]
)
def test_a_snapshot_shows_that_nobody_has_joined_recently(joined_at: str | None, severity: str) -> None:
    # Entry 0 is from before the reset: without a snapshot nobody knows whether it holds back who joined after that.
    log = _one()
    log.publish(0, HIGH)
    log.reset("seek")
    for consumer in (2, 3):
        log.join(consumer)
        log.flow(consumer, 100)
    log.publish(1, HIGH)
    log.dispatch(2, 1, HIGH)
    log.ack(2, 1)
    log.publish(2, HIGH)
    log.now_us += SECOND_US
    joined = {} if joined_at is None else {"read_position_when_joining": joined_at}
    log.snapshot(
        *(reported(n, available_permits=90, **joined) for n in (2, 3)), mark_delete_position="1:0", read_position="1:3"
    )
    log.now_us += 2 * SECOND_US
    log.publish(3, HIGH)
    assert replayed(log.rows, settings=CLASSIC).weighed == {("stalled", severity): 1}


@pytest.mark.parametrize(("since_us", "severity"), [(0, "not_provable"), (2 * SECOND_US, "violation")])
def test_what_may_hold_a_newcomer_back_counts_until_lately(since_us: int, severity: str) -> None:
    """Consumer 1 acknowledges the only entry that was sent when 2 joined; then 2 is sent what waits."""
    log = _one()
    log.publish(0, HIGH)
    log.dispatch(1, 0, HIGH)
    log.join(2)
    log.flow(2, 100)
    log.publish(1, LOW)
    log.now_us += 3 * SECOND_US
    log.ack(1, 0)
    log.now_us += since_us
    log.dispatch(2, 1, LOW)
    assert replayed(log.rows, settings=CLASSIC).weighed == {("stalled", severity): 1}


@pytest.mark.parametrize(("read", "weighed"), [(True, {("stalled", "violation"): 1}), (False, {})])
def test_what_was_read_and_is_held_back_takes_no_more_reads(read: bool, weighed: dict[tuple[str, str], int]) -> None:
    """Forty entries are held back from consumer 2 and come before one of 1: to read them may take four seconds."""
    log = _one()
    for entry in range(2):
        log.publish(entry, HIGH)
        log.dispatch(1, entry, HIGH)
    log.join(2)
    log.flow(2, 100)
    for entry in range(2, 42):
        log.publish(entry, LOW)
    log.publish(42, HIGH)
    log.snapshot(read_position="1:42" if read else "1:2", mark_delete_position="1:-1")
    log.now_us += 3 * SECOND_US
    log.publish(43, HIGH)
    assert replayed(log.rows, settings=CLASSIC).weighed == weighed


def test_a_rate_limit_that_comes_into_force_in_a_wait_has_nothing_to_be_paid_for() -> None:
    log = _one()
    for entry in range(20):
        log.publish(entry)
        log.dispatch(1, entry)
    log.publish(20)
    log.now_us += SECOND_US
    log.write("settings", settings={"dispatchThrottlingRatePerTopicInMsg": "10"})
    log.now_us += 3 * SECOND_US // 2
    log.dispatch(1, 20)
    assert replayed(log.rows).weighed == {("stalled", "violation"): 1}
