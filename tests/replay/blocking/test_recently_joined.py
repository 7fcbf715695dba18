"""Recently joined consumers of 3.x and the classic dispatcher: who is held back, from what on, until when (6.1).

The positions are those of ledger 1. Consumer 1 owns everything at first, 2 takes the lower half, 3 the lowest quarter,
4 the lower half of what is left to 1. Rows take no time here: what passes is written down.
"""

import pytest
from local_replay import AUTO_SPLIT, HIGH, HIGHEST, LOW, LOWEST, Log, Replay, Wait, replayed, reported

SECOND = 1_000_000
CLASSIC = {**AUTO_SPLIT, "subscriptionKeySharedUseClassicPersistentImplementation": True}


def _held(*entries: int) -> Log:
    """Consumer 1 holds these entries."""
    log = Log(step_us=0)
    log.join(1)
    for entry in entries:
        log.publish(entry, HIGH)
        log.dispatch(1, entry, HIGH)
    return log


def _waiting(log: Log, *entries: tuple[int, bytes]) -> None:
    for entry, key in entries:
        log.publish(entry, key)


def _replay(log: Log, version: str = "3.0.7") -> Replay:
    return replayed(log.rows, version=version)


def _consumers(log: Log, version: str = "3.0.7") -> list[Wait]:
    return _replay(log, version).waits_of("consumer", "recently_joined")


def test_a_newcomer_is_sent_nothing_new_until_mark_delete_is_where_it_joined() -> None:
    log = _held(0, 1)
    joined = log.join(2)
    _waiting(log, (2, LOW), (3, LOW))
    log.now_us += SECOND
    log.ack(1, 1)
    log.now_us += SECOND
    released = log.ack(1, 0)
    log.dispatch(2, 2, LOW)
    log.dispatch(2, 3, LOW)
    (wait,) = _consumers(log)
    assert (wait.consumer, wait.blocking, wait.roots) == (2, 1, ((1, 0),))
    # After the read position of its join: entries 0 and 1 were read.
    assert wait.detail == {"held_back_behind": "1:2"}
    assert (wait.entries, wait.waited_us) == (2, 2 * 2 * SECOND)
    assert joined <= wait.from_seq <= joined + 1
    # The core looks at it with the row after the acknowledgement.
    assert (wait.ended_by, wait.to_seq) == ("ack", released + 1)


@pytest.mark.parametrize("version", ["3.0.7", "3.3.2"])
def test_every_version_without_draining_hashes_holds_newcomers_back(version: str) -> None:
    log = _held(0, 1)
    log.join(2)
    _waiting(log, (2, LOW))
    assert [wait.consumer for wait in _consumers(log, version)] == [2]


def test_the_classic_dispatcher_does_so_too() -> None:
    log = _held(0, 1)
    log.join(2)
    _waiting(log, (2, LOW))
    assert len(replayed(log.rows, settings=CLASSIC).waits_of("consumer", "recently_joined")) == 1
    assert replayed(log.rows, settings=AUTO_SPLIT).waits_of("consumer", "recently_joined") == []


def test_out_of_order_nobody_is_held_back() -> None:
    log = Log(step_us=0)
    log.join(1, allow_out_of_order=True)
    for entry in (0, 1):
        log.publish(entry, HIGH)
        log.dispatch(1, entry, HIGH)
    log.join(2, allow_out_of_order=True)
    _waiting(log, (2, LOW))
    assert _consumers(log) == []


@pytest.mark.parametrize("unacknowledged", [0, 1])
def test_with_one_entry_or_none_unacknowledged_a_newcomer_is_not_held_back(unacknowledged: int) -> None:
    log = _held(0, 1)
    log.ack(1, *range(2 - unacknowledged))
    log.join(2)
    _waiting(log, (2, LOW))
    log.now_us += SECOND
    log.publish(3, LOW)
    assert _consumers(log) == []


def test_the_first_consumer_is_never_held_back() -> None:
    log = _held(0, 1)
    log.leave(1)
    log.join(2)
    _waiting(log, (2, LOW))
    assert _consumers(log) == []


