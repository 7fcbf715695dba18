"""Which pauses a limit of the dispatch rate explains: counts and times are those of one subscription (contract 4.2)."""

from collections.abc import Sequence
from typing import Final

import numpy as np
import pytest
from local_replay import LOW, NO_RATES, Log, replayed, reported, say, tables_of, two

from dispatch_audit.pipeline.replay.blocking.attribution import Interval
from dispatch_audit.pipeline.replay.blocking.pace import DispatchPace
from dispatch_audit.pipeline.replay.blocking.rates import RecentDispatches, Sent
from dispatch_audit.pipeline.replay.settings.settings_in_force import DispatchRate, Scope, Setting

SECOND: Final = 1_000_000


def _burst(from_us: int, entries: int, messages: int = 1) -> Sent:
    ts_us = np.arange(from_us, from_us + entries * 1_000, 1_000, dtype=np.int64)
    return Sent(ts_us, np.full(entries, messages, dtype=np.int64))


def _pause(from_us: int, to_us: int) -> Interval:
    return Interval(0, from_us, 1, to_us, 0)


def _rate(messages: int = 0, size_bytes: int = 0, period_s: int = 1, scope: Scope = "subscription") -> DispatchRate:
    return DispatchRate(scope, messages, size_bytes, period_s, ())


def _explains(rate: DispatchRate, entries: int, pause_us: int, messages: int = 1, by_entry: bool = False) -> bool:
    recent = RecentDispatches()
    sent = _burst(SECOND, entries, messages)
    recent.note(sent, (rate,))
    last_us = int(sent.ts_us[-1])
    return recent.explaining(_pause(last_us, last_us + pause_us), by_entry) is not None


def test_what_used_up_a_limit_counts_however_long_the_next_rows_take() -> None:
    recent = RecentDispatches()
    sent = _burst(SECOND, 200)
    recent.note(sent, (_rate(200),))
    last_us = int(sent.ts_us[-1])
    pause = _pause(last_us, last_us + SECOND)
    recent.note(Sent(np.array([pause.to_ts, pause.to_ts + 100 * SECOND]), np.array([1, 1])), (_rate(200),))
    assert recent.explaining(pause, by_entry=False) is not None


@pytest.mark.parametrize(
    ("sent", "pause_us", "explained"),
    [
        (200, 1_010_000, True),
        (150, 1_010_000, False),
        (200, 5 * SECOND, False),
        (400, 2_700_000, True),
        (400, 2_900_000, False),
    ],
    ids=["used up", "not used up", "too long", "as much more to make up for as the last reads had", "more than that"],
)
def test_a_limit_explains_a_pause_that_it_takes(sent: int, pause_us: int, explained: bool) -> None:
    assert _explains(_rate(200), sent, pause_us) is explained


@pytest.mark.parametrize(("apart_us", "explained"), [(1_000, True), (20_000, False)])
def test_a_limit_is_overdrawn_by_the_last_reads_only(apart_us: int, explained: bool) -> None:
    """Of 35 entries a second those after the fifth show that a limit of 5 was not in force yet."""
    recent, ts_us = RecentDispatches(), SECOND + np.arange(35, dtype=np.int64) * apart_us
    recent.note(Sent(ts_us, np.ones(35, dtype=np.int64)), (_rate(5),))
    last_us = int(ts_us[-1])
    assert (recent.explaining(_pause(last_us, last_us + 4 * SECOND), False) is not None) is explained


@pytest.mark.parametrize(("apart_us", "explained"), [(500_000, True), (1_500_000, False)])
def test_later_periods_pay_for_what_was_overdrawn(apart_us: int, explained: bool) -> None:
    """Each of three reads finds something of 5 a second, and the last one alone uses up little of it."""
    ts_us = SECOND + np.array([0, 1, 2], np.int64) * apart_us
    recent = RecentDispatches()
    recent.note(Sent(ts_us, np.array([8, 3, 1], np.int64)), (_rate(5),))
    last_us = int(ts_us[-1])
    assert (recent.explaining(_pause(last_us, last_us + SECOND), by_entry=False) is not None) is explained


