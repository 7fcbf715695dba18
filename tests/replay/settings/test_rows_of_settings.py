"""Rows `settings` of the trace change what a subscription is judged by."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
from examples import examples
from hypothesis import given
from hypothesis import strategies as st
from local_replay import AUTO_SPLIT, HIGH, LOW, SKEW_US, Log, replayed, reported, send, tables_of
from windowed_replay import folded, tables_of_windows

from dispatch_audit.pipeline.contract.profile import profile_for
from dispatch_audit.pipeline.replay.config import ReplayConfig
from dispatch_audit.pipeline.replay.durations import READ_AND_PAUSE_US

PER_CONSUMER = "maxUnackedMessagesPerConsumer"
LIMITED = {**AUTO_SPLIT, PER_CONSUMER: 3}


def say(
    log: Log,
    values: Mapping[str, object],
    *,
    seq_begin: int | None = None,
    everywhere: bool = False,
    topic: bool = False,
) -> int:
    """Writes a row `settings`; returns its seq."""
    texts = {name: None if value is None else json.dumps(value) for name, value in values.items()}
    seq = log.write("settings", settings=[*texts.items()], sources=[(name, "topic") for name in texts])
    log.rows[-1]["seq_begin"] = seq_begin
    if topic or everywhere:
        log.rows[-1]["subscription"] = None
    if everywhere:
        log.rows[-1]["topic"] = None
    return seq


@pytest.fixture
def log() -> Log:
    log = Log()
    log.join(1)
    return log


@pytest.fixture
def vouched() -> Log:
    """As `log`, with a row that says the limit of trace.json."""
    log = Log()
    say(log, {PER_CONSUMER: 3})
    log.join(1)
    return log


def beyond(log: Log, **settings: Any) -> list[int]:
    """The dispatches that violate a limit."""
    replay = replayed(log.rows, settings={**LIMITED, **settings})
    return [seq for (rule, seq), v in replay.verdicts.items() if rule == "unacked_limit" and v.severity == "violation"]


def test_a_limit_goes_up(log: Log) -> None:
    say(log, {PER_CONSUMER: 5})
    *_, sixth = send(log, range(6))
    assert beyond(log) == [sixth]


def test_a_limit_goes_down(log: Log) -> None:
    send(log, range(2))
    say(log, {PER_CONSUMER: 2})
    assert beyond(log) == []
    # No read is under way any more that had an entry for it under the former limit.
    log.now_us += READ_AND_PAUSE_US
    (third,) = send(log, range(2, 3))
    assert beyond(log) == [third]


def test_null_is_the_default_of_the_release(log: Log) -> None:
    say(log, {PER_CONSUMER: None})
    send(log, range(6))
    assert beyond(log) == []


def test_a_row_before_the_change_is_judged_by_the_former_limit(vouched: Log) -> None:
    *_, fourth = send(vouched, range(4))
    say(vouched, {PER_CONSUMER: 10})
    assert beyond(vouched) == [fourth]


@pytest.mark.parametrize("later_us", [0, 30_000_000])
def test_within_the_bracket_of_a_change_no_dispatch_is_beyond_the_limit(vouched: Log, later_us: int) -> None:
    log = vouched
    send(log, range(3))
    begin = log.rows[-1]["seq"]
    send(log, range(3, 5))
    log.now_us += later_us
    say(log, {PER_CONSUMER: 4}, seq_begin=begin)
    assert beyond(log) == []
    (sixth,) = send(log, range(5, 6))
    assert beyond(log) == [sixth]


def test_within_the_bracket_of_a_lower_limit_the_former_one_may_be_in_force(log: Log) -> None:
    send(log, range(2))
    begin = log.rows[-1]["seq"]
    send(log, range(2, 3))
    say(log, {PER_CONSUMER: 2}, seq_begin=begin)
    assert beyond(log) == []


@pytest.mark.parametrize(
    ("delay_ms", "before", "broken"), [(60_000, True, False), (60_000, False, True), (None, True, True)]
)
def test_what_may_have_been_delayed_before_a_row_says_so_may_be_overtaken(
    log: Log, delay_ms: int | None, before: bool, broken: bool
) -> None:
    """Delayed delivery is switched on before or after the later entry is sent, and a row says so long after that."""
    say(log, {"delayedDeliveryEnabled": False})
    log.publish(0, deliver_at_ms=None if delay_ms is None else log.now_us // 1000 + delay_ms)
    log.publish(1)
    published = log.rows[-1]["seq"]
    sent = log.dispatch(1, 1)
    begin = published if before else log.rows[-1]["seq"]
    log.now_us += 10_000_000
    say(log, {"delayedDeliveryEnabled": True}, seq_begin=begin)
    assert (("replay_overtaken", sent) in replayed(log.rows).broken) == broken


@pytest.mark.parametrize("where", ["topic", "everywhere"])
def test_settings_hold_for_a_topic_or_for_everything(log: Log, where: str) -> None:
    say(log, {PER_CONSUMER: 5}, everywhere=where == "everywhere", topic=where == "topic")
    *_, sixth = send(log, range(6))
    assert beyond(log) == [sixth]


def test_settings_of_another_subscription_are_none_of_this_one(vouched: Log) -> None:
    say(vouched, {PER_CONSUMER: 5})
    vouched.rows[-1]["subscription"] = "another"
    *_, fourth = send(vouched, range(4))
    assert beyond(vouched) == [fourth]


def lose(log: Log, *events: str) -> None:
    """Writes a gap, and after it the publishes from which on entries are judged again; entries from 10 on are free."""
    seq = log.write("gap", dropped=1, dropped_events=[*events])
    log.rows[-1]["seq_end"] = seq
    for entry in (8, 9):
        log.publish(entry)
        log.now_us += 200_000


def test_where_settings_are_lost_nothing_is_judged_by_the_limit_until_a_row_says_it(log: Log) -> None:
    lose(log, "settings")
    send(log, range(10, 15))
    assert beyond(log) == []
    say(log, {PER_CONSUMER: 5})
    (sixth,) = send(log, range(15, 16))
    assert beyond(log) == [sixth]


@pytest.mark.parametrize("begins", [True, False])
def test_a_row_after_lost_ones_may_have_been_in_force_before_them(log: Log, begins: bool) -> None:
    """What exceeds the limit of before is no finding if the next row that says it begins in front of it."""
    say(log, {PER_CONSUMER: 3})
    before = log.rows[-1]["seq"]
    *_, fourth = send(log, range(4))
    log.now_us += 2_000_000
    lose(log, "settings")
    say(log, {PER_CONSUMER: 0}, seq_begin=before if begins else log.rows[-1]["seq"])
    assert beyond(log) == ([] if begins else [fourth])


@pytest.mark.parametrize(("said", "lost", "judged"), [(True, (), False), (False, (), True), (True, ("ack",), True)])
def test_a_gap_that_names_nothing_loses_settings_where_the_recorder_writes_any(
    log: Log, said: bool, lost: tuple[str, ...], judged: bool
) -> None:
    if said:
        say(log, {PER_CONSUMER: 3})
    lose(log, *lost)
    # Joins may be missing too, until a snapshot with the ranges of all consumers.
    at = log.flow(1, 100)
    log.snapshot(reported(1, key_hash_ranges=[[0, 65536]]), seq_begin=at, seq_end=at)
    for entry in (10, 11):
        log.now_us += 200_000
        log.publish(entry)
    send(log, range(12, 16))
    replay = replayed(log.rows, settings=LIMITED)
    assert any(rule == "unacked_limit" for rule, _ in replay.verdicts) == judged


def test_the_same_row_twice_counts_once_and_another_one_of_its_seq_is_refused(log: Log) -> None:
    say(log, {PER_CONSUMER: 5})
    row = log.rows[-1]
    *_, sixth = send(log, range(6))
    other = {**row, "ts_us": row["ts_us"] + 1, "settings": [(PER_CONSUMER, "1")]}
    log.rows += [dict(row), other]
    replay = replayed(log.rows, settings=LIMITED)
    assert sorted((r.seq, r.reason) for r in replay.refused) == [
        (row["seq"], "duplicate_seq"),
        (row["seq"], "repeated_row"),
    ]
    assert beyond(log) == [sixth]
    (coverage,) = tables_of(log.rows, settings=LIMITED)["coverage"]
    assert coverage["seq_missing"] == 0


def test_a_limit_that_goes_up_ends_the_wait_for_it(log: Log) -> None:
    send(log, range(3))
    log.publish(3)
    log.now_us += 500_000
    raised = say(log, {PER_CONSUMER: 4})
    log.now_us += 1_000
    log.dispatch(1, 3)
    waits = replayed(log.rows, settings=LIMITED).waits_of("consumer")
    assert [(wait.cause, wait.to_seq, wait.ended_by) for wait in waits] == [
        ("unacked_limit_consumer", raised, "settings")
    ]


def test_the_limit_of_look_ahead_follows(log: Log) -> None:
    log.snapshot(reported(1, available_permits=9), seq_begin=3, seq_end=3, msg_in_replay=0)
    say(log, {"keySharedLookAheadMsgInReplayThresholdPerConsumer": 7})
    log.now_us += 1_000_000
    log.snapshot(reported(1, available_permits=9), seq_begin=4, seq_end=4, msg_in_replay=0)
    samples = replayed(log.rows, settings=AUTO_SPLIT).samples
    assert {sample.look_ahead_limit for sample in samples} >= {2_000, 7}


def _term(broker: str, start_us: int, first: int, number: int, limit: int | None, seq: int = 1) -> list[dict[str, Any]]:
    """Rows of one recorder that owns the topic: a consumer joins and gets entries, and a seek's unload ends it."""
    log = Log(now_us=start_us)
    log.rows += [{}] * (seq - 1)
    if limit is not None:
        say(log, {PER_CONSUMER: limit})
    log.join(seq)
    for entry in range(first, first + number):
        log.publish(entry)
        log.dispatch(seq, entry)
    log.reset("unload")
    return [{**row, "broker": broker} for row in log.rows[seq - 1 :]]


