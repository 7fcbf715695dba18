"""The switch of the classic dispatcher concerns dispatchers that are created after it."""

import json
from collections import Counter

import pytest
from local_replay import LOW, Log, replayed, reported

from dispatch_audit.pipeline.contract.profile import CLASSIC_SETTING
from dispatch_audit.pipeline.contract.severity import Severity


@pytest.fixture
def log() -> Log:
    """Two consumers, which share the hashes."""
    log = Log()
    log.join(1)
    log.join(2)
    return log


def switch(log: Log, on: bool) -> None:
    log.write("settings", settings=[(CLASSIC_SETTING, json.dumps(on))])


def restarted(log: Log, first: int) -> None:
    log.reset("unload")
    log.join(first)
    log.join(first + 1)


def misrouted(log: Log, consumer: int, entry: int) -> int:
    """Sends an entry to the consumer that does not own its hash; returns the row."""
    log.publish(entry, LOW)
    return log.dispatch(consumer, entry, LOW)


def severity_at(log: Log, seq: int, version: str = "4.0.8") -> set[Severity]:
    verdicts = replayed(log.rows, version=version).verdicts
    return {verdict.severity for (_, at), verdict in verdicts.items() if at == seq}


def test_the_connected_dispatcher_stays_as_it_is(log: Log) -> None:
    switch(log, on=True)
    assert severity_at(log, misrouted(log, 1, 0)) == {"violation"}


def test_a_dispatcher_that_is_created_after_it_may_be_the_other_one(log: Log) -> None:
    before = misrouted(log, 1, 0)
    switch(log, on=True)
    restarted(log, 3)
    after = misrouted(log, 3, 1)
    assert (severity_at(log, before), severity_at(log, after)) == ({"violation"}, {"not_provable"})


def test_the_value_of_the_start_changes_nothing(log: Log) -> None:
    switch(log, on=False)
    restarted(log, 3)
    assert severity_at(log, misrouted(log, 3, 0)) == {"violation"}


def test_a_switch_back_in_time_changes_nothing(log: Log) -> None:
    switch(log, on=True)
    switch(log, on=False)
    restarted(log, 3)
    assert severity_at(log, misrouted(log, 3, 0)) == {"violation"}


def test_a_broker_without_a_classic_dispatcher_ignores_the_switch(log: Log) -> None:
    switch(log, on=True)
    restarted(log, 3)
    assert severity_at(log, misrouted(log, 3, 0), "5.0.0") == {"violation"}


def test_draining_hashes_of_snapshots_are_not_compared(log: Log) -> None:
    switch(log, on=True)
    restarted(log, 3)
    log.publish(0, LOW)
    log.dispatch(3, 0, LOW)
    at = len(log.rows)
    log.snapshot(
        *(reported(number, draining_hashes=[{"hash": 1, "unacked_messages": 1}]) for number in (3, 4)),
        seq_begin=at,
        seq_end=at,
    )
    found = replayed(log.rows).weighed
    assert (
        found["draining_mismatch", "not_provable"]
        == sum(n for (rule, _), n in found.items() if rule == "draining_mismatch")
        > 0
    )


@pytest.mark.parametrize(("on", "severity"), [(False, "violation"), (True, "not_provable")])
def test_a_stall_of_a_dispatcher_that_may_be_the_other_one(on: bool, severity: Severity) -> None:
    log = Log()
    switch(log, on=on)
    log.join(1)
    log.flow(1, 10)
    log.publish(0)
    log.now_us += 2_000_000
    log.dispatch(1, 0)
    assert replayed(log.rows).weighed == Counter({("stalled", severity): 1})
