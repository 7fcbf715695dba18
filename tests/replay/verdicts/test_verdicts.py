"""What each finding weighs: the same shape with and without what excuses it. Recordings have their own tests."""

import pytest
from local_replay import AUTO_SPLIT, HIGH, LOW, LOWEST, SKEW_US, Log, Replay, replayed, say

from dispatch_audit.pipeline.replay.verdicts.finding import FindingVerdict

CLASSIC = {**AUTO_SPLIT, "subscriptionKeySharedUseClassicPersistentImplementation": True}
READ_US = 1_000_000


def verdict_on(replay: Replay, rule: str, seq: int) -> tuple[str, str | None, tuple[str, ...]]:
    """Severity, exception and known flaws of a finding."""
    verdict: FindingVerdict = replay.verdicts[rule, seq]
    return verdict.severity, verdict.permitted_by, verdict.known_bugs


VIOLATION = ("violation", None, ())


def one_consumer(**join: bool) -> Log:
    log = Log()
    log.join(1, **join)  # type: ignore[arg-type]  # passed on as given
    for entry in range(3):
        log.publish(entry)
    return log


# What the marks alone permit.


@pytest.mark.parametrize(("out_of_order", "expected"), [(True, ("permitted", "E5", ())), (False, VIOLATION)])
def test_out_of_order_subscriptions_may_overtake(out_of_order: bool, expected: object) -> None:
    log = one_consumer(allow_out_of_order=out_of_order)
    sent = log.dispatch(1, 1)
    assert verdict_on(replayed(log.rows), "replay_overtaken", sent) == expected


@pytest.mark.parametrize(("deliver_at_ms", "expected"), [(2_000, ("permitted", "E2", ())), (None, VIOLATION)])
def test_a_delayed_entry_may_be_overtaken(deliver_at_ms: int | None, expected: object) -> None:
    log = Log()
    log.join(1)
    log.publish(0, deliver_at_ms=deliver_at_ms)
    log.publish(1)
    sent = log.dispatch(1, 1)
    assert verdict_on(replayed(log.rows), "replay_overtaken", sent) == expected


def test_a_delayed_entry_that_was_sent_and_left_behind_is_one_like_any_other() -> None:
    log = Log()
    log.join(1)
    log.join(2)
    log.publish(0, HIGH, deliver_at_ms=2_000)
    log.publish(1, HIGH)
    log.dispatch(1, 0, HIGH)
    log.leave(1)
    sent = log.dispatch(2, 1, HIGH)
    assert verdict_on(replayed(log.rows), "redelivery_order", sent) == VIOLATION


