"""Intervals with one side missing, consumers that cannot be, and what the first consumer of a dispatcher decides."""

import pytest
from local_replay import AUTO_SPLIT, HIGH, HIGHEST, LOW, LOWEST, SKEW_US, Log, Replay, replayed

from dispatch_audit.pipeline.packing.repeated_rows import (
    DUPLICATE_SEQ,
    IMPOSSIBLE_TRANSITION,
    REPEATED_ROW,
    UNKNOWN_CONSUMER,
)

WITHIN_US = SKEW_US - 2_000
BEYOND_US = SKEW_US + 2_000

cutting = pytest.mark.parametrize("rows_per_batch", [None, 1], ids=["all at once", "row by row"])


def _two() -> Log:
    """Consumer 1 owns what is HIGH, 2 what is LOW, and entries 0, 2, 4 are LOW, 1, 3, 5 HIGH."""
    log = Log()
    log.join(1)
    log.join(2)
    for entry in range(6):
        log.publish(entry, HIGH if entry % 2 else LOW)
    log.now_us += 1_000_000
    return log


def _ended(log: Log) -> Log:
    """Time goes on, so that nothing is held back any more."""
    log.now_us += 20_000_000
    log.publish(1000, HIGHEST)
    return log


def _rules(replay: Replay) -> list[str]:
    return [finding.rule for finding in replay.findings]


# Joins.


@cutting
def test_a_join_of_which_only_the_end_is_known_may_be_one_skew_older(rows_per_batch: int | None) -> None:
    log = Log()
    log.join(1)
    log.publish(0)
    log.now_us += 1_000_000
    log.dispatch(2, 0)
    log.now_us += WITHIN_US - 2_000
    log.join(2, phases="end")
    replay = replayed(_ended(log).rows, rows_per_batch=rows_per_batch)
    assert (replay.findings, replay.refused) == ([], [])


@cutting
def test_a_join_of_which_only_the_end_is_known_is_no_older_than_that(rows_per_batch: int | None) -> None:
    log = Log()
    log.join(1)
    log.publish(0)
    log.now_us += 1_000_000
    sent = log.dispatch(2, 0)
    log.now_us += BEYOND_US
    log.join(2, phases="end")
    replay = replayed(_ended(log).rows, rows_per_batch=rows_per_batch)
    assert [(r.seq, r.reason) for r in replay.refused] == [(sent, UNKNOWN_CONSUMER), (sent + 1, UNKNOWN_CONSUMER)]
    assert replay.findings == []


@pytest.mark.parametrize(("after_us", "broken"), [(WITHIN_US, []), (BEYOND_US, ["ownership"])])
@cutting
def test_a_join_of_which_only_the_start_is_known_has_happened_one_skew_later(
    after_us: int, broken: list[str], rows_per_batch: int | None
) -> None:
    log = Log()
    log.join(1)
    log.publish(0)
    log.join(2, phases="start")
    log.now_us += after_us
    log.dispatch(1, 0)
    replay = replayed(_ended(log).rows, rows_per_batch=rows_per_batch)
    assert _rules(replay) == broken


# Leaves.


@pytest.mark.parametrize(("later_us", "broken"), [(WITHIN_US, []), (BEYOND_US, ["early_duplicate", "single_holder"])])
@cutting
def test_what_a_consumer_holds_is_certain_until_one_skew_before_the_end_of_its_leave(
    later_us: int, broken: list[str], rows_per_batch: int | None
) -> None:
    log = _two()
    log.dispatch(1, 1, HIGH)
    log.now_us += 1_000_000
    log.dispatch(2, 1, HIGH)
    log.now_us += later_us - 2_000
    log.leave(1, phases="end")
    replay = replayed(_ended(log).rows, rows_per_batch=rows_per_batch)
    assert [rule for rule in _rules(replay) if rule != "ownership"] == broken
    assert ("ownership" in _rules(replay)) == bool(broken)


