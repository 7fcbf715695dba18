"""One standstill is one finding, however many entries were sent while the same entry waited."""

from typing import Any

from local_replay import HIGH, LOW, NO_RATES, Log, say, tables_of

SECOND_US = 1_000_000


def _passed_over(times: int, first: int = 0) -> Log:
    """Entry `first` waits for consumer 1, which is sent nothing; every two seconds consumer 2 is sent something."""
    log = Log()
    say(log, **NO_RATES)
    for consumer in (1, 2):
        log.join(consumer)
        log.write("flow", consumer=consumer, permits=1000)
    log.publish(first, HIGH)
    for entry in range(first + 1, first + 1 + times):
        log.now_us += 2 * SECOND_US
        log.publish(entry, LOW)
        log.dispatch(2, entry, LOW)
    return log


def _stalls(log: Log) -> list[dict[str, Any]]:
    found = tables_of(log.rows)["violations"]
    return [row for row in found if row["rule"] == "stalled" and row["sticky_hash"] is None]


def test_while_one_entry_waits_there_is_one_finding() -> None:
    log = _passed_over(4)
    (found,) = _stalls(log)
    assert found["severity"] == "violation"
    assert "for 8.0" in found["what"]
    assert "in 4 parts of up to 2.0" in found["what"]
    assert "3 entries were sent in between" in found["what"]
    intervals = [row for row in tables_of(log.rows)["blocking"] if row["scope"] == "subscription"]
    assert len(intervals) == 4


def test_two_entries_that_wait_one_after_the_other_are_two_findings() -> None:
    log = _passed_over(2)
    log.dispatch(1, 0, HIGH)
    log.publish(3, HIGH)
    log.now_us += 2 * SECOND_US
    log.dispatch(1, 3, HIGH)
    assert [(row["ledger_id"], row["entry_id"]) for row in _stalls(log)] == [(1, 0), (1, 3)]


def test_an_entry_that_is_given_back_waits_anew() -> None:
    log = _passed_over(1)
    log.dispatch(1, 0, HIGH)
    log.redeliver(1, 0)
    log.now_us += 2 * SECOND_US
    log.dispatch(1, 0, HIGH)
    assert [row["entry_id"] for row in _stalls(log)] == [0, 0]
