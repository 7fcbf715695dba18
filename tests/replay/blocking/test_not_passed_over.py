"""When an entry that waits was not passed over: its owner may have been blocked, or the broker had not read it."""

import pytest
from local_replay import HIGH, HIGHEST, LOW, LOWEST, Log, replayed, say, two

SECOND_US = 1_000_000
PER_CONSUMER = "maxUnackedMessagesPerConsumer"


def send(log: Log, consumer: int, entry: int, key: bytes) -> None:
    log.publish(entry, key)
    log.dispatch(consumer, entry, key)


def around_six(log: Log, consumer: int, read: bool) -> None:
    """What comes before entry 6 is sent for three seconds, and 7 before that, if it was `read`, or else in the end."""
    if read:
        log.dispatch(consumer, 7, LOWEST)
    for entry in range(6):
        log.dispatch(consumer, entry, LOWEST)
        log.now_us += SECOND_US // 2
    if not read:
        log.dispatch(consumer, 7, LOWEST)
    send(log, consumer, 8, LOWEST)
    log.dispatch(consumer, 6, LOW)


@pytest.mark.parametrize(("skips", "found"), [(True, []), (False, ["(1, 4)"])])
def test_who_was_at_its_limit_stays_blocked_while_the_limit_is_raised(skips: bool, found: list[str]) -> None:
    """What was skipped while it was held counts on, so no acknowledgement unblocks it (4.14, E6)."""
    log = two()
    say(log, **{PER_CONSUMER: 4})
    for entry in range(4):
        send(log, 1, entry, HIGH)
    if skips:
        log.reset("skip")
        log.now_us += SECOND_US
    log.ack(1, 0, 1, 2, 3)
    say(log, **{PER_CONSUMER: 8})
    log.publish(4, HIGH)
    for entry in range(5, 11):
        send(log, 2, entry, LOW)
        log.ack(2, entry)
        log.now_us += SECOND_US // 2
    log.dispatch(1, 4, HIGH)
    assert replayed(log.rows).passed_heads == found


@pytest.mark.parametrize(("read", "found"), [(True, ["(1, 6)"]), (False, [])])
def test_a_delayed_entry_that_is_due_is_not_passed_over_before_it_is_read(read: bool, found: list[str]) -> None:
    log = two()
    for entry in range(6):
        log.publish(entry, LOWEST)
    log.publish(6, LOW, deliver_at_ms=log.now_us // 1000 + 1)
    log.publish(7, LOWEST)
    around_six(log, 2, read)
    assert replayed(log.rows).passed_heads == found


@pytest.mark.parametrize("way", ["the last consumer left", "unload"])
@pytest.mark.parametrize(("read", "found"), [(True, ["(1, 6)"]), (False, [])])
def test_what_a_rewound_cursor_has_yet_to_read_is_not_passed_over(way: str, read: bool, found: list[str]) -> None:
    log = two()
    for entry in range(6):
        log.publish(entry, LOWEST)
    if way == "unload":
        log.reset("unload")
        log.now_us += SECOND_US
        log.publish(6, LOW)
    else:
        send(log, 2, 6, LOW)
        log.leave(1)
        log.leave(2)
    log.publish(7, LOWEST)
    log.join(3)
    log.flow(3, 100)
    around_six(log, 3, read)
    assert replayed(log.rows).passed_heads == found


@pytest.mark.parametrize(
    ("flows", "earlier", "found"), [(True, False, ["(1, 1)"]), (False, False, []), (False, True, ["(1, 1)"])]
)
def test_without_flow_rows_only_what_an_owner_is_sent_shows_that_it_has_permits(
    flows: bool, earlier: bool, found: list[str]
) -> None:
    """Entry 1 waits for three seconds; later ones are sent right after it came, or only in the end."""
    log = Log()
    log.join(1)
    log.join(2)
    if flows:
        log.flow(1, 1_000)
        log.flow(2, 1_000)
    send(log, 1, 0, HIGH)
    log.publish(1, HIGH)
    if earlier:
        send(log, 1, 2, HIGHEST)
    send(log, 2, 3, LOW)
    for entry in range(4, 10):
        log.now_us += SECOND_US // 2
        send(log, 2, entry, LOW)
    send(log, 1, 10, HIGHEST)
    log.dispatch(1, 1, HIGH)
    assert replayed(log.rows).passed_heads == found