@pytest.mark.parametrize("before_us", [-WITHIN_US, WITHIN_US], ids=["before", "after"])
@cutting
def test_a_leave_that_the_broker_caused_is_one_skew_wide_on_both_sides(
    before_us: int, rows_per_batch: int | None
) -> None:
    log = _two()
    log.dispatch(1, 1, HIGH)
    log.now_us += 1_000_000
    if before_us < 0:
        log.dispatch(2, 1, HIGH)
        log.now_us += -before_us - 2_000
        log.leave(1, phases="start", reason="closed_by_broker")
    else:
        log.leave(1, phases="start", reason="closed_by_broker")
        log.now_us += before_us
        log.dispatch(1, 3, HIGH)
    assert replayed(_ended(log).rows, rows_per_batch=rows_per_batch).findings == []


@pytest.mark.parametrize(("sides", "broken"), [("end", []), ("start end", ["ownership", "redelivery_order"])])
@cutting
def test_a_dispatch_of_which_only_the_end_is_known_may_be_older_than_a_leave_amid_quiet(
    sides: str, broken: list[str], rows_per_batch: int | None
) -> None:
    # The row before is much older than any moment at which the leave can have taken effect.
    log = _two()
    log.dispatch(1, 1, HIGH, phases=sides)
    log.now_us += 1_000_000
    log.publish(6, LOW)
    log.now_us += SKEW_US
    log.dispatch(1, 3, HIGH, phases=sides)
    log.now_us += 2_000
    log.leave(1, phases="end")
    log.now_us += SKEW_US - 4_000
    log.dispatch(1, 5, HIGH, phases=sides)
    assert sorted(_rules(replayed(_ended(log).rows, rows_per_batch=rows_per_batch))) == broken


@pytest.mark.parametrize(("sides", "broken"), [("end", []), ("start end", ["ownership", "redelivery_order"])])
@cutting
def test_what_its_receiver_left_behind_was_still_held_at_a_dispatch_of_which_only_the_end_is_known(
    sides: str, broken: list[str], rows_per_batch: int | None
) -> None:
    log = _two()
    log.dispatch(1, 1, HIGH, phases=sides)
    log.now_us += 1_000_000
    log.leave(1)
    log.dispatch(1, 3, HIGH, phases=sides)
    assert sorted(_rules(replayed(_ended(log).rows, rows_per_batch=rows_per_batch))) == broken


@cutting
def test_from_the_start_of_a_leave_nothing_is_certain(rows_per_batch: int | None) -> None:
    log = _two()
    log.dispatch(1, 1, HIGH)
    log.leave(1, phases="start")
    log.dispatch(2, 1, HIGH)
    log.now_us += 3_000_000
    log.leave(1, phases="end")
    assert replayed(_ended(log).rows, rows_per_batch=rows_per_batch).findings == []


# Dispatches.


def test_a_dispatch_that_never_left_the_broker_is_no_finding() -> None:
    log = _two()
    log.dispatch(1, 0, phases="start")
    assert replayed(_ended(log).rows).findings == []


def test_nothing_is_held_against_a_dispatch_that_never_left_the_broker() -> None:
    log = _two()
    log.dispatch(1, 0, phases="start")
    owner = log.dispatch(2, 0)
    assert owner not in [seq for _, seq in replayed(_ended(log).rows).broken]


def test_a_dispatch_without_an_end_that_is_acknowledged_has_left_the_broker() -> None:
    log = _two()
    sent = log.dispatch(1, 0, phases="start")
    log.ack(1, 0)
    assert replayed(_ended(log).rows).broken == [("ownership", sent)]


@pytest.mark.parametrize(
    ("apart_us", "broken"), [(WITHIN_US, []), (BEYOND_US, ["replay_overtaken", "first_delivery_order"])]
)
@cutting
def test_ends_alone_tell_the_order_of_what_is_further_apart_than_the_skew(
    apart_us: int, broken: list[str], rows_per_batch: int | None
) -> None:
    log = _two()
    log.dispatch(2, 2, LOW, phases="end")
    log.now_us += apart_us
    log.dispatch(2, 0, LOW, phases="end")
    assert _rules(replayed(_ended(log).rows, rows_per_batch=rows_per_batch)) == broken


