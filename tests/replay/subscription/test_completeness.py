"""On how much of a trace the verdicts rest, and what is not judged."""

import random
from collections.abc import Callable

import pytest
from examples import examples
from hypothesis import given
from hypothesis import strategies as st
from local_replay import HIGH, LOW, LOWEST, Columns, Log, recorded_tables, tables_of, tables_of_batches
from recorded import ALL, of_each
from recorded_batches import from_seq, recorded_batches, seqs_of

from dispatch_audit.pipeline.contract.rules import CLIENT_RULES, FACTS_AT_THE_END


def _partition(log: Log, **options: object) -> Columns:
    (row,) = tables_of(log.rows, **options)["coverage"]  # type: ignore[arg-type]  # passed on as given
    return row


def _log(entries: int = 3) -> Log:
    log = Log()
    log.join(1)
    for entry in range(entries):
        log.publish(entry)
        log.dispatch(1, entry)
    return log


def test_a_complete_trace_is_judged_to_the_last_row() -> None:
    log = _log()
    log.ack(1, 0, 1, 2)
    row = _partition(log)
    assert row["completeness"] == 1
    assert row["rows"] == row["rows_judged"] == len(log.rows)
    reported = {name for name, value in row.items() if value and name not in ("topic", "subscription")}
    answers = {"dispatches", "dispatches_judged", "order_verdict", "progress"}
    assert reported == {"completeness", "rows", "rows_judged", *answers}


def _unknown_consumer(log: Log) -> None:
    log.write("flow", consumer=9, permits=3)


def _same_seq(log: Log) -> None:
    log.rows.append({**log.rows[-1], "ts_us": log.rows[-1]["ts_us"] + 1})


@pytest.mark.parametrize("fault", [_unknown_consumer, _same_seq])
def test_a_refused_row_counts_against_it_in_every_rule(fault: Callable[[Log], None]) -> None:
    log = _log()
    fault(log)
    tables = tables_of(log.rows)
    (row,) = tables["coverage"]
    assert (row["rows_refused"], row["completeness"]) == (1, (len(log.rows) - 1) / len(log.rows))
    assert {rule["completeness"] for rule in tables["metrics"]} == {row["completeness"]}


def test_a_log_that_is_delivered_twice_is_as_complete_as_delivered_once() -> None:
    log = _log()
    once = dict(tables_of(log.rows))
    twice = tables_of([*log.rows, *log.rows])
    assert [row["reason"] for row in twice.pop("refused")] == ["repeated_row"] * len(log.rows)
    assert twice == once


def test_a_dispatch_of_a_key_that_nothing_says_cannot_be_judged() -> None:
    log = _log()
    log.dispatch(1, 7, None)
    row = _partition(log)
    assert (row["dispatches_without_key"], row["rows_judged"]) == (1, len(log.rows) - 1)
    assert row["entries_without_publish"] == 1


def test_what_is_open_at_the_end_is_not_lost() -> None:
    log = _log()
    log.ack(1, 0)
    log.redeliver(1, 1)
    log.publish(3)
    row = _partition(log)
    # 1 waits again, 2 is held: neither was acknowledged; 3 was not sent.
    assert (row["censored_never_acknowledged"], row["censored_never_dispatched"]) == (2, 1)
    assert row["completeness"] == 1


def test_an_entry_without_a_publish_is_told_unless_it_comes_late() -> None:
    log = Log()
    log.join(1)
    for entry in (5, 6, 8, 9):
        log.dispatch(1, entry, LOW)
    log.ack(1, 4)
    log.publish(6)
    log.publish(8)
    assert _partition(log)["entries_without_publish"] == 3  # 4, 5 and 9


def test_what_comes_again_after_a_seek_was_published() -> None:
    log = _log()
    log.ack(1, 0, 1, 2)
    log.leave(1, reason="closed_by_broker", phases="start")
    log.reset("seek")
    log.join(2)
    log.dispatch(2, 0, LOW)
    assert _partition(log)["entries_without_publish"] == 0


def test_a_dispatch_that_did_not_leave_the_broker() -> None:
    log = _log()
    log.publish(3)
    log.dispatch(1, 3, phases="start")
    assert _partition(log)["dispatches_without_end"] == 1


def test_clock_steps_back_are_counted_beyond_the_recorders_skew() -> None:
    log = _log()
    log.now_us -= 5_000
    log.publish(3)
    assert _partition(log)["clock_steps_back"] == 0
    log.now_us -= 50_000
    log.publish(4)
    assert _partition(log)["clock_steps_back"] == 1


def test_gaps_between_seqs_are_told_and_count_against_nothing() -> None:
    log = _log()
    for row in log.rows[4:]:
        row["seq"] += 100
    row = _partition(log)
    assert (row["seq_missing"], row["completeness"]) == (100, 1)


def test_a_consumer_that_only_snapshots_name() -> None:
    log = _log()
    log.write("stats", snapshot='{"consumers": [{"consumer": 1}, {"consumer": 8}]}')
    log.now_us += 1_000_000
    log.publish(3)
    assert _partition(log)["consumers_by_snapshot_only"] == 1


