"""Overlapping replay reads (F10, contract 6.6) and what only looks like them."""

import pytest
from local_replay import AUTO_SPLIT, HIGH, LOW, Log, Replay, replayed

from dispatch_audit.pipeline.contract.rules import EARLY_DUPLICATE
from dispatch_audit.pipeline.replay.durations import SNAPSHOT_NEAR_US
from dispatch_audit.pipeline.replay.subscription.snapshot_check import Surplus
from dispatch_audit.pipeline.replay.verdicts.context import FindingContext
from dispatch_audit.pipeline.replay.verdicts.dispatch_findings import judged
from dispatch_audit.pipeline.replay.verdicts.finding import FindingVerdict


def overlapping(
    order: tuple[int, ...] = (0, 1),
    gap_us: int = 0,
    count: int | None = None,
    acked: tuple[int, ...] = (),
    read_batch: int = 100,
) -> Replay:
    """Consumer 1 leaves 0 and 1 behind; 2 is sent both, acknowledges some, and is sent both again in some order."""
    log = Log()
    log.join(1)
    log.join(2)
    for entry in range(2):
        log.publish(entry, HIGH)
        log.dispatch(1, entry, HIGH)
    log.leave(1)
    for entry in range(2):
        log.dispatch(2, entry, HIGH)
    if acked:
        log.ack(2, *acked)
    log.now_us += gap_us
    for entry in order:
        log.dispatch(2, entry, HIGH, count=count)
    return replayed(log.rows, settings={**AUTO_SPLIT, "dispatcherMaxReadBatchSize": read_batch})


def verdicts(replay: Replay, *surpluses: Surplus) -> list[FindingVerdict]:
    replay.replayed.snapshots.surpluses = list(surpluses)
    return judged(replay.context)


def severities(replay: Replay, *surpluses: Surplus) -> list[str]:
    of_duplicates = [v for v in verdicts(replay, *surpluses) if v.severity != "not_provable"]
    return [verdict.severity for verdict in of_duplicates]


@pytest.mark.parametrize(
    ("order", "gap_us", "expected"),
    [
        ((0, 1), 0, ["known_bug", "known_bug"]),
        ((0,), 0, ["known_bug"]),
        ((1, 0), 0, ["violation", "violation"]),
        ((0, 1), 1_000_000, ["violation", "violation"]),
        ((0, 1, 0, 1), 0, ["known_bug"] * 4),
    ],
)
def test_a_block_comes_again_in_the_same_order_within_a_read(
    order: tuple[int, ...], gap_us: int, expected: list[str]
) -> None:
    assert severities(overlapping(order, gap_us)) == expected


@pytest.mark.parametrize(("read_batch", "severity"), [(1, "known_bug"), (2, "violation")])
def test_reads_of_one_entry_each_come_in_any_order(read_batch: int, severity: str) -> None:
    assert severities(overlapping((1, 0), read_batch=read_batch)) == [severity] * 2


def test_the_second_read_sends_the_same_count() -> None:
    assert severities(overlapping(count=1)) == ["violation", "violation"]


def test_the_flaw_has_an_exception() -> None:
    for verdict in verdicts(overlapping()):
        assert (verdict.permitted_by, verdict.known_bugs) == ("E17", ("F10",))


@pytest.mark.parametrize(
    ("before", "after", "severity", "because"),
    [
        (0, 2, "known_bug", "and the snapshot at seq 1000 proves it"),
        (3, 5, "known_bug", "and the snapshot at seq 1000 proves it"),
        (0, 1, "known_bug", "the signature of"),
        (0, 0, "violation", "the snapshot at seq 1000 shows that the broker did not send it twice"),
        (3, 3, "violation", "the snapshot at seq 1000 shows that the broker did not send it twice"),
    ],
)
def test_snapshots_prove_or_refute_it(before: int, after: int, severity: str, because: str) -> None:
    replay = overlapping()
    for verdict in verdicts(replay, *_surpluses(replay, before, after)):
        assert verdict.severity == severity
        assert because in verdict.because


@pytest.mark.parametrize(("before_us", "after_us"), [(SNAPSHOT_NEAR_US + 1, 0), (0, SNAPSHOT_NEAR_US + 1)])
def test_a_snapshot_far_away_says_nothing(before_us: int, after_us: int) -> None:
    replay = overlapping()
    for verdict in verdicts(replay, *_surpluses(replay, 3, 3, before_us, after_us)):
        assert verdict.because.startswith("this is the signature of")


@pytest.mark.parametrize(("asked_us", "severity"), [(-1, "violation"), (1, "known_bug")])
def test_a_request_for_all_that_a_consumer_holds_lets_the_broker_count_anew(asked_us: int, severity: str) -> None:
    replay = overlapping()
    surpluses = _surpluses(replay, 0, 0, before_us=10)
    asked = [surplus._replace(redelivered_us=surpluses[0].ts_us + asked_us) for surplus in surpluses]
    assert {verdict.severity for verdict in verdicts(replay, *asked)} == {severity}


