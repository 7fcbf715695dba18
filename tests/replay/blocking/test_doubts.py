"""What rows leave open although they say the settings: a stall that it may explain is not provable."""

import json

import pytest
from local_replay import (
    AUTO_SPLIT,
    HIGH,
    HIGHEST,
    LOW,
    LOWEST,
    NO_RATES,
    Log,
    replayed,
    reported,
    say,
    tables_of,
    two,
)

SECOND_US = 1_000_000
PER_CONSUMER = "maxUnackedMessagesPerConsumer"


def hold(log: Log, entries: int) -> None:
    """Consumer 1 is sent so many entries and acknowledges none."""
    for entry in range(entries):
        log.publish(entry, HIGH)
        log.dispatch(1, entry, HIGH)


def waits_for_long(log: Log, position: int, key: bytes) -> None:
    """An entry waits to the end of the trace."""
    log.publish(position, key)
    log.now_us += 3 * SECOND_US
    log.publish(position + 1, key)


def doubted(log: Log, version: str = "4.0.8", **settings: int) -> list[str]:
    """Severity of each stall, and the doubt that may explain it."""
    found = tables_of(log.rows, version=version, settings={**AUTO_SPLIT, **settings}).get("violations", [])
    return [
        f"{row['severity']} {json.loads(str(row['detail']))['doubt']}".strip()
        for row in found
        if row["rule"] == "stalled"
    ]


@pytest.mark.parametrize("at_first", [True, False])
def test_a_row_that_says_the_limit_leaves_no_doubt(at_first: bool) -> None:
    log = two()
    if at_first:
        say(log, **{PER_CONSUMER: 0})
    hold(log, 3)
    if not at_first:
        say(log, **{PER_CONSUMER: 0})
        log.ack(1, 0)
    waits_for_long(log, 3, HIGH)
    assert doubted(log) == ["violation"]


@pytest.mark.parametrize(
    ("acked", "expected"), [([0], "not_provable unacked_limit_consumer"), ([1, 2, 0], "violation")]
)
def test_what_was_sent_to_another_consumer_as_well_counts_for_both(acked: list[int], expected: str) -> None:
    """Consumer 1 is at its limit of 4, and acknowledges one, or also those that 2 was sent after it."""
    log = two()
    say(log, **{PER_CONSUMER: 4})
    hold(log, 3)
    for entry in (1, 2):
        log.dispatch(2, entry, HIGH)
    log.publish(3, HIGH)
    log.dispatch(1, 3, HIGH)
    log.ack(1, *acked)
    waits_for_long(log, 4, HIGH)
    assert doubted(log) == [expected]


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


@pytest.mark.parametrize(
    ("twice", "expected"), [(True, "not_provable unacked_limit_subscription"), (False, "violation")]
)
def test_who_has_left_since_may_have_filled_the_subscription(twice: bool, expected: str) -> None:
    """With what consumer 2 was sent twice they had as many as the limit; 1 has more than half of it."""
    log = two()
    say(log, maxUnackedMessagesPerSubscription=7)
    hold(log, 5)
    log.publish(5, LOW)
    for _ in range(2 if twice else 1):
        log.dispatch(2, 5, LOW)
    log.ack(2, 5)
    log.leave(2)
    waits_for_long(log, 6, HIGH)
    assert doubted(log) == [expected]


@pytest.mark.parametrize(
    ("ended", "expected"), [("after", "not_provable unacked_limit_subscription"), ("before", "violation")]
)
def test_an_acknowledgement_that_has_not_ended_may_not_count_when_the_limit_is_reached(
    ended: str, expected: str
) -> None:
    """Of 6 messages one is acknowledged while the seventh is sent, and the limit is 7; or right before it."""
    log = two()
    say(log, maxUnackedMessagesPerSubscription=7)
    hold(log, 6)
    log.publish(6, LOW)
    log.ack(1, 5, phases="start")
    if ended == "before":
        log.ack(1, 5, phases="end")
    log.dispatch(2, 6, LOW)
    if ended == "after":
        log.ack(1, 5, phases="end")
    waits_for_long(log, 7, HIGH)
    assert doubted(log) == [expected]