def _limits_broken(rows: list[dict[str, Any]]) -> list[tuple[str, int]]:
    found = tables_of(rows, settings=LIMITED).get("violations", [])
    return [(row["broker"], row["seq"]) for row in found if row["rule"] == "unacked_limit"]


def test_each_recorder_says_what_its_own_broker_has_in_force() -> None:
    a = _term("a", 1_000_000_000, 0, 5, limit=5)
    b = _term("b", 2_000_000_000, 10, 4, limit=None)
    again = _term("a", 3_000_000_000, 20, 5, limit=None, seq=100)
    # Broker b has the limit of trace.json, and its fourth dispatch is beyond it; what a said holds again later.
    (broken,) = _limits_broken([*a, *b, *again])
    fourth = [row["seq"] for row in b if row["event"] == "dispatch" and row["phase"] == "start"][3]
    assert broken == ("b", fourth)


values = st.sampled_from([0, 2, 3, 6, None])


@examples(40)
@given(
    st.lists(
        st.tuples(st.sampled_from(["send", "ack", "say", "wait"]), values, st.integers(0, 6)), min_size=5, max_size=40
    ),
    st.lists(st.integers(2, 120), min_size=1, max_size=3, unique=True),
)
def test_windows_cut_anywhere_give_the_same_tables(steps: list[tuple[str, int | None, int]], cuts: list[int]) -> None:
    log, sent, acked = Log(), 0, 0
    log.join(1)
    for what, value, number in steps:
        if what == "send":
            for entry in range(sent, sent + number):
                key = LOW if entry % 2 else HIGH
                log.publish(entry, key)
                log.dispatch(1, entry, key)
            sent += number
        elif what == "ack":
            for entry in range(acked, min(acked + number, sent)):
                log.ack(1, entry)
                acked = entry + 1
        elif what == "say":
            seq = len(log.rows) + 1
            say(log, {PER_CONSUMER: value}, seq_begin=max(seq - number * 3, 1), topic=number % 2 == 0)
        else:
            log.now_us += number * 200_000
    profile = profile_for("4.0.8", LIMITED)
    config = ReplayConfig(profile, "4.0.8", profile.broker(LIMITED), SKEW_US, 1_000_000, unsettled_us=60_000_000)
    at_once = folded(tables_of_windows([log.rows], config, []))
    assert folded(tables_of_windows([log.rows], config, sorted(cuts))) == at_once