def test_what_it_may_have_is_not_counted_as_held_back() -> None:
    log = Log(step_us=0)
    log.join(1)
    log.publish(0, LOW)
    for entry in (1, 2):
        log.publish(entry, HIGH)
        log.dispatch(1, entry, HIGH)
    log.join(2)
    _waiting(log, (3, LOW))
    log.now_us += SECOND
    log.publish(4, HIGH)
    (wait,) = _consumers(log)
    # Entry 0 stands before the read position of the join.
    assert (wait.entries, wait.waited_us, wait.ended_by) == (1, SECOND, "open")


def test_one_entry_holds_all_back_and_they_go_in_the_order_in_which_they_joined() -> None:
    log = _held(0, 1)
    log.join(2)
    log.publish(2, HIGH)
    log.dispatch(1, 2, HIGH)
    log.join(3)
    _waiting(log, (3, LOW), (4, LOWEST))
    log.now_us += SECOND
    # F5: entry 0 blocks both. With 0 and 1 gone the first may go on, the second waits for 2 as well.
    first = log.ack(1, 0, 1)
    log.now_us += SECOND
    second = log.ack(1, 2)
    log.now_us += SECOND
    log.publish(5, HIGH)
    waits = {wait.consumer: wait for wait in _consumers(log)}
    assert {number: wait.detail["held_back_behind"] for number, wait in waits.items()} == {2: "1:2", 3: "1:3"}
    assert {number: wait.blocking for number, wait in waits.items()} == {2: 1, 3: 1}
    assert {number: wait.roots for number, wait in waits.items()} == {2: ((1, 0),), 3: ((1, 0),)}
    assert {number: wait.ended_by for number, wait in waits.items()} == {2: "ack", 3: "ack"}
    assert first < waits[2].to_seq <= second
    assert second < waits[3].to_seq


def test_who_waits_for_less_still_waits_for_those_before_it() -> None:
    # Consumer 3 joins with a smaller read position than that of 2 in the snapshot (F8): it has to wait for 2.
    log = _held(0, 1)
    log.join(2)
    log.snapshot(reported(2, read_position_when_joining="1:9"))
    log.join(3)
    _waiting(log, (20, LOWEST))
    log.now_us += SECOND
    log.ack(1, 0, 1)
    log.now_us += SECOND
    last = log.publish(21, HIGH)
    waits = {wait.consumer: wait for wait in _consumers(log)}
    assert (waits[3].to_seq, waits[3].ended_by) == (last, "open")


@pytest.mark.parametrize(("shown", "entries", "ended_by"), [("1:3", 1, "open"), ("1:1", 2, "ack")])
def test_a_snapshot_shows_another_read_position_than_the_dispatches(shown: str, entries: int, ended_by: str) -> None:
    # What was read may not have been sent yet, and what was sent may be from before the cursor was rewound.
    log = _held(0, 1)
    log.join(2)
    log.snapshot(reported(2, read_position_when_joining=shown))
    _waiting(log, (2, LOW), (3, LOW))
    log.now_us += SECOND
    log.ack(1, 0, 1)
    log.now_us += SECOND
    log.publish(4, HIGH)
    (wait,) = _consumers(log)
    assert (wait.detail, wait.entries, wait.ended_by) == ({"held_back_behind": shown}, entries, ended_by)


def test_with_one_consumer_left_nobody_is_held_back_any_more() -> None:
    log = _held(0, 1)
    log.join(2)
    _waiting(log, (2, LOW))
    log.now_us += SECOND
    left = log.leave(1)
    log.now_us += SECOND
    log.publish(3, LOW)
    (wait,) = _consumers(log)
    assert (wait.consumer, wait.ended_by, wait.waited_us) == (2, "leave", SECOND)
    assert left <= wait.to_seq <= left + 1


def test_the_leave_of_one_of_several_ends_its_own_wait_only() -> None:
    log = _held(0, 1)
    log.join(2)
    log.join(3)
    _waiting(log, (2, LOW), (3, LOWEST))
    log.now_us += SECOND
    log.leave(3)
    log.now_us += SECOND
    log.publish(4, HIGH)
    assert {(wait.consumer, wait.ended_by) for wait in _consumers(log)} == {(3, "leave"), (2, "open")}