def test_half_a_limit_is_free_again_whatever_was_settling() -> None:
    log = two()
    say(log, maxUnackedMessagesPerSubscription=7)
    hold(log, 6)
    log.publish(6, LOW)
    log.ack(1, 5, phases="start")
    log.dispatch(2, 6, LOW)
    log.ack(1, 5, phases="end")
    log.ack(1, *range(4))
    waits_for_long(log, 7, HIGH)
    assert doubted(log) == ["violation"]


@pytest.mark.parametrize(
    ("after_us", "expected"), [(600_000, "not_provable unacked_limit_subscription"), (2_000_000, "violation")]
)
def test_a_doubt_counts_for_as_long_as_a_stall_after_the_last_look_that_found_it(after_us: int, expected: str) -> None:
    """With what was sent twice the subscription is at its limit, until a row says that there is none any more."""
    log = two()
    say(log, maxUnackedMessagesPerSubscription=7)
    hold(log, 5)
    log.publish(5, LOW)
    log.dispatch(2, 5, LOW)
    log.dispatch(2, 5, LOW)
    log.publish(6, HIGH)
    log.now_us += 600_000
    say(log, maxUnackedMessagesPerSubscription=0)
    log.now_us += after_us
    log.publish(7, HIGH)
    assert doubted(log) == [expected]


@pytest.mark.parametrize(("twice", "expected"), [(True, "not_provable look_ahead_limit"), (False, "violation")])
def test_what_waits_for_who_may_be_blocked_may_fill_replay(twice: bool, expected: str) -> None:
    """Of consumer 1, which perhaps has as many as its limit, as many entries wait as replay may have; then one of 2."""
    log = two()
    say(log, **{PER_CONSUMER: 4}, keySharedLookAheadMsgInReplayThresholdPerConsumer=2)
    hold(log, 3)
    if twice:
        log.dispatch(1, 2, HIGH)
    for entry in range(3, 7):
        log.publish(entry, HIGH)
    waits_for_long(log, 7, LOW)
    assert doubted(log) == [expected]


@pytest.mark.parametrize(("twice", "expected"), [(True, "not_provable look_ahead_limit"), (False, "violation")])
def test_what_was_sent_twice_may_be_in_replay_although_it_is_held(twice: bool, expected: str) -> None:
    """Consumer 1 is at its limit, two entries wait for it, and replay may have three."""
    log = two()
    look_ahead = {"keySharedLookAheadMsgInReplayThresholdPerConsumer": 0}
    say(log, **{PER_CONSUMER: 4}, **look_ahead, keySharedLookAheadMsgInReplayThresholdPerSubscription=3)
    hold(log, 4)
    if twice:
        log.dispatch(1, 3, HIGH)
    for entry in (4, 5):
        log.publish(entry, HIGH)
    waits_for_long(log, 6, LOW)
    assert doubted(log) == [expected]


@pytest.mark.parametrize(("skips", "expected"), [(True, []), (False, ["violation"])])
def test_the_broker_may_count_on_what_was_skipped_while_it_was_held(skips: bool, expected: list[str]) -> None:
    log = two()
    say(log, **{PER_CONSUMER: 5})
    hold(log, 5)
    if skips:
        log.reset("skip")
    log.ack(1, *range(5))
    waits_for_long(log, 5, HIGH)
    assert [found for found in doubted(log) if found == "violation"] == expected


@pytest.mark.parametrize(("skips", "expected"), [(True, []), (False, ["violation"])])
def test_the_broker_may_count_on_what_a_read_in_flight_sent_after_a_skip(skips: bool, expected: list[str]) -> None:
    log = two()
    say(log, **{PER_CONSUMER: 5})
    for entry in range(5):
        log.publish(entry, HIGH)
    if skips:
        log.reset("skip")
    for entry in range(5):
        log.dispatch(1, entry, HIGH)
    log.redeliver(1, *range(5))
    log.ack(1, *range(5))
    waits_for_long(log, 5, HIGH)
    assert [found for found in doubted(log) if found == "violation"] == expected


def others_are_sent(log: Log, first: int, entries: int, to: int = 2) -> None:
    """A consumer is sent an entry of LOW each half second, and acknowledges it."""
    for entry in range(first, first + entries):
        log.publish(entry, LOW)
        log.dispatch(to, entry, LOW)
        log.ack(to, entry)
        log.now_us += SECOND_US // 2


