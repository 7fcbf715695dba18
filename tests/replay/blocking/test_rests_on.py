"""The settings that a stall assumes: those that no row says and that another value of might explain it."""

import json
from typing import Any

import pytest
from local_replay import AUTO_SPLIT, HIGH, HIGHEST, LOW, Log, say, tables_of, two

SECOND_US = 1_000_000
CONSUMER = "maxUnackedMessagesPerConsumer"
SUBSCRIPTION = "maxUnackedMessagesPerSubscription"
RATE = "dispatchThrottlingRate"
LOOK_AHEAD = [
    "keySharedLookAheadMsgInReplayThresholdPerConsumer",
    "keySharedLookAheadMsgInReplayThresholdPerSubscription",
]
NO_RATES = {f"{RATE}{level}In{unit}": 0 for level in ("", "PerTopic", "PerSubscription") for unit in ("Msg", "Byte")}


def hold(log: Log, entries: int) -> None:
    """Consumer 1 is sent so many entries and acknowledges none."""
    for entry in range(entries):
        log.publish(entry, HIGH)
        log.dispatch(1, entry, HIGH)


def stalls(log: Log, **settings: int) -> list[dict[str, Any]]:
    found = tables_of(log.rows, version="4.0.8", settings={**AUTO_SPLIT, **settings}).get("violations", [])
    return [row for row in found if row["rule"] == "stalled"]


def named(log: Log, **settings: int) -> list[str]:
    """The settings that the only stall assumes."""
    (row,) = stalls(log, **settings)
    assert row["severity"] in ("violation", "known_bug")
    return [assumed["setting"] for assumed in row["assumes"] or ()]


def waits(log: Log, position: int, key: bytes, seconds: int = 30) -> None:
    """An entry waits to the end of the trace."""
    log.publish(position, key)
    log.now_us += seconds * SECOND_US
    log.publish(position + 1, key)


@pytest.mark.parametrize(("key", "names"), [(HIGH, [CONSUMER, SUBSCRIPTION]), (LOW, [])])
def test_only_who_holds_something_may_be_at_a_limit(key: bytes, names: list[str]) -> None:
    """What waits for consumer 2, which holds nothing, was read: a later entry was sent."""
    log = two()
    hold(log, 1)
    if key == LOW:
        log.publish(1, LOW)
        log.publish(2, HIGH)
        log.dispatch(1, 2, HIGH)
    waits(log, 3, key)
    assert named(log) == names


def test_a_row_that_says_a_setting_leaves_nothing_to_assume() -> None:
    log = two()
    say(log, **{CONSUMER: 0, SUBSCRIPTION: 0})
    hold(log, 3)
    waits(log, 3, HIGH)
    assert named(log) == []


@pytest.mark.parametrize(("seconds", "names"), [(10, [CONSUMER, RATE]), (30, [CONSUMER])])
def test_a_limit_of_the_rate_may_make_a_short_pause(seconds: int, names: list[str]) -> None:
    log = two()
    say(log, **{SUBSCRIPTION: 0})
    hold(log, 3)
    waits(log, 3, HIGH, seconds)
    assert named(log) == names


def test_rows_that_say_the_limits_of_the_rate_leave_nothing_to_assume_of_them() -> None:
    log = two()
    say(log, **{SUBSCRIPTION: 0, CONSUMER: 0, **NO_RATES})
    hold(log, 3)
    waits(log, 3, HIGH, 10)
    assert named(log) == []


@pytest.mark.parametrize(("in_replay", "names"), [(100, LOOK_AHEAD), (99, [])])
def test_a_replay_of_a_hundred_entries_may_be_at_a_lower_limit(in_replay: int, names: list[str]) -> None:
    log = two(permits=(1, 1_000))
    say(log, **{SUBSCRIPTION: 0, CONSUMER: 0, **NO_RATES})
    hold(log, 1)
    for entry in range(1, in_replay + 1):
        log.publish(entry, HIGH)
    log.publish(in_replay + 1, LOW)
    log.now_us += SECOND_US
    log.snapshot(msg_in_replay=in_replay, read_position=f"1:{in_replay + 1}", mark_delete_position="1:-1")
    log.now_us += SECOND_US
    log.publish(in_replay + 2, LOW)
    assert named(log) == names


def test_who_goes_on_without_giving_up_anything_was_not_blocked() -> None:
    log = two()
    hold(log, 8)
    log.publish(8, HIGH)
    log.now_us += 30 * SECOND_US
    log.dispatch(1, 8, HIGH)
    assert named(log) == []


def test_an_assumption_has_the_value_and_who_gives_it() -> None:
    log = two()
    hold(log, 3)
    waits(log, 3, HIGH)
    (row,) = stalls(log, **{CONSUMER: 9})
    assert row["assumes"] == [
        {"setting": CONSUMER, "value": "9", "source": "claimed"},
        {"setting": SUBSCRIPTION, "value": "200000", "source": "default of 4.0.8"},
    ]
    end = f"{CONSUMER} is 9 (claimed) and {SUBSCRIPTION} is 200,000 (default of 4.0.8)"
    assert str(row["explanation"]).endswith(f", if {end}")


@pytest.mark.parametrize("said", [True, False])
def test_a_stall_that_rests_on_a_value_that_the_broker_contradicts_is_not_provable(said: bool) -> None:
    """A row says the limit, or trace.json does: the broker passes it far after the stall, or before it."""
    log = two()
    say(log, **{SUBSCRIPTION: 0})
    if said:
        say(log, **{CONSUMER: 4})
        hold(log, 12)
        waits(log, 12, HIGH)
    else:
        hold(log, 3)
        log.publish(20, HIGH)
        log.now_us += 30 * SECOND_US
        log.ack(1, 0)
        for entry in range(20, 35):
            log.publish(entry + 1, HIGH)
            log.dispatch(1, entry, HIGH)
    (row, *_) = stalls(log, **{CONSUMER: 4})
    assert row["severity"] == "not_provable"
    assert CONSUMER in str(row["explanation"])
    assert row["assumes"] is None


def test_a_hash_that_is_passed_over_rests_on_the_limit_of_who_holds_something() -> None:
    log = two()
    hold(log, 4)
    log.publish(4, HIGH)
    for entry in range(5, 12):
        log.publish(entry, HIGHEST)
        log.dispatch(1, entry, HIGHEST)
        log.ack(1, entry)
        log.now_us += SECOND_US // 2
    log.dispatch(1, 4, HIGH)
    (row,) = stalls(log)
    assert [of["setting"] for of in row["assumes"]] == [CONSUMER]
    assert "rests_on" not in json.loads(str(row["detail"]))
