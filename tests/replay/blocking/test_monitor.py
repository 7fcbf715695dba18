"""Hashes that could be served and were not, while their owner was sent later entries (V10, V11).

Consumer 1 owns everything at first, 2 takes the lower half, 3 the lowest quarter. Rows take no time here: what passes
is written down.
"""

from collections.abc import Sequence

import pytest
from local_replay import (
    AUTO_SPLIT,
    HIGH,
    HIGHEST,
    LOW,
    LOWEST,
    RANGES,
    SKEW_US,
    Log,
    Replay,
    Tables,
    replayed,
    tables_of,
)
from windowed_replay import tables_of_windows

from dispatch_audit.pipeline.contract.profile import profile_for
from dispatch_audit.pipeline.replay.config import ReplayConfig
from dispatch_audit.pipeline.replay.settings.broker_limits import Thresholds
from dispatch_audit.pipeline.replay.verdicts.stalls.stall_findings import stuck_findings

SECOND = 1_000_000
LOW_HASH, LOWEST_HASH, HIGH_HASH = 21_772, 5_536, 41_358


def _sent(log: Log, consumer: int, entry: int, key: bytes) -> int:
    log.publish(entry, key)
    return log.dispatch(consumer, entry, key)


def _two() -> Log:
    log = Log(step_us=0)
    log.join(1)
    log.join(2)
    log.now_us += SECOND
    return log


def _drained() -> tuple[Log, int]:
    """LOW drained from consumer 1 and belongs to 2 now, where entries 1 and 2 of it wait; and the seq of the ack."""
    log = Log(step_us=0)
    log.join(1)
    _sent(log, 1, 0, LOW)
    log.join(2)
    log.publish(1, LOW)
    log.publish(2, LOW)
    log.now_us += SECOND
    return log, log.ack(1, 0)


def _told(replay: Replay) -> list[tuple[str, str]]:
    """Rule and severity of the findings on hashes; that nothing is sent meanwhile is a stall of all besides."""
    findings = stuck_findings(replay.context)
    return [
        (reported.rule, one.severity) for reported in findings for one in reported.worst if one.sticky_hash is not None
    ]


def test_a_drained_hash_that_is_passed_over_is_stuck() -> None:
    log, drained = _drained()
    _sent(log, 2, 3, LOWEST)
    log.now_us += 2 * SECOND
    _sent(log, 2, 4, LOWEST)
    log.now_us += SECOND
    sent = log.dispatch(2, 1, LOW)
    replay = replayed(log.rows)
    (found,) = replay.passed_over
    assert (found.hash, found.owner, found.entries) == (LOW_HASH, 2, 2)
    assert (found.head, found.passed) == ((1, 1), (1, 4))
    assert (found.from_seq, found.to_seq, found.ended_by) == (drained, sent, "dispatch")
    assert (found.drained_from, found.registered) == (1, 1)
    # One move, the join of 2: counted once, so it is not #23845.
    assert len(found.moves) == 1
    assert _told(replay) == [("draining_stuck", "violation")]


def test_a_hash_that_never_drained_is_stalled() -> None:
    log = _two()
    published = log.publish(0, HIGH)
    _sent(log, 1, 1, HIGHEST)
    log.now_us += 2 * SECOND
    _sent(log, 1, 2, HIGHEST)
    replay = replayed(log.rows)
    (found,) = replay.passed_over
    assert (found.hash, found.owner, found.drained_from, found.ended_by) == (HIGH_HASH, 1, -1, "open")
    assert found.from_seq == published
    assert _told(replay) == [("stalled", "violation")]
    # A filter may have rejected all that its hash ever had, if nothing says that there is none.
    assert _told(replayed(log.rows, settings=RANGES)) == [("stalled", "not_provable")]


def test_a_hash_whose_owner_got_nothing_later_is_none() -> None:
    log = _two()
    log.publish(0, HIGH)
    log.now_us += 2 * SECOND
    # Others are served, so it is no stall of all; its owner may have had no permits.
    _sent(log, 2, 1, LOW)
    assert replayed(log.rows).passed_over == []