@pytest.mark.parametrize("delayed", [True, False])
@pytest.mark.parametrize(("limit", "found"), [(4, []), (0, ["(1, 4)"])])
def test_an_entry_of_a_blocked_consumer_is_not_passed_over(limit: int, found: list[str], delayed: bool) -> None:
    """It holds three of four: the broker would send it more, but reads for others only until it is at half of them."""
    log = two()
    say(log, **{PER_CONSUMER: limit})
    hold(log, 4)
    log.publish(4, HIGH, deliver_at_ms=log.now_us // 1000 + 1 if delayed else None)
    log.ack(1, 0)
    others_are_sent(log, 5, 10)
    log.ack(1, 1, 2, 3)
    log.publish(15, HIGHEST)
    log.dispatch(1, 15, HIGHEST)
    log.dispatch(1, 4, HIGH)
    assert replayed(log.rows).passed_heads == found


@pytest.mark.parametrize(("twice", "found"), [(True, []), (False, ["(1, 3)"])])
def test_whoever_the_broker_may_count_more_of_may_have_been_blocked_when_it_was_sent_later_ones(
    twice: bool, found: list[str]
) -> None:
    """By rows it holds four of five at most; overlapping reads have sent one of them twice, which counts once more."""
    log = two()
    say(log, **{PER_CONSUMER: 5})
    hold(log, 3)
    if twice:
        log.dispatch(1, 2, HIGH)
    log.publish(3, HIGH)
    for entry in range(4, 10):
        log.publish(entry, HIGHEST)
        log.dispatch(1, entry, HIGHEST)
        log.ack(1, entry)
        log.now_us += SECOND_US // 2
    log.dispatch(1, 3, HIGH)
    assert replayed(log.rows).passed_heads == found


@pytest.mark.parametrize(("held", "found"), [(True, []), (False, ["(1, 1)"])])
def test_a_delayed_entry_was_not_overdue_while_its_hash_drained(held: bool, found: list[str]) -> None:
    """The hash drains until its owner leaves and it goes back to its holder."""
    log = Log()
    log.join(1)
    log.flow(1, 1_000)
    log.publish(0, LOW)
    log.dispatch(1, 0, LOW)
    if not held:
        log.ack(1, 0)
    log.join(2)
    log.flow(2, 1_000)
    log.publish(1, LOW, deliver_at_ms=log.now_us // 1000 + 1)
    for entry in range(2, 12):
        log.publish(entry, LOWEST)
        log.dispatch(2, entry, LOWEST)
        log.now_us += SECOND_US // 2
    log.leave(2)
    assert replayed(log.rows).passed_heads == found


@pytest.mark.parametrize(("entries", "found"), [(2, []), (4, ["(1, 0)"])])
def test_a_delayed_entry_is_overdue_from_the_last_move_of_its_hash_on(entries: int, found: list[str]) -> None:
    """Consumer 2 could be sent it for 0.8 s, then 1, which is sent later ones for one second or two."""
    log = two()
    log.publish(0, LOW, deliver_at_ms=log.now_us // 1000 + 1)
    log.publish(1, HIGH)
    log.dispatch(1, 1, HIGH)
    log.now_us += 4 * SECOND_US // 5
    log.leave(2)
    others_are_sent(log, 2, entries, to=1)
    log.now_us -= SECOND_US // 10
    log.dispatch(1, 0, LOW)
    assert replayed(log.rows, settings={**AUTO_SPLIT, "delayedDeliveryTickTimeMillis": 1}).passed_heads == found


def test_what_is_due_was_not_read_before_what_comes_in_front_of_it() -> None:
    """The broker would have had to read, and send, the entry of consumer 2 to read the others and find out a delay."""
    log = two(permits=(1, 1_000))
    hold(log, 1)
    log.publish(1, LOW)
    for entry in range(2, 7):
        log.publish(entry, HIGH, deliver_at_ms=log.now_us // 1000 + 1)
    log.now_us += 3 * SECOND_US
    log.publish(7, LOW)
    assert doubted(log, keySharedLookAheadMsgInReplayThresholdPerSubscription=4) == ["violation"]


def test_who_lacks_permits_is_not_ready_because_its_limit_is_none() -> None:
    log = two()
    log.join(3)
    say(log, **{PER_CONSUMER: 3})
    log.flow(3, 3)
    for entry in range(3):
        log.publish(entry, LOWEST)
        log.dispatch(3, entry, LOWEST)
    for entry in range(3, 33):
        log.publish(entry, HIGH)
        log.dispatch(1, entry, HIGH)
    waits_for_long(log, 33, LOWEST)
    assert doubted(log) == []


def test_a_read_from_before_the_last_leave_does_not_show_how_far_the_next_cursor_is() -> None:
    """Entry 8 waits in replay when the last consumer leaves, and the next one is sent it first (3.6)."""
    log = Log()
    say(log, **{PER_CONSUMER: 0, "maxUnackedMessagesPerSubscription": 5})
    log.join(1)
    log.flow(1, 1_000)
    for entry in range(8):
        log.publish(entry, HIGH)
    log.publish(8, LOW)
    for entry, key in ((0, HIGH), (1, HIGH), (8, LOW)):
        log.dispatch(1, entry, key)
    log.redeliver(1, 8)
    log.leave(1)
    log.join(2)
    log.flow(2, 1_000)
    log.dispatch(2, 8, LOW)
    for entry in range(4):
        log.dispatch(2, entry, HIGH)
    log.now_us += 3 * SECOND_US
    log.ack(2, 0, 1, 2)
    log.dispatch(2, 4, HIGH)
    assert doubted(log) == []


@pytest.mark.parametrize(("limit", "severity"), [(20, "not_provable unacked_limit_broker"), (30, "violation")])
def test_a_limit_of_the_broker_counts_what_other_subscriptions_hold(limit: int, severity: str) -> None:
    log = two()
    hold(log, 4)  # more than 16 % of 20, not of 30
    waits_for_long(log, 4, HIGH)
    assert doubted(log, maxUnackedMessagesPerBroker=limit) == [severity]


@pytest.mark.parametrize(
    ("permits", "later", "expected"),
    [
        (3, None, "violation"),
        (2, None, "not_provable no_permits"),
        (2, 1, "violation"),
    ],
)
def test_permits_of_a_snapshot_are_used_up_by_what_was_sent_since(
    permits: int, later: int | None, expected: str
) -> None:
    """No row shows what a consumer asks for; `later` permits are in a snapshot of the time in which nothing is sent."""
    log = Log()
    log.join(1)
    say(log, **NO_RATES, **dict.fromkeys((PER_CONSUMER, "maxUnackedMessagesPerSubscription"), 0))
    log.snapshot(reported(1, available_permits=permits))
    log.now_us += SECOND_US
    for entry in range(2):
        log.publish(entry, HIGH)
        log.dispatch(1, entry, HIGH)
        log.ack(1, entry)
    log.publish(2, HIGH)
    log.now_us += SECOND_US
    if later is not None:
        log.snapshot(reported(1, available_permits=later))
    log.now_us += SECOND_US
    log.dispatch(1, 2, HIGH)
    assert doubted(log) == [expected]


def test_permits_of_a_snapshot_may_be_those_from_before_what_was_just_sent() -> None:
    log = Log()
    log.join(1)
    log.publish(0, HIGH)
    log.dispatch(1, 0, HIGH)
    log.snapshot(reported(1, available_permits=1))
    waits_for_long(log, 1, HIGH)
    assert doubted(log) == ["not_provable no_permits"]


@pytest.mark.parametrize("name", [PER_CONSUMER, "maxUnackedMessagesPerSubscription"])
@pytest.mark.parametrize(
    ("limit", "before", "verdict"),
    [(6, True, "not_provable limit_lowered"), (7, True, "violation"), (6, False, "violation")],
    ids=["half of it held", "less than half held", "after the last dispatch"],
)
def test_a_lower_limit_that_may_have_come_before_a_stall_leaves_it_open(
    name: str, limit: int, before: bool, verdict: str
) -> None:
    """The row comes five seconds after the stall; it says up to where the former value was certainly in force."""
    log = two()
    say(log, **{**NO_RATES, PER_CONSUMER: 1_000, "maxUnackedMessagesPerSubscription": 1_000})
    hold(log, 3)
    published = log.publish(3, HIGH)
    log.now_us += 2 * SECOND_US
    log.publish(4, HIGH)
    sent = log.dispatch(1, 3, HIGH)
    log.dispatch(1, 4, HIGH)
    log.ack(1, 3, 4)
    log.now_us += 5 * SECOND_US
    say(log, **{name: limit})
    log.rows[-1]["seq_begin"] = published - 1 if before else sent + 1
    log.publish(5, HIGH)
    assert doubted(log) == [verdict]
