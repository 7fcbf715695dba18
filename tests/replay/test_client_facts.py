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
