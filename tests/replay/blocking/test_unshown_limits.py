"""Limits that no row shows: a stall that one may explain is not provable."""

import json

import pytest
from local_replay import AUTO_SPLIT, HIGH, LOW, Log, replayed, tables_of

SECOND_US = 1_000_000
PER_CONSUMER = "maxUnackedMessagesPerConsumer"


def two() -> Log:
    """Two consumers with permits; 1 owns HIGH and 2 owns LOW."""
    log = Log()
    log.join(1)
    log.join(2)
    log.flow(1, 1_000)
    log.flow(2, 1_000)
    return log


def say(log: Log, **settings: int) -> None:
    log.write("settings", settings={name: json.dumps(value) for name, value in settings.items()})


def hold(log: Log, entries: int) -> None:
    """Consumer 1 is sent so many entries and acknowledges none."""
    for entry in range(entries):
        log.publish(entry, HIGH)
        log.dispatch(1, entry, HIGH)


def waits_for_long(log: Log, position: int, key: bytes) -> None:
    """An entry waits to the end of the trace."""
    log.publish(position, key)
    log.now_us += 2 * SECOND_US
    log.publish(position + 1, key)


def unshown(log: Log, **settings: int) -> list[str]:
    """Severity of each stall, and the limit that may explain it."""
    found = tables_of(log.rows, settings={**AUTO_SPLIT, **settings}).get("violations", [])
    return [
        f"{row['severity']} {json.loads(str(row['detail']))['unshown']}".strip()
        for row in found
        if row["rule"] == "stalled"
    ]


@pytest.mark.parametrize(("held", "expected"), [(3, "not_provable unacked_limit_consumer"), (2, "violation")])
def test_a_consumer_that_holds_as_much_as_ever_may_be_at_a_limit(held: int, expected: str) -> None:
    log = two()
    hold(log, held)
    waits_for_long(log, held, HIGH)
    assert unshown(log) == [expected]


def test_a_row_that_says_the_limit_leaves_no_doubt() -> None:
    log = two()
    say(log, **{PER_CONSUMER: 0})
    hold(log, 3)
    waits_for_long(log, 3, HIGH)
    assert unshown(log) == ["violation"]


def test_who_holds_nothing_is_at_no_limit() -> None:
    log = two()
    hold(log, 3)
    waits_for_long(log, 3, LOW)
    assert unshown(log) == ["violation"]


@pytest.mark.parametrize(("held", "expected"), [(3, "not_provable unacked_limit_subscription"), (2, "violation")])
def test_a_subscription_at_half_of_its_limit_may_have_reached_it(held: int, expected: str) -> None:
    log = two()
    hold(log, held)
    waits_for_long(log, held, LOW)
    assert unshown(log, maxUnackedMessagesPerSubscription=6) == [expected]


@pytest.mark.parametrize(("delayed", "expected"), [(4, "not_provable look_ahead_limit"), (3, "violation")])
def test_delayed_entries_of_who_has_no_permits_may_be_in_replay(delayed: int, expected: str) -> None:
    log = Log()
    log.join(1)
    log.join(2)
    log.flow(1, 1)
    log.flow(2, 1_000)
    hold(log, 1)
    for entry in range(1, delayed + 1):
        log.publish(entry, HIGH, deliver_at_ms=log.now_us // 1000 + 60_000)
    waits_for_long(log, delayed + 1, LOW)
    assert unshown(log, keySharedLookAheadMsgInReplayThresholdPerSubscription=4) == [expected]


@pytest.mark.parametrize(("in_replay", "doubted"), [(100, True), (99, False)])
def test_a_replay_of_a_hundred_entries_may_be_at_a_lower_limit(in_replay: int, doubted: bool) -> None:
    log = Log()
    log.join(1)
    log.join(2)
    log.flow(1, 1)
    log.flow(2, 1_000)
    hold(log, 1)
    for entry in range(1, in_replay + 1):
        log.publish(entry, HIGH)
    log.publish(in_replay + 1, LOW)
    log.now_us += SECOND_US
    log.snapshot(msg_in_replay=in_replay, read_position=f"1:{in_replay + 1}", mark_delete_position="1:-1")
    log.now_us += SECOND_US
    log.publish(in_replay + 2, LOW)
    (said,) = unshown(log)
    assert ("lower_look_ahead_limit" in said) == doubted


def test_a_hash_is_not_passed_over_before_its_first_entry_came_back() -> None:
    log = two()
    log.publish(0, HIGH)
    log.dispatch(1, 0, HIGH)
    log.publish(1, HIGH)
    log.now_us += 2 * SECOND_US
    log.publish(2, LOW)
    log.dispatch(2, 2, LOW)
    log.redeliver(1, 0)
    log.leave(1)
    assert [(seen.hash, seen.head) for seen in replayed(log.rows).passed_over if seen.head == (1, 0)] == []


@pytest.mark.parametrize(("held", "expected"), [(20, "not_provable unacked_limit_subscription"), (19, "violation")])
def test_a_subscription_that_holds_what_it_was_read_with_may_be_at_a_limit(held: int, expected: str) -> None:
    log = two()
    hold(log, held)
    waits_for_long(log, held, LOW)
    assert unshown(log) == [expected]


def test_a_limit_may_have_come_after_the_most_that_a_consumer_held() -> None:
    log = two()
    hold(log, 20)
    log.ack(1, *range(20))
    log.publish(20, HIGH)
    for entry in (21, 22, 23):
        log.publish(entry, HIGH)
        log.dispatch(1, entry, HIGH)
    log.now_us += 2 * SECOND_US
    log.publish(24, LOW)
    assert unshown(log) == ["not_provable unacked_limit_consumer"]


@pytest.mark.parametrize(("skips", "expected"), [(True, []), (False, ["violation"])])
def test_the_broker_may_count_on_what_was_skipped_while_it_was_held(skips: bool, expected: list[str]) -> None:
    log = two()
    say(log, **{PER_CONSUMER: 5})
    hold(log, 5)
    if skips:
        log.reset("skip")
    log.ack(1, *range(5))
    waits_for_long(log, 5, HIGH)
    assert [found for found in unshown(log) if found == "violation"] == expected
