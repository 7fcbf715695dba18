"""Corners of the rules on one dispatch, where a check that is a little wrong would go unnoticed elsewhere."""

import pytest
from local_replay import AUTO_SPLIT, SKEW_US, Finding, Log, batch_sent_again, replayed

from dispatch_audit.pipeline.contract.rules import UNACKED_LIMIT
from dispatch_audit.pipeline.replay.durations import READ_AND_PAUSE_US, READ_US

LIMIT = 3
LIMITED = {**AUTO_SPLIT, "maxUnackedMessagesPerConsumer": LIMIT}


def found(log: Log, rule: str, **settings: object) -> list[Finding]:
    return [f for f in replayed(log.rows, settings={**AUTO_SPLIT, **settings}).findings if f.rule == rule]


def two_held(first_phases: str = "start end") -> Log:
    """Consumer 1 holds 0 and 1 of LOW, which is consumer 2's now."""
    log = Log()
    log.join(1)
    log.publish(0)
    log.publish(1)
    log.dispatch(1, 0, phases=first_phases)
    log.dispatch(1, 1)
    log.join(2)
    log.publish(2)
    return log


# Redelivery counts (V8).


def test_a_wrong_count_is_found_once_and_the_next_is_held_against_it() -> None:
    log = Log()
    log.join(1)
    log.publish(0)
    log.dispatch(1, 0, count=0)
    log.redeliver(1, 0)
    wrong = log.dispatch(1, 0, count=3)
    log.redeliver(1, 0)
    log.dispatch(1, 0, count=4)
    assert [f.seq for f in found(log, "redelivery_count")] == [wrong]


def test_an_acknowledgement_in_part_loses_a_count_and_never_raises_it() -> None:
    log = Log()
    log.join(1)
    log.publish(0, batch_size=3)
    log.dispatch(1, 0, batch_size=3, count=0)
    log.redeliver(1, 0)
    log.dispatch(1, 0, batch_size=3, count=1)
    log.ack(1, 0, ack_set=[3])
    log.redeliver(1, 0)
    log.dispatch(1, 0, batch_size=3, count=0)
    log.redeliver(1, 0)
    raised = log.dispatch(1, 0, batch_size=3, count=5)
    assert [f.seq for f in found(log, "redelivery_count")] == [raised]


def test_a_count_is_lost_by_nothing_but_an_acknowledgement() -> None:
    log = Log()
    log.join(1)
    log.publish(0)
    log.dispatch(1, 0, count=0)
    log.redeliver(1, 0)
    lost = log.dispatch(1, 0, count=0)
    assert [f.seq for f in found(log, "redelivery_count")] == [lost]


def test_what_was_dropped_is_returned_by_no_command_and_what_a_read_had_in_flight_is_sent_with_its_count() -> None:
    def counted(skip: bool) -> list[Finding]:
        log = Log()
        log.join(1)
        log.publish(0)
        log.dispatch(1, 0, count=0)
        if skip:
            log.reset("skip")
        log.redeliver(1, 0)
        log.dispatch(1, 0, count=0)
        return found(log, "redelivery_count")

    assert [len(counted(skip)) for skip in (False, True)] == [1, 0]


# Limits on what is unacknowledged (4.8).


def sent_up_to(entries: int, batch_size: int = 1) -> Log:
    log = Log()
    log.join(1)
    for entry in range(entries):
        log.publish(entry, batch_size=batch_size)
        log.dispatch(1, entry, batch_size=batch_size)
    return log


def test_as_much_as_the_limit_allows_is_no_finding_and_one_more_is() -> None:
    assert found(sent_up_to(LIMIT), "unacked_limit", **LIMITED) == []
    assert len(found(sent_up_to(LIMIT + 1), "unacked_limit", **LIMITED)) == 1


def test_a_read_has_as_many_entries_for_a_consumer_as_messages_are_free_whatever_their_size() -> None:
    assert found(sent_up_to(LIMIT, batch_size=5), "unacked_limit", **LIMITED) == []
    assert len(found(sent_up_to(LIMIT + 1, batch_size=5), "unacked_limit", **LIMITED)) == 1