@pytest.mark.parametrize("others", [(), (_rate(7, scope="topic"),)], ids=["off", "another one"])
def test_a_limit_that_came_in_force_later_has_no_debt(others: tuple[DispatchRate, ...]) -> None:
    recent, at_us = RecentDispatches(), np.array([SECOND], np.int64)
    recent.note(Sent(at_us, np.array([40], np.int64)), others)
    recent.note(Sent(at_us + 2 * SECOND, np.array([1], np.int64)), (_rate(5),))
    last_us = 3 * SECOND
    assert recent.explaining(_pause(last_us, last_us + SECOND), by_entry=False) is None


def test_a_limit_that_another_row_says_again_keeps_its_debt() -> None:
    name = "dispatchThrottlingRatePerSubscriptionInMsg"
    broker, topic = (_rate(5)._replace(claims=(Setting(name, 5, "settings row", by),)) for by in ("broker", "topic"))
    recent, at_us = RecentDispatches(), np.array([SECOND], np.int64)
    recent.note(Sent(at_us, np.array([40], np.int64)), (broker,))
    recent.note(Sent(at_us + 2 * SECOND, np.array([1], np.int64)), (topic,))
    found = recent.explaining(_pause(3 * SECOND, 4 * SECOND), by_entry=False)
    assert found is not None
    assert found["claimed_by"] == f"{name} = 5, topic"


def test_a_limit_keeps_its_debt_when_another_one_goes() -> None:
    recent, at_us = RecentDispatches(), np.array([SECOND], np.int64)
    recent.note(Sent(at_us, np.array([40], np.int64)), (_rate(5), _rate(1_000, scope="topic")))
    recent.note(Sent(at_us + 2 * SECOND, np.array([1], np.int64)), (_rate(5),))
    assert recent.explaining(_pause(3 * SECOND, 4 * SECOND), by_entry=False) is not None


def test_a_longer_period_takes_a_longer_pause() -> None:
    assert _explains(_rate(1_000, period_s=5), 1_000, 5 * SECOND)
    assert not _explains(_rate(1_000, period_s=1), 1_000, 5 * SECOND)


def test_a_limit_counts_messages_unless_it_counts_entries() -> None:
    assert _explains(_rate(200), 20, SECOND, messages=10)
    assert not _explains(_rate(200), 20, SECOND, messages=10, by_entry=True)


@pytest.mark.parametrize("rate", [_rate(200, scope="topic"), _rate(200, scope="broker"), _rate(size_bytes=1_000)])
def test_what_others_are_sent_and_how_large_it_is_no_row_shows(rate: DispatchRate) -> None:
    assert _explains(rate, 10, SECOND)
    assert not _explains(rate, 10, 4 * SECOND)


def test_what_a_limit_in_bytes_was_sent_may_be_a_whole_read() -> None:
    """A read brings up to 5 MiB (dispatcherMaxReadSizeBytes), and the limit pays 1 MiB of that a second."""
    recent, rate = RecentDispatches(), _rate(size_bytes=1024 * 1024)
    recent.note(_burst(SECOND, 10), (rate,))
    last_us = SECOND + 9_000
    assert recent.may_explain(_pause(last_us, last_us + 7_200_000))
    assert not recent.may_explain(_pause(last_us, last_us + 7_300_000))
    assert recent.explaining(_pause(last_us, last_us + 7_200_000), by_entry=False) is None


@pytest.mark.parametrize("said_late", [True, False])
def test_a_limit_that_is_said_late_may_owe_for_a_read_before_it_is_said(said_late: bool) -> None:
    """It may owe for 100 entries (dispatcherMaxReadBatchSize) and for one more, which takes 20.2 s."""
    recent, at_us = RecentDispatches(), np.array([SECOND], np.int64)
    if said_late:
        recent.said_late()
    recent.note(Sent(at_us, np.array([1], np.int64)), (_rate(5),))
    assert recent.may_explain(_pause(SECOND, 22 * SECOND)) is said_late
    assert not recent.may_explain(_pause(SECOND, 23 * SECOND))
    assert not recent.may_explain(_pause(22 * SECOND, 23 * SECOND))


