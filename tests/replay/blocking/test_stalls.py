"""Rules `stalled` and `draining_stuck`: what could have been sent and was not, and what is no fault of the dispatcher.

Nothing in a trace proves a stall but time, so what hindered anybody until a moment ago has to be to blame.
"""

import pytest
from local_replay import (
    AUTO_SPLIT,
    HIGH,
    HIGHEST,
    LOW,
    LOWEST,
    Log,
    Replay,
    replayed,
    reported,
    send,
    tables_of,
)

SECOND_US = 1_000_000
LIMITED = {**AUTO_SPLIT, "maxUnackedMessagesPerConsumer": 4}
NARROW = {**AUTO_SPLIT, "keySharedLookAheadMsgInReplayThresholdPerConsumer": 2}


def flow(log: Log, consumer: int, permits: int = 1000) -> None:
    log.write("flow", consumer=consumer, permits=permits)


def four_held() -> Log:
    """Consumer 1 has permits and holds four entries, and a fifth waits for it."""
    log = Log()
    log.join(1)
    flow(log, 1)
    send(log, range(4))
    log.publish(4)
    return log


def causes_and_seconds(replay: Replay) -> list[tuple[str, int]]:
    """The cause and the whole seconds of each time in which nobody was sent anything."""
    return [
        (wait.cause, (wait.to_us - wait.from_us) // SECOND_US) for wait in replay.waits if wait.scope == "subscription"
    ]


def test_nothing_is_sent_although_the_owner_has_permits() -> None:
    log = Log()
    log.join(1)
    flow(log, 1)
    log.publish(0)
    log.now_us += 2 * SECOND_US
    log.dispatch(1, 0)
    assert replayed(log.rows).weighed == {("stalled", "violation"): 1}


def test_a_stall_that_nobody_holds_up_names_what_waits_and_nothing_else() -> None:
    log = Log()
    log.join(1)
    flow(log, 1)
    for entry in range(3):
        log.publish(entry)
        log.dispatch(1, entry)
    # 0 stays pending, so mark-delete does not pass what is acknowledged.
    log.ack(1, 1, 2)
    log.publish(3, HIGH)
    log.now_us += 2 * SECOND_US
    log.dispatch(1, 3, HIGH)
    (stall,) = [wait for wait in replayed(log.rows).waits if wait.scope == "subscription"]
    assert (stall.cause, stall.entries, stall.roots) == ("unexplained", 1, ((1, 3),))


def test_without_permits_on_record_a_stall_is_not_provable() -> None:
    log = Log()
    log.join(1)
    log.publish(0)
    log.now_us += 2 * SECOND_US
    log.dispatch(1, 0)
    assert replayed(log.rows).weighed == {("stalled", "not_provable"): 1}


def test_less_than_a_second_is_no_stall() -> None:
    log = Log()
    log.join(1)
    flow(log, 1)
    log.publish(0)
    log.now_us += SECOND_US - 10_000
    log.dispatch(1, 0)
    assert replayed(log.rows).weighed == {}


def test_what_waited_for_permits_until_a_moment_ago_did_not_stall() -> None:
    # Not even if the second is over between the two.
    log = Log()
    log.join(1)
    flow(log, 1, permits=0)
    log.publish(0)
    log.now_us += SECOND_US - 2_000
    flow(log, 1)
    log.now_us += 5_000
    log.dispatch(1, 0)
    assert replayed(log.rows).weighed == {}


def test_what_waits_long_after_its_owner_got_permits_does_stall() -> None:
    log = Log()
    log.join(1)
    flow(log, 1, permits=0)
    log.publish(0)
    log.now_us += 2 * SECOND_US
    flow(log, 1)
    log.now_us += 2 * SECOND_US
    log.dispatch(1, 0)
    replay = replayed(log.rows)
    assert replay.weighed == {("stalled", "violation"): 1}
    # Each of two causes, one after the other, has its own time.
    assert causes_and_seconds(replay) == [("no_permits", 2), ("unexplained", 2)]


def test_a_subscription_that_is_back_at_half_of_its_limit_stalls_however_long_it_was_full() -> None:
    log = four_held()
    log.now_us += 5 * SECOND_US
    log.ack(1, 0, 1, 2)
    log.now_us += 2 * SECOND_US
    log.dispatch(1, 4)
    replay = replayed(log.rows, settings={**AUTO_SPLIT, "maxUnackedMessagesPerSubscription": 4})
    assert replay.weighed == {("stalled", "violation"): 1}
    assert causes_and_seconds(replay) == [("unacked_limit_subscription", 5), ("unexplained", 2)]


def test_a_stall_goes_on_where_consumers_come_back_at_once() -> None:
    """LOW waits for consumers with permits, each for less than a stall; between two it belongs to one without."""
    log = Log()
    log.join(1)
    log.join(2)
    flow(log, 2)
    log.publish(0, LOW)
    for consumer in (3, 4):
        log.now_us += 4 * SECOND_US // 5
        log.leave(consumer - 1)
        log.join(consumer)
        flow(log, consumer)
    log.now_us += 4 * SECOND_US // 5
    log.dispatch(4, 0, LOW)
    assert replayed(log.rows).weighed == {("stalled", "violation"): 1}


@pytest.mark.parametrize(("permits", "weighed"), [(1000, {("stalled", "violation"): 1}), (0, {})])
def test_a_stall_goes_on_where_a_hash_moves_from_an_owner_that_could_be_sent_it(
    permits: int, weighed: dict[tuple[str, str], int]
) -> None:
    log = Log()
    log.join(1)
    flow(log, 1, permits)
    log.publish(0, LOW)
    log.now_us += 4 * SECOND_US // 5
    log.join(2)
    flow(log, 2)
    log.now_us += 4 * SECOND_US // 5
    log.dispatch(2, 0, LOW)
    assert replayed(log.rows).weighed == weighed


def test_what_has_just_come_is_not_what_could_have_been_sent_all_the_while() -> None:
    # LOW waits for its owner's permits, HIGH is sent at once.
    log = Log()
    log.join(1)
    flow(log, 1)
    log.join(2)
    flow(log, 2, permits=0)
    log.publish(0, LOW)
    log.now_us += 3 * SECOND_US
    log.publish(1, HIGH)
    log.dispatch(1, 1, HIGH)
    assert replayed(log.rows).weighed == {}


def test_a_consumer_that_had_too_much_unacknowledged_is_sent_nothing_before_it_is_at_half_of_it() -> None:
    log = Log()
    log.join(1)
    flow(log, 1)
    for entry in range(5):
        log.publish(entry)
    for entry in range(4):
        log.dispatch(1, entry)
    # Below the limit, but no read is asked for until it is at half of it (4.14).
    log.ack(1, 1)
    log.now_us += 2 * SECOND_US
    log.ack(1, 0, 2, 3)
    log.dispatch(1, 4)
    assert replayed(log.rows, settings=LIMITED).weighed == {}


def test_a_full_replay_queue_of_which_a_snapshot_knew_less_explains_a_stall() -> None:
    # Two for each consumer: LOW waits for its owner's permits, and so HIGH is not read.
    log = Log()
    log.join(1)
    flow(log, 1)
    log.join(2)
    flow(log, 2, permits=0)
    for entry in range(5):
        log.publish(entry, LOW)
    log.write("stats", snapshot='{"msg_in_replay": 0}')
    log.publish(5, HIGH)
    log.now_us += 3 * SECOND_US
    flow(log, 2)
    for entry in range(5):
        log.dispatch(2, entry, LOW)
    log.dispatch(1, 5, HIGH)
    assert replayed(log.rows, settings=NARROW).weighed == {}


@pytest.mark.parametrize(("read_position", "weighed"), [("1:1", {("stalled", "violation"): 1}), ("1:2", {})])
def test_a_read_position_that_stands_in_front_of_a_short_replay_queue_is_no_limit(
    read_position: str, weighed: dict[tuple[str, str], int]
) -> None:
    """LOW waits for its owner's permits, HIGH could be sent; nothing is read, or read slowly."""
    log = Log()
    log.join(1)
    flow(log, 1)
    log.join(2)
    flow(log, 2, permits=0)
    for entry in range(5):
        log.publish(entry, LOW)
    log.publish(5, HIGH)
    log.now_us += 2 * SECOND_US
    log.snapshot(msg_in_replay=1, read_position="1:1")
    log.now_us += SECOND_US // 2
    log.snapshot(msg_in_replay=2, read_position=read_position)
    log.now_us += SECOND_US // 20
    log.dispatch(1, 5, HIGH)
    assert replayed(log.rows, settings=NARROW).weighed == weighed


def test_what_a_recently_joined_consumer_may_not_have_could_not_be_sent() -> None:
    """HIGH could be sent from shortly after the last dispatch on; LOWEST waits longer, for the acknowledgement of 0."""
    log = Log()
    log.join(1)
    flow(log, 1)
    log.publish(0, HIGH)
    log.dispatch(1, 0, HIGH)
    log.publish(1, HIGH)
    log.join(2)
    flow(log, 2)
    log.publish(2, LOWEST)
    log.dispatch(1, 1, HIGH)
    log.now_us += 20_000
    log.publish(3, HIGH)
    log.now_us += SECOND_US - 15_000
    log.ack(1, 1)
    log.now_us += SECOND_US * 9 // 10
    log.publish(4, HIGH)
    # Whether the broker had read 1 at the join, and so registered consumer 2, no row shows.
    assert replayed(log.rows, version="3.3.2", settings=AUTO_SPLIT).weighed == {("stalled", "not_provable"): 1}


def passed_over(log: Log, *, drained: bool) -> None:
    """Consumer 2 owns LOW and LOWEST; of LOW an entry waits, and it is sent later ones of LOWEST for two seconds."""
    log.join(1)
    flow(log, 1)
    if drained:
        log.publish(0, LOW)
        log.dispatch(1, 0, LOW)
    log.join(2)
    log.publish(1, LOW)
    if drained:
        log.ack(1, 0)


def test_a_hash_whose_new_owner_was_sent_some_of_it_since_it_drained_stalls_as_any_other() -> None:
    log = Log(step_us=0)
    passed_over(log, drained=True)
    flow(log, 2)
    log.dispatch(2, 1, LOW)
    log.publish(2, LOW)
    log.now_us += 2 * SECOND_US
    log.publish(3, LOW)
    replay = replayed(log.rows)
    (stall,) = [wait for wait in replay.waits if wait.scope == "subscription"]
    assert stall.cause == "unexplained"
    assert replay.weighed == {("stalled", "violation"): 1}


def send_others(log: Log, entries: range) -> None:
    for entry in entries:
        log.publish(entry, b"key-1")
        log.dispatch(2, entry, b"key-1")
        log.now_us += SECOND_US // 4


def test_a_hash_that_drained_is_passed_over() -> None:
    log = Log()
    passed_over(log, drained=True)
    flow(log, 2)
    send_others(log, range(2, 10))
    assert replayed(log.rows).weighed == {("draining_stuck", "violation"): 1}


def test_a_hash_that_never_drained_is_passed_over() -> None:
    log = Log()
    passed_over(log, drained=False)
    flow(log, 2)
    send_others(log, range(2, 10))
    assert replayed(log.rows).weighed == {("stalled", "violation"): 1}


def test_who_had_no_permits_passed_nothing_over() -> None:
    log = Log()
    passed_over(log, drained=True)
    flow(log, 2, permits=0)
    log.now_us += 2 * SECOND_US
    flow(log, 2)
    send_others(log, range(2, 4))
    assert replayed(log.rows).weighed == {}


@pytest.mark.parametrize(("permits", "weighed"), [(5, {("draining_stuck", "violation"): 1}), (0, {})])
def test_between_snapshots_without_permits_nothing_is_passed_over(
    permits: int, weighed: dict[tuple[str, str], int]
) -> None:
    """Its few permits come and go: each dispatch shows that it had one, and each snapshot that it had no more."""
    log = Log()
    log.join(1)
    log.publish(0, LOW)
    log.dispatch(1, 0, LOW)
    log.join(2)
    log.publish(1, LOW)
    log.ack(1, 0)
    for entry in range(2, 10):
        log.snapshot(reported(1, available_permits=5), reported(2, available_permits=permits))
        log.now_us += SECOND_US // 4
        send_others(log, range(entry, entry + 1))
    assert replayed(log.rows).weighed == weighed


def test_a_hash_of_which_somebody_holds_an_entry_that_it_did_not_own_is_not_passed_over() -> None:
    log = Log()
    log.join(1)
    log.join(2)
    flow(log, 2)
    log.publish(0, LOW)
    log.dispatch(1, 0, LOW)
    log.publish(1, LOW)
    send_others(log, range(2, 10))
    assert set(replayed(log.rows).weighed) == {("ownership", "violation")}


def test_a_hash_that_still_drains_is_not_passed_over() -> None:
    log = Log()
    log.join(1)
    flow(log, 1)
    log.publish(0, LOW)
    log.dispatch(1, 0, LOW)
    log.join(2)
    flow(log, 2)
    log.publish(1, LOW)
    send_others(log, range(2, 10))
    assert replayed(log.rows).weighed == {}


def test_what_hindered_the_owner_before_the_hash_waited_is_no_excuse() -> None:
    log = Log()
    log.join(1)
    flow(log, 1)
    log.join(2)
    flow(log, 2, permits=0)
    log.publish(0, b"key-1")
    log.now_us += 5 * SECOND_US
    flow(log, 2)
    log.dispatch(2, 0, b"key-1")
    log.publish(1, LOW)
    send_others(log, range(2, 10))
    assert replayed(log.rows).weighed == {("stalled", "violation"): 1}


def test_who_is_sent_something_later_within_the_first_second_only_passed_nothing_over() -> None:
    log = Log()
    passed_over(log, drained=True)
    flow(log, 2, permits=0)
    log.now_us += 2 * SECOND_US
    flow(log, 2)
    send_others(log, range(2, 3))
    for entry in range(3, 9):
        log.publish(entry, HIGH)
        log.dispatch(1, entry, HIGH)
        log.now_us += SECOND_US // 4
    log.dispatch(2, 1, LOW)
    assert replayed(log.rows).weighed == {}


def read_late(log: Log) -> None:
    """Entries for consumer 1, which has no permits, fill the replay queue; what 2 owns is read three seconds later."""
    log.join(1)
    flow(log, 1, permits=0)
    log.join(2)
    flow(log, 2)
    for entry in range(5):
        log.publish(entry, HIGH)
    log.publish(5, LOW)
    log.publish(6, b"key-1")
    log.now_us += 3 * SECOND_US
    flow(log, 1)
    for entry in range(5):
        log.dispatch(1, entry, HIGH)


def test_what_was_not_read_for_long_is_not_passed_over_when_the_read_has_come() -> None:
    log = Log()
    read_late(log)
    log.dispatch(2, 6, b"key-1")
    log.dispatch(2, 5, LOW)
    assert replayed(log.rows, settings=NARROW).weighed == {}


def test_what_was_read_is_passed_over_from_then_on() -> None:
    log = Log()
    read_late(log)
    read = log.dispatch(2, 6, b"key-1")
    send_others(log, range(7, 13))
    log.dispatch(2, 5, LOW)
    replay = replayed(log.rows, settings=NARROW)
    assert replay.weighed == {("stalled", "violation"): 1}
    assert [found.from_seq for found in replay.passed_over] == [read]


@pytest.mark.parametrize(("before", "found"), [(6, []), (0, ["(1, 8)"])])
def test_what_comes_after_entries_from_before_a_seek_is_not_passed_over_before_they_are_sent(
    before: int, found: list[str]
) -> None:
    """Entries that were published, sent and acknowledged before the seek are sent again, half a second each."""
    log = Log()
    log.join(1)
    send(log, range(7))
    log.ack(1, *range(7))
    log.reset("seek")
    log.now_us += SECOND_US
    log.join(2)
    flow(log, 2)
    log.dispatch(2, 6 - before, HIGH)
    log.publish(8, LOW)
    for entry in range(7 - before, 7):
        log.now_us += SECOND_US // 2
        log.dispatch(2, entry, HIGH)
    for entry in range(9, 10 if before else 14):
        log.publish(entry, HIGH)
        log.dispatch(2, entry, HIGH)
        log.now_us += SECOND_US // 2
    log.dispatch(2, 8, LOW)
    assert replayed(log.rows).passed_heads == found


@pytest.mark.parametrize(
    ("unowned", "ahead", "version", "cause"),
    [
        (HIGH, 21, "4.0.8", "no_owner"),
        (LOW, 21, "4.0.8", "unexplained"),
        # A draining dispatcher puts what nobody owns into replay and reads on: five entries do not take it two seconds.
        (HIGH, 5, "4.0.8", "unexplained"),
        (HIGH, 5, "3.0.7", "no_owner"),
    ],
)
def test_entries_that_nobody_owns_keep_the_cursor_from_what_comes_behind_them(
    unowned: bytes, ahead: int, version: str, cause: str
) -> None:
    log = Log()
    log.join(1, ranges=[(0, 32_767)])
    flow(log, 1, permits=1)
    for entry in range(ahead):
        log.publish(entry, unowned)
    log.publish(ahead, LOW)
    log.now_us += 2 * SECOND_US
    log.dispatch(1, ahead, LOW)
    (stall,) = [wait for wait in replayed(log.rows, version=version).waits if wait.scope == "subscription"]
    assert (stall.cause, stall.entries) == (cause, ahead + 1)


def test_what_was_read_is_not_kept_by_entries_that_nobody_owns() -> None:
    log = Log()
    log.join(1, ranges=[(0, 32_767)])
    flow(log, 1)
    log.publish(0, HIGH)
    log.publish(1, LOW)
    log.publish(2, LOWEST)
    log.dispatch(1, 2, LOWEST)
    log.now_us += 2 * SECOND_US
    log.dispatch(1, 1, LOW)
    (stall,) = [wait for wait in replayed(log.rows).waits if wait.scope == "subscription"]
    assert stall.cause == "unexplained"


def unsent_in_replay(
    log: Log, stuck: int, batch: int, version: str, unread_us: int | None = None, **says: bool
) -> dict[tuple[str, str], int]:
    """Consumer 1, without permits, keeps entries in replay; after them one for 2, which has permits, is not sent.

    `unread_us`: so long before the end another entry for 2 is published, and no snapshot shows that it was read.
    `says`: what the snapshot says besides.
    """
    log.join(1)
    log.join(2)
    flow(log, 1, permits=1)
    flow(log, 2)
    log.publish(0, HIGH)
    log.dispatch(1, 0, HIGH)
    for entry in range(1, stuck + 1):
        log.publish(entry, HIGH)
    log.publish(stuck + 1, LOW)
    log.publish(stuck + 2, LOWEST)
    log.dispatch(2, stuck + 2, LOWEST)
    log.snapshot(msg_in_replay=stuck + 1, read_position=f"1:{stuck + 3}", **says)
    log.now_us += 3 * SECOND_US
    if unread_us is not None:
        log.now_us -= unread_us
        log.publish(stuck + 3, LOW)
        log.now_us += unread_us
    log.dispatch(2, stuck + 1, LOW)
    settings = {**AUTO_SPLIT, "dispatcherMaxReadBatchSize": batch}
    return dict(replayed(log.rows, version=version, settings=settings).weighed)


@pytest.mark.parametrize(("stuck", "severity"), [(20, "known_bug"), (19, "violation")])
def test_the_head_of_replay_blocks_the_rest_only_if_a_read_picks_nothing_else(stuck: int, severity: str) -> None:
    # F6: a read of 3.x picks the first 20 of replay, whatever they are.
    assert unsent_in_replay(Log(), stuck, batch=20, version="3.3.2")["stalled", severity] == 1


@pytest.mark.parametrize(
    ("unread_us", "blocked", "severity"),
    [
        (SECOND_US // 2, False, "known_bug"),
        (2 * SECOND_US, False, "violation"),
        # Nothing new is read, which might go past the head.
        (2 * SECOND_US, True, "known_bug"),
    ],
)
def test_what_came_last_need_not_have_been_read_to_be_behind_the_head_of_replay(
    unread_us: int, blocked: bool, severity: str
) -> None:
    says = {"blocked_subscription_on_unacked_msgs": blocked}
    found = unsent_in_replay(Log(), 20, batch=20, version="3.3.2", unread_us=unread_us, **says)
    assert found["stalled", severity] == 1


@pytest.mark.parametrize(
    ("second", "in_replay", "version", "joins", "severity"),
    [
        (3, 1, "3.3.2", False, "known_bug"),
        (3, 1, "3.3.2", True, "known_bug"),
        (2, 1, "3.3.2", False, "violation"),  # no read went on
        (3, 0, "3.3.2", False, "violation"),  # it is not in replay
        (3, 1, "4.0.8", False, "known_bug"),
        (2, 1, "4.0.8", False, "violation"),
        (3, 1, "4.2.4", False, "violation"),
    ],
)
def test_reads_that_send_nothing_pass_over_replay_on_an_older_broker(
    second: int, in_replay: int, version: str, joins: bool, severity: str
) -> None:
    # F6, and #21554: entries 1 and 2 are for the consumer, and wait; the read position moves on to `second`.
    log = Log()
    log.join(1)
    flow(log, 1)
    log.publish(0, HIGH)
    log.dispatch(1, 0, HIGH)
    log.publish(1, HIGH)
    log.snapshot(msg_in_replay=in_replay, read_position="1:2")
    log.publish(2, HIGH)
    log.now_us += SECOND_US
    log.snapshot(msg_in_replay=in_replay + 1, read_position=f"1:{second}")
    log.now_us += SECOND_US // 2
    if joins:
        log.join(2)  # makes the dispatcher read
        log.snapshot(reported(2, read_position_when_joining="1:3"), read_position="1:3", msg_in_replay=2)
    log.dispatch(1, 1, HIGH)
    found = replayed(log.rows, version=version, settings=AUTO_SPLIT).weighed
    assert found["stalled", severity] == 1


def joined_at(log: Log, *positions: str) -> None:
    log.snapshot(
        *(reported(n, read_position_when_joining=position) for n, position in enumerate(positions, start=1)),
        msg_in_replay=1,
        mark_delete_position="1:0",
    )


@pytest.mark.parametrize(
    ("positions", "version", "severity"),
    [
        (("1:0", "1:9", "1:1"), "3.0.8", "known_bug"),
        (("1:0", "1:1", "1:1"), "3.0.8", "violation"),
        (("1:0", "1:0", "1:0"), "3.0.8", "violation"),
        (("1:0", "1:9", "1:1"), "4.0.7", "violation"),
    ],
)
def test_who_is_remembered_after_a_later_position_waits_for_good(
    positions: tuple[str, ...], version: str, severity: str
) -> None:
    log = Log()
    log.join(1)
    log.join(2)
    log.join(3)
    for consumer in (1, 2, 3):
        flow(log, consumer)
    log.publish(0, HIGH)
    log.publish(1, LOWEST)
    log.publish(2, HIGH)
    log.dispatch(1, 0, HIGH)
    log.dispatch(1, 2, HIGH)
    log.ack(1, 0)
    joined_at(log, *positions)
    log.now_us += 3 * SECOND_US
    joined_at(log, *positions)
    settings = {**AUTO_SPLIT, "subscriptionKeySharedUseClassicPersistentImplementation": True}
    replay = replayed(log.rows, version=version, settings=settings if version == "4.0.7" else AUTO_SPLIT)
    assert replay.weighed == {("stalled", severity): 1}
    named = {row["known_bug"] for row in tables_of(log.rows, version=version)["violations"]}
    assert version == "4.0.7" or named == {"F8 (#20407, #23795, #24634)" if severity == "known_bug" else None}


def test_a_gap_does_not_show_that_a_stall_was_over() -> None:
    # #26454 ends only with a new dispatcher, and in the missing rows there may have been one.
    log = Log()
    log.join(1)
    flow(log, 1)
    log.publish(0)
    log.dispatch(1, 0)
    log.ack(1, 0)
    log.publish(1)
    for _ in range(4):
        log.now_us += SECOND_US
        log.snapshot(msg_in_replay=0, read_position="1:1")
    log.write("gap", seq_end=len(log.rows) + 1, dropped=5, reason="overflow")
    log.now_us += SECOND_US
    log.publish(9)
    log.dispatch(1, 9)
    assert replayed(log.rows).weighed == {("stalled", "known_bug"): 1}


def one_gets_nothing(log: Log, *, permits: int) -> None:
    """Consumer 2 is sent nothing for three seconds, and an entry of it waits, while 1 is sent one every half second."""
    log.join(1)
    log.join(2)
    flow(log, 1)
    flow(log, 2, permits)
    log.publish(0, LOW)
    log.dispatch(2, 0, LOW)
    log.ack(2, 0)
    log.publish(1, LOW)
    for entry in range(2, 8):
        log.publish(entry, HIGH)
        log.dispatch(1, entry, HIGH)
        log.ack(1, entry)
        log.now_us += SECOND_US // 2


@pytest.mark.parametrize("permits", [2, 1])
def test_who_has_permits_and_is_sent_nothing_while_others_are_starves(permits: int) -> None:
    log = Log()
    one_gets_nothing(log, permits=permits)
    replay = replayed(log.rows)
    # The second entry of 2 waits for permits, if it asked for one only.
    assert dict(replay.weighed) == ({("stalled", "violation"): 1} if permits == 2 else {})
    assert [(found.head, found.passed) for found in replay.passed_over] == [((1, 1), (1, 7))][: permits - 1]


def test_without_flow_rows_nobody_is_known_to_starve_while_others_are_sent_something() -> None:
    log = Log()
    one_gets_nothing(log, permits=2)
    rows = [row for row in log.rows if row["event"] != "flow"]
    assert replayed(rows).weighed == {}


PAUSES = {
    **AUTO_SPLIT,
    "dispatcherPauseOnAckStatePersistentEnabled": True,
    "managedLedgerMaxUnackedRangesToPersist": 2,
}


def with_ack_holes(log: Log, *acked: int) -> Log:
    """Entries 0 to 7 are sent, those named are acknowledged, and the next one is not sent for five seconds."""
    log.write("settings", settings={"maxUnackedMessagesPerConsumer": "0"})
    log.join(1)
    flow(log, 1)
    for entry in range(8):
        log.publish(entry)
        log.dispatch(1, entry)
    log.ack(1, *acked)
    log.publish(8)
    log.now_us += 3 * SECOND_US
    log.snapshot(msg_in_replay=0)
    log.now_us += 2 * SECOND_US
    log.ack(1, *(entry for entry in range(8) if entry not in acked))
    log.dispatch(1, 8)
    return log


@pytest.mark.parametrize(
    ("acked", "settings", "weighed"),
    [
        ((1, 3, 5), PAUSES, {}),
        ((1, 3), PAUSES, {("stalled", "violation"): 1}),
        ((1, 3, 5), AUTO_SPLIT, {("stalled", "violation"): 1}),
    ],
)
def test_a_dispatcher_that_pauses_on_ack_holes_does_not_stall(
    acked: tuple[int, ...], settings: dict[str, object], weighed: dict[tuple[str, str], int]
) -> None:
    replay = replayed(with_ack_holes(Log(), *acked).rows, settings=settings)
    assert replay.weighed == weighed
    causes = [wait.cause for wait in replay.waits if wait.scope == "subscription"]
    assert causes == ["unexplained" if weighed else "ack_holes_limit"]


@pytest.mark.parametrize(("decided", "severity"), [(True, "violation"), (False, "not_provable")])
def test_who_owns_a_hash_matters_where_one_of_the_owners_may_have_joined_recently(decided: bool, severity: str) -> None:
    """As 3 leaves, its range goes to a neighbour: to 4, which has joined recently, if 3 joined before 2."""
    log = Log()
    log.join(1)
    if decided:
        log.join(2)
        log.join(3)
    else:
        for phase in ("start", "end"):
            log.join(2, phases=phase)
            log.join(3, phases=phase)
    for consumer in (1, 2, 3):
        flow(log, consumer)
    for entry in (0, 1):
        log.publish(entry, HIGHEST)
        log.dispatch(1, entry, HIGHEST)
    log.join(4)
    flow(log, 4)
    log.leave(3)
    log.publish(2, LOW)
    log.now_us += 2 * SECOND_US
    log.publish(3, HIGHEST)
    assert replayed(log.rows, version="3.3.2", settings=AUTO_SPLIT).weighed == {("stalled", severity): 1}


def test_a_higher_limit_unblocks_nobody_before_an_acknowledgement() -> None:
    """The broker looks at its new limit when something is acknowledged, not when others join (contract 4.14)."""
    log = four_held()
    log.write("settings", settings={"maxUnackedMessagesPerConsumer": "8"})
    log.join(2)
    log.leave(2)
    log.now_us += 2 * SECOND_US
    log.ack(1, 0)
    log.dispatch(1, 4)
    assert replayed(log.rows, settings=LIMITED).weighed == {}


def test_what_nobody_could_be_sent_in_front_of_a_skip_counts_for_all() -> None:
    """The waits of all consumers end with the skip; who had no permits until then had none in the stall."""
    log = Log()
    for consumer in (1, 2):
        log.join(consumer)
        flow(log, consumer, 1)
    for entry, key in enumerate((HIGH, LOW)):
        log.publish(entry, key)
        log.dispatch(1 if key == HIGH else 2, entry, key)
    log.join(3)
    flow(log, 3)
    for entry in range(2, 40):
        log.publish(entry, f"key-{entry}".encode())
    log.now_us += 2 * SECOND_US
    log.reset("skip")
    (stall,) = [wait for wait in replayed(log.rows).waits if wait.scope == "subscription"]
    assert stall.detail["with_permits"] == 1


@pytest.mark.parametrize(
    ("without_us", "found"),
    [
        (20_000, [("unexplained", 5)]),
        (2 * SECOND_US, [("unexplained", 2), ("no_permits", 2), ("unexplained", 3)]),
    ],
)
def test_a_cause_between_two_stalls_is_as_long_as_it_lasts(without_us: int, found: list[tuple[str, int]]) -> None:
    """A moment without permits does not make two stalls of one; a long time without does."""
    log = Log()
    log.join(1)
    flow(log, 1, permits=0)
    log.join(2)
    flow(log, 2)
    log.publish(0, LOWEST)
    log.now_us += 2 * SECOND_US
    log.leave(2)
    log.now_us += without_us
    flow(log, 1)
    log.now_us += SECOND_US * 3 // 2
    log.join(3)
    flow(log, 3)
    log.now_us += SECOND_US * 3 // 2
    log.dispatch(3, 0, LOWEST)
    assert causes_and_seconds(replayed(log.rows)) == found


def test_a_reset_ends_a_stall_once_although_a_consumer_had_no_permits() -> None:
    log = Log()
    for consumer in (1, 2):
        log.join(consumer)
    flow(log, 1, permits=1)
    flow(log, 2)
    log.publish(0, HIGH)
    log.dispatch(1, 0, HIGH)
    log.publish(1, HIGH)
    log.publish(2, LOW)
    log.now_us += 3 * SECOND_US
    log.reset("unload")
    log.publish(3, LOW)
    log.join(3)
    flow(log, 3)
    log.dispatch(3, 3, LOW)
    replay = replayed(log.rows, settings=AUTO_SPLIT)
    assert [wait.cause for wait in replay.waits_of("subscription")] == ["unexplained"]