def test_of_a_later_read_only_as_many_as_are_free_by_then() -> None:
    log = sent_up_to(1)
    log.now_us += READ_AND_PAUSE_US
    sent = []
    for entry in range(1, LIMIT + 1):
        log.publish(entry, batch_size=5)
        sent.append(log.dispatch(1, entry, batch_size=5))
    assert [finding.seq for finding in found(log, "unacked_limit", **LIMITED)] == sent[LIMIT - 1 :]


def test_a_limit_of_nothing_is_none() -> None:
    assert found(sent_up_to(LIMIT + 1), "unacked_limit", maxUnackedMessagesPerConsumer=0) == []


def test_what_is_sent_again_to_its_holder_is_a_duplicate_and_not_over_the_limit() -> None:
    log = sent_up_to(LIMIT)
    log.dispatch(1, 0)
    assert found(log, "unacked_limit", **LIMITED) == []


# Holders (V1).


def test_the_oldest_of_what_the_holder_has_is_what_a_second_holder_is_held_against() -> None:
    log = two_held()
    log.dispatch(2, 2)
    (finding,) = found(log, "single_holder")
    assert finding.other_seq == next(r["seq"] for r in log.rows if r["event"] == "dispatch" and r["entry_id"] == 0)


def test_so_it_is_where_their_ends_come_late() -> None:
    log = Log()
    log.join(1)
    for entry in range(3):
        log.publish(entry)
    first = log.dispatch(1, 0, phases="start")
    log.dispatch(1, 1, phases="start")
    log.join(2)
    log.dispatch(2, 2)
    log.dispatch(1, 0, phases="end")
    log.dispatch(1, 1, phases="end")
    (finding,) = found(log, "single_holder")
    assert finding.other_seq == first


def test_an_entry_that_never_left_the_broker_does_not_hide_one_that_did() -> None:
    log = two_held(first_phases="start")
    log.dispatch(2, 2)
    (finding,) = found(log, "single_holder")
    assert finding.other_seq == next(r["seq"] for r in log.rows if r["event"] == "dispatch" and r["entry_id"] == 1)


def test_a_batch_is_held_by_nobody_once_all_its_messages_are_acknowledged_if_no_hash_drains() -> None:
    """A client that gets the rest of a batch again knows nothing of the first part, and never ends with a whole ack."""
    log = batch_sent_again()
    log.publish(1)
    log.dispatch(1, 1)
    log.join(2)
    log.ack(1, 1)
    log.publish(2)
    partly = [*log.rows]
    log.ack(1, 0, ack_set=[0b011])
    for rows, version, holders in ((partly, "3.0.7", 1), (log.rows, "3.0.7", 0), (log.rows, "4.2.4", 1)):
        of_second = Log()
        of_second.rows, of_second.now_us = [*rows], log.now_us
        of_second.dispatch(2, 2)
        findings = replayed(of_second.rows, version=version).findings
        assert len([finding for finding in findings if finding.rule == "single_holder"]) == holders


def test_nothing_is_certain_of_a_consumer_that_begins_to_leave() -> None:
    log = two_held()
    log.leave(1, phases="start")
    log.dispatch(2, 2)
    log.leave(1, phases="end")
    assert found(log, "single_holder") == []


def test_what_passes_an_older_entry_of_a_leaver_breaks_the_order_whether_the_leaver_is_gone_or_not() -> None:
    for gone_by_then in (False, True):
        log = two_held()
        held = next(r["seq"] for r in log.rows if r["event"] == "dispatch")
        log.leave(1, phases="start")
        log.now_us += 5_000 * gone_by_then
        passes = log.dispatch(2, 2)
        log.now_us += 5_000 * (not gone_by_then)
        log.leave(1, phases="end")
        (finding,) = found(log, "redelivery_order")
        assert (finding.seq, finding.other_consumer, finding.other_seq) == (passes, 1, held)


def test_so_does_not_what_passes_a_newer_entry_of_a_leaver() -> None:
    log = Log()
    log.join(1)
    for entry in range(2):
        log.publish(entry)
    log.dispatch(1, 1)
    log.join(2)
    log.leave(1, phases="start")
    log.dispatch(2, 0)
    log.leave(1, phases="end")
    assert found(log, "redelivery_order") == []


