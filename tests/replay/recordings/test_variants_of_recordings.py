"""A trace that holds less proves less: nothing is a violation there that is none in the whole trace."""

import json
from collections import Counter

import pytest
from local_replay import AUTO_SPLIT, GROUP, HIGH, LOW, SKEW_US, Columns, Log, replayed, reported
from recorded import ALL, of_each
from trace_variants import VARIANTS, broken_by, compared, paired

# Joins and leaves by the dozen, one with resets, one of each other line of brokers.
QUICK = ["heavy-churn-1-4.0.8", "unload-4.2.4", "rolling-restart-heavy-1-3.0.7", "heavy-churn-1-4.0.8-classic"]


def test_what_is_chosen_is_there() -> None:
    assert set(QUICK) <= set(ALL)


@pytest.mark.recordings  # the smallest as well: each test replays another variant
@of_each(QUICK, one_in=4)
@pytest.mark.parametrize("variant", VARIANTS)
def test_less_evidence_breaks_nothing_more(name: str, variant: str) -> None:
    _check(name, variant)


@pytest.mark.slow
@of_each(name for name in ALL if name not in QUICK)
@pytest.mark.parametrize("variant", VARIANTS)
def test_less_evidence_breaks_nothing_more_in_any_recording(name: str, variant: str) -> None:
    _check(name, variant)


def _check(name: str, variant: str) -> None:
    assert compared(name, [variant]).more[variant] == Counter()


@pytest.fixture
def log() -> Log:
    """A snapshot names ranges that the next two leave out; consumer 2 gets what consumer 1 holds."""
    log = Log()
    log.join(1)
    log.join(2)
    for ranges in ([[32769, 65536]], None, None, [[0, 65536]]):
        log.snapshot(reported(1, **({} if ranges is None else {"key_hash_ranges": ranges})), seq_begin=4, seq_end=4)
    log.publish(0, LOW)
    log.publish(1, HIGH)
    log.dispatch(2, 0, LOW)
    log.flow(1, 5)
    log.ack(2, 0)
    log.leave(2, phases="start", reason="closed_by_broker")
    return log


def _left(log: Log, variant: str) -> list[Columns]:
    (rows,) = VARIANTS[variant]([log.rows]).logs
    return list(rows)


def _sides(rows: list[Columns], *events: str) -> list[tuple[str, str]]:
    return [(row["event"], row["phase"]) for row in rows if row["event"] in events]


def test_snapshots_that_stay_name_the_ranges_that_were_last_named(log: Log) -> None:
    def ranges(rows: list[Columns]) -> list[object]:
        snapshots = [json.loads(row["snapshot"]) for row in rows if row["event"] == "stats"]
        return [consumer.get("key_hash_ranges") for snapshot in snapshots for consumer in snapshot["consumers"]]

    assert ranges(_left(log, "every tenth snapshot")) == [[[32769, 65536]]]
    assert ranges(_left(log, "no snapshot")) == []
    log.rows = [row for row in log.rows if row["event"] != "stats"] + [
        {**row, "ts_us": number * 400_000} for number, row in enumerate(r for r in log.rows if r["event"] == "stats")
    ]
    # At 0, 400, 800 and 1,200 ms: the last names its own, and the one before it has been left out.
    assert ranges(_left(log, "a snapshot a second")) == [[[32769, 65536]], [[0, 65536]]]
    log.rows = [row for row in log.rows if row["ts_us"] != 1_200_000]
    log.rows[-1]["ts_us"] = 1_100_000
    assert ranges(_left(log, "a snapshot a second")) == [[[32769, 65536]], [[32769, 65536]]]


def test_one_side_of_the_brackets_stays(log: Log) -> None:
    membership, traffic = ("join", "leave"), ("dispatch", "ack")
    closed = ("leave", "start")
    both = _sides(log.rows, *traffic)
    starts = _left(log, "only starts")
    assert _sides(starts, *membership, *traffic) == [
        ("join", "start"),
        ("join", "start"),
        ("dispatch", "start"),
        ("ack", "start"),
        closed,
    ]
    ends = _left(log, "only ends of joins and leaves")
    assert (_sides(ends, *membership), _sides(ends, *traffic)) == ([("join", "end")] * 2 + [closed], both)
    ends = _left(log, "only ends of dispatches and acks")
    assert _sides(ends, *traffic) == [("dispatch", "end"), ("ack", "end")]
    assert len(_sides(ends, *membership)) == 5
    starts = _left(log, "only starts of joins and leaves")
    assert (_sides(starts, *membership), _sides(starts, *traffic)) == ([("join", "start")] * 2 + [closed], both)


def test_the_skew_bounds_the_side_that_is_left_out(log: Log) -> None:
    for row in log.rows:
        if (row["event"], row.get("phase")) == ("ack", "end"):
            row["ts_us"] += 3 * SKEW_US
    assert VARIANTS["only ends of dispatches and acks"]([log.rows]).skew_us == 3 * SKEW_US + 1_000
    assert VARIANTS["only ends of joins and leaves"]([log.rows]).skew_us == SKEW_US


@pytest.mark.parametrize("event", ["flow", "publish"])
def test_rows_that_a_recorder_may_leave_out_are_gone(log: Log, event: str) -> None:
    rows = _left(log, f"no {event}")
    assert rows == [row for row in log.rows if row["event"] != event] != log.rows


def test_a_dispatch_is_told_by_its_start_whichever_side_is_there() -> None:
    # What a comparison would miss if every variant found nothing: the second holder of LOW is one in all of them.
    log = Log()
    log.join(1)
    log.publish(0, LOW)
    log.publish(1, LOW)
    log.dispatch(1, 0, LOW)
    log.now_us += 1_000_000
    log.join(2)
    log.now_us += 1_000_000
    second = log.dispatch(2, 1, LOW)
    logs = [log.rows]
    seqs = {end["seq"]: start["seq"] for start, end in paired(logs) if start["event"] == "dispatch"}
    for name, variant in VARIANTS.items():
        if name == "only starts":
            continue  # a dispatch without its end may not have left the broker
        rows, skew_us = variant(logs)
        replay = replayed(rows[0], settings=AUTO_SPLIT, skew_us=skew_us)
        assert broken_by({GROUP: replay}, seqs) == Counter({("single_holder", second): 1}), name