@pytest.mark.parametrize(("apart_us", "broken"), [(WITHIN_US, []), (BEYOND_US, ["single_holder"])])
@cutting
def test_ends_alone_tell_who_held_first_beyond_the_skew(
    apart_us: int, broken: list[str], rows_per_batch: int | None
) -> None:
    log = _two()
    log.dispatch(1, 0, LOW, phases="end")
    log.now_us += apart_us
    log.dispatch(2, 2, LOW, phases="end")
    rules = _rules(replayed(_ended(log).rows, rows_per_batch=rows_per_batch))
    assert [rule for rule in rules if rule != "ownership"] == broken


@pytest.mark.parametrize(("after_us", "broken"), [(WITHIN_US, []), (BEYOND_US, ["ownership"])])
@cutting
def test_ends_alone_may_come_one_skew_after_the_hash_has_moved(
    after_us: int, broken: list[str], rows_per_batch: int | None
) -> None:
    log = Log()
    log.join(1)
    log.publish(0)
    log.join(2)
    log.now_us += after_us
    log.dispatch(1, 0, phases="end")
    assert _rules(replayed(_ended(log).rows, rows_per_batch=rows_per_batch)) == broken


# Acknowledgements.


@pytest.mark.parametrize(("later_us", "broken"), [(WITHIN_US, False), (BEYOND_US, True)])
@cutting
def test_an_ack_of_which_only_the_end_is_known_may_be_one_skew_older(
    later_us: int, broken: bool, rows_per_batch: int | None
) -> None:
    log = _two()
    log.dispatch(1, 0)
    log.now_us += 1_000_000
    sent = log.dispatch(2, 2)
    log.now_us += later_us - 2_000
    log.ack(1, 0, phases="end")
    replay = replayed(_ended(log).rows, rows_per_batch=rows_per_batch)
    assert (("single_holder", sent) in replay.broken) == broken


@cutting
def test_an_ack_with_both_sides_settles_at_its_start(rows_per_batch: int | None) -> None:
    log = _two()
    log.dispatch(1, 0)
    before = log.dispatch(2, 2)
    log.ack(1, 0, phases="start")
    after = log.dispatch(2, 4)
    log.now_us += 1_000_000
    log.ack(1, 0, phases="end")
    broken = replayed(_ended(log).rows, rows_per_batch=rows_per_batch).broken
    assert ("single_holder", before) in broken
    assert ("single_holder", after) not in broken


def test_a_cumulative_ack_settles_nothing() -> None:
    log = _two()
    log.dispatch(1, 0)
    log.ack(1, 0, ack_type="cumulative")
    sent = log.dispatch(2, 2)
    assert ("single_holder", sent) in replayed(log.rows).broken


# Keys.


def test_a_dispatch_finds_its_key_in_the_publish() -> None:
    log = _two()
    # p-0 hashes to 10126 in 0..65535, so consumer 2 owns it.
    log.publish(10, None, producer_name="p", sequence_id=0)
    log.publish(11, None, producer_name="p", sequence_id=0)
    seqs = [log.dispatch(consumer, entry, None) for consumer, entry in ((1, 10), (2, 11))]
    owners = [f.other_consumer for f in replayed(log.rows).findings if f.rule == "ownership"]
    assert len(owners) == 1
    assert owners[0] in (1, 2)
    assert seqs[0] < seqs[1]


def test_of_an_entry_without_a_key_nothing_is_claimed() -> None:
    log = _two()
    for _ in range(2):
        log.dispatch(1, 10, None)
        log.dispatch(2, 10, None)
    log.publish(10, None, producer_name="p", sequence_id=0)
    log.ack(1, 10)
    replay = replayed(log.rows)
    assert (replay.findings, replay.refused) == ([], [])
    assert replay.replayed.dispatcher.counts[1] == (2, 0)


# Consumers that cannot be.


@cutting
def test_events_of_consumers_that_never_joined_are_refused(rows_per_batch: int | None) -> None:
    log = _two()
    sent = log.dispatch(9, 0)
    acked = log.ack(9, 0, 2, phases="end")
    redelivered = log.redeliver(9)
    left = log.leave(9, phases="end")
    replay = replayed(_ended(log).rows, rows_per_batch=rows_per_batch)
    assert sorted((r.seq, r.reason) for r in replay.refused) == [
        (seq, UNKNOWN_CONSUMER) for seq in (sent, sent + 1, acked, redelivered, left)
    ]
    assert replay.findings == []
    assert 9 not in replay.replayed.dispatcher.counts