def _surpluses(replay: Replay, before: int, after: int, before_us: int = 0, after_us: int = 0) -> list[Surplus]:
    """What snapshots say that are so much older than the first duplicate, and so much newer than the last."""
    times = replay.replayed.findings.ts_us
    first_us, last_us = int(times.min()) - before_us, int(times.max()) + after_us
    return [
        Surplus(1, 1, 1, 1, before, first_us),
        Surplus(1000, 1000, 1000, 1, after, last_us),
        Surplus(1001, 1001, 1001, 0, 0, last_us),
    ]


def test_what_went_to_the_new_owner_is_counted_once_by_either() -> None:
    log = Log()
    log.join(1)
    log.publish(0)
    log.dispatch(1, 0)
    log.join(2)
    log.leave(1)
    log.dispatch(2, 0)
    log.join(3)  # takes over the hash
    log.dispatch(3, 0)
    replay = replayed(log.rows, version="3.0.7")
    found = replay.replayed.findings
    (at,) = (found.rule == EARLY_DUPLICATE).nonzero()[0]
    for surpluses in [], [Surplus(1000, 1000, 1000, 2, 0, int(found.ts_us.max()))]:
        verdict = verdicts(replay, *surpluses)[at]
        assert (verdict.severity, verdict.because) == ("known_bug", "this is consistent with overlapping replay reads")


# Acknowledged between the two: the second read had them before.


@pytest.mark.parametrize("acked", [(0,), (1,), (0, 1)])
@pytest.mark.parametrize(
    ("order", "gap_us", "severity"),
    [((0, 1), 0, "known_bug"), ((1, 0), 0, "violation"), ((0, 1), 1_000_000, "violation")],
)
def test_the_second_read_sends_what_was_acknowledged_meanwhile(
    acked: tuple[int, ...], order: tuple[int, ...], gap_us: int, severity: str
) -> None:
    replay = overlapping(order, gap_us, acked=acked)
    assert {finding.rule for finding in replay.findings} == {"early_duplicate"}
    assert sum(finding.acknowledged for finding in replay.findings) == len(acked)
    assert severities(replay) == [severity, severity]


def test_it_comes_again_after_its_acknowledgement_too() -> None:
    assert severities(overlapping((0, 1, 0), acked=(0, 1))) == ["known_bug"] * 3


def test_what_a_normal_read_sent_comes_not_again_after_its_acknowledgement() -> None:
    log = Log()
    log.join(1)
    log.publish(0, HIGH)
    log.dispatch(1, 0, HIGH)
    log.ack(1, 0)
    log.dispatch(1, 0, HIGH)
    (verdict,) = verdicts(replayed(log.rows))
    assert (verdict.severity, verdict.because) == (
        "violation",
        "a normal read sent it the first time, and only replay reads overlap",
    )


@pytest.mark.parametrize(("rewound", "severity"), [(True, "known_bug"), (False, "violation")])
def test_a_rewound_cursor_reads_once_more_what_replay_sent_and_it_was_acknowledged(
    rewound: bool, severity: str
) -> None:
    """It waited in replay as the last consumer left, was acknowledged at the next one, and was in replay again."""
    log = Log()
    log.join(1)
    log.publish(0, HIGH)
    log.dispatch(1, 0, HIGH)
    log.ack(1, 0)
    log.publish(1, HIGH)
    log.publish(2, HIGH)
    if rewound:
        log.leave(1)
        log.join(2)
    holder = 2 if rewound else 1
    for entry in (1, 2):
        log.dispatch(holder, entry, HIGH)
        log.ack(holder, entry)
    log.dispatch(holder, 1, HIGH)
    (verdict,) = verdicts(replayed(log.rows))
    assert verdict.severity == severity


def _highest_sent_twice(waited_us: int, messages: int | None) -> FindingVerdict:
    """The verdict on an entry that waited, was the highest sent, and is sent again; by so much a count is too high."""
    log = Log()
    log.join(1)
    log.join(2)
    log.publish(0)
    log.now_us += waited_us
    log.dispatch(2, 0)
    log.dispatch(2, 0)
    replay = replayed(log.rows, version="3.0.7")
    (verdict,) = verdicts(replay, *([] if messages is None else _surpluses(replay, 0, messages)))
    return verdict


@pytest.mark.parametrize(
    ("waited_us", "messages", "severity", "because"),
    [
        (900_000, None, "violation", "a normal read sent it"),
        (900_000, 1, "known_bug", "proves it"),
        (1_100_000, None, "not_provable", "no row shows whether it was in replay"),
        (1_100_000, 1, "known_bug", "proves it"),
        (1_100_000, 0, "violation", "did not send it twice"),
    ],
)
def test_what_waited_for_permits_was_in_replay_although_it_is_the_highest_that_was_sent(
    waited_us: int, messages: int | None, severity: str, because: str
) -> None:
    verdict = _highest_sent_twice(waited_us, messages)
    assert verdict.severity == severity
    assert because in verdict.because