def test_a_hash_whose_owner_was_sent_earlier_entries_only_is_none() -> None:
    log = _two()
    log.publish(0, HIGHEST)
    log.publish(1, HIGH)
    log.now_us += 2 * SECOND
    log.dispatch(1, 0, HIGHEST)
    assert replayed(log.rows).passed_over == []


def test_a_hash_that_was_passed_over_right_at_the_start_only_is_none() -> None:
    log = _two()
    log.publish(0, HIGH)
    _sent(log, 1, 1, HIGHEST)
    log.now_us += 2 * SECOND
    log.dispatch(1, 0, HIGH)
    assert replayed(log.rows).passed_over == []


@pytest.mark.parametrize(("waited_us", "reported"), [(SECOND - 1, 0), (SECOND, 1)])
def test_less_than_a_second_is_none(waited_us: int, reported: int) -> None:
    log = _two()
    log.publish(0, HIGH)
    _sent(log, 1, 1, HIGHEST)
    log.now_us += waited_us
    _sent(log, 1, 2, HIGHEST)
    log.dispatch(1, 0, HIGH)
    assert len(replayed(log.rows).passed_over) == reported


def test_a_hash_that_drains_is_not_passed_over() -> None:
    log = Log(step_us=0)
    log.join(1)
    _sent(log, 1, 0, LOW)
    log.join(2)
    log.publish(1, LOW)
    log.now_us += 2 * SECOND
    _sent(log, 2, 2, LOWEST)
    assert replayed(log.rows).passed_over == []


