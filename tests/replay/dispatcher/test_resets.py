"""A seek or an unload: what the old dispatcher did up to it, and what is evidence after it (contract 5.10, E3).

The second consumer of these logs takes the place of the first, which the reset closes. What a rule finds after the
reset and what it must not find stand side by side.
"""

import pytest
from local_replay import HIGH, LOW, Log, replayed, reported


def _held(entries: int = 2) -> Log:
    """Consumer 1 holds entries 0, 1, ... of one key."""
    log = Log()
    log.join(1)
    for entry in range(entries):
        log.publish(entry, LOW)
        log.dispatch(1, entry, LOW)
    return log


def _closed(log: Log) -> None:
    log.leave(1, phases="start", reason="closed_by_broker")


def test_what_the_old_dispatcher_sent_behind_the_first_row_does_not_wait_after_the_reset() -> None:
    log = _held()
    log.publish(2, LOW)
    log.reset("seek", phases="start")
    log.dispatch(1, 2, LOW)
    _closed(log)
    log.reset("seek", phases="end")
    log.join(2)
    log.now_us += 50_000
    log.publish(3, LOW)
    log.dispatch(2, 3, LOW)
    assert replayed(log.rows).findings == []


def test_a_consumer_that_is_closed_behind_the_last_row_leaves_nothing_behind() -> None:
    log = _held()
    log.reset("unload")
    _closed(log)
    log.join(2)
    log.now_us += 50_000
    log.publish(2, LOW)
    log.dispatch(2, 2, LOW)
    assert replayed(log.rows).findings == []


@pytest.mark.parametrize("reset", [True, False])
def test_a_dispatch_that_is_recorded_late_tells_nothing_of_the_new_dispatcher(reset: bool) -> None:
    """Only ends are recorded, and that of entry 5 comes when the seek back is over."""
    log = Log()
    log.join(1)
    for entry in range(6):
        log.publish(entry, LOW)
    log.dispatch(1, 0, LOW, phases="end")
    if reset:
        log.reset("seek")
        log.now_us += 2_000
        log.dispatch(1, 5, LOW, phases="end")
        log.join(2)
    else:
        log.now_us += 2_000
        log.dispatch(1, 5, LOW, phases="end")
    log.now_us += 50_000
    sent = log.dispatch(2 if reset else 1, 1, LOW, phases="end")
    late = [("first_delivery_order", sent)]
    assert [broken for broken in replayed(log.rows).broken if broken[0] == "first_delivery_order"] == late * (not reset)


@pytest.mark.parametrize(("after_us", "waits"), [(-3_000, False), (5_000, False), (50_000, True)])
def test_what_may_have_been_published_before_the_reset_does_not_wait(after_us: int, waits: bool) -> None:
    """A seek to the latest position leaves behind what is published by then, and a publish may be recorded late."""
    log = _held(1)
    log.reset("seek", phases="start")
    over_us = log.now_us + 10_000
    log.now_us = over_us + after_us
    if after_us < 0:
        log.publish(1, LOW)
        log.now_us = over_us
        log.reset("seek", phases="end")
    else:
        log.now_us = over_us
        log.reset("seek", phases="end")
        log.now_us = over_us + after_us
        log.publish(1, LOW)
    log.now_us += 100_000
    log.join(2)
    log.publish(2, LOW)
    sent = log.dispatch(2, 2, LOW)
    assert replayed(log.rows).broken == [("replay_overtaken", sent)] * waits


def test_an_acknowledgement_of_a_closed_consumer_settles_nothing_after_the_reset() -> None:
    log = _held()
    log.ack(1, 1, phases="start")
    log.reset("seek")
    log.join(2)
    log.dispatch(2, 0, LOW)
    log.dispatch(2, 1, LOW)
    log.ack(1, 1, phases="end")
    log.leave(2)
    log.join(3)
    log.dispatch(3, 0, LOW)
    log.dispatch(3, 1, LOW)
    assert replayed(log.rows).findings == []


@pytest.mark.parametrize("sent_before", [False, True])
def test_a_read_in_flight_sends_what_was_acknowledged_again_only_if_it_was_not_sent_since(sent_before: bool) -> None:
    log = _held()
    log.reset("unload")
    log.join(2)
    log.dispatch(2, 0, LOW)
    if sent_before:
        log.dispatch(2, 1, LOW)
    log.ack(2, 1)
    sent = log.dispatch(2, 1, LOW)
    assert replayed(log.rows).broken == [("early_duplicate", sent)] * sent_before


def test_a_position_that_is_acknowledged_first_does_not_say_where_mark_delete_stands() -> None:
    """Entry 4 is acknowledged and sent all the same; entry 0 is sent, acknowledged and sent again."""
    log = _held(5)
    log.ack(1, *range(5))
    log.reset("seek")
    log.join(2)
    log.ack(2, 4)
    for entry in range(5):
        log.dispatch(2, entry, LOW)
    log.ack(2, 0)
    log.ack(2, 1)
    sent = log.dispatch(2, 0, LOW)
    (finding,) = replayed(log.rows).findings
    assert (finding.rule, finding.seq, finding.acknowledged) == ("early_duplicate", sent, True)


@pytest.mark.parametrize("phases", ["start", "start end"])
def test_a_reset_is_over_when_a_consumer_comes_back(phases: str) -> None:
    """Its last row may be missing; the rules hold for the new dispatcher."""
    log = _held(1)
    log.reset("unload", phases=phases)
    log.join(2)
    log.now_us += 50_000
    for entry in (1, 2):
        log.publish(entry, LOW)
    log.dispatch(2, 1, LOW)
    log.dispatch(2, 2, LOW)
    log.leave(2)
    log.join(3)
    sent = log.dispatch(3, 2, LOW)
    again = log.dispatch(3, 2, LOW)
    log.ack(3, 2)
    settled = log.dispatch(3, 2, LOW)
    found = replayed(log.rows).broken
    assert ("redelivery_order", sent) in found
    assert ("early_duplicate", again) in found
    assert ("early_duplicate", settled) in found


def test_a_snapshot_of_before_that_is_recorded_after_a_seek_back_does_not_move_mark_delete() -> None:
    log = _held()
    log.ack(1, 0)
    log.ack(1, 1)
    log.reset("seek")
    log.join(2)
    log.dispatch(2, 0, LOW)
    log.now_us += 20_000
    log.stats(mark_delete_position="1:1")
    log.dispatch(2, 1, LOW)
    assert replayed(log.rows).findings == []


def test_a_snapshot_inside_the_reset_may_show_the_old_dispatcher_or_the_new_one() -> None:
    def agreement(unacked: int) -> tuple[int, int]:
        log = _held()
        log.reset("seek", phases="start")
        log.snapshot(reported(1, unacked_messages=unacked))
        _closed(log)
        log.reset("seek", phases="end")
        log.join(2)
        log.publish(2, HIGH)
        return replayed(log.rows).agreement["unacked_messages"]

    assert [agreement(unacked) for unacked in (0, 2, 3)] == [(1, 1), (1, 1), (0, 1)]