def test_several_wait_for_one_root_at_the_end() -> None:
    log = _held(0, 1)
    log.join(2)
    log.join(3)
    log.join(4)
    _waiting(log, (2, LOW), (3, LOWEST), (4, HIGH), (5, HIGHEST))
    log.now_us += SECOND
    log.publish(6, HIGHEST)
    waits = _consumers(log)
    assert [(wait.consumer, wait.blocking, wait.roots, wait.ended_by) for wait in waits] == [
        (consumer, 1, ((1, 0),), "open") for consumer in (2, 3, 4)
    ]


def test_a_reset_lets_everybody_go() -> None:
    log = _held(0, 1)
    log.join(2)
    _waiting(log, (2, LOW))
    log.now_us += SECOND
    log.reset("unload")
    log.now_us += SECOND
    log.publish(3, LOW)
    (wait,) = _consumers(log)
    assert wait.waited_us == SECOND


@pytest.mark.parametrize(("held", "found"), [(3, ["violation"]), (0, ["violation"])])
def test_who_is_released_when_a_stall_ends_was_held_back_in_it(held: int, found: list[str]) -> None:
    log = _held(*range(3))
    log.flow(1, 100)
    for entry in range(held, 3):
        log.ack(1, entry)
    log.join(2)
    log.flow(2, 100)
    _waiting(log, (3, HIGH), (4, LOW))
    log.now_us += 3 * SECOND
    log.ack(1, *range(held))
    log.dispatch(2, 4, LOW)
    weighed = replayed(log.rows, version="3.3.2", settings=AUTO_SPLIT).weighed
    assert [severity for rule, severity in weighed if rule == "stalled"] == found


@pytest.mark.parametrize(("published", "found"), [(2, ["not_provable"]), (0, ["violation"])])
def test_who_may_have_joined_recently_may_be_released_when_the_stall_ends(published: int, found: list[str]) -> None:
    """Entries were published when it joined, and no dispatch shows whether the broker had read them.

    Permits come with the acknowledgement, which is another change at the same time.
    """
    log = Log(step_us=0)
    log.join(1)
    log.flow(1, 2)
    for entry in range(published):
        log.publish(entry, HIGH)
    log.join(2)
    log.flow(2, 100)
    for entry in range(2):
        if entry >= published:
            log.publish(entry, HIGH)
        log.dispatch(1, entry, HIGH)
    _waiting(log, (2, LOW), (3, LOW))
    log.now_us += 3 * SECOND
    log.ack(1, 0, 1)
    log.flow(1, 2)
    log.dispatch(2, 2, LOW)
    weighed = replayed(log.rows, version="3.3.2", settings=AUTO_SPLIT).weighed
    assert [severity for rule, severity in weighed if rule == "stalled"] == found


@pytest.mark.parametrize(("shown", "found"), [(True, []), (False, ["not_provable"])])
def test_after_a_seek_only_a_snapshot_shows_where_mark_delete_is(shown: bool, found: list[str]) -> None:
    """What was published since then is sent and acknowledged, and so is not what the seek went back to."""
    log = _held(1, 2)
    log.ack(1, 1, 2)
    log.reset("seek")
    log.now_us += SECOND
    log.publish(3, HIGH)
    log.join(2)
    log.flow(2, 100)
    for entry in (1, 2, 3):
        log.dispatch(2, entry, HIGH)
    log.now_us += SECOND
    if shown:
        log.snapshot(mark_delete_position="1:0")
    log.join(3)
    log.flow(3, 100)
    log.ack(2, 3)
    _waiting(log, (4, LOW), (5, HIGH))
    log.now_us += SECOND // 2
    log.dispatch(2, 5, HIGH)
    log.now_us += 2 * SECOND
    log.ack(2, 1, 2)
    log.dispatch(3, 4, LOW)
    weighed = replayed(log.rows, version="3.3.2", settings=AUTO_SPLIT).weighed
    assert [severity for rule, severity in weighed if rule == "stalled"] == found


