"""The replay of what several recorders wrote about one topic."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from local_replay import (
    LOW,
    LOWEST,
    SKEW_US,
    Columns,
    Log,
    Tables,
    recorded_logs,
    recorded_tables,
    recorders_in,
    reported,
    tables_of,
    tables_of_logs,
)
from recorded import of_each
from two_recorders import Divided, divided

from dispatch_audit.pipeline.errors import TraceError

_MOVED_US = 2_000_000_000
_UNLOADED = ("unload-4.2.4", "unload-4.0.8")
# Ids and texts name the recorder, and rates hang on its clock; gaps in the seqs of two recorders are not those of one.
_OF_THE_RECORDER = (
    "finding_id",
    "evidence",
    "what",
    "against",
    "why",
    "explanation",
    "detail",
    "growth_per_second",
    "message_seconds",
    "seq_missing",
)


def _of(broker: str | None, log: Log) -> list[Columns]:
    return [{**row, "broker": broker} for row in log.rows]


def _owner(entries: Sequence[int], *, now_us: int, wrong: Sequence[int] = ()) -> Log:
    """Two consumers join, and the second, which owns the hash, is sent all entries but those that go wrong."""
    log = Log(now_us=now_us)
    log.join(1)
    log.join(2)
    for entry in entries:
        log.publish(entry, LOW)
        to = 1 if entry in wrong else 2
        log.dispatch(to, entry, LOW)
        log.ack(to, entry)
    return log


def _found(tables: Tables, table: str = "violations") -> list[tuple[Any, ...]]:
    return sorted((row["broker"], row["rule"], row["seq"], row["consumer"]) for row in tables[table])


def test_what_one_broker_does_wrong_before_the_transfer_and_the_other_after_it_is_found_once_each() -> None:
    before = _owner(range(3), now_us=1_000_000_000, wrong=[1])
    before.reset("transfer")
    later = _owner(range(3, 6), now_us=_MOVED_US, wrong=[4])
    alone = [row for row in tables_of(before.rows)["violations"] if row["rule"] == "ownership"]
    tables = tables_of([*_of("b", later), *_of("a", before)])
    (seq,) = [row["seq"] for row in alone]
    assert _found(tables) == [("a", "ownership", seq, 1), ("b", "ownership", seq, 1)]
    texts = {row["broker"]: row["explanation"] + row["evidence"][-1] for row in tables["violations"]}
    for broker, other in ("ab", "ba"):
        assert f"(seq {seq} of {broker})" in texts[broker]
        assert f"(consumer 1 of {broker})" in texts[broker]
        assert f" of {other})" not in texts[broker]
    assert "refused" not in tables


@pytest.mark.parametrize("recorded", ["transfer", "unload", None])
def test_equal_seqs_and_consumer_numbers_of_two_recorders_do_not_mix(recorded: str | None) -> None:
    before = _owner(range(3), now_us=1_000_000_000)
    before.publish(3, LOW)
    before.dispatch(2, 3, LOW)  # held when the topic moves, and sent again by the next owner
    if recorded is not None:
        before.reset(recorded)
    later = Log(now_us=_MOVED_US)
    later.join(1, name="other")
    later.join(2)
    later.dispatch(2, 3, LOW)
    later.snapshot(reported(1, unacked_messages=0), reported(2, unacked_messages=1), seq_begin=6, seq_end=6)
    later.ack(2, 3)
    tables = tables_of([*_of("b", later), *_of("a", before)])
    assert "violations" not in tables
    assert "refused" not in tables
    found = sorted(
        (row["broker"], row["consumer"], row["consumer_name"], row["dispatched"], row["acked"])
        for row in tables["consumers"]
    )
    assert found == [("a", 1, "c1", 0, 0), ("a", 2, "c2", 4, 3), ("b", 1, "other", 0, 0), ("b", 2, "c2", 1, 1)]
    (partition,) = tables["coverage"]
    assert (partition["rows"], partition["rows_judged"]) == (len(before.rows) + len(later.rows),) * 2
    assert partition["seq_missing"] == 0
    ranges = {(row["broker"], row["consumer"], row["from_seq"], row["to_seq"]) for row in tables["assignments"]}
    assert {(broker, consumer) for broker, consumer, *_ in ranges} == {("a", 1), ("a", 2), ("b", 1), ("b", 2)}
    assert all(to is None or begin <= to <= len(before.rows) for broker, _, begin, to in ranges if broker == "a")


def test_one_broker_that_sends_what_it_holds_is_still_found_out() -> None:
    before = _owner(range(2), now_us=1_000_000_000)
    later = Log(now_us=_MOVED_US)
    later.join(1)
    later.publish(2, LOWEST)
    later.dispatch(1, 2, LOWEST)
    later.join(2)
    again = later.dispatch(1, 2, LOWEST)
    tables = tables_of([*_of("a", before), *_of("b", later)])
    assert ("b", "early_duplicate", again, 1) in _found(tables)
    (duplicate,) = [row for row in tables["violations"] if row["rule"] == "early_duplicate"]
    assert json.loads(duplicate["detail"])["other_seq"] == 4
    assert duplicate["evidence"][0].startswith("seq 4 of b: 1:2 dispatched to c1 (consumer 1 of b)")


def test_acks_that_come_after_the_transfer_belong_to_the_owner_before() -> None:
    before = _owner(range(2), now_us=1_000_000_000)
    before.publish(2, LOW)
    before.dispatch(2, 2, LOW)
    later = _owner([3], now_us=_MOVED_US)
    before.now_us = later.now_us + 500_000
    before.ack(2, 2)
    later.now_us = before.now_us + 500_000
    later.publish(4, LOW)
    later.dispatch(2, 4, LOW)
    tables = tables_of([*_of("a", before), *_of("b", later)])
    assert "violations" not in tables
    assert tables["coverage"][0]["clock_steps_back"] == 0
    acked = {(row["broker"], row["consumer"]): row["acked"] for row in tables["consumers"]}
    assert (acked["a", 2], acked["b", 2]) == (3, 1)


def test_a_row_that_the_replay_refuses_is_named_by_its_recorder() -> None:
    before = _owner(range(2), now_us=1_000_000_000)
    later = _owner([2], now_us=_MOVED_US)
    seq = later.ack(7, 2)
    # Rows without a name belong to the only recorder that others name, so two are named here.
    last = _owner([3], now_us=2 * _MOVED_US)
    tables = tables_of([*_of("a", before), *_of(None, later), *_of("b", last)])
    assert {(row["broker"], row["seq"], row["detail"]) for row in tables["refused"]} == {
        ("", seq, "consumer 7 of a recorder without a name has no join before this row"),
        ("", seq + 1, "consumer 7 of a recorder without a name has no join before this row"),
    }


def test_one_recorder_is_named_and_nothing_else_changes() -> None:
    log = _owner(range(3), now_us=1_000_000_000, wrong=[1])
    named, nameless = tables_of(_of("a", log)), tables_of(log.rows)
    assert {row["broker"] for row in named["violations"]} == {"a"}
    for table, rows in nameless.items():
        for row in [*named[table], *rows]:
            row.pop("broker", None)
            row.pop("finding_id", None)
        assert named[table] == rows


@of_each(_UNLOADED)
@pytest.mark.parametrize(("shift_us", "backwards"), [(3_000, False), (-3_000, True), (0, True)])
def test_a_recording_divided_at_its_unloads_tells_what_the_whole_one_tells(
    name: str, shift_us: int, backwards: bool
) -> None:
    both = divided(recorded_logs(name), shift_us)
    logs = both.logs[::-1] if backwards else both.logs
    tables, undivided = tables_of_logs(name, logs), recorded_tables(name)
    assert tables.keys() == undivided.keys()
    for table, rows in undivided.items():
        of_both = (both.as_one(row) for row in tables[table])
        # Where a topic comes back to a recorder, its entries before and after are not compared (docs/REPLAY.md).
        left_out = {"chunked_entries"} if table == "producers" else set()
        # For the same reason duplicates are not found there; and only several recorders have transfers to count.
        of_one = ("clocks_apart", "published_twice")
        found, expected = (
            [{k: v for k, v in row.items() if k not in left_out} for row in r if row.get("rule") not in of_one]
            for r in (of_both, rows)
        )
        assert _sorted(found) == _sorted(expected), table


_HOUR_US = 3_600_000_000


def _moved(ahead_us: int, stamped: bool = True, then_waits_us: int = 0) -> list[Columns]:
    """An entry waits while a topic moves to a broker whose clock is ahead, and another waits there."""
    before = _owner(range(3), now_us=10 * _HOUR_US)
    before.publish(3, LOW)
    later = Log(now_us=before.now_us + 10_000)
    for consumer in (1, 2):
        later.join(consumer)
        later.flow(consumer, 1_000)
    later.dispatch(2, 3, LOW)
    for entry, waits_us in ((4, 0), (5, then_waits_us)):
        later.publish(entry, LOW)
        later.now_us += waits_us
        later.dispatch(2, entry, LOW)
    rows = []
    for log, broker, shift_us in ((before, "a", 0), (later, "b", ahead_us)):
        for row in _of(broker, log):
            stamp = {"producer_name": "p", "publish_time_ms": row["ts_us"] // 1_000 - 2} if stamped else {}
            rows.append({**row, **(stamp if row["event"] == "publish" else {}), "ts_us": row["ts_us"] + shift_us})
    return rows


def test_nothing_rests_on_times_of_two_clocks_that_are_apart() -> None:
    same, tables = tables_of(_moved(0)), tables_of(_moved(_HOUR_US))
    (coverage,), (of_same,) = tables["coverage"], same["coverage"]
    assert "clocks_apart" not in {row["rule"] for row in same.get("violations", ())}
    assert (of_same["progress"], of_same["missing"]) == ("flowing", [])
    assert (coverage["order_verdict"], coverage["progress"], coverage["missing"]) == (
        "kept",
        "not_provable",
        ["clocks"],
    )
    assert coverage["held_up_seconds"] == 0
    (found,) = tables["violations"]
    assert (found["rule"], found["severity"], found["broker"], found["seq"]) == ("clocks_apart", "not_provable", "b", 1)
    assert found["explanation"].startswith("the clock of b is about 3,600 s ahead of that of a; ")
    assert not any(row["message_seconds"] > 1 for row in tables.get("blocking", ()))


def test_without_stamps_an_hour_between_two_terms_is_an_hour() -> None:
    (coverage,) = tables_of(_moved(_HOUR_US, stamped=False))["coverage"]
    assert coverage["progress"] == "held_up"
    assert coverage["held_up_seconds"] > 3_599


def test_what_lies_within_one_term_is_judged_by_its_clock() -> None:
    (coverage,) = tables_of(_moved(_HOUR_US, then_waits_us=60_000_000))["coverage"]
    assert coverage["progress"] == "stalled"


@of_each(["unload-4.0.8"])
def test_terms_whose_ledgers_do_not_ascend_are_refused(name: str) -> None:
    both = divided(recorded_logs(name), -_HOUR_US)
    with pytest.raises(TraceError, match=r"broker-. come after those of broker-. by their clocks, and before them by"):
        recorders_in(both.logs, SKEW_US)


def _sorted(rows: Any) -> list[str]:
    """The rows without times, which are those of two clocks."""
    kept = (
        {name: value for name, value in row.items() if name not in _OF_THE_RECORDER and not name.endswith("_us")}
        for row in rows
    )
    return sorted(json.dumps(row, sort_keys=True, default=str) for row in kept)


@of_each(["unload-4.0.8"])
def test_a_divided_recording_has_three_terms(name: str) -> None:
    both: Divided = divided(recorded_logs(name), 3_000)
    (recorders,) = recorders_in(both.logs, SKEW_US).values()
    assert recorders.names == ("broker-a", "broker-b")
    assert [term.recorder for term in recorders.terms] == [0, 1, 0]
    resets = [row["seq"] for log in both.logs for row in log if row["event"] == "reset" and row["phase"] == "end"]
    assert sorted(resets) == sorted(term.last_seq for term in recorders.terms[:-1])