@pytest.mark.parametrize("off_first", [False, True])
def test_a_pause_until_acknowledgements_close_holes_is_judged_by_the_switch_during_it(off_first: bool) -> None:
    log = Log()
    rates = [
        f"dispatchThrottlingRate{scope}In{of}"
        for scope in ("", "PerTopic", "PerSubscription")
        for of in ("Msg", "Byte")
    ]
    say(log, dict.fromkeys(rates, 0))
    log.join(1)
    log.flow(1, 100)
    send(log, range(7))
    log.ack(1, 1, 3, 5)
    if off_first:
        say(log, {"dispatcherPauseOnAckStatePersistentEnabled": False})
    log.publish(7)
    log.now_us += 2_000_000
    if not off_first:
        say(log, {"dispatcherPauseOnAckStatePersistentEnabled": False})
    log.dispatch(1, 7)
    claimed = {"dispatcherPauseOnAckStatePersistentEnabled": True, "managedLedgerMaxUnackedRangesToPersist": 2}
    found = replayed(log.rows, settings={**AUTO_SPLIT, **claimed}).weighed
    assert bool(found) == off_first


@pytest.mark.parametrize(("topic", "seconds"), [(False, 3), (True, 1)])
def test_what_is_open_lasts_until_the_last_row_of_the_subscription(topic: bool, seconds: int) -> None:
    """The recorder looks at the settings of a subscription while a broker has it, at those of a topic at any time."""
    log = Log()
    log.join(1)
    log.flow(1, 10)
    log.publish(0)
    log.now_us += 1_000_000
    log.publish(1)
    log.now_us += 2_000_000
    say(log, {PER_CONSUMER: 5}, topic=topic)
    (wait,) = replayed(log.rows, settings=LIMITED).waits_of("subscription")
    assert (wait.ended_by, round((wait.to_us - wait.from_us) / 1e6)) == ("open", seconds)
