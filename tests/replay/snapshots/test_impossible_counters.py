"""Counters below zero in snapshots: facts in the report, which name the flaw behind them and prove nothing else."""

from collections.abc import Sequence

import pytest
from local_replay import AUTO_SPLIT, LOW, Log, Replay, replayed, reported

from dispatch_audit.pipeline.replay.verdicts.finding import JudgedFinding
from dispatch_audit.pipeline.replay.verdicts.reported_findings import counter_findings


def _log(batch_size: int = 1) -> Log:
    log = Log()
    log.join(1)
    log.publish(0, LOW, batch_size=batch_size)
    log.dispatch(1, 0, LOW, batch_size=batch_size)
    log.ack(1, 0)
    log.now_us += 200_000
    return log


def _replayed(log: Log, version: str = "4.0.8") -> Replay:
    log.now_us += 2_000_000
    log.publish(99, LOW)
    return replayed(log.rows, version=version, settings=AUTO_SPLIT)


def _facts(replay: Replay) -> Sequence[JudgedFinding]:
    (found,) = counter_findings(replay.context)
    assert found.counts == ({"info": len(found.worst)} if found.worst else {})
    return found.worst


def test_fewer_than_no_unacknowledged_messages_of_a_consumer() -> None:
    log = _log()
    seq = log.snapshot(reported(1, unacked_messages=-3))
    (fact,) = _facts(_replayed(log))
    assert (fact.severity, fact.consumer, fact.consumer_name, fact.seq) == ("info", 1, "c1", seq)
    assert fact.detail is not None
    assert fact.detail["value"] == -3
    assert fact.known_bugs == ("#24096",)
    assert fact.explanation.sentence.startswith("for c1 (consumer 1) the broker reports -3 unacknowledged messages at ")
    assert f"(seq {seq})" in fact.explanation.sentence
    assert fact.explanation.why[0].startswith("known bug #24096: ")
    assert "A reconnect of the consumer corrects its counter." in fact.explanation.remedy


@pytest.mark.parametrize(("of_consumer", "total", "bug"), [(-3, -3, "#24096"), (0, -2, "#26289"), (5, -1, "#26289")])
def test_what_its_consumers_have_together_decides_which_flaw_lowered_the_total(
    of_consumer: int, total: int, bug: str
) -> None:
    log = _log()
    log.snapshot(reported(1, unacked_messages=of_consumer), unacked_messages=total)
    (*_, fact) = _facts(_replayed(log))
    assert (fact.consumer, fact.consumer_name) == (None, None)
    assert fact.known_bugs[0] == bug
    assert f"for the subscription the broker reports {total} unacknowledged messages" in fact.explanation.sentence
    assert f"and {of_consumer} for its consumers together" in fact.explanation.sentence


def test_a_broker_that_has_the_fix_is_not_told_of_the_flaw() -> None:
    log = _log()
    log.snapshot(reported(1, unacked_messages=0), unacked_messages=-2)
    (before,), (fixed,) = (_facts(_replayed(log, version)) for version in ("4.2.4", "4.2.5"))
    assert before.known_bugs[0] == "#26289"
    assert (fixed.known_bugs, fixed.explanation.why, fixed.explanation.remedy) == ((), (), "")


@pytest.mark.parametrize(("batch_size", "facts"), [(1, 1), (2, 0)])
def test_permits_may_be_below_zero_only_where_batches_were_sent(batch_size: int, facts: int) -> None:
    log = _log(batch_size)
    log.snapshot(reported(1, available_permits=-1))
    found = _facts(_replayed(log))
    assert [fact.known_bugs for fact in found] == [()] * facts
    assert all("-1 available permits" in fact.explanation.sentence for fact in found)


@pytest.mark.parametrize(("version", "bug"), [("4.0.8", "#26289"), ("4.0.14", None)])
def test_after_a_leave_permits_below_zero_name_the_flaw_of_the_total(version: str, bug: str | None) -> None:
    log = _log()
    log.join(2)
    log.leave(2)
    log.snapshot(reported(1, available_permits=-177_300))
    (fact,) = _facts(_replayed(log, version))
    assert fact.known_bugs[:1] == (() if bug is None else (bug,))


def test_a_counter_that_stays_below_zero_is_one_fact() -> None:
    log = _log()
    seqs = [log.snapshot(reported(1, unacked_messages=value)) for value in (-1, -2, 0, -1, 1)]
    assert [fact.seq for fact in _facts(_replayed(log))] == [seqs[0], seqs[3]]


def test_counters_that_can_be_are_no_facts() -> None:
    log = _log()
    log.snapshot(reported(1, unacked_messages=0, available_permits=0), unacked_messages=0)
    replay = _replayed(log)
    assert _facts(replay) == []
    assert replay.replayed.snapshots.counters.checked == 3


@pytest.mark.parametrize(("first", "then"), [(0, -1), (-1, 0)])
def test_a_count_that_is_too_low_proves_nothing_of_duplicates(first: int, then: int) -> None:
    # Sent twice by overlapping reads; the count neither proves nor refutes it, because another flaw lowered it.
    log = Log()
    log.join(1)
    log.publish(0, LOW)
    log.dispatch(1, 0, LOW)
    log.join(2)
    log.leave(1)
    log.now_us += 20_000
    log.dispatch(2, 0, LOW)
    log.snapshot(reported(2, unacked_messages=1 + first))
    again = log.dispatch(2, 0, LOW)
    log.snapshot(reported(2, unacked_messages=1 + then))
    verdict = _replayed(log).verdicts["early_duplicate", again]
    assert verdict.severity == "known_bug"
    assert "snapshot" not in verdict.because