@cutting
def test_a_second_join_of_a_consumer_is_refused_and_changes_nothing(rows_per_batch: int | None) -> None:
    log = _two()
    expected = replayed(_ended(log).rows).changes
    again = log.join(2, phases="end")
    replay = replayed(_ended(log).rows, rows_per_batch=rows_per_batch)
    assert again in [refused.seq for refused in replay.refused] or replay.refused == []
    assert replay.changes == expected


@cutting
def test_a_join_of_a_consumer_that_has_left_is_refused(rows_per_batch: int | None) -> None:
    log = _two()
    log.leave(2)
    again = log.join(2, phases="start")
    replay = replayed(_ended(log).rows, rows_per_batch=rows_per_batch)
    assert [(r.seq, r.reason) for r in replay.refused] == [(again, IMPOSSIBLE_TRANSITION)]
    assert [change for change, _ in replay.changes] == ["join c1", "join c2", "leave c2"]


def test_a_join_that_the_broker_refused_is_no_change() -> None:
    log = _two()
    log.write("join", phase="start", consumer=None, consumer_name="c3", key_shared_mode="AUTO_SPLIT")
    replay = replayed(_ended(log).rows)
    assert [change for change, _ in replay.changes] == ["join c1", "join c2"]
    assert replay.refused == []


def test_a_row_that_is_there_twice_counts_once() -> None:
    log = _two()
    sent = log.dispatch(1, 1, HIGH)
    replay = replayed(log.rows + [row for row in log.rows if row["seq"] == sent])
    assert [(r.seq, r.reason) for r in replay.refused] == [(sent, REPEATED_ROW)]
    assert replay.findings == []


@pytest.mark.parametrize("first", [True, False])
def test_of_rows_of_one_seq_that_differ_the_earliest_is_used(first: bool) -> None:
    log = _two()
    sent = log.dispatch(1, 1, HIGH)
    (row,) = (row for row in log.rows if row["seq"] == sent)
    # To a consumer that does not own the hash: it would be a finding.
    other = {**row, "consumer": 2, "ts_us": row["ts_us"] + 1}
    replay = replayed([other, *log.rows] if first else [*log.rows, other])
    assert [(r.seq, r.reason) for r in replay.refused] == [(sent, DUPLICATE_SEQ)]
    assert replay.findings == []


# What the first consumer decides.


def _sticky() -> Log:
    log = Log()
    log.join(1, ranges=[(0, 32_767)])
    log.join(2, ranges=[(32_768, 65_535)])
    for entry, key in enumerate((LOW, HIGH)):
        log.publish(entry, key)
    return log


def test_a_sticky_subscription_routes_by_declared_ranges() -> None:
    log = _sticky()
    log.dispatch(1, 0, LOW)
    log.dispatch(2, 1, HIGH)
    wrong = log.dispatch(1, 1, HIGH)
    findings = replayed(log.rows).findings
    assert [(f.rule, f.seq, f.other_consumer) for f in findings if f.rule == "ownership"] == [("ownership", wrong, 2)]


def test_nothing_drains_on_a_sticky_subscription() -> None:
    log = _sticky()
    log.dispatch(1, 0, LOW)
    log.leave(2)
    log.join(3, ranges=[(32_768, 65_535)])
    assert replayed(log.rows).episodes == []


def test_a_gap_of_a_sticky_subscription_belongs_to_nobody() -> None:
    log = Log()
    log.join(1, ranges=[(0, 100)])
    log.publish(0, HIGH)
    sent = log.dispatch(1, 0, HIGH)
    (finding,) = replayed(log.rows).findings
    assert (finding.rule, finding.seq, finding.other_consumer) == ("gap_delivery", sent, -1)


