"""What clients do, as findings that only inform: each of these logs gives one, and nearly the same log gives none."""

from local_replay import LOW, Log, replayed

from dispatch_audit.pipeline.replay.clients.client_facts import client_findings


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


def test_consumers_that_ask_for_different_policies() -> None:
    log = Log()
    log.join(1)
    assert _found(log) == {}
    log.join(2, allow_out_of_order=True)

    assert _found(log) == {"different_policies": 1}


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


def test_a_join_that_was_refused_before_it_succeeded_leaves_no_consumer_behind() -> None:
    log = Log()
    _refused(log, "c1", "ServiceNotReady", "not loaded yet", key_shared_mode="AUTO_SPLIT")
    log.join(1)

    assert _found(log) == {"refused_join": 1}
    assert list(replayed(log.rows).context.stays) == [1]