def _paced(bursts: Sequence[int], pauses_us: Sequence[int], one_by_one: bool = False) -> list[bool]:
    """Of each pause between bursts whether they show a limit."""
    pace, at, pauses = DispatchPace(), SECOND, []
    for entries, pause_us in zip(bursts, [*pauses_us, 0], strict=True):
        sent = _burst(at, entries)
        parts = [Sent(sent.ts_us[i : i + 1], sent.messages[i : i + 1]) for i in range(entries)]
        for part in parts if one_by_one else [sent]:
            pace.note(part)
        last_us = int(sent.ts_us[-1])
        at = last_us + pause_us
        pauses.append(_pause(last_us, at))
    return [pace.during(pause) is not None for pause in pauses[:-1]]


@pytest.mark.parametrize("one_by_one", [False, True])
def test_bursts_of_one_size_with_one_pause_after_each_show_a_limit(one_by_one: bool) -> None:
    # The first burst has a full bucket, the last one what is left.
    assert _paced([302, 200, 200, 200, 55], [1_020_000] * 4, one_by_one) == [True] * 4


@pytest.mark.parametrize(
    ("bursts", "pauses_us"),
    [
        ([20, 60], [60 * SECOND]),
        ([200, 200, 200], [1_010_000] * 2),
        ([200, 90, 310, 150, 200], [1_010_000] * 4),
        ([200] * 5, [1_010_000, 3 * SECOND, 9 * SECOND, 4 * SECOND]),
        ([1] * 9, [1_010_000] * 8),
    ],
    ids=["healed once", "twice", "of several sizes", "with long pauses", "of single messages"],
)
def test_what_does_not_come_again_and_again_shows_none(bursts: list[int], pauses_us: list[int]) -> None:
    assert not any(_paced(bursts, pauses_us))


@pytest.mark.parametrize("pause_us", [2 * SECOND, 9 * SECOND])
def test_a_longer_pause_behind_the_bursts_is_not_one_of_the_limit(pause_us: int) -> None:
    assert _paced([200] * 5, [1_010_000, 1_010_000, 1_010_000, pause_us]) == [True, True, True, False]


@pytest.mark.parametrize(("first", "of_limit"), [(200, False), (400, True)])
def test_a_longer_pause_before_the_bursts_is_one_of_the_limit_if_it_pays_for_what_was_sent(
    first: int, of_limit: bool
) -> None:
    assert _paced([first, 200, 200, 200, 200], [2 * SECOND, *[1_010_000] * 3]) == [of_limit, True, True, True]


def test_missing_rows_end_the_bursts() -> None:
    pace, at = DispatchPace(), SECOND
    for number in range(5):
        sent = _burst(at, 200)
        pace.note(sent)
        if number == 2:
            pace.interrupted()
        at = int(sent.ts_us[-1]) + 1_010_000
    assert pace.during(_pause(at - 1_010_000, at)) is None


@pytest.mark.parametrize("reported", [False, True])
def test_equal_pauses_after_equal_bursts_show_a_limit_unless_rows_say_that_there_is_none(reported: bool) -> None:
    log = Log()
    log.join(1)
    log.flow(1, 1_000)
    if reported:
        say(log, **NO_RATES)
    for entry in range(40):
        log.publish(entry)
    for entry in range(40):
        if entry and entry % 5 == 0:
            log.now_us += 3 * SECOND
        log.dispatch(1, entry)
    found = tables_of(log.rows)["violations"]
    severities = {row["severity"] for row in found if row["rule"] == "stalled"}
    assert severities == ({"violation"} if reported else set())


