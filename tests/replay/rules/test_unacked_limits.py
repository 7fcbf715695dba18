"""The limits of unacknowledged messages: of the subscription, and where the broker does not have what is claimed."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from local_replay import AUTO_SPLIT, HIGH, LOW, Log, Replay, replayed, reported, send, tables_of

from dispatch_audit.pipeline.replay.rules.limit_of_consumer import IN_FLIGHT_US

PER_CONSUMER = {**AUTO_SPLIT, "maxUnackedMessagesPerConsumer": 4}
PER_SUBSCRIPTION = {**AUTO_SPLIT, "maxUnackedMessagesPerSubscription": 6, "dispatcherMaxReadBatchSize": 3}
HELD_BACK_US = 20_000


def severities(replay: Replay) -> list[str]:
    return [verdict.severity for (rule, _), verdict in replay.verdicts.items() if rule == "unacked_limit"]


@pytest.fixture
def log() -> Log:
    log = Log()
    log.join(1)
    return log


# A claimed limit of a consumer that is not the broker's.


def past_the_limit(log: Log, first: int) -> int:
    """The consumer gets six entries and acknowledges them; returns the next entry."""
    send(log, range(first, first + 6))
    log.ack(1, *range(first, first + 6))
    return first + 6


def held_back_at_the_limit(log: Log, first: int, deliver_at_ms: int | None = None) -> int:
    """The consumer gets four entries, and the fifth when it has acknowledged one; returns the next entry."""
    send(log, range(first, first + 4))
    log.publish(first + 4, deliver_at_ms=deliver_at_ms)
    log.now_us += HELD_BACK_US
    log.ack(1, first)
    log.dispatch(1, first + 4)
    log.ack(1, *range(first + 1, first + 5))
    return first + 5


def mismatches(log: Log) -> list[dict[str, Any]]:
    found = tables_of(log.rows, settings=PER_CONSUMER).get("violations", [])
    return [row for row in found if row["rule"] == "settings_mismatch"]


def test_a_limit_that_the_broker_passes_again_and_again_is_not_its_own(log: Log) -> None:
    entry = 0
    for _ in range(5):
        entry = past_the_limit(log, entry)
    replay = replayed(log.rows, settings=PER_CONSUMER)
    assert set(severities(replay)) == {"not_provable"}
    (row,) = mismatches(log)
    assert row["severity"] == "not_provable"
    detail = json.loads(str(row["detail"]))
    assert detail["setting"] == "maxUnackedMessagesPerConsumer"
    assert (detail["claimed"], detail["claimed_by"], detail["shown"]) == ("4", "trace.json", "at least 6")
    # It is judged by no more.
    assert len(severities(replay)) == 5


def test_a_single_pass_of_a_limit_that_nobody_vouches_for_is_not_provable(log: Log) -> None:
    past_the_limit(log, 0)
    replay = replayed(log.rows, settings=PER_CONSUMER)
    assert severities(replay) == ["not_provable"] * 2
    assert all("nobody recorded may have raised it" in verdict.because for verdict in replay.verdicts.values())
    assert mismatches(log) == []


@pytest.mark.parametrize("said", [False, True])
def test_each_later_read_passes_a_limit_again_that_no_row_says(log: Log, said: bool) -> None:
    if said:
        say(log, 4)
    send(log, range(4))
    for entry in range(4, 7):
        log.now_us += IN_FLIGHT_US
        send(log, [entry])
    assert severities(replayed(log.rows, settings=PER_CONSUMER)) == ["violation" if said else "not_provable"] * 3
    assert len(mismatches(log)) == (not said)


@pytest.mark.parametrize("held_back", [1, 2])
def test_a_broker_that_holds_back_at_a_limit_three_times_keeps_it(log: Log, held_back: int) -> None:
    entry = held_back_at_the_limit(log, 0)
    entry = past_the_limit(log, entry)
    for _ in range(held_back):
        entry = held_back_at_the_limit(log, entry)
    expected = "violation" if held_back == 2 else "not_provable"
    assert severities(replayed(log.rows, settings=PER_CONSUMER)) == [expected] * 2


@pytest.mark.parametrize(("held_back", "expected"), [(1, "not_provable"), (2, "violation")])
def test_a_single_time_after_a_pass_may_be_a_wait_for_something_else(log: Log, held_back: int, expected: str) -> None:
    """The broker had the limit before; a policy that nobody recorded may have raised it."""
    entry = 0
    for _ in range(6):
        entry = held_back_at_the_limit(log, entry)
    entry = past_the_limit(log, entry)
    for _ in range(held_back):
        entry = held_back_at_the_limit(log, entry)
    assert severities(replayed(log.rows, settings=PER_CONSUMER)) == [expected] * 2


def test_what_is_delayed_does_not_wait_for_the_limit(log: Log) -> None:
    """It is sent when the tracker of delayed messages gives it out, at any time after it is due."""
    entry = held_back_at_the_limit(log, 0)
    entry = past_the_limit(log, entry)
    for _ in range(2):
        entry = held_back_at_the_limit(log, entry, log.now_us // 1_000)
    assert severities(replayed(log.rows, settings=PER_CONSUMER)) == ["not_provable"] * 2


def test_what_a_rate_limit_may_have_held_back_vouches_for_no_limit_of_a_consumer(log: Log) -> None:
    entry = held_back_at_the_limit(log, 0)
    entry = past_the_limit(log, entry)
    for _ in range(2):
        entry = held_back_at_the_limit(log, entry)
    settings = {**PER_CONSUMER, "dispatchThrottlingRatePerSubscriptionInMsg": 40}
    assert set(severities(replayed(log.rows, settings=settings))) == {"not_provable"}


@pytest.mark.parametrize(("messages", "severity"), [(1, "violation"), (5, "not_provable")])
def test_where_batches_took_a_consumer_further_a_higher_limit_may_have_held_it_back(
    log: Log, messages: int, severity: str
) -> None:
    """It is held back at four messages or at eight, before and after; six are below a limit of seven or eight."""
    for entry in (0, 5, 20, 25):
        send(log, range(entry, entry + 3))
        log.publish(entry + 3, batch_size=messages)
        log.dispatch(1, entry + 3)
        log.publish(entry + 4)
        log.now_us += HELD_BACK_US
        log.ack(1, *range(entry, entry + 4))
        log.dispatch(1, entry + 4)
        log.ack(1, entry + 4)
        if entry == 5:
            send(log, range(10, 14))
            log.now_us += 10 * HELD_BACK_US
            send(log, range(14, 16))
            log.ack(1, *range(10, 16))
    assert severities(replayed(log.rows, settings=PER_CONSUMER)) == [severity] * 2


@pytest.mark.parametrize(("permits", "severity"), [(100, "violation"), (0, "not_provable")])
def test_a_consumer_that_has_no_permits_does_not_wait_for_its_limit(log: Log, permits: int, severity: str) -> None:
    # It asks for as much as it was sent, and only when it acknowledges; `permits` are those that it has besides.
    log.flow(1, 4 + permits)
    entry = 0
    for _ in range(4):
        send(log, range(entry, entry + 4))
        log.publish(entry + 4)
        log.now_us += HELD_BACK_US
        log.ack(1, *range(entry, entry + 4))
        log.flow(1, 5)
        log.dispatch(1, entry + 4)
        log.ack(1, entry + 4)
        if entry == 5:
            log.flow(1, 2)
            past_the_limit(log, 30)
            log.flow(1, 4)
        entry += 5
    assert severities(replayed(log.rows, settings=PER_CONSUMER)) == [severity] * 2


@pytest.mark.parametrize("first", [True, False])
def test_before_and_after_the_broker_held_back_a_policy_may_have_given_another_limit(log: Log, first: bool) -> None:
    entry = 0 if first else past_the_limit(log, 0)
    for _ in range(3):
        entry = held_back_at_the_limit(log, entry)
    if first:
        past_the_limit(log, entry)
    assert severities(replayed(log.rows, settings=PER_CONSUMER)) == ["not_provable"] * 2


@pytest.mark.parametrize(("after", "severity"), [(False, "violation"), (True, "not_provable")])
def test_who_is_blocked_stays_so_after_a_policy_has_raised_the_limit(log: Log, after: bool, severity: str) -> None:
    log.join(2)
    entry = 0
    for _ in range(2):
        entry = held_back_at_the_limit(log, entry)
    if not after:
        _past_the_limit_of_the_other(log)
        entry = held_back_at_the_limit(log, entry)
    send(log, range(entry, entry + 4))
    log.publish(entry + 4)
    if after:
        _past_the_limit_of_the_other(log)
    log.now_us += HELD_BACK_US
    log.ack(1, entry)
    log.dispatch(1, entry + 4)
    assert severities(replayed(log.rows, settings=PER_CONSUMER)) == [severity] * 2


def _past_the_limit_of_the_other(log: Log) -> None:
    for entry in range(50, 56):
        log.publish(entry, LOW)
        log.dispatch(2, entry, LOW)


def say(log: Log, limit: int, name: str = "maxUnackedMessagesPerConsumer") -> None:
    log.write("settings", settings=[(name, str(limit))])


def passed_once(log: Log, *, before_us: int = 1_500_000, after_us: int = 1_500_000, beyond: int = 1) -> None:
    """A consumer at its limit of four is sent more after a while, and the rest a while later, below the limit."""
    log.join(2)
    log.flow(1, 100)
    log.flow(2, 100)
    for entry in range(8):
        log.publish(entry, HIGH)
    for entry in range(4):
        log.dispatch(1, entry, HIGH)
    # The broker reads on, and so shows that it has read what waits.
    _to_the_other(log, 20)
    log.now_us += before_us
    for entry in range(4, 4 + beyond):
        log.dispatch(1, entry, HIGH)
    log.now_us += after_us
    log.ack(1, *range(4 + beyond))
    log.dispatch(1, 4 + beyond, HIGH)


def _to_the_other(log: Log, entry: int) -> None:
    log.publish(entry, LOW)
    log.dispatch(2, entry, LOW)
    log.ack(2, entry)


def test_between_two_long_times_of_holding_back_one_pass_breaks_the_limit(log: Log) -> None:
    passed_once(log)
    assert severities(replayed(log.rows, settings=PER_CONSUMER)) == ["violation"]


def test_what_waits_long_under_a_rate_limit_frames_no_pass(log: Log) -> None:
    passed_once(log)
    settings = {**PER_CONSUMER, "dispatchThrottlingRatePerSubscriptionInMsg": 40}
    assert severities(replayed(log.rows, settings=settings)) == ["not_provable"]


@pytest.mark.parametrize(
    "otherwise",
    [
        pytest.param({"before_us": 500_000}, id="it-was-hardly-at-the-limit"),
        pytest.param({"after_us": 500_000}, id="a-policy-may-have-raised-it-in-that-moment"),
        pytest.param({"beyond": 2}, id="a-policy-may-have-raised-it-by-two"),
    ],
)
def test_without_both_or_further_a_policy_may_have_raised_it(log: Log, otherwise: dict[str, int]) -> None:
    passed_once(log, **otherwise)
    assert set(severities(replayed(log.rows, settings=PER_CONSUMER))) == {"not_provable"}


def test_a_row_vouches_for_the_limit_from_there_on(log: Log) -> None:
    entry = past_the_limit(log, 0)
    say(log, 4)
    past_the_limit(log, entry)
    assert severities(replayed(log.rows, settings=PER_CONSUMER)) == ["not_provable"] * 2 + ["violation"] * 2


def test_what_the_broker_holds_back_at_a_later_limit_vouches_for_no_former_one(log: Log) -> None:
    entry = past_the_limit(log, 0)
    say(log, 5)
    say(log, 4)
    for _ in range(3):
        entry = held_back_at_the_limit(log, entry)
    assert severities(replayed(log.rows, settings=PER_CONSUMER)) == ["not_provable"] * 2


def test_a_limit_that_the_broker_passes_once_and_far_is_not_its_own(log: Log) -> None:
    send(log, range(12))
    assert set(severities(replayed(log.rows, settings=PER_CONSUMER))) == {"not_provable"}
    assert len(mismatches(log)) == 1


@pytest.mark.parametrize("far", [6, 12])
@pytest.mark.parametrize(("fewer", "severity"), [(0, "violation"), (1, "not_provable")])
def test_a_limit_at_which_the_broker_holds_back_as_often_is_broken(
    log: Log, far: int, fewer: int, severity: str
) -> None:
    entry, beyond = 0, 3 * (far - 4)
    for _ in range(beyond - 2 - fewer):
        entry = held_back_at_the_limit(log, entry)
    for _ in range(3):
        send(log, range(entry, entry + far))
        log.ack(1, *range(entry, entry + far))
        entry += far
    for _ in range(2):
        entry = held_back_at_the_limit(log, entry)
    found = severities(replayed(log.rows, settings=PER_CONSUMER))
    assert (set(found), len(found)) == ({severity}, beyond)
    assert mismatches(log) == []


def test_a_snapshot_with_more_is_evidence(log: Log) -> None:
    entry = past_the_limit(log, 0)
    entry = past_the_limit(log, entry)
    send(log, range(entry, entry + 5))
    at = log.rows[-1]["seq"]
    seq = log.snapshot(reported(1, unacked_messages=5), seq_begin=at, seq_end=at)
    log.ack(1, *range(entry, entry + 5))
    past_the_limit(log, entry + 5)
    (row,) = mismatches(log)
    # The third time completes the evidence, before the snapshot.
    assert row["seq"] < seq


def test_nothing_waits_for_a_limit_that_the_broker_does_not_have(log: Log) -> None:
    entry = 0
    for _ in range(3):
        entry = past_the_limit(log, entry)
    send(log, range(entry, entry + 5))
    log.publish(entry + 5)
    log.now_us += 500_000
    log.ack(1, entry, entry + 1)
    log.dispatch(1, entry + 5)
    replay = replayed(log.rows, settings=PER_CONSUMER)
    assert [wait.cause for wait in replay.waits_of("consumer")] == []
    assert "unacked_limit_consumer" not in {wait.cause for wait in replay.waits_of("hash")}


def test_another_limit_is_judged_by_again(log: Log) -> None:
    entry = 0
    for _ in range(3):
        entry = past_the_limit(log, entry)
    log.write("settings", settings=[("maxUnackedMessagesPerConsumer", "7")])
    *_, eighth = send(log, range(entry, entry + 8))
    replay = replayed(log.rows, settings=PER_CONSUMER)
    verdicts = {seq: verdict.severity for (rule, seq), verdict in replay.verdicts.items() if rule == "unacked_limit"}
    assert verdicts.pop(eighth) == "violation"
    assert set(verdicts.values()) == {"not_provable"}


# The limit of the subscription: nothing new is read while it is reached (4.2 step 8).


def full(log: Log) -> None:
    """A row says the limit of six, and the subscription reaches it; a moment later entries are published."""
    say(log, 6, "maxUnackedMessagesPerSubscription")
    send(log, range(6))
    log.now_us += 100_000


def later(log: Log, number: int) -> list[int]:
    for entry in range(6, 6 + number):
        log.publish(entry)
    return [log.dispatch(1, entry) for entry in range(6, 6 + number)]


def test_one_read_in_flight_is_no_finding_and_more_is(log: Log) -> None:
    full(log)
    seqs = later(log, 5)
    found = replayed(log.rows, settings=PER_SUBSCRIPTION)
    assert [seq for rule, seq in found.verdicts if rule == "unacked_limit"] == seqs[3:]
    assert set(severities(found)) == {"violation"}
    (row, _) = (r for r in tables_of(log.rows, settings=PER_SUBSCRIPTION)["violations"] if r["rule"] == "unacked_limit")
    assert "maxUnackedMessagesPerSubscription is 6" in str(row["explanation"])


def test_entries_that_were_published_before_may_have_been_read_before(log: Log) -> None:
    for entry in range(20):
        log.publish(entry)
    for entry in range(11):
        log.dispatch(1, entry)
    assert severities(replayed(log.rows, settings=PER_SUBSCRIPTION)) == []


def test_a_limit_of_the_subscription_that_nobody_vouches_for_may_be_another_one(log: Log) -> None:
    send(log, range(6))
    log.now_us += 100_000
    later(log, 5)
    assert severities(replayed(log.rows, settings=PER_SUBSCRIPTION)) == ["not_provable"] * 2


def test_a_snapshot_shows_what_had_not_been_read(log: Log) -> None:
    say(log, 6, "maxUnackedMessagesPerSubscription")
    for entry in range(20):
        log.publish(entry)
    for entry in range(6):
        log.dispatch(1, entry)
    log.now_us += 500_000
    at = log.flow(1, 100)
    log.snapshot(read_position="1:6", seq_begin=at, seq_end=at)
    log.now_us += 500_000
    for entry in range(6, 11):
        log.dispatch(1, entry)
    assert severities(replayed(log.rows, settings=PER_SUBSCRIPTION)) == ["violation"] * 2


def test_what_is_sent_again_is_a_replay_read_and_ignores_the_limit(log: Log) -> None:
    full(log)
    log.redeliver(1, 0, 1)
    for entry in (0, 1):
        log.dispatch(1, entry, count=1)
    assert severities(replayed(log.rows, settings=PER_SUBSCRIPTION)) == []


def test_below_half_of_its_limit_the_subscription_reads_again(log: Log) -> None:
    full(log)
    log.ack(1, 0, 1, 2, 3)
    later(log, 4)
    assert severities(replayed(log.rows, settings=PER_SUBSCRIPTION)) == []


@pytest.mark.parametrize(("number", "found"), [(3, []), (4, ["not_provable"])])
def test_after_a_skip_only_what_was_sent_since_stops_it_again(log: Log, number: int, found: list[str]) -> None:
    # The broker may have dropped all six, so six more reach the limit anew, and one read of three may be in flight.
    full(log)
    log.reset("skip")
    log.now_us += 2_000_000
    send(log, range(20, 26))
    log.now_us += 100_000
    send(log, range(26, 26 + number))
    assert severities(replayed(log.rows, settings=PER_SUBSCRIPTION)) == found


def test_after_a_consumer_left_with_messages_the_count_of_the_broker_is_not_certain(log: Log) -> None:
    log.join(2)
    log.publish(50, b"key-1")
    log.dispatch(2, 50, b"key-1")
    log.leave(2)
    log.dispatch(1, 50, b"key-1")
    for entry in range(6):
        log.publish(entry, b"key-0")
        log.dispatch(1, entry, b"key-0")
    log.now_us += 100_000
    for entry in range(6, 11):
        log.publish(entry, b"key-0")
    for entry in range(6, 11):
        log.dispatch(1, entry, b"key-0")
    found = severities(replayed(log.rows, settings=PER_SUBSCRIPTION))
    assert set(found) == {"not_provable"}


def test_a_limit_of_the_subscription_that_the_broker_passes_far_is_not_its_own(log: Log) -> None:
    full(log)
    later(log, 20)
    found = replayed(log.rows, settings=PER_SUBSCRIPTION)
    assert set(severities(found)) == {"not_provable"}
    tables = tables_of(log.rows, settings=PER_SUBSCRIPTION)
    (row,) = (r for r in tables["violations"] if r["rule"] == "settings_mismatch")
    assert json.loads(str(row["detail"]))["setting"] == "maxUnackedMessagesPerSubscription"
    assert "unacked_limit_subscription" not in {wait["cause"] for wait in tables.get("blocking", [])}


def held_back_at(log: Log, entry: int, most: int) -> int:
    """Consumer 1 is sent what was published at one time, and one more only when it has acknowledged all of that."""
    for number in range(entry, entry + most):
        log.publish(number)
    for number in range(entry, entry + most):
        log.dispatch(1, number)
    log.publish(entry + most)
    log.now_us += 100_000
    log.ack(1, *range(entry, entry + most))
    log.dispatch(1, entry + most)
    log.ack(1, entry + most)
    return entry + most + 1


def waits_in_replay(log: Log, entry: int, most: int) -> int:
    """The same, but the one that waits comes before the others, so that it was read."""
    log.publish(entry)
    send(log, range(entry + 1, entry + 1 + most))
    log.now_us += 100_000
    log.ack(1, *range(entry + 1, entry + 1 + most))
    log.dispatch(1, entry)
    log.ack(1, entry)
    return entry + most + 1


def passed_between(log: Log, most: int, waits: Callable[[Log, int, int], int] = held_back_at) -> list[str]:
    """More is read at nine messages; entries wait at so many twice before that and twice after."""
    entry = waits(log, waits(log, 0, most), most)
    send(log, range(entry, entry + 6))
    log.now_us += 100_000
    for number in range(entry + 6, entry + 11):
        log.publish(number)
    for number in range(entry + 6, entry + 11):
        log.dispatch(1, number)
    log.ack(1, *range(entry, entry + 11))
    waits(log, waits(log, entry + 11, most), most)
    return severities(replayed(log.rows, settings=PER_SUBSCRIPTION))


@pytest.mark.parametrize(("most", "severity"), [(6, "violation"), (9, "not_provable")])
def test_a_broker_that_holds_back_at_as_much_as_it_passed_has_a_higher_limit(
    log: Log, most: int, severity: str
) -> None:
    assert passed_between(log, most) == [severity] * 2


def test_what_was_read_waits_for_something_else_than_the_limit(log: Log) -> None:
    assert passed_between(log, 6, waits_in_replay) == ["not_provable"] * 2


@pytest.mark.parametrize(("to", "found"), [(8, []), (7, ["violation"])])
def test_in_the_bracket_of_a_change_one_read_may_go_beyond_either_limit(log: Log, to: int, found: list[str]) -> None:
    full(log)
    begin = len(log.rows)
    later(log, 5)
    log.now_us += 30_000_000
    say(log, to, "maxUnackedMessagesPerSubscription")
    log.rows[-1]["seq_begin"] = begin
    assert severities(replayed(log.rows, settings=PER_SUBSCRIPTION)) == found