@pytest.mark.parametrize(
    ("delay_ms", "after_us", "expected"),
    [(60_000, 0, ("permitted", "E2", ())), (60_000, 62_000_000, VIOLATION), (500, 0, VIOLATION)],
    ids=["before its time", "after its time", "sent at its time, a tick early"],
)
def test_what_was_sent_before_its_time_and_left_behind_may_be_delayed_now(
    delay_ms: int, after_us: int, expected: object
) -> None:
    """Delayed delivery was off when it was sent, and may be on when it is back: every send looks at the time."""
    log = Log()
    log.join(1)
    log.join(2)
    log.publish(0, HIGH, deliver_at_ms=log.now_us // 1000 + delay_ms)
    log.publish(1, HIGH)
    log.dispatch(1, 0, HIGH)
    log.leave(1)
    log.now_us += after_us
    sent = log.dispatch(2, 1, HIGH)
    assert verdict_on(replayed(log.rows), "redelivery_order", sent) == expected


@pytest.mark.parametrize("on_again", [True, False])
def test_a_row_that_says_that_delays_are_on_again_covers_what_was_sent_before(on_again: bool) -> None:
    log = Log()
    say(log, delayedDeliveryEnabled=False)
    log.join(1)
    log.join(2)
    log.publish(0, HIGH, deliver_at_ms=log.now_us // 1000 + 60_000)
    log.publish(1, HIGH)
    log.dispatch(1, 0, HIGH)
    say(log, delayedDeliveryEnabled=on_again)
    log.leave(1)
    sent = log.dispatch(2, 1, HIGH)
    expected = ("permitted", "E2", ()) if on_again else VIOLATION
    assert verdict_on(replayed(log.rows), "redelivery_order", sent) == expected


@pytest.mark.parametrize("nacked", [True, False])
def test_what_was_nacked_may_be_overtaken_and_what_was_left_behind_may_not(nacked: bool) -> None:
    log = Log()
    log.join(1)
    log.join(2)
    log.publish(0, HIGH)
    log.dispatch(1, 0, HIGH)
    log.publish(1, HIGH)
    if nacked:
        log.redeliver(1, 0)
        sent = log.dispatch(1, 1, HIGH)
    else:
        log.leave(1)
        sent = log.dispatch(2, 1, HIGH)
    expected = ("permitted", "E1", ()) if nacked else VIOLATION
    assert verdict_on(replayed(log.rows), "redelivery_order", sent) == expected


@pytest.mark.parametrize("moved", [True, False])
def test_what_an_administrator_passed_may_be_held_by_two(moved: bool) -> None:
    log = Log()
    log.join(1)
    log.publish(0)
    log.publish(1)
    log.dispatch(1, 0)
    log.join(2)
    if moved:
        log.reset("expire")
    sent = log.dispatch(2, 1)
    expected = ("permitted", "E6", ("#25627",)) if moved else VIOLATION
    assert verdict_on(replayed(log.rows), "single_holder", sent) == expected


# E7: a replay read in flight.


@pytest.mark.parametrize(
    ("version", "after_us", "expected"),
    [
        ("4.2.4", 0, ("permitted", "E7", ())),
        ("4.2.4", READ_US, VIOLATION),
        ("5.0.1", 0, VIOLATION),
    ],
)
@pytest.mark.parametrize("waited", [True, False])
def test_a_replay_read_in_flight_may_overtake_what_was_just_left_behind(
    version: str, after_us: int, expected: object, waited: bool
) -> None:
    log = Log()
    log.join(1)
    log.join(2)
    log.publish(0, HIGH)
    log.dispatch(1, 0, HIGH)
    if waited:
        log.publish(1, HIGH)
        # What comes after it was sent, so it was read and waits in replay.
        log.publish(2, LOW)
        log.dispatch(2, 2, LOW)
    log.leave(1)
    if not waited:
        log.publish(1, HIGH)
    log.now_us += after_us
    sent = log.dispatch(2, 1, HIGH)
    assert verdict_on(replayed(log.rows, version=version), "redelivery_order", sent) == (
        expected if waited else VIOLATION
    )


def test_what_was_left_behind_together_entered_replay_together() -> None:
    log = Log()
    log.join(1)
    log.join(2)
    for entry in range(2):
        log.publish(entry, HIGH)
        log.dispatch(1, entry, HIGH)
    log.leave(1)
    sent = log.dispatch(2, 1, HIGH)
    assert verdict_on(replayed(log.rows), "redelivery_order", sent) == VIOLATION


@pytest.mark.parametrize(
    ("version", "another_left", "expected"),
    [("4.2.4", True, "not_provable"), ("4.2.4", False, "violation"), ("5.0.1", True, "violation")],
)
def test_a_read_may_have_been_put_back_when_another_consumer_left(
    version: str, another_left: bool, expected: str
) -> None:
    # What another leaver held enters replay below what a normal read brings, so all of that read enters replay too.
    log = Log()
    for consumer in (1, 2, 3):
        log.join(consumer)
    log.publish(0, LOWEST)
    log.dispatch(3, 0, LOWEST)
    log.publish(1, HIGH)
    log.dispatch(1, 1, HIGH)
    log.publish(2, HIGH)
    if another_left:
        log.leave(3)
    log.leave(1)
    sent = log.dispatch(2, 2, HIGH)
    assert verdict_on(replayed(log.rows, version=version), "redelivery_order", sent)[0] == expected


@pytest.mark.parametrize(("permits", "expected"), [(1, "not_provable"), (1000, "violation")])
def test_a_read_brings_more_than_the_consumer_that_left_had_permits_for(permits: int, expected: str) -> None:
    log = Log()
    for consumer in (1, 2):
        log.join(consumer)
        log.flow(consumer, permits)
    log.publish(0, HIGH)
    log.publish(1, HIGH)
    log.dispatch(1, 0, HIGH)
    log.leave(1)
    sent = log.dispatch(2, 1, HIGH)
    assert verdict_on(replayed(log.rows), "redelivery_order", sent)[0] == expected


@pytest.mark.parametrize(
    ("read_position", "rewound", "expected"),
    [("1:2", False, "not_provable"), ("1:1", False, "violation"), ("1:2", True, "violation")],
)
def test_a_snapshot_shows_what_was_read_and_put_back(read_position: str, rewound: bool, expected: str) -> None:
    log = Log()
    if not rewound:
        log.join(1)
        log.join(2)
    log.publish(0, HIGH)
    log.publish(1, HIGH)
    log.snapshot(read_position=read_position)
    if rewound:
        log.reset("seek")
        log.join(1)
        log.join(2)
    log.dispatch(1, 0, HIGH)
    log.leave(1)
    sent = log.dispatch(2, 1, HIGH)
    assert verdict_on(replayed(log.rows), "redelivery_order", sent)[0] == expected


@pytest.mark.parametrize(
    ("rejoins", "late_us", "expected"),
    [
        (True, 0, ("known_bug", "E3", ("F12",))),
        (True, 2 * READ_US, VIOLATION),
        (False, 0, VIOLATION),
    ],
)
def test_a_read_from_before_may_pass_what_waits_again_after_a_seek(
    rejoins: bool, late_us: int, expected: object
) -> None:
    """F12: the last consumer leaves, and what a read from before has goes to the next one."""
    log = one_consumer()
    for entry in (0, 1):
        log.dispatch(1, entry)
    log.ack(1, 0, 1)
    log.reset("seek")
    log.join(2)
    if rejoins:
        log.leave(2)
        log.join(3)
    log.now_us += late_us
    receiver = 3 if rejoins else 2
    log.dispatch(receiver, 1)
    sent = log.dispatch(receiver, 0)
    assert verdict_on(replayed(log.rows, version="4.2.4"), "first_delivery_order", sent) == expected


@pytest.mark.parametrize(("another_waits", "expected"), [(True, "not_provable"), (False, "violation")])
def test_a_read_brings_what_has_to_wait_behind_another_entry_of_its_hash(another_waits: bool, expected: str) -> None:
    log = Log()
    for consumer in (1, 2):
        log.join(consumer)
    log.flow(2, 1000)
    log.flow(1, 1)
    for entry in (0, 1):
        log.publish(entry, HIGH)
    log.dispatch(1, 0, HIGH)  # the last permit: 1 is put back
    log.flow(1, 1000)
    if another_waits:
        log.publish(2, HIGH)
    log.dispatch(1, 1, HIGH)
    if not another_waits:
        log.publish(2, HIGH)
    log.leave(1)
    sent = log.dispatch(2, 2, HIGH)
    assert verdict_on(replayed(log.rows), "redelivery_order", sent)[0] == expected


# One side of rows.


@pytest.mark.parametrize(("sides", "expected"), [("start end", "violation"), ("end", "not_provable")])
@pytest.mark.parametrize("event", ["dispatch", "ack"])
def test_no_limit_is_exceeded_for_certain_where_rows_have_one_side(event: str, sides: str, expected: str) -> None:
    log = Log()
    log.write("settings", settings=[("maxUnackedMessagesPerConsumer", "2")])
    log.join(1)
    for entry in range(4):
        log.publish(entry)
        sent = log.dispatch(1, entry, phases=sides if event == "dispatch" else "start end")
        if entry == 0:
            log.ack(1, entry, phases=sides if event == "ack" else "start end")
    replay = replayed(log.rows, settings={"maxUnackedMessagesPerConsumer": 2})
    assert verdict_on(replay, "unacked_limit", sent)[0] == expected


# Two holders under recently joined consumers.


def newcomer(published_after_the_join: bool = False, waited: bool = False) -> tuple[Log, int]:
    """Consumer 1 holds 0 of a hash; 2 joins, owns the hash and is sent 1 of it."""
    log = Log()
    log.join(1)
    log.publish(0)
    log.dispatch(1, 0)
    if not published_after_the_join:
        log.publish(1)
    if waited:
        log.publish(2, HIGH)
        log.dispatch(1, 2, HIGH)
    log.join(2)
    if published_after_the_join:
        log.now_us += 1_000_000
        log.publish(1)
    return log, log.dispatch(2, 1)


@pytest.mark.parametrize(
    ("version", "waited", "expected"),
    [
        ("3.0.7", True, ("known_bug", None, ("F2",))),
        ("3.0.7", False, ("known_bug", None, ("F1",))),
        ("4.0.8", True, VIOLATION),
    ],
)
def test_a_newcomer_is_sent_what_was_read_before_it_joined(version: str, waited: bool, expected: object) -> None:
    log, sent = newcomer(waited=waited)
    assert verdict_on(replayed(log.rows, version=version), "single_holder", sent) == expected


def test_a_consumer_is_a_newcomer_if_its_join_took_effect_behind_the_last_dispatch_to_the_other() -> None:
    log = Log()
    log.join(1)
    log.publish(0)
    log.publish(1)
    log.join(2, phases="start")
    log.dispatch(1, 0, phases="start")  # 2 would own the hash
    log.join(2, phases="end")
    log.dispatch(1, 0, phases="end")
    sent = log.dispatch(2, 1)
    assert verdict_on(replayed(log.rows, version="3.0.7"), "single_holder", sent) == ("known_bug", None, ("F1",))


def test_a_newcomer_has_no_reason_to_get_what_was_published_later() -> None:
    log, sent = newcomer(published_after_the_join=True)
    assert verdict_on(replayed(log.rows, version="3.0.7"), "single_holder", sent) == VIOLATION


@pytest.mark.parametrize(
    ("published_after_the_join", "expected"), [(False, ("known_bug", None, ("F1",))), (True, VIOLATION)]
)
def test_a_newcomer_may_get_again_what_it_gave_back(published_after_the_join: bool, expected: object) -> None:
    log, first = newcomer(published_after_the_join)
    log.redeliver(2, 1)
    again = log.dispatch(2, 1)
    replay = replayed(log.rows, version="3.0.7")
    assert verdict_on(replay, "single_holder", first) == verdict_on(replay, "single_holder", again) == expected


def test_what_was_sent_before_the_cursor_was_rewound_is_sent_for_the_first_time() -> None:
    log = Log()
    log.join(1)
    for entry in range(2):
        log.publish(entry)
        log.dispatch(1, entry)
    log.leave(1)
    log.join(2)
    log.dispatch(2, 0)
    log.join(3)  # takes over the hash
    sent = log.dispatch(3, 1)
    assert verdict_on(replayed(log.rows, version="3.0.7"), "single_holder", sent) == ("known_bug", None, ("F1", "F4"))


def test_a_stranger_to_the_hash_is_no_newcomer() -> None:
    log = Log()
    log.join(1)
    log.publish(0, HIGH)
    log.publish(1, HIGH)
    log.publish(2, HIGH)
    log.dispatch(1, 0, HIGH)
    log.dispatch(1, 2, HIGH)
    log.join(2)  # it owns what is LOW
    sent = log.dispatch(2, 1, HIGH)
    assert verdict_on(replayed(log.rows, version="3.0.7"), "single_holder", sent) == VIOLATION


@pytest.mark.parametrize(
    ("settings", "version", "flaws"), [(AUTO_SPLIT, "3.0.7", ("F2",)), (CLASSIC, "4.0.8", ("F2", "F11"))]
)
def test_what_a_leaver_had_is_not_seen_by_the_classic_dispatcher(
    settings: dict[str, object], version: str, flaws: tuple[str, ...]
) -> None:
    log = Log()
    log.join(1)
    log.join(2)  # LOW and LOWEST
    log.publish(0, LOWEST)
    log.publish(1, LOWEST)
    log.dispatch(2, 0, LOWEST)
    log.leave(2)
    overtook = log.dispatch(1, 1, LOWEST)
    log.join(3)  # takes over what 2 had
    sent = log.dispatch(3, 0, LOWEST)
    replay = replayed(log.rows, version=version, settings=settings)
    assert verdict_on(replay, "single_holder", sent) == ("known_bug", None, flaws)
    severity, _, bugs = verdict_on(replay, "redelivery_order", overtook)
    assert (severity, bugs) == (("known_bug", ("F11",)) if settings is CLASSIC else ("violation", ()))


F11 = ("known_bug", None, ("F11",))


@pytest.mark.parametrize(
    ("settings", "version", "left_behind", "from_replay", "expected"),
    [
        (CLASSIC, "4.0.8", True, False, F11),
        (CLASSIC, "4.0.8", False, False, VIOLATION),  # nobody left, so nothing is counted wrongly
        (CLASSIC, "4.0.8", True, True, VIOLATION),  # a replay read goes by position, whatever is counted
        (AUTO_SPLIT, "3.0.7", True, False, VIOLATION),
        (AUTO_SPLIT, "4.0.8", True, False, VIOLATION),
    ],
)
def test_what_a_leaver_had_is_counted_out_of_its_hash_by_the_classic_dispatcher(
    settings: dict[str, object], version: str, left_behind: bool, from_replay: bool, expected: object
) -> None:
    log = Log()
    log.join(1)
    log.join(2)  # LOW and LOWEST
    log.publish(0, LOWEST if left_behind else HIGH)
    log.dispatch(2 if left_behind else 1, 0, LOWEST if left_behind else HIGH)
    log.publish(1, LOWEST)
    if from_replay:
        log.publish(3, LOWEST)
    log.publish(4, HIGH)
    log.dispatch(1, 4, HIGH)
    log.leave(2)
    if left_behind:
        log.dispatch(1, 0, LOWEST)
    if not from_replay:
        log.publish(5, LOWEST)
    log.now_us += SKEW_US
    overtook = log.dispatch(1, 3 if from_replay else 5, LOWEST)
    log.join(3)  # takes over what 2 had
    log.ack(1, *([0] if left_behind else []), 3 if from_replay else 5)
    late = log.dispatch(3, 1, LOWEST)
    replay = replayed(log.rows, version=version, settings=settings)
    assert verdict_on(replay, "replay_overtaken", overtook) == expected
    assert verdict_on(replay, "first_delivery_order", late) == expected


@pytest.mark.parametrize(("gone", "expected"), [(True, ("known_bug", None, ("F3",))), (False, VIOLATION)])
def test_a_leave_moves_a_hash_to_one_that_was_there(gone: bool, expected: object) -> None:
    ring: dict[str, object] = {"subscriptionKeySharedUseConsistentHashing": True}
    # A point of c1248 collides with one of c712 on the ring of 3.x: it takes it over and takes it along when it
    # leaves, so that what lies before it goes to b1 (contract 2.2, #23315).
    key = b"key-1198"
    log = Log()
    log.join(1, name="c712")
    log.join(2, name="b1")
    log.publish(0, key)
    log.publish(1, key)
    log.dispatch(1, 0, key)
    if gone:
        log.join(3, name="c1248")
        log.leave(3)
    sent = log.dispatch(2, 1, key)
    replay = replayed(log.rows, version="3.0.7", settings=ring)
    assert (("ownership", sent) in replay.broken) != gone
    assert verdict_on(replay, "single_holder", sent) == expected


# #23870.


def unblocked(version: str, gap_us: int = 0) -> tuple[Replay, int, int]:
    """A hash drains, two of its entries wait, and when it has drained the later one goes first."""
    log = Log()
    log.join(1)
    log.publish(0)
    log.dispatch(1, 0)
    log.join(2)
    log.publish(1)
    log.publish(2)
    log.publish(3, HIGH)
    log.dispatch(1, 3, HIGH)
    log.ack(1, 0)
    log.now_us += gap_us
    overtook, late = log.dispatch(2, 2), log.dispatch(2, 1)
    return replayed(log.rows, version=version), overtook, late


@pytest.mark.parametrize(
    ("version", "gap_us", "expected"),
    [
        ("4.0.1", 0, ("known_bug", "E8", ("#23870",))),
        ("4.0.2", 0, ("known_bug", "E8", ("#23870",))),
        ("4.0.1", 2 * READ_US, VIOLATION),
        ("4.0.4", 0, VIOLATION),
    ],
)
def test_a_hash_that_stops_draining_amid_a_read(version: str, gap_us: int, expected: object) -> None:
    replay, overtook, late = unblocked(version, gap_us)
    assert verdict_on(replay, "replay_overtaken", overtook) == expected
    assert verdict_on(replay, "first_delivery_order", late) == expected


def test_without_draining_nothing_excuses_the_order_of_4_0_1() -> None:
    log = one_consumer()
    overtook, late = log.dispatch(1, 1), log.dispatch(1, 0)
    replay = replayed(log.rows, version="4.0.1")
    assert verdict_on(replay, "replay_overtaken", overtook) == VIOLATION
    assert verdict_on(replay, "first_delivery_order", late) == VIOLATION


# Counts, limits and facts.


@pytest.mark.parametrize(("count", "severity"), [(0, "violation"), (1, None), (2, "not_provable")])
def test_redelivery_counts_may_be_raised_unseen_but_not_lowered(count: int, severity: str | None) -> None:
    log = one_consumer()
    log.dispatch(1, 0, count=0)
    log.redeliver(1, 0)
    sent = log.dispatch(1, 0, count=count)
    replay = replayed(log.rows)
    assert (replay.verdicts[("redelivery_count", sent)].severity if severity else replay.broken) == (severity or [])


@pytest.mark.parametrize(("apart_us", "severity"), [(0, "not_provable"), (100_000, "violation")])
def test_redelivery_counts_may_be_lost_where_nobody_may_have_been_connected(apart_us: int, severity: str) -> None:
    log = one_consumer()
    log.dispatch(1, 0, count=0)
    log.redeliver(1, 0)
    log.dispatch(1, 0, count=1)
    log.join(2)
    log.now_us += apart_us
    log.leave(1)
    sent = log.dispatch(2, 0, count=0)
    assert replayed(log.rows).verdicts["redelivery_count", sent].severity == severity


def test_redelivery_counts_may_be_lost_where_a_join_and_the_last_leave_overlap() -> None:
    log = one_consumer()
    log.dispatch(1, 0, count=0)
    log.redeliver(1, 0)
    log.dispatch(1, 0, count=1)
    log.leave(1, phases="start")
    log.join(2, phases="start")
    log.publish(1)
    log.now_us += 5_000
    log.join(2, phases="end")
    log.leave(1, phases="end")
    sent = log.dispatch(2, 0, count=0)
    assert replayed(log.rows).verdicts["redelivery_count", sent].severity == "not_provable"


def test_acknowledgements_out_of_place_are_facts() -> None:
    log = one_consumer()
    log.join(2)
    log.dispatch(2, 0)
    cumulative = log.ack(2, 0, ack_type="cumulative", phases="start")
    foreign = log.ack(1, 0)
    replay = replayed(log.rows)
    assert replay.verdicts["cumulative_ack", cumulative].severity == "info"
    assert replay.verdicts["foreign_ack", foreign].severity == "info"
    assert replay.violated == []


# Gaps of STICKY.


@pytest.mark.parametrize(
    ("version", "slot_owner", "expected"),
    [
        ("4.0.4", 1, ("known_bug", None, ("exclusive_gap",))),
        ("4.0.4", 2, VIOLATION),  # the gap is 1's, by the flaw
        ("3.0.7", 1, ("known_bug", None, ("exclusive_gap",))),
        ("4.0.8", 1, VIOLATION),
    ],
)
def test_a_gap_between_two_ranges_of_one_consumer(version: str, slot_owner: int, expected: object) -> None:
    log = Log()
    log.join(1, ranges=[(0, 5_000), (6_000, 7_000)])
    log.join(2, ranges=[(30_000, 31_000)])
    log.publish(0, LOWEST)  # 5536
    sent = log.dispatch(slot_owner, 0, LOWEST)
    replay = replayed(log.rows, version=version)
    assert replay.broken == [("gap_delivery", sent)]
    assert verdict_on(replay, "gap_delivery", sent) == expected


def test_own_ranges_that_overlap_leave_no_gap() -> None:
    log = Log()
    log.join(1, ranges=[(0, 7_000), (5_000, 6_000)])
    log.publish(0, LOWEST)
    log.dispatch(1, 0, LOWEST)
    assert replayed(log.rows, version="4.0.4").broken == []


# Reads from before the last consumer left (F12).


def read_before_the_rejoin(later_us: int = 0, unload: bool = False, stays: bool = False) -> tuple[Log, int, int]:
    """Consumer 1 holds 0 and leaves; 2 joins, is sent 1, which had been read, and then 0 and 1 by the rewound cursor.

    Returns:
        The log, and the seqs of both dispatches of 1.
    """
    log = Log()
    log.join(1)
    if stays:
        log.join(3)
    log.publish(0, HIGH)
    log.publish(1, HIGH)
    log.dispatch(1, 0, HIGH)
    if unload:
        log.reset("unload")
    else:
        log.leave(1)
    log.now_us += 50_000
    log.join(2)
    log.now_us += later_us
    owner = 3 if stays else 2
    first = log.dispatch(owner, 1, HIGH)
    log.dispatch(owner, 0, HIGH)
    log.now_us += 5 * READ_US
    return log, first, log.dispatch(owner, 1, HIGH)


REWOUND = ("known_bug", "E3", ("F12",))


@pytest.mark.parametrize("version", ["3.0.7", "4.0.8", "4.2.4"])
def test_what_a_read_had_when_the_last_consumer_left_goes_to_the_next_one(version: str) -> None:
    log, first, again = read_before_the_rejoin()
    replay = replayed(log.rows, version=version)
    assert replay.broken == [("redelivery_order", first), ("early_duplicate", again)]
    assert verdict_on(replay, "redelivery_order", first) == REWOUND
    assert verdict_on(replay, "early_duplicate", again) == REWOUND
    assert "at seq 9 a consumer joined after the last one had left" in replay.verdicts["early_duplicate", again].because


def test_what_a_read_from_before_brought_does_not_show_that_the_cursor_has_read_what_comes_before_it() -> None:
    """The rewound cursor comes to it last, long after what the read had."""
    log = Log()
    log.join(1)
    for entry in range(3):
        log.publish(entry, HIGH)
    log.dispatch(1, 0, HIGH)
    log.leave(1)
    log.join(2)
    first = log.dispatch(2, 2, HIGH)
    log.dispatch(2, 0, HIGH)
    log.now_us += 5 * READ_US
    late = log.dispatch(2, 1, HIGH)
    replay = replayed(log.rows, version="3.0.7")
    assert verdict_on(replay, "redelivery_order", first) == REWOUND
    assert verdict_on(replay, "first_delivery_order", late) == REWOUND


def test_no_read_waits_for_a_second() -> None:
    log, first, again = read_before_the_rejoin(later_us=READ_US)
    replay = replayed(log.rows)
    assert verdict_on(replay, "redelivery_order", first) == VIOLATION
    assert verdict_on(replay, "early_duplicate", again) == VIOLATION


def test_while_a_consumer_stays_no_cursor_rewinds() -> None:
    log, _, again = read_before_the_rejoin(stays=True)
    replay = replayed(log.rows)
    assert "F12" not in {bug for verdict in replay.verdicts.values() for bug in verdict.known_bugs}
    assert verdict_on(replay, "early_duplicate", again) == VIOLATION


def test_behind_an_unload_is_another_dispatcher() -> None:
    log, _, again = read_before_the_rejoin(unload=True)
    assert verdict_on(replayed(log.rows), "early_duplicate", again) == VIOLATION


@pytest.mark.parametrize(("overlapping", "expected"), [(True, ("not_provable", None, ())), (False, VIOLATION)])
def test_whether_a_cursor_was_rewound_is_open_if_the_join_and_the_last_leave_overlap(
    overlapping: bool, expected: object
) -> None:
    log = Log()
    log.join(1)
    log.publish(0, HIGH)
    log.publish(1, HIGH)
    log.dispatch(1, 0, HIGH)
    if overlapping:
        log.leave(1, phases="start")
        log.join(2)
        log.leave(1, phases="end")
    else:
        log.join(2)
        log.leave(1)
    passed = log.dispatch(2, 1, HIGH)
    log.now_us += 5 * READ_US
    log.dispatch(2, 0, HIGH)
    assert verdict_on(replayed(log.rows), "redelivery_order", passed) == expected


def test_what_was_published_later_is_no_part_of_an_earlier_read() -> None:
    log = Log()
    log.join(1)
    log.publish(0, HIGH)
    log.dispatch(1, 0, HIGH)
    log.leave(1)
    log.join(2)
    log.now_us += 2 * SKEW_US
    log.publish(1, HIGH)
    first = log.dispatch(2, 1, HIGH)
    assert verdict_on(replayed(log.rows), "redelivery_order", first) == VIOLATION


def test_what_the_last_consumer_held_was_in_no_read() -> None:
    log = Log()
    log.join(1)
    for entry in (0, 1):
        log.publish(entry, HIGH)
        log.dispatch(1, entry, HIGH)
    log.leave(1)
    log.join(2)
    first = log.dispatch(2, 1, HIGH)
    assert verdict_on(replayed(log.rows), "redelivery_order", first) == VIOLATION


def test_an_entry_that_was_never_sent_before_comes_late_behind_such_a_read() -> None:
    log = Log()
    log.join(1)
    log.publish(0, HIGH)
    log.publish(1, HIGH)
    log.leave(1)
    log.join(2)
    first = log.dispatch(2, 1, HIGH)
    late = log.dispatch(2, 0, HIGH)
    replay = replayed(log.rows)
    assert verdict_on(replay, "replay_overtaken", first) == REWOUND
    assert verdict_on(replay, "first_delivery_order", late) == REWOUND
