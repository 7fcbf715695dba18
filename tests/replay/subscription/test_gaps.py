"""What a gap does to one subscription: what ends at it, what is counted, and when knowledge is back."""

import json
from typing import Any

import pytest
from local_replay import HIGH, LOW, Columns, Log, reported, tables_of

from dispatch_audit.udfs.sticky_key_hash import sticky_hashes

# The entries after a gap are judged from the first publish on that comes so much later.
LATER_US = 200_000


def _gap(log: Log, dropped: int = 1, events: tuple[str, ...] | None = ("dispatch", "ack"), **columns: Any) -> int:
    seq = log.write("gap", dropped=dropped, dropped_events=events and [*events])
    log.rows[-1] |= {"seq_end": seq, **columns}
    return seq


@pytest.fixture
def log() -> Log:
    """Consumer 1 holds an entry of LOW, which has moved to consumer 2; another entry waits for it."""
    log = Log()
    log.join(1)
    log.publish(0, LOW)
    log.dispatch(1, 0, LOW)
    log.now_us += 1_000_000
    log.join(2)
    log.publish(1, LOW)
    log.now_us += 1_000_000
    return log


def _coverage(log: Log, **rules: Any) -> Columns:
    (row,) = tables_of(log.rows, **rules)["coverage"]
    return dict(row)


def test_what_is_open_ends_at_the_gap(log: Log) -> None:
    seq = _gap(log)
    log.now_us += 1_000_000
    log.ack(1, 0)
    tables = tables_of(log.rows)
    assert [(row["to_seq"], row["ended_by"]) for row in tables["draining"]] == [(seq, "gap")]
    assert {(row["to_seq"], row["ended_by"]) for row in tables["blocking"]} == {(seq, "gap")}


def test_rows_of_entries_before_the_gap_are_censored_and_not_refused(log: Log) -> None:
    _gap(log, dropped=7)
    log.ack(1, 0)
    log.dispatch(2, 1, LOW)
    found = _coverage(log)
    assert (found["gaps"], found["rows_dropped"], found["rows_refused"]) == (1, 7, 0)
    assert (found["rows_censored"], found["rows_censored_by_gaps"]) == (4, 4)
    assert found["rows"] == len(log.rows)
    assert found["completeness"] == (len(log.rows) - 4) / (len(log.rows) + 7)
    assert found["first_gap_ts_us"] == next(row["ts_us"] for row in log.rows if row["event"] == "gap")


def test_a_gap_that_is_delivered_twice_counts_once(log: Log) -> None:
    _gap(log)
    log.rows.append(dict(log.rows[-1]))
    tables = tables_of(log.rows)
    assert [row["reason"] for row in tables["refused"]] == ["repeated_row"]
    assert tables["coverage"][0]["gaps"] == 1


def test_gaps_may_share_a_seq_and_overlap(log: Log) -> None:
    seq = _gap(log, seq_end=10_000)
    _gap(log, seq=seq, seq_end=20_000, events=("publish",))
    log.now_us += LATER_US
    log.publish(2, LOW)
    found = _coverage(log)
    assert (found["gaps"], found["rows_refused"], found["rows_censored"]) == (2, 0, 1)


def test_a_gap_of_a_topic_is_one_of_its_subscriptions(log: Log) -> None:
    _gap(log, events=("publish",), subscription=None)
    assert _coverage(log)["gaps"] == 1


def _overtaken_behind(log: Log) -> bool:
    """Whether it is found that an entry after the gap is sent before an older one."""
    # The first row after the gap shows when it was over at the latest; the next publish opens.
    log.flow(1, 5)
    log.now_us += LATER_US
    for entry in (2, 3, 4):
        log.publish(entry, HIGH)
    log.dispatch(1, 4, HIGH)
    log.dispatch(1, 3, HIGH)
    found = tables_of(log.rows).get("violations", [])
    return any((row["rule"], row["severity"]) == ("first_delivery_order", "violation") for row in found)


