"""The answers on a subscription: what follows from the rows of a trace, and what one with fewer rows still shows."""

from collections.abc import Callable, Mapping, Sequence

import pytest
from local_replay import LOW, Columns, Log, recorded_logs, reported, tables_of, tables_of_logs

SECOND_US = 1_000_000
RECORDING = "join-leave-1-4.0.8"
Row = Mapping[str, object]


def answers_on(log: Log, **options: object) -> Row:
    (row,) = tables_of(log.rows, **options)["coverage"]  # type: ignore[arg-type]  # passed on as given
    return row


def answers_in(row: Row) -> tuple[object, object, object]:
    return row["order_verdict"], row["progress"], row["missing"]


def one_consumer() -> Log:
    log = Log()
    log.join(1)
    log.flow(1, 1)
    log.publish(0)
    log.dispatch(1, 0)
    log.publish(1)
    return log


def test_what_is_sent_in_order_and_soon_is_kept_and_flowing() -> None:
    log = one_consumer()
    log.ack(1, 0)
    log.flow(1, 10)
    log.dispatch(1, 1)
    row = answers_on(log)
    assert answers_in(row) == ("kept", "flowing", [])
    assert (row["dispatches"], row["dispatches_judged"], row["held_up_seconds"]) == (2, 2, 0.0)


def test_a_consumer_without_permits_holds_up_its_subscription() -> None:
    log = one_consumer()
    log.now_us += 7 * SECOND_US
    log.flow(1, 10)
    log.dispatch(1, 1)
    row = answers_on(log)
    assert answers_in(row) == ("kept", "held_up", [])
    assert (row["held_up_cause"], row["held_up_by"]) == ("no_permits", "c1 (consumer 1)")
    assert row["held_up_seconds"] == pytest.approx(7, abs=0.1)


def test_less_than_the_stall_threshold_holds_nothing_up() -> None:
    log = one_consumer()
    log.now_us += SECOND_US // 2
    log.flow(1, 10)
    log.dispatch(1, 1)
    assert answers_in(answers_on(log)) == ("kept", "flowing", [])


def test_what_could_have_been_sent_is_stalled() -> None:
    log = Log()
    log.join(1)
    log.flow(1, 1_000)
    log.publish(0)
    log.now_us += 2 * SECOND_US
    log.dispatch(1, 0)
    assert answers_in(answers_on(log)) == ("kept", "stalled", [])


def test_that_nobody_is_connected_is_said_and_holds_nothing_up() -> None:
    log = one_consumer()
    log.ack(1, 0)
    log.leave(1)
    log.now_us += 60 * SECOND_US
    log.join(2)
    log.flow(2, 10)
    log.dispatch(2, 1)
    row = answers_on(log)
    assert answers_in(row) == ("kept", "flowing", [])
    assert (row["expected_wait_cause"], row["held_up_cause"]) == ("no_owner", None)
    assert row["expected_wait_seconds"] == pytest.approx(60, abs=0.1)


def test_the_longest_of_several_times_is_said() -> None:
    log = one_consumer()
    for entry, seconds in ((1, 2), (2, 5), (3, 3)):
        log.now_us += seconds * SECOND_US
        log.flow(1, 1)
        log.dispatch(1, entry)
        log.publish(entry + 1)
    assert answers_on(log)["held_up_seconds"] == pytest.approx(5, abs=0.1)


def test_an_entry_that_overtakes_breaks_order_and_no_progress() -> None:
    log = Log()
    for consumer in (1, 2):
        log.join(consumer)
    log.publish(0, LOW)
    log.dispatch(1, 0, LOW)
    log.publish(1, LOW)
    log.dispatch(2, 1, LOW)
    row = answers_on(log)
    assert row["order_verdict"] == "broken"
    assert row["progress"] == "flowing"


def test_an_empty_subscription_is_no_alarm() -> None:
    log = Log()
    log.join(1)
    assert answers_in(answers_on(log)) == ("nothing_sent", "nothing_sent", [])


