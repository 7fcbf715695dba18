"""A broker that hangs: heartbeats show that its process ran, rows `hang` that its locks were held, and since when."""

from typing import Any

import pytest
from local_replay import (
    AUTO_SPLIT,
    LOW,
    SKEW_US,
    Log,
    chunks_of,
    named_in,
    one_waiting,
    replayed,
    reported,
    tables_of,
)

from dispatch_audit.pipeline.contract.profile import profile_for
from dispatch_audit.pipeline.groups.replay_group import replay_group
from dispatch_audit.pipeline.replay.config import ReplayConfig

SECOND_US = 1_000_000
DEADLOCK = (
    "a lock of org.apache.pulsar.broker.service.persistent.PersistentStickyKeyDispatcherMultipleConsumers, held by "
    "thread broker-topic-workers, which waits for a lock of "
    "org.apache.pulsar.broker.transaction.pendingack.impl.PendingAckHandleImpl, held by thread BookKeeperClientWorker; "
    "these threads wait for each other"
)
SNAPSHOT_SECONDS = 12


def beat(log: Log) -> int:
    return log.write("heartbeat", topic=None, subscription=None)


def snapshots(log: Log) -> None:
    """One each second, with which nothing waits that could be sent."""
    for _ in range(SNAPSHOT_SECONDS):
        log.now_us += SECOND_US
        log.snapshot(reported(1, available_permits=1_000), reported(2, available_permits=1_000))


def hanging(*, beats: bool, waits_for: str | None = None, over: bool = True) -> Log:
    """Consumers with permits, an entry that waits, and nine seconds in which the broker writes nothing else."""
    log = Log(step_us=0)
    for consumer in (1, 2):
        log.join(consumer)
        log.flow(consumer, 1_000)
    beat(log)
    snapshots(log)
    log.publish(0, LOW)
    log.dispatch(2, 0, LOW)
    log.publish(1, LOW)
    begun_us, begun_seq = log.now_us, len(log.rows)
    hang = {"seq_begin": begun_seq, "begun_us": begun_us}
    for second in range(1, 10):
        log.now_us += SECOND_US
        if beats and second % 2:
            beat(log)
        if beats and second == 5 and waits_for is not None:
            log.write("hang", phase="start", waits_for=waits_for, **hang)
    if over:
        if waits_for is not None:
            log.write("hang", phase="end", **hang)
        log.dispatch(2, 1, LOW)
        log.snapshot(reported(1), reported(2))
    return log


def stalls_of(log: Log, version: str = "4.2.4") -> list[dict[str, Any]]:
    rows = tables_of(log.rows, version=version)["violations"]
    return [row for row in rows if row["rule"] == "stalled"]


def test_a_process_that_ran_all_the_time_has_not_stood_still() -> None:
    (without,), (with_beats,) = stalls_of(hanging(beats=False)), stalls_of(hanging(beats=True))
    assert (without["severity"], with_beats["severity"]) == ("not_provable", "violation")
    assert "all of it may have stood still" in " ".join(without["why"])
    assert "stood still" not in " ".join(with_beats["why"])


def test_the_table_of_waits_calls_a_hang_by_its_name() -> None:
    for waits_for, cause in ((None, "unexplained"), ("a lock, held by thread t", "broker_hung")):
        rows = tables_of(hanging(beats=True, waits_for=waits_for).rows, version="4.2.4")["blocking"]
        of_all = [row for row in rows if row["scope"] == "subscription"]
        assert [row["cause"] for row in of_all] == [cause]
        assert ("it waited for a lock, held by thread t" in of_all[0]["explanation"]) == (waits_for is not None)


def test_a_stall_in_a_hang_says_who_held_the_locks_since_when() -> None:
    (found,) = stalls_of(hanging(beats=True, waits_for="a lock of a.Dispatcher, held by thread t"))
    assert found["severity"] == "violation"
    why = found["why"][0]
    assert why.startswith("the broker hung: a snapshot that began at 1970-01-01 00:16:52.000000 got no locks until ")
    assert why.endswith("it waited for a lock of a.Dispatcher, held by thread t")


@pytest.mark.parametrize("version", ["3.0.7", "4.2.4"])
def test_the_deadlock_with_pending_acknowledgements_is_a_known_bug(version: str) -> None:
    (found,) = stalls_of(hanging(beats=True, waits_for=DEADLOCK), version)
    assert (found["severity"], found["known_bug"]) == ("known_bug", "pending_ack_deadlock")


def test_a_broker_that_hangs_to_the_end_is_stalled_up_to_its_last_heartbeat() -> None:
    log = hanging(beats=True, waits_for=DEADLOCK, over=False)
    (found,) = stalls_of(log)
    assert found["detail"].find('"seconds": 9.0') >= 0
    assert "up to 1970-01-01 00:17:01" in found["why"][0]
    (coverage,) = tables_of(log.rows, version="4.2.4")["coverage"]
    assert coverage["progress"] == "stalled"