@examples(10)
@given(st.randoms(use_true_random=False), st.integers(1, 60), st.booleans())
def test_any_cutting_gives_the_same_row(chance: random.Random, rows_per_batch: int, complete: bool) -> None:
    log = _cut_in_the_middle()
    for entry in range(40, 60):
        log.publish(entry, chance.choice([LOW, HIGH, LOWEST]))
        log.dispatch(chance.choice([2, 3]), entry, None)
        log.now_us += chance.choice([0, 50_000, -50_000])
    one, cut = (
        tables_of(log.rows, rows_per_batch=rows, complete_from_start=complete) for rows in (None, rows_per_batch)
    )
    assert one["coverage"] == cut["coverage"]


def _cut_in_the_middle() -> Log:
    """Consumer 1 was there before; 2 and 3 come, 1 goes."""
    log = Log()
    for entry in (10, 11):
        log.publish(entry, HIGH)
        log.dispatch(1, entry, HIGH)
    log.join(2)
    log.join(3)
    log.publish(12, LOW)
    log.dispatch(2, 12, LOW)
    log.leave(1)
    return log


def test_nothing_is_judged_while_consumers_are_unknown() -> None:
    log = _cut_in_the_middle()
    tables = tables_of(log.rows, complete_from_start=False)
    (row,) = tables["coverage"]
    membership = 2 * 2
    assert (row["rows_judged"], row["rows_refused"]) == (membership, 0)
    assert tables["violations"] == tables["refused"] == tables["assignments"] == tables["blocking"] == []
    assert {rule["checked"] for rule in tables["metrics"] if rule["rule"] not in FACTS_AT_THE_END} == {0}


def test_a_complete_trace_refuses_what_an_incomplete_one_censors() -> None:
    log = _cut_in_the_middle()
    # The dispatches to 1, and its leave, by both sides.
    assert _partition(log)["rows_refused"] == 6
    assert _partition(log, complete_from_start=False)["rows_censored"] == len(log.rows) - 4


def _shown(log: Log, ranges_of_2: str) -> None:
    consumers = (
        f'{{"consumer": 2, "key_hash_ranges": {ranges_of_2}}}, {{"consumer": 3, "key_hash_ranges": [[0, 32768]]}}'
    )
    log.write("stats", snapshot=f'{{"consumers": [{consumers}], "mark_delete_position": "1:11"}}')
    log.now_us += 1_000_000
    for entry in range(20, 23):
        log.publish(entry, LOW)
        log.dispatch(3, entry, LOW)
    log.now_us += 1_000_000
    log.publish(23, LOW)
    log.dispatch(2, 23, LOW)


def test_a_snapshot_with_the_same_consumers_and_ranges_begins_the_verdicts() -> None:
    log = _cut_in_the_middle()
    _shown(log, "[[32769, 65536]]")
    tables = tables_of(log.rows, complete_from_start=False)
    # Entry 20 opens: whether something happened to it before, nobody knows.
    judged = {(row["rule"], row["entry_id"]) for row in tables["violations"] if row["severity"] == "violation"}
    assert judged == {("single_holder", 23), ("ownership", 23)}
    assert [row["consumer"] for row in tables["assignments"]] == [3, 2]


def test_a_snapshot_with_other_ranges_does_not() -> None:
    log = _cut_in_the_middle()
    _shown(log, "[[40000, 65536]]")
    tables = tables_of(log.rows, complete_from_start=False)
    assert tables["violations"] == []


def test_a_seek_begins_the_verdicts_because_everybody_is_disconnected() -> None:
    log = _cut_in_the_middle()
    for consumer in (2, 3):
        log.leave(consumer, reason="closed_by_broker", phases="start")
    log.reset("seek")
    log.join(4)
    log.now_us += 1_000_000
    log.publish(30, LOW)
    for entry in (31, 32):
        log.publish(entry, LOW)
        log.dispatch(4, entry, LOW)
    log.dispatch(4, 31, LOW)
    tables = tables_of(log.rows, complete_from_start=False)
    assert [(row["rule"], row["entry_id"]) for row in tables["violations"]] == [("early_duplicate", 31)]


@pytest.mark.recordings  # the smallest as well: each is replayed once more in part
@of_each(ALL, one_in=4)
def test_a_recording_is_complete_and_a_part_of_it_says_nothing_false(name: str) -> None:
    whole = recorded_tables(name)
    for row in whole["coverage"]:
        # All but dispatches while it is open which of two changes came first, at most one in a hundred rows.
        assert row["rows_judged"] == row["rows"] - row["dispatches_undecided"]
        assert row["dispatches_undecided"] <= 0.01 * row["rows"]
        assert (row["entries_without_publish"], row["clock_steps_back"]) == (0, 0)
    rows = recorded_batches(name)
    seqs = seqs_of(rows)
    part = tables_of_batches(name, from_seq(rows, seqs[len(seqs) // 3]), complete_from_start=False)
    assert part["refused"] == []
    assert all(0 <= row["completeness"] < 1 for row in part["coverage"])
    found = {(row["rule"], row["seq"], row["severity"]) for row in part["violations"]}
    # Of mixed batches only the first are shown, and these are others in a part; facts about clients compare all rows,
    # or what the replay of a part has not forgotten yet.
    known = {(row["rule"], row["seq"], row["severity"]) for row in whole["violations"]}
    # What explains a finding may lie before the part.
    known |= {(rule, seq, "not_provable") for rule, seq, _ in known}
    assert {finding for finding in found if finding[0] not in ("mixed_key_batch", *CLIENT_RULES)} <= known