def test_keys_that_nobody_recorded_leave_both_answers_open() -> None:
    log = one_consumer()
    for row in log.rows:
        row.pop("key", None)
    log.rows = [row for row in log.rows if row["event"] != "publish"]
    assert answers_in(answers_on(log)) == ("not_provable", "not_provable", ["keys", "publishes"])


def test_a_known_key_in_a_dispatch_is_enough_for_order_but_not_for_progress() -> None:
    log = one_consumer()
    log.rows = [row for row in log.rows if row["event"] != "publish"]
    assert answers_in(answers_on(log)) == ("kept", "not_provable", ["publishes"])


def test_dispatches_that_nobody_recorded_are_no_empty_subscription() -> None:
    log = one_consumer()
    log.ack(1, 0)
    log.rows = [row for row in log.rows if row["event"] != "dispatch"]
    assert answers_in(answers_on(log)) == ("not_provable", "not_provable", ["dispatches"])


def _without(*events: str) -> Callable[[Columns], bool]:
    return lambda row: row["event"] not in events


@pytest.mark.parametrize(
    ("stays", "complete", "missing"),
    [
        (_without("join", "leave"), True, ["consumers"]),
        (_without("join", "leave", "stats"), False, ["consumers"]),
        (_without("join", "leave", "stats", "publish"), False, ["consumers", "publishes"]),
    ],
    ids=["no joins", "all rows censored", "nor publishes"],
)
@pytest.mark.recordings
def test_a_recording_without_its_consumers_proves_nothing(
    stays: Callable[[Columns], bool], complete: bool, missing: Sequence[str]
) -> None:
    logs = [[row for row in log if stays(row)] for log in recorded_logs(RECORDING)]
    (row,) = tables_of_logs(RECORDING, logs, complete_from_start=complete)["coverage"]
    assert answers_in(row) == ("not_provable", "not_provable", missing)


@pytest.mark.recordings
def test_digests_without_hashes_are_no_keys() -> None:
    logs = recorded_logs(RECORDING)
    tables = tables_of_logs(RECORDING, logs, keys_digested=True)
    (row,) = tables["coverage"]
    assert answers_in(row) == ("not_provable", "not_provable", ["keys"])
    broken = {metric["rule"]: metric["violations"] for metric in tables["metrics"] if metric["violations"]}
    assert broken == {}


@pytest.mark.parametrize("phase", ["start", "end"])
@pytest.mark.recordings
def test_one_side_of_rows_is_judged_by_what_it_shows(phase: str) -> None:
    logs = [[row for row in log if row.get("phase", phase) == phase] for log in recorded_logs(RECORDING)]
    (row,) = tables_of_logs(RECORDING, logs)["coverage"]
    assert row["order_verdict"] in ("kept", "not_provable")
    assert row["dispatches_judged"] > row["dispatches"] * 0.99


@pytest.mark.recordings
def test_a_hung_consumer_holds_up_a_subscription_that_keeps_order() -> None:
    (row,) = tables_of_logs("hung-consumer-4.0.8", recorded_logs("hung-consumer-4.0.8"))["coverage"]
    assert answers_in(row) == ("kept", "held_up", [])
    assert (row["held_up_cause"], row["held_up_by"]) == ("look_ahead_limit", "c7 (consumer 28)")
    assert row["held_up_seconds"] == pytest.approx(7.3, abs=0.01)


@pytest.mark.parametrize(
    ("backlog", "progress"),
    [({"msg_backlog": 3}, "not_provable"), ({"msg_backlog": 2}, "nothing_sent"), ({}, "nothing_sent")],
)
def test_a_backlog_without_a_row_is_not_nothing(backlog: Mapping[str, int], progress: str) -> None:
    """Two messages are held, or delayed, and nothing is published or sent."""
    log = Log()
    log.join(1)
    log.snapshot(reported(1), **{"unacked_messages": 1, "msg_delayed": 1, **backlog})
    missing = ["open_entries"] if progress == "not_provable" else []
    assert answers_in(answers_on(log)) == ("nothing_sent", progress, missing)
