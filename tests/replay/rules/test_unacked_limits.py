"""The limits of unacknowledged messages: of the subscription, and where the broker does not have what is claimed."""

import json
from typing import Any

import pytest
from local_replay import AUTO_SPLIT, Log, Replay, replayed, reported, send, tables_of

from dispatch_audit.pipeline.replay.durations import READ_AND_PAUSE_US

PER_CONSUMER = {**AUTO_SPLIT, "maxUnackedMessagesPerConsumer": 4}
PER_SUBSCRIPTION = {**AUTO_SPLIT, "maxUnackedMessagesPerSubscription": 6, "dispatcherMaxReadBatchSize": 3}


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


@pytest.mark.parametrize("said", [False, True])
def test_a_single_pass_names_the_limit_that_no_row_says(log: Log, said: bool) -> None:
    if said:
        say(log, 4)
    past_the_limit(log, 0)
    found = tables_of(log.rows, settings=PER_CONSUMER)["violations"]
    assert [(row["rule"], row["severity"]) for row in found] == [("unacked_limit", "violation")] * 2
    taken = {"setting": "maxUnackedMessagesPerConsumer", "value": "4", "source": "claimed"}
    assert [row["assumes"] for row in found] == [None if said else [taken]] * 2


@pytest.mark.parametrize("said", [False, True])
def test_each_later_read_passes_a_limit_again_that_no_row_says(log: Log, said: bool) -> None:
    if said:
        say(log, 4)
    send(log, range(4))
    for entry in range(4, 7):
        log.now_us += READ_AND_PAUSE_US
        send(log, [entry])
    assert severities(replayed(log.rows, settings=PER_CONSUMER)) == ["violation" if said else "not_provable"] * 3
    assert len(mismatches(log)) == (not said)


def say(log: Log, limit: int, name: str = "maxUnackedMessagesPerConsumer") -> None:
    log.write("settings", settings=[(name, str(limit))])


def test_a_row_says_the_limit_from_there_on(log: Log) -> None:
    entry = past_the_limit(log, 0)
    say(log, 4)
    past_the_limit(log, entry)
    found = tables_of(log.rows, settings=PER_CONSUMER)["violations"]
    assert sorted(row["assumes"] is None for row in found) == [False] * 2 + [True] * 2


def test_a_limit_that_the_broker_passes_once_and_far_is_not_its_own(log: Log) -> None:
    send(log, range(12))
    assert set(severities(replayed(log.rows, settings=PER_CONSUMER))) == {"not_provable"}
    assert len(mismatches(log)) == 1


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


@pytest.mark.parametrize(("held", "found"), [(7, ["violation"] * 2), (6, [])])
def test_a_lowered_limit_stops_nothing_before_the_number_changes(log: Log, held: int, found: list[str]) -> None:
    """One of the messages is acknowledged after a row has said a limit of six."""
    say(log, 0, "maxUnackedMessagesPerSubscription")
    send(log, range(held))
    say(log, 6, "maxUnackedMessagesPerSubscription")
    log.ack(1, 0)
    log.now_us += 100_000
    for entry in range(7, 12):
        log.publish(entry)
    for entry in range(7, 12):
        log.dispatch(1, entry)
    assert severities(replayed(log.rows, settings=PER_SUBSCRIPTION)) == found


def test_entries_that_were_published_before_may_have_been_read_before(log: Log) -> None:
    for entry in range(20):
        log.publish(entry)
    for entry in range(11):
        log.dispatch(1, entry)
    assert severities(replayed(log.rows, settings=PER_SUBSCRIPTION)) == []


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


@pytest.mark.parametrize("to", [8, 7])
def test_in_the_bracket_of_a_change_nothing_is_beyond_the_limit_that_changes(log: Log, to: int) -> None:
    full(log)
    begin = len(log.rows)
    later(log, 5)
    log.now_us += 30_000_000
    say(log, to, "maxUnackedMessagesPerSubscription")
    log.rows[-1]["seq_begin"] = begin
    assert severities(replayed(log.rows, settings=PER_SUBSCRIPTION)) == []