@pytest.mark.parametrize(("after", "severity"), [(True, "not_provable"), (False, "violation")])
def test_what_was_sent_before_a_row_that_says_a_limit_may_be_paid_for_after_it(after: bool, severity: str) -> None:
    """The limit is in force before or after the last dispatch, and a row says so while nothing is sent."""
    log = two()
    say(log, **NO_RATES)
    log.publish(0, LOW)
    published = log.publish(1, LOW)
    log.dispatch(2, 0, LOW)
    log.now_us += SECOND
    say(log, dispatchThrottlingRatePerSubscriptionInMsg=5)
    log.rows[-1]["seq_begin"] = published if after else log.rows[-1]["seq"] - 1
    log.now_us += 4 * SECOND
    log.dispatch(2, 1, LOW)
    assert replayed(log.rows).weighed == {("stalled", severity): 1}


@pytest.mark.parametrize(("late", "severity"), [(True, "not_provable"), (False, "violation")])
def test_what_was_sent_long_before_a_row_that_says_a_limit_may_be_paid_for_after_it(late: bool, severity: str) -> None:
    """Rows are held for a second: what was sent before is not looked at again when a row says a limit."""
    log = two()
    say(log, **NO_RATES)
    first = log.publish(0, LOW)
    log.dispatch(2, 0, LOW)
    log.now_us += 2 * SECOND
    for entry in (1, 2, 3):
        log.publish(entry, LOW)
    log.dispatch(2, 1, LOW)
    say(log, dispatchThrottlingRatePerSubscriptionInMsg=5)
    log.rows[-1]["seq_begin"] = first if late else log.rows[-1]["seq"] - 1
    log.dispatch(2, 2, LOW)
    log.now_us += 4 * SECOND
    log.dispatch(2, 3, LOW)
    assert replayed(log.rows).weighed == {("stalled", severity): 1}


@pytest.mark.parametrize("once_more", [False, True], ids=["once", "and another one later"])
@pytest.mark.parametrize(("before", "severity"), [(True, "not_provable"), (False, "violation")])
def test_a_limit_that_may_have_come_before_a_stall_leaves_it_open(before: bool, severity: str, once_more: bool) -> None:
    """The row comes five seconds after the stall; it says up to where the former values were certainly in force."""
    log = two()
    say(log, **NO_RATES)
    log.publish(0, LOW)
    log.dispatch(2, 0, LOW)
    published = log.publish(1, LOW)
    log.now_us += 2 * SECOND
    sent = log.dispatch(2, 1, LOW)
    log.now_us += 5 * SECOND
    say(log, dispatchThrottlingRatePerSubscriptionInMsg=5)
    log.rows[-1]["seq_begin"] = published if before else sent + 1
    if once_more:
        say(log, dispatchThrottlingRatePerSubscriptionInMsg=7)
    log.publish(2, LOW)
    assert replayed(log.rows).weighed == {("stalled", severity): 1}


@pytest.mark.parametrize(("lost", "severity"), [("settings", "not_provable"), ("redeliver", "violation")])
def test_a_limit_that_a_lost_row_may_say_leaves_a_stall_open(lost: str, severity: str) -> None:
    log = two()
    say(log, **NO_RATES)
    seq = log.write("gap", dropped=1, dropped_events=[lost])
    log.rows[-1]["seq_end"] = seq
    # The second entry after the gap opens the verdicts, and stalls are judged once it is deleted.
    for entry in range(2):
        log.publish(entry, LOW)
        log.now_us += SECOND
    log.dispatch(2, 1, LOW)
    log.ack(2, 1)
    log.snapshot(*(reported(n, available_permits=100) for n in (1, 2)), mark_delete_position="1:1")
    log.now_us += 2 * SECOND
    log.publish(2, LOW)
    log.now_us += 3 * SECOND
    log.dispatch(2, 2, LOW)
    assert replayed(log.rows).weighed == {("stalled", severity): 1}