def test_publishes_before_the_first_sticky_join_get_the_hash_of_its_selector() -> None:
    log = Log()
    log.publish(0, LOWEST)
    log.publish(1, LOWEST)
    log.join(1, ranges=[(0, 65_535)])
    # Consistent hashing, the default, would put key-1 at 11858 (contract 1.6).
    early, late = [log.dispatch(1, 1, LOWEST), log.dispatch(1, 0, LOWEST)]
    replay = replayed(log.rows, settings={})
    assert replay.broken == [("replay_overtaken", early), ("first_delivery_order", late)]
    assert set(replay.replayed.findings.hash.tolist()) == {5536}


def test_the_policy_may_change_while_nobody_is_connected() -> None:
    log = Log()
    log.join(1)
    for entry in range(3):
        log.publish(entry, LOWEST)
    log.dispatch(1, 0, LOWEST)
    log.leave(1)
    log.join(2, ranges=[(0, 65_535)])
    log.dispatch(2, 0, LOWEST)
    log.dispatch(2, 1, LOWEST)
    log.ack(2, 0, 1)
    log.leave(2)
    log.join(3)
    log.dispatch(3, 2, LOWEST)
    replay = replayed(log.rows, settings={})
    assert replay.findings == []
    assert [(placed.epoch.change, placed.epoch.owned.rows) for placed in replay.epochs if placed.epoch.owned.rows] == [
        ("join c1", ((1, 65_535, 1),)),
        ("join c2", ((0, 65_535, 2),)),
        ("join c3", ((1, 65_535, 3),)),
    ]
    assert replay.replayed.dispatcher.counts == {1: (1, 0), 2: (2, 2), 3: (1, 0)}


def test_who_was_sent_to_after_leaving_does_not_disturb_a_change_of_policy() -> None:
    log = Log()
    log.join(1)
    log.publish(0)
    log.publish(1)
    log.leave(1)
    log.dispatch(1, 0)
    log.join(2, ranges=[(0, 65_535)])
    log.dispatch(2, 1)
    log.ack(1, 0)
    log.dispatch(2, 0)
    replay = replayed(log.rows, settings={})
    assert "single_holder" not in _rules(replay)
    assert replay.replayed.dispatcher.counts == {1: (1, 1), 2: (2, 0)}


def test_out_of_order_subscriptions_promise_no_order_and_drain_nothing() -> None:
    log = Log()
    log.join(1, allow_out_of_order=True)
    for entry in range(3):
        log.publish(entry)
    early = log.dispatch(1, 2)
    log.dispatch(1, 0)
    log.join(2, allow_out_of_order=True)
    replay = replayed(log.rows)
    assert (replay.broken, replay.violated, replay.episodes) == ([("replay_overtaken", early)], [], [])
    assert not replay.replayed.dispatcher.policy.keeps_order


# Restarts.


def test_with_the_last_consumer_the_order_starts_anew() -> None:
    log = Log()
    log.join(1)
    for entry in range(4):
        log.publish(entry)
    early = log.dispatch(1, 3)
    log.leave(1)
    log.join(2)
    log.dispatch(2, 0)
    assert replayed(log.rows).broken == [("replay_overtaken", early)]


@pytest.mark.parametrize("reason", ["seek", "unload", "transfer"])
def test_after_a_restart_everything_may_come_again(reason: str) -> None:
    log = _two()
    log.dispatch(2, 0)
    log.dispatch(2, 2)
    log.ack(2, 0)
    log.reset(reason)
    log.join(3)
    log.dispatch(3, 0)
    log.dispatch(3, 2)
    replay = replayed(_ended(log).rows)
    assert replay.findings == []
    assert [change for change, _ in replay.changes] == ["join c1", "join c2", "reset", "join c3"]


def test_an_administrator_moving_mark_delete_makes_what_is_held_doubtful() -> None:
    log = _two()
    log.dispatch(1, 0)
    log.reset("expire", phases="end")
    sent = log.dispatch(2, 2)
    assert replayed(_ended(log).rows).verdicts["single_holder", sent].permitted_by == "E6"


def test_settings_choose_the_selector() -> None:
    log = _two()
    by_ring = replayed(log.rows, settings={}).epochs[-1].epoch.owned.rows
    by_halves = replayed(log.rows, settings=AUTO_SPLIT).epochs[-1].epoch.owned.rows
    assert len(by_ring) > len(by_halves) == 2