def test_nor_after_an_expiry_of_one_that_begins_to_leave() -> None:
    log = two_held()
    log.reset("expire")
    log.leave(1, phases="start")
    log.dispatch(2, 2)
    log.leave(1, phases="end")
    assert found(log, "single_holder") == []


def test_what_an_expiry_may_have_dropped_may_be_sent_again_to_whoever_had_it() -> None:
    log = Log()
    log.join(1)
    log.publish(0)
    log.publish(1)
    log.dispatch(1, 0)
    log.reset("expire")
    log.dispatch(1, 0)
    log.dispatch(1, 1)
    assert replayed(log.rows).findings == []


def test_a_batch_of_which_all_is_acknowledged_is_pending_all_the_same() -> None:
    # An expiry may have dropped it, so that it is sent again is no duplicate of something acknowledged.
    log = Log()
    log.join(1)
    log.publish(0)
    log.publish(1, batch_size=3)
    log.dispatch(1, 1, batch_size=3)
    log.ack(1, 1, ack_set=[0])
    log.reset("expire")
    log.dispatch(1, 1, batch_size=3)
    assert found(log, "early_duplicate") == []


# Owners (V2, V12).


def test_to_whom_nobody_is_connected_is_no_gap_but_for_sticky_consumers() -> None:
    log = Log()
    log.join(1)
    log.publish(0)
    log.leave(1)
    log.now_us += 1_000_000
    log.dispatch(1, 0)
    assert [f.rule for f in replayed(log.rows).findings] == ["ownership"]


# First deliveries (V4).


def test_what_was_acknowledged_before_it_was_sent_is_no_first_delivery() -> None:
    log = Log()
    log.join(1)
    # Keeps mark-delete from passing what is acknowledged.
    log.publish(0)
    log.publish(1)
    log.publish(2)
    log.ack(1, 1)
    log.dispatch(1, 2)
    log.dispatch(1, 1)
    assert found(log, "first_delivery_order") == []


def test_what_was_acknowledged_before_it_was_sent_is_no_duplicate() -> None:
    """An acknowledgement from before a restart of the broker comes late, while a read has the entry (34:742)."""
    log = Log()
    log.join(1)
    log.publish(0)
    log.ack(1, 0)
    log.dispatch(1, 0)
    assert found(log, "early_duplicate") == []
    again = log.dispatch(1, 0)
    assert [finding.seq for finding in found(log, "early_duplicate")] == [again]


@pytest.mark.parametrize(("returned", "found_again"), [("nacked", 0), ("left", 0), ("by another", 1)])
def test_what_two_hold_may_be_sent_again_when_one_gives_it_back(returned: str, found_again: int) -> None:
    """Overlapping reads (F10) have sent it to 2 although 1 held it, where it stays pending; 3 never got it."""
    log = Log()
    for consumer in (1, 2, 3):
        log.join(consumer)
    log.publish(0)
    log.dispatch(1, 0)
    log.dispatch(2, 0)
    if returned == "left":
        log.leave(1)
    else:
        log.redeliver(1 if returned == "nacked" else 3, 0)
    again = log.dispatch(2, 0)
    assert [finding.seq for finding in found(log, "early_duplicate")].count(again) == found_again


def test_in_the_middle_of_a_reset_order_is_not_asked_for() -> None:
    log = Log()
    log.join(1)
    log.publish(0)
    log.publish(1)
    log.reset("seek", phases="start")
    log.dispatch(1, 1, count=1)
    log.dispatch(1, 0)
    log.reset("seek", phases="end")
    kinds = {f.rule for f in replayed(log.rows).findings}
    assert not kinds & {"first_delivery_order", "redelivery_count"}


@pytest.mark.parametrize("reason", ["expire", "skip", "clear"])
def test_what_an_administrator_may_have_skipped_is_not_certainly_unacknowledged(reason: str) -> None:
    log = sent_up_to(LIMIT)
    log.reset(reason)
    log.now_us += SKEW_US
    for entry in range(10, 10 + LIMIT):
        log.publish(entry)
        log.dispatch(1, entry)
    log.publish(20)
    beyond = log.dispatch(1, 20)
    (of_limit,) = [f for f in replayed(log.rows, settings=LIMITED).replayed.findings if f.rule == UNACKED_LIMIT]
    assert (of_limit.seq, of_limit.value, of_limit.expected) == (beyond, LIMIT + 1, LIMIT)