def idle(seconds: int, *, over: bool = True) -> Log:
    """As `hanging`, but nothing waits while the locks are held for so long."""
    log = one_waiting()
    log.dispatch(2, 1, LOW)
    for consumer, entry in ((1, 0), (2, 1)):
        log.ack(consumer, entry)
    hang = {"seq_begin": len(log.rows), "begun_us": log.now_us}
    log.now_us += seconds * SECOND_US
    log.write("hang", phase="start", waits_for=DEADLOCK, **hang)
    if over:
        log.write("hang", phase="end", **hang)
    return log


def test_a_hang_in_which_nothing_is_known_to_wait_is_told() -> None:
    for over in (True, False):
        log = idle(7, over=over)
        (found,) = stalls_of(log)
        assert found["severity"] == "not_provable"
        assert found["what"].startswith("the broker hung: a snapshot that began at 1970-01-01 00:16:40.0")
        (coverage,) = tables_of(log.rows, version="4.2.4")["coverage"]
        assert coverage["progress"] == "not_provable"


def test_a_hang_shorter_than_a_stall_is_not_told() -> None:
    assert stalls_of(idle(0)) == []


def test_a_hang_is_told_once_by_the_stall_that_it_explains() -> None:
    assert len(stalls_of(hanging(beats=True, waits_for=DEADLOCK))) == 1


def test_a_window_in_which_a_broker_hangs_shows_for_how_long_it_has_hung() -> None:
    log = hanging(beats=True, waits_for=DEADLOCK, over=False)
    for _ in range(40):
        log.now_us += 2 * SECOND_US
        beat(log)
    profile = profile_for("4.2.4", AUTO_SPLIT)
    config = ReplayConfig(profile, "4.2.4", profile.broker(AUTO_SPLIT), SKEW_US, 1_000, ends_us=log.now_us)
    (group,) = named_in([log.rows])
    chunks = chunks_of([log.rows], config)[group]
    coverage = dict(replay_group(group, chunks, config, 0, keep_state=True))["coverage"]
    assert (coverage["progress"], coverage["held_up_seconds"]) == (("held_up",), (89.0,))


def in_the_middle(*last: str) -> str:
    """The answer on progress of a log that ends with a dispatch and an acknowledgement that have begun."""
    log = one_waiting()
    log.dispatch(2, 1, LOW)
    log.ack(2, 1)
    log.publish(2, LOW)
    log.dispatch(2, 2, LOW, phases="start")
    log.ack(1, 0, phases="start")
    log.publish(3, LOW)
    for event in last:
        log.write(event, topic=None, subscription=None)
    (coverage,) = tables_of(log.rows, version="4.2.4")["coverage"]
    return f"{coverage['progress']} {' '.join(coverage['missing'])}"


def test_a_log_that_ends_in_order_ends_in_the_middle_of_nothing() -> None:
    assert in_the_middle() == in_the_middle("heartbeat") == "not_provable ending"
    assert in_the_middle("heartbeat", "end") == "flowing "


def test_a_log_that_ends_in_the_middle_says_from_when_on_nothing_is_known() -> None:
    log = one_waiting()
    log.dispatch(2, 1, LOW)
    log.ack(2, 1)
    log.publish(2, LOW)
    log.publish(3, LOW)
    log.dispatch(2, 2, LOW, phases="start")
    log.ack(1, 0, phases="start", transaction="(0,1)")
    (found,) = stalls_of(log)
    assert (found["severity"], found["known_bug"]) == ("not_provable", None)
    assert found["what"].startswith("the log ends at 1970-01-01 00:16:40.0")
    assert found["against"] == "1 entry waited, and 1 acknowledgement and 1 dispatch had begun"
    assert "known bug pending_ack_deadlock" in found["why"][0]


def test_what_a_recorder_says_of_itself_is_no_row_of_the_subscription() -> None:
    log = one_waiting()
    alone = replayed(log.rows).findings
    beat(log)
    log.write("end", topic=None, subscription=None)
    assert replayed(log.rows).findings == alone


@pytest.mark.parametrize(("reads", "severity"), [(0, "violation"), (1, "not_provable")])
def test_a_slow_read_from_storage_is_no_proof_against_the_dispatcher(reads: int, severity: str) -> None:
    log = one_waiting()
    for _ in range(SNAPSHOT_SECONDS):
        log.now_us += SECOND_US
        log.snapshot(reported(1, available_permits=1_000), reported(2, available_permits=1_000), pending_read_ops=reads)
    log.dispatch(2, 1, LOW)
    (found,) = stalls_of(log)
    assert found["severity"] == severity
    assert ("read from storage under way" in " ".join(found["why"])) == bool(reads)