@pytest.mark.parametrize(
    ("at_first", "severity"),
    [(((1, 1), (2, 0), (2, 2)), "known_bug"), (((1, 1), (2, 2), (2, 0)), "violation")],
    ids=["each in order", "not in order"],
)
def test_the_second_read_sends_to_one_newcomer_what_the_first_sent_to_several(
    at_first: tuple[tuple[int, int], ...], severity: str
) -> None:
    """A read orders what it sends to one consumer; which of them comes first is open."""
    ring: dict[str, object] = {"subscriptionKeySharedUseConsistentHashing": True}
    keys = (b"key-33", b"key-12", b"key-36")
    log = Log()
    log.join(1)
    log.join(2)
    for entry, key in enumerate(keys):
        log.publish(entry, key)
        log.dispatch(1 if entry == 1 else 2, entry, key)
    log.redeliver(1, 1)
    log.redeliver(2, 0, 2)
    for consumer, entry in at_first:
        log.dispatch(consumer, entry, keys[entry], count=1)
    log.join(3)  # takes all three hashes over
    for entry, key in enumerate(keys):
        log.dispatch(3, entry, key, count=1)
    replay = replayed(log.rows, version="3.0.7", settings=ring)
    of_duplicates = [verdict for (rule, _), verdict in replay.verdicts.items() if rule == "early_duplicate"]
    assert [verdict.severity for verdict in of_duplicates] == [severity] * 3


@pytest.mark.parametrize(("together", "severity"), [(True, "known_bug"), (False, "violation")])
def test_two_reads_that_overlap_send_to_several_consumers(together: bool, severity: str) -> None:
    """Entry 0 goes to 2 from replay, and 1, which is the highest, to 1."""
    log = Log()
    log.join(1)
    log.join(2)
    log.publish(0)
    log.dispatch(2, 0)
    log.redeliver(2, 0)
    log.publish(1, HIGH)
    sends = [(2, 0, LOW), (1, 1, HIGH)]
    for consumer, entry, key in [*sends, *sends] if together else [sends[0], sends[0], sends[1], sends[1]]:
        log.dispatch(consumer, entry, key, count=1 if entry == 0 else 0)
    assert severities(replayed(log.rows))[-1] == severity


@pytest.mark.parametrize(("tail", "severity"), [((2, 3), "known_bug"), ((3, 2), "violation")])
def test_the_end_of_a_block_may_be_the_highest_that_was_read(tail: tuple[int, ...], severity: str) -> None:
    """No row shows that 2 and 3 were in replay: nothing after them was sent before."""
    log = Log()
    log.join(1)
    log.join(2)
    for entry in range(4):
        log.publish(entry, HIGH)
    log.dispatch(1, 0, HIGH)
    log.leave(1)
    for entry in range(4):
        log.dispatch(2, entry, HIGH)
    log.ack(2, *range(4))
    for entry in (0, *tail):
        log.dispatch(2, entry, HIGH)
    assert severities(replayed(log.rows))[-1] == severity


@pytest.mark.parametrize("messages", [0, 1])
def test_no_snapshot_proves_or_refutes_what_was_counted_once_at_a_time(messages: int) -> None:
    replay = overlapping(acked=(0, 1))
    for verdict in verdicts(replay, *_surpluses(replay, 0, messages)):
        assert verdict.because == "this is the signature of overlapping replay reads"


def test_a_snapshot_speaks_of_those_of_a_block_that_were_held() -> None:
    replay = overlapping(acked=(0,))
    assert severities(replay, *_surpluses(replay, 0, 0)) == ["violation", "violation"]
    for verdict in verdicts(replay, *_surpluses(replay, 0, 1)):
        assert "and the snapshot at seq 1000 proves it" in verdict.because


@pytest.mark.parametrize("entry", [0, 1])
def test_no_entry_comes_before_itself(entry: int) -> None:
    """After an unload mark-delete is before what the new dispatcher has not sent yet, as far as rows show it."""
    log = Log()
    log.join(1)
    for number in range(2):
        log.publish(number, HIGH)
        log.dispatch(1, number, HIGH)
    log.reset("unload")
    log.join(2)
    log.now_us += 50_000
    log.publish(2, HIGH)
    for number in range(2):
        log.dispatch(2, number, HIGH)
    log.ack(2, entry)
    sent = log.dispatch(2, entry, HIGH)
    (finding,) = replayed(log.rows).findings
    assert (finding.rule, finding.seq, finding.acknowledged) == ("early_duplicate", sent, True)
    assert (finding.other_consumer, finding.other_seq >= 0) == (2, True)


def test_the_read_position_at_the_join_decides_where_a_snapshot_told_it() -> None:
    log = Log()
    log.join(1)
    log.publish(0)
    log.publish(1)
    log.dispatch(1, 0)
    log.join(2)
    log.dispatch(2, 1)
    replay = replayed(log.rows, version="3.0.7")
    for reported, severity in (((1, 2), "known_bug"), ((1, 1), "violation")):
        replay.replayed.snapshots.joined_at[2] = reported
        (verdict,) = judged(FindingContext(replay.replayed, replay.config))
        assert verdict.severity == severity