def test_a_read_may_have_batches_for_who_holds_the_limit_only_with_what_may_have_been_skipped() -> None:
    """Two messages are free for certain, so that the read has two entries for it, and the first is a batch."""
    log = sent_up_to(LIMIT)
    log.reset("expire")
    log.now_us += SKEW_US
    for entry in range(10, 10 + LIMIT - 2):
        log.publish(entry)
        log.dispatch(1, entry)
    log.now_us += 1_000_000
    log.publish(20, batch_size=5)
    log.publish(21)
    log.dispatch(1, 20)
    log.dispatch(1, 21)
    found = [f for f in replayed(log.rows, settings=LIMITED).replayed.findings if f.rule == UNACKED_LIMIT]
    assert found == []


@pytest.mark.parametrize(("late_us", "permitted_by"), [(SKEW_US, "E6"), (SKEW_US + 1000, None)])
def test_a_publish_whose_row_comes_behind_a_skip_may_have_been_skipped(late_us: int, permitted_by: str | None) -> None:
    log = Log()
    log.join(1)
    log.reset("clear")
    log.now_us += late_us - log.step_us
    log.publish(1)
    log.publish(2)
    passed = log.dispatch(1, 2)
    assert replayed(log.rows).verdicts["replay_overtaken", passed].permitted_by == permitted_by


@pytest.mark.parametrize("replayed_read", [True, False])
@pytest.mark.parametrize(("after_us", "permitted_by"), [(READ_US, "E6"), (READ_US + 1000, None)])
def test_a_read_in_flight_sends_what_was_skipped(replayed_read: bool, after_us: int, permitted_by: str | None) -> None:
    """Its consumer leaves, and the broker drops the entry instead of replaying it."""
    log = Log()
    log.join(1)
    log.join(2)
    log.publish(1)
    log.publish(2)
    if replayed_read:
        # A later entry that was sent shows that this one was read and put back.
        log.dispatch(1, 2)
    log.reset("clear")
    log.now_us += after_us - log.step_us
    log.dispatch(1, 1)
    log.leave(1)
    log.publish(3)
    passed = log.dispatch(2, 3)
    assert replayed(log.rows).verdicts["redelivery_order", passed].permitted_by == permitted_by


def first_beyond(log: Log) -> int:
    """Sends entries 1, 2, ... until one is over the limit; returns it."""
    for entry in range(1, 12):
        log.publish(entry)
        log.dispatch(1, entry)
    indexes = {**LIMITED, "acknowledgmentAtBatchIndexLevelEnabled": True}
    seq = found(log, "unacked_limit", **indexes)[0].seq
    (entry,) = [row["entry_id"] for row in log.rows if row["seq"] == seq]
    return int(entry)


def test_a_skipped_entry_counts_again_when_it_is_sent_again_and_no_more_when_it_is_acknowledged() -> None:
    logs = [sent_up_to(1) for _ in range(3)]
    for log in logs:
        log.reset("skip")
        log.now_us += READ_US
    logs[1].dispatch(1, 0)
    logs[2].ack(1, 0)
    assert [first_beyond(log) for log in logs] == [LIMIT + 1, LIMIT, LIMIT + 1]


def test_of_a_skipped_batch_no_part_counts() -> None:
    log = sent_up_to(1, batch_size=2)
    log.reset("skip")
    log.now_us += SKEW_US
    log.ack(1, 0, ack_set=[1])
    assert first_beyond(log) == LIMIT + 1


def test_what_a_command_names_twice_is_perhaps_counted_twice() -> None:
    beyond = []
    for times in (1, 2):
        log = sent_up_to(1, batch_size=3)
        log.ack(1, *[0] * times, ack_set=[0b100])
        beyond.append(first_beyond(log))
    # Of three messages one is left, and the broker may have taken off two more.
    assert beyond == [LIMIT, LIMIT + 2]