@pytest.mark.parametrize("events", [("ack",), ("stats",), ("join",), ("publish", "a later event"), None])
def test_entries_behind_the_gap_are_judged_if_the_consumers_are_known(log: Log, events: tuple[str, ...] | None) -> None:
    _gap(log, events=events)
    assert _overtaken_behind(log) == (events in (("ack",), ("stats",)))


# The ranges that follow from the joins.
RANGES = {1: [[32769, 65536]], 2: [[0, 32768]]}


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("stats_lost", [True, False])
def test_a_snapshot_with_all_consumers_and_ranges_shows_them_again(log: Log, named: bool, stats_lost: bool) -> None:
    whole = [reported(consumer, key_hash_ranges=ranges) for consumer, ranges in RANGES.items()]
    log.snapshot(*whole, seq_begin=log.rows[-1]["seq"], seq_end=log.rows[-1]["seq"])
    log.now_us += LATER_US
    seq = _gap(log, events=("join", *(["stats"] if stats_lost else [])))
    log.now_us += LATER_US
    log.flow(1, 1)
    said = whole if named else [{k: v for k, v in of.items() if k != "key_hash_ranges"} for of in whole]
    log.snapshot(*said, seq_begin=seq + 1, seq_end=seq + 1)
    log.now_us += LATER_US
    # Ranges that are left out are those of the snapshot before, which may be lost.
    assert _overtaken_behind(log) == (named or not stats_lost)


def _digested(rows: list[Columns], hashes: bool = True) -> list[Columns]:
    digests = {LOW: b"9f86d0", HIGH: b"60303a"}
    found: list[Columns] = []
    for row in rows:
        key = row.get("key")
        if key is None:
            found.append(row)
            continue
        said = {"sticky_hash": int(sticky_hashes([key], "auto_split")[0])} if hashes else {}
        found.append({**row, "key": digests[key], **said})
    return found


def _two_holders() -> Log:
    log = Log()
    log.join(1)
    log.publish(0, LOW)
    log.publish(1, LOW)
    log.dispatch(1, 0, LOW)
    log.now_us += 1_000_000
    log.join(2)
    log.now_us += 1_000_000
    log.dispatch(2, 1, LOW)
    return log


def _identified(rows: list[Columns], **rules: Any) -> list[tuple[Any, ...]]:
    columns = ("rule", "severity", "seq", "sticky_hash", "consumer")
    return [tuple(row[name] for name in columns) for row in tables_of(rows, **rules).get("violations", [])]


def test_digests_with_hashes_give_the_findings_of_the_keys() -> None:
    rows = _two_holders().rows
    found = _identified(_digested(rows), keys_digested=True)
    assert found == _identified(rows) != []


@pytest.mark.parametrize(("changes", "same_key"), [(True, None), (False, False)])
def test_digests_that_differ_show_two_keys_only_if_a_key_keeps_its_digest(changes: bool, same_key: bool | None) -> None:
    rows = _digested(_two_holders().rows)
    of_the_next_day = [
        {**row, "key": b"5a1e77"} if row.get("entry_id") == 1 and row.get("key") is not None else row for row in rows
    ]
    for log, expected in ((of_the_next_day, same_key), (rows, True)):
        violations = tables_of(log, keys_digested=True, digests_change=changes)["violations"]
        details = [json.loads(row["detail"]) for row in violations if row["rule"] == "single_holder"]
        assert [detail["same_key"] for detail in details] == [expected]


def test_no_hash_is_computed_from_a_digest() -> None:
    rows = _digested(_two_holders().rows, hashes=False)
    assert _identified(rows, keys_digested=True) == []
    (coverage,) = tables_of(rows, keys_digested=True)["coverage"]
    assert coverage["dispatches_without_key"] == 2


def test_a_hash_beside_a_plain_key_is_not_used() -> None:
    rows = [{**row, "sticky_hash": 1} if row.get("key") is not None else row for row in _two_holders().rows]
    assert _identified(rows) == _identified(_two_holders().rows)
