"""Findings near a gap: rows that are missing may explain them, for a while."""

from typing import Any

import pytest
from local_replay import HIGH, LOW, Log, Replay, replayed, reported

SECOND_US = 1_000_000
SKEW_US = 10_000
# The entries after a gap are judged from the first publish on that comes so much later.
LATER_US = 200_000


def gap(log: Log, *events: str) -> int:
    seq = log.write("gap", dropped=1, dropped_events=[*(events or ("dispatch", "ack"))])
    log.rows[-1] |= {"seq_end": seq}
    return seq


def severities(replay: Replay) -> dict[tuple[str, int], str]:
    return {finding: verdict.severity for finding, verdict in replay.verdicts.items()}


def held(log: Log, *joined: int) -> None:
    """Consumer 1 holds entry 0 of LOW, which belongs to consumer 2 from then on."""
    log.join(1)
    log.publish(0)
    log.publish(1)
    log.dispatch(1, 0)
    log.now_us += SECOND_US
    log.join(2)
    log.now_us += SECOND_US


@pytest.mark.parametrize(("before_us", "severity"), [(SKEW_US // 2, "not_provable"), (2 * SKEW_US, "violation")])
def test_an_acknowledgement_right_behind_the_row_may_be_missing(before_us: int, severity: str) -> None:
    log = Log(step_us=0)
    held(log)
    sent = log.dispatch(2, 1)
    log.now_us += before_us
    seq = gap(log)
    replay = replayed(log.rows)
    assert severities(replay) == {("single_holder", sent): severity}
    if severity == "not_provable":
        because = replay.verdicts["single_holder", sent].because
        assert because == f"rows between seq {seq} and seq {seq} are missing, and they may explain it"


@pytest.mark.parametrize(("before_us", "severity"), [(SECOND_US // 2, "not_provable"), (2 * SECOND_US, "violation")])
def test_a_duplicate_is_judged_by_the_rest_of_its_read(before_us: int, severity: str) -> None:
    """Overlapping reads send a whole block twice, and what is missing may have been part of it."""
    log = Log(step_us=0)
    log.join(1)
    log.publish(0)
    log.dispatch(1, 0)
    sent = log.dispatch(1, 0)
    log.now_us += before_us
    gap(log)
    assert severities(replayed(log.rows)) == {("early_duplicate", sent): severity}


def after_gap(log: Log) -> None:
    """A gap, the publish from which on entries are judged again, and entries 10 and 11; consumer 1 is sent 10."""
    log.join(1)
    log.publish(0, HIGH)
    log.dispatch(1, 0, HIGH)
    gap(log)
    log.flow(1, 5)
    log.now_us += LATER_US
    for entry in (9, 10, 11):
        log.publish(entry, HIGH)
    log.dispatch(1, 10, HIGH)


@pytest.mark.parametrize("acked", [True, False])
def test_whether_a_replay_read_sent_it_first_may_be_missing(acked: bool) -> None:
    log = Log()
    after_gap(log)
    if acked:
        log.ack(1, 10)
    sent = log.dispatch(1, 10, HIGH)
    assert severities(replayed(log.rows)) == {("early_duplicate", sent): "not_provable"}


@pytest.mark.parametrize(("later_us", "severity"), [(0, "not_provable"), (2 * SECOND_US, "violation")])
def test_what_mark_delete_has_passed_explains_nothing_for_longer_than_a_read(later_us: int, severity: str) -> None:
    log = Log()
    after_gap(log)
    log.now_us += LATER_US
    log.snapshot(reported(1), mark_delete_position="1:9", seq_begin=len(log.rows), seq_end=len(log.rows))
    log.now_us += LATER_US + later_us
    log.dispatch(1, 11, HIGH)
    log.publish(12, HIGH)
    log.dispatch(1, 12, HIGH)
    sent = log.dispatch(1, 12, HIGH)
    assert severities(replayed(log.rows)) == {("early_duplicate", sent): severity}


def overtaken(version: str, **join: Any) -> dict[tuple[str, int], str]:
    log = Log()
    after_gap(log)
    log.publish(12, HIGH)
    log.dispatch(1, 12, HIGH)
    log.dispatch(1, 11, HIGH)
    return {(rule, 0): severity for (rule, _), severity in severities(replayed(log.rows, version=version)).items()}


@pytest.mark.parametrize(
    ("version", "severity"), [("3.0.7", "not_provable"), ("4.0.1", "not_provable"), ("4.0.8", "violation")]
)
def test_an_overtaking_depends_on_the_past_where_a_flaw_of_the_broker_may_be_its_reason(
    version: str, severity: str
) -> None:
    """What 3.x sent and took back before (F1 to F4), and on 4.0.1 whether the hash drained (#23870)."""
    assert overtaken(version) == {("replay_overtaken", 0): severity, ("first_delivery_order", 0): severity}


def test_a_late_first_delivery_is_judged_as_the_dispatch_that_passed_it() -> None:
    """Both are right in front of the gap."""
    log = Log(step_us=0)
    log.join(1)
    log.publish(0, LOW)
    log.publish(1, LOW)
    passed = log.dispatch(1, 1, LOW)
    late = log.dispatch(1, 0, LOW)
    gap(log)
    found = severities(replayed(log.rows))
    assert found == {("replay_overtaken", passed): "not_provable", ("first_delivery_order", late): "not_provable"}
