"""Findings that rest on acknowledgements, or on leaves, in traces that have no such row."""

import pytest
from local_replay import AUTO_SPLIT, HIGH, LOW, Log, replayed, tables_of

from dispatch_audit.pipeline.replay.verdicts.context import SENT_WITHOUT_ACK_MAX

NOT_SAID: frozenset[str] = frozenset()


def severities(log: Log, written: frozenset[str] = NOT_SAID, **settings: object) -> dict[str, set[str]]:
    """The severities of the findings, by rule."""
    replay = replayed(log.rows, settings={**AUTO_SPLIT, **settings}, written=written)
    found: dict[str, set[str]] = {}
    for (rule, _), verdict in replay.verdicts.items():
        found.setdefault(rule, set()).add(verdict.severity)
    return found


def lacking(log: Log) -> list[str]:
    (row,) = tables_of(log.rows, settings=AUTO_SPLIT, written=NOT_SAID)["coverage"]
    return list(row["missing"])


@pytest.fixture
def log() -> Log:
    """Consumer 1 has HIGH, and 2 has LOW."""
    log = Log()
    log.join(1)
    log.join(2)
    return log


def _many(log: Log, number: int = SENT_WITHOUT_ACK_MAX, consumer: int = 2) -> None:
    """A consumer is sent more entries."""
    for entry in range(5, 5 + number):
        log.publish(entry, LOW)
        log.dispatch(consumer, entry, LOW)


def _to_another(log: Log, *, acks: bool, more: int = SENT_WITHOUT_ACK_MAX) -> None:
    """Consumer 1 is sent an entry, and consumer 2 the next one of that hash and many others."""
    for entry, consumer, key in ((0, 1, HIGH), (1, 2, LOW), (2, 2, HIGH), (3, 1, HIGH), (4, 2, LOW)):
        log.publish(entry, key)
        log.dispatch(consumer, entry, key)
    _many(log, more)
    if acks:
        log.ack(2, 4)
    log.flow(1, 10)
    log.flow(2, 10)


@pytest.mark.parametrize(("acks", "severity"), [(True, "violation"), (False, "not_provable")])
def test_two_holders_need_acknowledgements(log: Log, acks: bool, severity: str) -> None:
    _to_another(log, acks=acks)
    assert severities(log)["single_holder"] == {severity}
    assert lacking(log) == ([] if acks else ["acknowledgements"])


def test_consumers_of_a_short_trace_may_hold_all_that_they_were_sent(log: Log) -> None:
    _to_another(log, acks=False, more=0)
    assert severities(log)["single_holder"] == {"violation"}
    assert lacking(log) == []


def test_a_recorder_that_says_that_it_writes_them_shows_that_there_were_none(log: Log) -> None:
    _to_another(log, acks=False)
    assert severities(log, frozenset({"ack"}))["single_holder"] == {"violation"}


def test_a_recorder_that_names_other_rows_only_writes_no_acknowledgements(log: Log) -> None:
    _to_another(log, acks=False, more=0)
    assert severities(log, frozenset({"dispatch"}))["single_holder"] == {"not_provable"}


@pytest.mark.parametrize("came_back", [True, False], ids=["came-back", "stayed"])
@pytest.mark.parametrize("leaves", [True, False], ids=["leaves", "no-leaves"])
@pytest.mark.parametrize("there", [True, False], ids=["there", "not-seen-again"])
def test_what_a_consumer_owned_that_is_not_seen_again_may_be_owned_by_others(
    log: Log, there: bool, leaves: bool, came_back: bool
) -> None:
    log.join(3, name="c2" if came_back else None)
    if leaves:
        log.leave(3)
    log.publish(0, HIGH)
    log.dispatch(1, 0, HIGH)
    log.ack(1, 0)
    log.publish(1, HIGH)
    log.dispatch(2, 1, HIGH)
    log.ack(2, 1)
    for consumer in (1, 2, *((3,) if not leaves else ())):
        if there or consumer != 1:
            log.flow(consumer, 10)
    proven = there or leaves or not came_back
    found = severities(log)
    assert found["ownership"] == {"violation" if proven else "not_provable"}
    assert lacking(log) == ([] if proven else ["leaves"])


def test_an_idle_consumer_that_is_not_seen_again_may_have_left_as_well(log: Log) -> None:
    log.join(3, name="c2")
    for entry, consumer in ((0, 1), (1, 2)):
        log.publish(entry, HIGH)
        log.dispatch(consumer, entry, HIGH)
        log.ack(consumer, entry)
    log.flow(1, 10)
    log.flow(2, 10)
    assert severities(log)["ownership"] == {"not_provable"}


@pytest.mark.parametrize(("acks", "severity"), [(True, "violation"), (False, "not_provable")])
def test_the_count_of_redeliveries_needs_acknowledgements(log: Log, acks: bool, severity: str) -> None:
    log.publish(0, HIGH)
    log.dispatch(1, 0, HIGH, count=0)
    log.redeliver(1, 0)
    log.dispatch(1, 0, HIGH, count=0)
    _many(log)
    if acks:
        log.ack(1, 0)
    assert severities(log)["redelivery_count"] == {severity}


@pytest.mark.parametrize(("acks", "severity"), [(True, "violation"), (False, "not_provable")])
def test_a_stall_needs_acknowledgements(acks: bool, severity: str) -> None:
    log = Log()
    log.join(1)
    log.flow(1, SENT_WITHOUT_ACK_MAX + 10)
    log.publish(0)
    log.now_us += 2_000_000
    log.dispatch(1, 0)
    _many(log, consumer=1)
    if acks:
        log.ack(1, 0)
    replay = replayed(log.rows, written=NOT_SAID)
    assert replay.weighed == {("stalled", severity): 1}


@pytest.mark.parametrize(("leaves", "severity"), [(True, "violation"), (False, "not_provable")])
def test_who_could_be_sent_something_in_a_stall_may_have_left(log: Log, leaves: bool, severity: str) -> None:
    """Consumer 2 has no permits, and owns the hash of the entry if consumer 1 has left."""
    log.join(3, name="c2")
    log.flow(1, 10)
    if leaves:
        log.leave(3)
    log.publish(0, HIGH)
    log.now_us += 2_000_000
    log.flow(2, 10)
    assert replayed(log.rows, settings=AUTO_SPLIT, written=NOT_SAID).weighed == {("stalled", severity): 1}