@pytest.mark.parametrize(("longer_us", "found"), [(SECOND // 2, ["not_provable"]), (0, [])])
def test_who_is_let_go_explains_nothing_of_the_time_after_that(longer_us: int, found: list[str]) -> None:
    """Another consumer joins less than a second after it, and the trace ends less than a second after that."""
    log = _held(0, 1)
    log.flow(1, 100)
    log.join(2)
    log.flow(2, 100)
    _waiting(log, (2, LOW))
    log.now_us += SECOND // 2
    log.ack(1, 0, 1)
    log.now_us += SECOND // 2
    log.join(3)
    log.now_us += SECOND // 2 - 1 + longer_us
    log.publish(3, HIGH)
    weighed = replayed(log.rows, version="3.3.2", settings=AUTO_SPLIT).weighed
    assert [severity for rule, severity in weighed if rule == "stalled"] == found


@pytest.mark.parametrize(
    ("expired", "shown", "found"), [(False, False, []), (True, True, []), (True, False, ["not_provable"])]
)
def test_a_skip_may_release_who_joined_before_it_unless_a_snapshot_shows_mark_delete(
    expired: bool, shown: bool, found: list[str]
) -> None:
    log = _held(0, 1, 2)
    log.flow(1, 100)
    log.join(2)
    log.flow(2, 100)
    log.ack(1, 0)
    if expired:
        log.reset("expire")
    log.now_us += SECOND
    if shown:
        log.snapshot(mark_delete_position="1:0")
    _waiting(log, (3, LOW))
    log.now_us += 3 * SECOND
    log.ack(1, 1, 2)
    log.dispatch(2, 3, LOW)
    weighed = replayed(log.rows, version="3.3.2", settings=AUTO_SPLIT).weighed
    assert [severity for rule, severity in weighed if rule == "stalled"] == found


@pytest.mark.parametrize(("sent", "found"), [(2, []), (0, ["not_provable"])])
def test_what_is_sent_after_a_skip_holds_newcomers_back(sent: int, found: list[str]) -> None:
    """The skip cannot have passed it; without it mark-delete may be where consumer 2 joins."""
    log = _held(0, 1)
    log.flow(1, 100)
    log.reset("expire")
    log.now_us += SECOND
    for entry in range(2, 2 + sent):
        log.publish(entry, HIGH)
        log.dispatch(1, entry, HIGH)
    log.join(2)
    log.flow(2, 100)
    _waiting(log, (4, LOW))
    log.now_us += 3 * SECOND
    log.ack(1, *range(2 + sent))
    log.dispatch(2, 4, LOW)
    weighed = replayed(log.rows, version="3.3.2", settings=AUTO_SPLIT).weighed
    assert [severity for rule, severity in weighed if rule == "stalled"] == found


@pytest.mark.parametrize(("recent", "passed_over"), [(True, []), (False, [(1, 3)])])
def test_what_a_newcomer_is_sent_shows_that_it_was_released_by_then(
    recent: bool, passed_over: list[tuple[int, int]]
) -> None:
    """No row shows how far an expiry moved mark-delete; 2 is sent something new at last, and what was before it."""
    log = Log(step_us=0)
    log.join(1)
    if not recent:
        log.join(2)
    log.flow(1, 100)
    for entry in range(3):
        log.publish(entry, HIGH)
        log.dispatch(1, entry, HIGH)
    if recent:
        log.join(2)
    log.flow(2, 100)
    log.reset("expire")
    log.now_us += SECOND
    _waiting(log, (3, LOW), *((entry, HIGH) for entry in range(4, 8)), (8, LOWEST))
    for entry in range(4, 8):
        log.dispatch(1, entry, HIGH)
        log.now_us += SECOND // 2
    log.dispatch(2, 8, LOWEST)
    log.dispatch(2, 3, LOW)
    replay = replayed(log.rows, version="3.3.2", settings=AUTO_SPLIT)
    assert [seen.head for seen in replay.passed_over] == passed_over


def test_what_is_published_first_need_not_have_the_first_row() -> None:
    """Two producers' rows may change places: nothing below the later entry is deleted for that."""
    log = Log(step_us=0)
    log.join(1)
    _waiting(log, (1, HIGH), (0, HIGH))
    for entry in (0, 1):
        log.dispatch(1, entry, HIGH)
    log.join(2)
    log.ack(1, 1)
    _waiting(log, (2, LOW))
    log.now_us += 2 * SECOND
    log.ack(1, 0)
    log.dispatch(2, 2, LOW)
    (wait,) = _consumers(log)
    assert (wait.consumer, wait.blocking, wait.roots, wait.waited_us) == (2, 1, ((1, 0),), 2 * SECOND)
