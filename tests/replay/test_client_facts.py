"""What clients do, as findings that only inform: each of these logs gives one, and nearly the same log gives none."""

import pytest
from local_replay import HIGH, LOW, Log, batch_sent_again, replayed

from dispatch_audit.pipeline.replay.clients.client_facts import client_findings
from dispatch_audit.pipeline.replay.verdicts.dispatch_findings import dispatch_findings


def _found(log: Log) -> dict[str, int]:
    findings = client_findings(replayed(log.rows).context)
    return {of.rule: len(of.worst) for of in findings if of.worst}


def _sent_and_returned(times: int) -> Log:
    log = Log()
    log.join(1)
    log.publish(0, LOW)
    for _ in range(times):
        log.dispatch(1, 0, LOW)
        log.redeliver(1, 0)
    return log


def test_an_entry_that_is_sent_three_times_and_never_acknowledged() -> None:
    assert _found(_sent_and_returned(3)) == {"never_acknowledged": 1}
    assert _found(_sent_and_returned(2)) == {}


def test_an_entry_that_is_acknowledged_at_last_is_none() -> None:
    log = _sent_and_returned(3)
    log.dispatch(1, 0, LOW)
    log.ack(1, 0)

    assert _found(log) == {}


def _often(times: int) -> list[str]:
    log = _sent_and_returned(times - 1)
    log.dispatch(1, 0, LOW)
    log.ack(1, 0)
    of_rules = dispatch_findings(replayed(log.rows).context)
    return [finding.explanation.what for of in of_rules if of.rule == "sent_often" for finding in of.worst]


def test_an_entry_that_is_sent_four_times_before_it_is_acknowledged() -> None:
    (said,) = _often(4)

    assert said.startswith("entry 1:0 was sent 4 times before c1 (consumer 1) acknowledged it")
    assert _often(3) == []


def test_a_consumer_that_holds_entries_for_five_seconds_and_acknowledged_none() -> None:
    log = Log()
    log.join(1)
    for entry in range(2):
        log.publish(entry, LOW)
        log.dispatch(1, entry, LOW)
    assert _found(log) == {}
    log.now_us += 5_000_000
    log.publish(2, LOW)
    (silent,) = next(of for of in client_findings(replayed(log.rows).context) if of.rule == "never_acknowledged").worst
    assert "c1 (consumer 1) never acknowledged anything: it holds 2 entries, 1:0 and" in silent.explanation.what
    log.ack(1, 1)

    assert _found(log) == {}


def _shares(busy: int, quiet: int, *, anew: bool = False) -> list[str]:
    """What is said of two consumers that were sent so many entries; the second one connects anew."""
    log = Log()
    log.join(1, name="busy")
    log.join(2, name="quiet")
    for entry in range(busy + quiet):
        consumer, key = (1, LOW) if entry < busy else (2, HIGH)
        log.publish(entry, key)
        log.dispatch(consumer, entry, key)
        log.ack(consumer, entry)
    if anew:
        log.leave(2)
        log.join(3, name="quiet")
    of_rules = client_findings(replayed(log.rows).context)
    return [finding.explanation.what for of in of_rules if of.rule == "uneven_share" for finding in of.worst]


def test_the_busiest_consumer_and_the_idle_ones_by_name_with_their_shares() -> None:
    assert _shares(15, 5) == _shares(8, 1) == []
    assert _shares(16, 4) == ["busy was sent 80% of 20 dispatches, the most of 2 consumers; least: quiet (20%)"]
    idle = "busy was sent 96% of 26 dispatches, the most of 2 consumers; idle or nearly so: quiet (4%)"
    assert _shares(25, 1) == _shares(25, 1, anew=True) == [idle]


def test_consumers_that_ask_for_different_policies() -> None:
    log = Log()
    log.join(1)
    assert _found(log) == {}
    log.join(2, allow_out_of_order=True)

    assert _found(log) == {"different_policies": 1}


@pytest.mark.parametrize(
    ("last", "version", "facts"), [([0b011], "4.2.4", 1), (None, "4.2.4", 0), ([0b011], "3.0.7", 0)]
)
def test_a_batch_that_was_acknowledged_in_parts_only_stays_pending(
    last: list[int] | None, version: str, facts: int
) -> None:
    log = batch_sent_again()
    log.ack(1, 0, ack_set=last)
    found = [of for of in client_findings(replayed(log.rows, version=version).context) if of.worst]
    assert len(found) == facts
    for of in found:
        (kept,) = of.worst
        assert (of.rule, kept.detail) == ("never_acknowledged", {"held": 1})
        assert "acknowledged all messages of 1 batch, 1:0 the first, in parts only" in kept.explanation.what
        assert "#26125" in kept.explanation.why[0]


def _refused(log: Log, consumer_name: str, reason: str, error: str, **policy: object) -> None:
    log.write("join", phase="start", consumer_name=consumer_name, reason=reason, error=error, **policy)


def test_refused_joins_are_counted_by_name_and_say_what_stood_in_the_way() -> None:
    log = Log()
    log.join(1, ranges=((0, 65535),))
    for _ in range(3):
        asked = [{"start": 0, "end": 30_000}]
        _refused(log, "late", "ConsumerAssignError", "Range conflict", key_shared_mode="STICKY", ranges=asked)
    _refused(log, "other", "NotAllowedError", "Key-Shared policy differs", key_shared_mode="AUTO_SPLIT")
    late, other = next(of for of in client_findings(replayed(log.rows).context) if of.rule == "refused_join").worst

    assert late.explanation.what == "the join of late was refused 3 times, by ConsumerAssignError: Range conflict"
    assert "ranges overlap" in late.explanation.why[0]
    assert "different policies" in other.explanation.why[0]


def test_a_join_beyond_a_limit_is_told_the_limit() -> None:
    log = Log()
    log.join(1)
    _refused(log, "other", "ConsumerBusy", "Subscription reached max consumers limit", key_shared_mode="AUTO_SPLIT")
    (found,) = next(of for of in client_findings(replayed(log.rows).context) if of.rule == "refused_join").worst
    assert "allows no more (maxConsumersPerSubscription, maxConsumersPerTopic): 1 consumer" in found.explanation.why[0]


def test_a_join_that_was_refused_before_it_succeeded_leaves_no_consumer_behind() -> None:
    log = Log()
    _refused(log, "c1", "ServiceNotReady", "not loaded yet", key_shared_mode="AUTO_SPLIT")
    log.join(1)

    assert _found(log) == {"refused_join": 1}
    assert list(replayed(log.rows).context.stays) == [1]