@pytest.mark.parametrize("aside", ["nacked", "delayed"])
def test_what_may_be_overtaken_is_not_passed_over(aside: str) -> None:
    log = _two()
    if aside == "nacked":
        _sent(log, 1, 0, HIGH)
        log.redeliver(1, 0)
    else:
        log.publish(0, HIGH, deliver_at_ms=log.now_us // 1000 + 60_000)
    log.now_us += 2 * SECOND
    _sent(log, 1, 1, HIGHEST)
    assert replayed(log.rows).passed_over == []


def test_a_change_of_owner_does_not_cut_one_finding_in_two() -> None:
    log = _two()
    published = log.publish(0, LOWEST)
    _sent(log, 2, 1, LOW)
    log.now_us += 2 * SECOND
    _sent(log, 2, 2, LOW)
    log.join(3)
    # Consumer 3 has the lowest quarter now: only another hash of it passes this one over.
    _sent(log, 3, 3, b"key-5")
    log.now_us += 2 * SECOND
    _sent(log, 3, 4, b"key-5")
    last = log.publish(5, LOW)
    (found,) = replayed(log.rows).passed_over
    assert (found.hash, found.owner, found.head, found.passed) == (LOWEST_HASH, 3, (1, 0), (1, 4))
    assert (found.from_seq, found.to_seq, found.ended_by) == (published, last, "open")


def test_a_hash_that_was_served_in_between_is_found_twice() -> None:
    log = _two()
    for entry in (0, 1):
        log.publish(entry, HIGH)
    _sent(log, 1, 2, HIGHEST)
    log.now_us += 2 * SECOND
    _sent(log, 1, 3, HIGHEST)
    log.dispatch(1, 0, HIGH)
    _sent(log, 1, 4, HIGHEST)
    log.now_us += 2 * SECOND
    _sent(log, 1, 5, HIGHEST)
    log.dispatch(1, 1, HIGH)
    assert [(found.head, found.ended_by) for found in replayed(log.rows).passed_over] == [
        ((1, 0), "dispatch"),
        ((1, 1), "dispatch"),
    ]


def _registered_twice() -> Log:
    """contract 3.9: LOW moves from 1 to 2, back, and to 3; its entry is counted as draining twice."""
    log = Log(step_us=0)
    log.join(1)
    log.flow(1, 1)
    _sent(log, 1, 0, LOW)
    log.join(2)
    log.leave(2)
    log.join(3)
    log.flow(3, 10)
    log.publish(1, LOW)
    log.now_us += SECOND
    log.ack(1, 0)
    log.now_us += 2 * SECOND
    _sent(log, 3, 2, LOWEST)
    return log


@pytest.mark.parametrize(
    ("version", "severity"), [("4.0.1", "known_bug"), ("4.0.4", "known_bug"), ("4.0.8", "violation")]
)
def test_a_hash_counted_twice_is_the_double_registration_where_brokers_have_it(version: str, severity: str) -> None:
    replay = replayed(_registered_twice().rows, version=version)
    (found,) = replay.passed_over
    assert (found.registered, found.drained_from, len(found.moves)) == (2, 1, 3)
    assert _told(replay) == [("draining_stuck", severity)]


@pytest.mark.parametrize(("others", "severity"), [([2], "known_bug"), ([], "violation")])
def test_a_hash_passed_over_on_an_older_broker_waits_behind_the_head_of_replay(
    others: Sequence[int], severity: str
) -> None:
    log = _two()
    log.publish(0, HIGH)
    for entry in others:
        log.publish(entry, LOW)
    _sent(log, 1, 1, HIGHEST)
    log.now_us += 2 * SECOND
    _sent(log, 1, 3, HIGHEST)
    assert _told(replayed(log.rows, version="3.0.7")) == [("stalled", severity)]


# What is kept.


def test_of_each_cause_the_intervals_that_cost_most_are_kept_and_the_others_counted() -> None:
    log = _two()
    for entry, messages in ((1_000, 1), (1_001, 5), (1_002, 3)):
        log.publish(entry, HIGH, batch_size=messages)
        log.now_us += SECOND // 2
        log.dispatch(1, entry, HIGH)
        # Sent at once, so that the next one begins an interval of its own.
        _sent(log, 1, entry - 1_000, HIGH)
    whole = replayed(log.rows).waits_of("hash")
    kept = replayed(log.rows, thresholds=Thresholds(intervals_max=2))
    assert [wait.waited_us for wait in whole] == [SECOND // 2, 5 * SECOND // 2, 3 * SECOND // 2]
    assert kept.waits_of("hash") == whole[1:]
    assert kept.replayed.monitor.intervals.left_out == {("hash", "not_read_yet"): 1}


def _several_stuck() -> Log:
    """HIGH is passed over twice and served; LOW, counted as draining twice, and LOWEST until the end."""
    log = _registered_twice()
    log.flow(1, 10)
    for entry in (10, 20):
        # Rows wait for snapshots that come late, so a window can end between the two only with time between them.
        log.now_us += 2 * SECOND
        log.publish(entry, HIGH)
        # Something is sent all the time: a stall of the whole subscription would be the finding.
        for later in range(entry + 1, entry + 5):
            log.now_us += SECOND // 2
            _sent(log, 1, later, HIGHEST)
        log.dispatch(1, entry, HIGH)
    return log


@pytest.mark.parametrize("kept", [1, 2])
@pytest.mark.parametrize("version", ["4.0.1", "4.0.8", "3.0.7"])
def test_findings_beyond_the_limit_weigh_what_they_weigh_with_their_evidence(version: str, kept: int) -> None:
    log = _several_stuck()
    whole = replayed(log.rows, version=version)
    limited = replayed(log.rows, version=version, thresholds=Thresholds(intervals_max=kept))
    # Without draining, LOW waited while nothing was sent to anybody: the stall is the finding.
    assert len(whole.passed_over) == (2 if version == "3.0.7" else 3)
    # The longest of those that had drained are kept, and of the others.
    for drained in (True, False):
        of_both = [[o for o in found.passed_over if (o.drained_from >= 0) == drained] for found in (whole, limited)]
        assert of_both[1] == sorted(of_both[0], key=lambda o: o.from_seq - o.to_seq)[:kept]
    assert limited.weighed == whole.weighed


def test_what_goes_on_under_another_owner_counts_once_beyond_the_limit_too() -> None:
    log = _two()
    log.publish(0, HIGH)
    log.publish(1, LOWEST)
    _sent(log, 1, 2, HIGHEST)
    _sent(log, 2, 3, LOW)
    log.now_us += 2 * SECOND
    _sent(log, 1, 4, HIGHEST)
    log.dispatch(1, 0, HIGH)
    _sent(log, 2, 5, LOW)
    log.join(3)
    _sent(log, 3, 6, b"key-5")
    log.now_us += 2 * SECOND
    _sent(log, 3, 7, b"key-5")
    whole = replayed(log.rows)
    limited = replayed(log.rows, thresholds=Thresholds(intervals_max=1))
    assert [found.hash for found in whole.passed_over] == [HIGH_HASH, LOWEST_HASH]
    assert [found.hash for found in limited.passed_over] == [HIGH_HASH]
    assert limited.weighed == whole.weighed


@pytest.mark.parametrize("permits", [1_000, None])
def test_stalls_beyond_the_limit_count_as_findings_if_they_are_some(permits: int | None) -> None:
    log = Log()
    log.join(1)
    if permits is not None:
        log.flow(1, permits)
    for entry in range(4):
        log.publish(entry)
        log.now_us += (2 + entry) * SECOND
        log.dispatch(1, entry)
        log.ack(1, entry)
    tables = tables_of(log.rows, thresholds=Thresholds(intervals_max=1))
    reported = [row["message_seconds"] for row in tables["blocking"] if row["cause"] == "unexplained"]
    (counts,) = [row for row in tables["metrics"] if row["rule"] == "stalled"]
    (partition,) = tables["coverage"]
    assert reported == [pytest.approx(5, abs=0.01)]
    # Without permits on record they are not provable.
    assert (counts["violations"], counts["not_provable"]) == ((4, 0) if permits else (0, 4))
    assert len(tables["violations"]) == 1
    left_out = replayed(log.rows, thresholds=Thresholds(intervals_max=1)).replayed.monitor.intervals.left_out
    assert left_out["subscription", "unexplained"] == 3
    assert partition["intervals_left_out"] == left_out.total()


@pytest.mark.heavy
def test_windows_count_what_is_beyond_the_limit_once() -> None:
    log = _several_stuck()
    log.now_us += 3 * SECOND
    log.dispatch(3, 1, LOW)
    profile = profile_for("4.0.8", AUTO_SPLIT)
    config = ReplayConfig(
        profile,
        "4.0.8",
        profile.broker(AUTO_SPLIT),
        SKEW_US,
        1_000,
        thresholds=Thresholds(intervals_max=1),
        unsettled_us=1,
    )

    def counted(windows: Sequence[Tables], rule: str) -> list[int]:
        return [row["violations"] for reported in windows for row in reported["metrics"] if row["rule"] == rule]

    in_two = [tables_of_windows([log.rows], config, [cut]) for cut in range(2, len(log.rows) + 1)]
    # LOW is passed over until the last row; of the others some are over at each cut.
    assert {tuple(counted(windows, "draining_stuck")) for windows in in_two} == {(0, 1)}
    assert {tuple(counted(windows, "stalled")) for windows in in_two} == {(0, 2), (1, 1), (2, 0)}


# That the rows may be cut anywhere.


@pytest.mark.parametrize("rows_per_batch", [1, 3, 777])
@pytest.mark.parametrize("version", ["4.0.1", "4.0.8", "3.0.7"])
def test_how_the_rows_are_cut_changes_nothing(version: str, rows_per_batch: int) -> None:
    log = _registered_twice()
    log.publish(3, HIGH)
    log.snapshot(msg_in_replay=3, read_position="1:3", seq_begin=len(log.rows) - 3, seq_end=len(log.rows))
    log.now_us += 2 * SECOND
    log.flow(1, 10)
    log.dispatch(1, 3, HIGH)
    settings = {**AUTO_SPLIT, "maxUnackedMessagesPerConsumer": 4}
    whole = replayed(log.rows, version=version, settings=settings)
    assert {wait.scope for wait in whole.waits} == {"consumer", "hash", "subscription"}
    assert replayed(log.rows, version=version, settings=settings, rows_per_batch=rows_per_batch).bytes == whole.bytes
