"""Consumers whose joins are missing, because the trace begins later or a gap lost them: snapshots show them."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest
from examples import examples
from hypothesis import given
from hypothesis import strategies as st
from local_replay import (
    HIGH,
    LOW,
    LOWEST,
    Columns,
    Log,
    Tables,
    recorded_logs,
    recorded_tables,
    reported,
    tables_of,
    tables_of_logs,
)
from trace_variants import snapshots_with_ranges

from dispatch_audit.pipeline.assignment.selectors.factory import make_selector

IN_ORDER = {"key_shared_mode": "AUTO_SPLIT", "allow_out_of_order_delivery": False}
# As AutoSplit shares them out: 1 first, then 2, then 3.
THIRDS = {1: [[32769, 65536]], 2: [[16385, 32768]], 3: [[0, 16384]]}
SECOND_US = 1_000_000


def _shown(log: Log, ranges: Mapping[int, Sequence[Sequence[int]]], **values: Any) -> int:
    """A snapshot of consumers called `c<number>`, taken right before its row."""
    last = log.rows[-1]["seq"]
    of = [reported(n, consumer_name=f"c{n}", key_hash_ranges=both) for n, both in ranges.items()]
    seq = log.snapshot(*of, **{"seq_begin": last, "seq_end": last, "mark_delete_position": "1:9", **IN_ORDER, **values})
    log.now_us += SECOND_US
    return seq


def _begun_later() -> Log:
    """Three consumers are connected before the first row."""
    log = Log()
    log.publish(9, HIGH)
    log.dispatch(1, 9, HIGH)
    return log


def _traffic(log: Log, first: int, *sent: tuple[int, bytes]) -> None:
    """Sends entries from `first` on, each to a consumer and with a key; the first of them opens the verdicts."""
    for entry, (consumer, key) in enumerate(sent, first):
        log.publish(entry, key)
        log.dispatch(consumer, entry, key)
        log.ack(consumer, entry)
    log.now_us += SECOND_US


def _tables(log: Log, **rules: Any) -> Tables:
    return tables_of(log.rows, complete_from_start=False, **rules)


def _violations(tables: Tables) -> list[tuple[str, int]]:
    return [(row["rule"], row["entry_id"]) for row in tables["violations"] if row["severity"] == "violation"]


def _is_judged(log: Log, **rules: Any) -> bool:
    """Whether a dispatch to another consumer than the owner is found; the entries from 20 on are judged."""
    _traffic(log, 20, (2, LOW), (3, LOWEST), (2, HIGH))
    return ("ownership", 22) in _violations(_tables(log, **rules))


def test_the_second_snapshot_that_shows_the_same_consumers_begins_the_verdicts() -> None:
    log = _begun_later()
    _shown(log, THIRDS)
    _shown(log, THIRDS)
    _traffic(log, 20, (2, LOW), (3, LOWEST), (1, HIGH), (2, HIGH))
    tables = _tables(log)
    assert _violations(tables) == [("ownership", 23)]
    assert {row["change"] for row in tables["assignments"]} == {"snapshot"}
    assert {row["consumer"]: row["joined_at_us"] for row in tables["consumers"]} == {1: None, 2: None, 3: None}
    assert tables["refused"] == []


def test_one_snapshot_is_not_enough() -> None:
    log = _begun_later()
    _shown(log, THIRDS)
    assert not _is_judged(log)


@pytest.mark.parametrize(
    ("values", "known"),
    [
        ({"allow_out_of_order_delivery": None}, False),
        ({"allow_out_of_order_delivery": None, "key_shared_mode": None}, False),
        ({"key_shared_mode": None}, True),
    ],
)
def test_the_policy_must_be_known(values: Mapping[str, object], known: bool) -> None:
    log = _begun_later()
    _shown(log, THIRDS, **values)
    _shown(log, THIRDS, **values)
    assert _is_judged(log) == known


@pytest.mark.parametrize(
    "shown", [{"draining_hashes": [{"hash": 5, "unacked_messages": 1}]}, {"draining_hashes_cleared_total": 3}]
)
def test_a_broker_that_drains_hashes_keeps_the_order(shown: Mapping[str, object]) -> None:
    log = _begun_later()
    for _ in range(2):
        seq = _shown(log, THIRDS, allow_out_of_order_delivery=None)
        snapshot = json.loads(log.rows[seq - 1]["snapshot"])
        snapshot["consumers"][0] |= shown
        log.rows[seq - 1]["snapshot"] = json.dumps(snapshot)
    assert _is_judged(log)


@pytest.mark.parametrize(("read_position", "found"), [("1:10", ["stalled"]), ("1:11", []), (None, [])])
def test_a_stall_is_found_that_begins_before_the_first_row(read_position: str | None, found: list[str]) -> None:
    """Entries from 10 on wait, and snapshots show that the cursor has read none of them (or 10, which may be held)."""
    log = Log()
    log.publish(50, HIGH)
    for entry in range(51, 60):
        _shown(log, THIRDS, read_position=read_position, msg_in_replay=0)
        log.publish(entry, LOW)
    tables = _tables(log)
    assert [row["rule"] for row in tables["violations"]] == found


def test_what_waits_as_the_recording_begins_is_judged_once_it_is_sent() -> None:
    log = _begun_later()
    for _ in range(2):
        _shown(log, THIRDS, read_position="1:10")
    log.publish(30, LOW)
    for consumer, entry, key in ((2, 10, LOW), (2, 11, HIGH)):
        log.dispatch(consumer, entry, key)
    assert _violations(_tables(log)) == [("ownership", 11)]


def test_ranges_that_only_unseen_leaves_explain() -> None:
    log = _begun_later()
    ranges = {1: [[40001, 65536]], 2: [[7, 40000]], 3: [[0, 6]]}
    _shown(log, ranges)
    _shown(log, ranges)
    _traffic(log, 20, (2, LOW), (2, LOWEST), (1, HIGH), (3, LOWEST))
    assert _violations(_tables(log)) == [("ownership", 23)]


def test_ranges_that_the_selector_never_gives_show_nothing() -> None:
    log = _begun_later()
    for _ in range(2):
        _shown(log, {1: [[32769, 65536]], 2: [[0, 100], [200, 32768]], 3: [[101, 199]]})
    assert not _is_judged(log)


def test_declared_ranges() -> None:
    log = _begun_later()
    for _ in range(2):
        _shown(log, {1: [[0, 9], [50_000, 65_535]], 2: [[10, 30_000]], 3: [[30_001, 49_999]]}, key_shared_mode="STICKY")
    _traffic(log, 20, (2, LOW), (3, HIGH), (2, HIGH))
    assert _violations(_tables(log)) == [("ownership", 22)]


def test_who_joins_and_leaves_afterwards_moves_hashes_as_ever() -> None:
    log = _begun_later()
    _shown(log, THIRDS)
    _shown(log, THIRDS)
    _traffic(log, 20, (2, LOW))
    log.leave(2)  # its hashes go to its upper neighbour
    log.now_us += SECOND_US
    _traffic(log, 21, (1, LOW))
    log.join(4)  # halves the widest interval
    log.now_us += SECOND_US
    _traffic(log, 22, (4, LOW), (1, LOW))
    tables = _tables(log)
    assert _violations(tables) == [("ownership", 23)]
    assert tables["refused"] == []


def test_a_snapshot_in_which_somebody_joins_does_not_show_that_it_left() -> None:
    log = _begun_later()
    join = log.join(4)
    seq = _shown(log, THIRDS)
    log.rows[seq - 1]["snapshot"] = json.dumps(json.loads(log.rows[seq - 1]["snapshot"]) | {"seq_begin": join - 1})
    halved = THIRDS | {1: [[49153, 65536]], 4: [[32769, 49152]]}
    _shown(log, halved)
    _shown(log, halved)
    _traffic(log, 20, (2, LOW), (4, HIGH), (1, HIGH))
    tables = _tables(log)
    assert _violations(tables) == [("ownership", 22)]
    joined = {row["consumer"]: row["joined_at_us"] is not None for row in tables["consumers"]}
    assert joined == {1: False, 2: False, 3: False, 4: True}


def test_a_consumer_that_was_leaving_is_not_taken_over() -> None:
    log = _begun_later()
    log.leave(3, phases="start")
    _shown(log, THIRDS)
    log.leave(3, phases="end")
    log.now_us += SECOND_US
    left = {1: THIRDS[1], 2: [[0, 32768]]}
    _shown(log, left)
    _shown(log, left)
    _traffic(log, 20, (2, LOW), (2, LOWEST), (1, LOWEST))
    tables = _tables(log)
    assert _violations(tables) == [("ownership", 22)]
    assert [row["consumer"] for row in tables["consumers"]] == [1, 2]


def test_a_leave_before_anything_is_known_is_censored() -> None:
    log = _begun_later()
    _shown(log, THIRDS, allow_out_of_order_delivery=None)
    log.leave(3)
    log.now_us += SECOND_US
    tables = _tables(log)
    assert tables["refused"] == []
    assert tables["consumers"] == []


def test_a_join_that_is_recorded_after_a_snapshot_with_the_consumer() -> None:
    log = _begun_later()
    _shown(log, {1: THIRDS[1], 2: [[0, 32768]]})
    _shown(log, THIRDS)
    log.now_us -= SECOND_US
    log.join(3, phases="end")
    log.now_us += SECOND_US
    _shown(log, THIRDS)
    assert _is_judged(log)
    tables = _tables(log)
    assert tables["refused"] == []
    joined = {row["consumer"]: row["joined_at_us"] is not None for row in tables["consumers"]}
    assert joined == {1: False, 2: False, 3: True}


def test_consumers_after_a_gap_that_lost_joins_and_leaves() -> None:
    log = Log()
    log.join(1)
    log.join(2)
    log.now_us += SECOND_US
    _traffic(log, 0, (2, LOW))
    seq = log.write("gap", dropped=9, dropped_events=[])
    log.rows[-1]["seq_end"] = seq
    log.now_us += SECOND_US
    log.flow(1, 5)
    ranges = {1: [[32769, 65536]], 5: [[0, 32768]]}
    for _ in range(2):
        _shown(log, ranges)
    _traffic(log, 20, (5, LOW), (1, HIGH), (5, HIGH))
    tables = tables_of(log.rows)
    assert _violations(tables) == [("ownership", 22)]
    consumers = {
        row["consumer"]: (row["joined_at_us"] is None, row["left_at_us"] is None) for row in tables["consumers"]
    }
    assert consumers == {1: (False, True), 2: (False, False), 5: (True, True)}


def test_an_index_that_unseen_namesakes_explain() -> None:
    """On a ring, two more consumers of one name had joined before; the first has left."""
    ring = make_selector("consistent_hashing", 100, "pulsar-4.2.4")
    for number, name in ((0, "c1"), (1, "c1"), (2, "c2")):
        ring.add(number, name)
    ring.remove(0)
    ranges = {n: sorted(map(list, both)) for n, both in ring.ranges().by_consumer.items()}
    owner, other = (2, 1) if ring.select(21772) == 2 else (1, 2)
    log = _begun_later()
    for _ in range(2):
        _shown(log, ranges)
    _traffic(log, 20, (owner, LOW), (owner, LOW), (other, LOW))
    found = _violations(_tables(log, settings={"subscriptionKeySharedUseConsistentHashing": True}, version="4.2.4"))
    assert found == [("ownership", 22)]


@examples(15)
@given(st.integers(1, 40), st.sampled_from([1, 2, 3]), st.booleans())
def test_any_cutting_gives_the_same_tables(rows_per_batch: int, leaver: int, before: bool) -> None:
    log = _begun_later()
    if before:
        log.leave(leaver, phases="start")
    _shown(log, THIRDS)
    log.leave(leaver, phases="end" if before else "start end")
    log.now_us += SECOND_US
    log.join(4)
    log.now_us += SECOND_US
    _shown(log, {n: both for n, both in THIRDS.items() if n != leaver} | {4: []})
    _traffic(log, 20, (2, LOW), (3, LOWEST), (4, HIGH), (1, HIGH))
    one, cut = (_tables(log, rows_per_batch=rows) for rows in (None, rows_per_batch))
    assert one == cut


def _as_recorded_now(name: str) -> list[list[Columns]]:
    """The logs of a recording from a third of its rows on, as a recorder of today begins a file.

    Snapshots name the policy of the subscription, and all ranges, also those that equal the ones before.
    """
    logs = recorded_logs(name)
    policies = {
        (row["topic"], row["subscription"]): (row["key_shared_mode"], bool(row.get("allow_out_of_order")))
        for log in logs
        for row in log
        if row["event"] == "join" and row.get("key_shared_mode")
    }
    snapshots: dict[int, Columns] = {}
    for row, snapshot in snapshots_with_ranges(logs):
        mode, out_of_order = policies[row["topic"], row["subscription"]]
        named = {**snapshot, "key_shared_mode": mode, "allow_out_of_order_delivery": out_of_order}
        snapshots[row["seq"]] = {**row, "snapshot": json.dumps(named)}
    seqs = sorted(row["seq"] for log in logs for row in log)
    since = seqs[len(seqs) // 3]
    return [[snapshots.get(row["seq"], row) for row in log if row["seq"] >= since] for log in logs]


@pytest.mark.recordings
@pytest.mark.parametrize(
    "name",
    [
        "allow-out-of-order-4.0.8",
        "hash-unblock-1-4.0.1",
        "heavy-churn-1-3.0.7",
        "heavy-churn-1-4.0.8",
        "heavy-churn-1-4.0.8-classic",
        "join-leave-autosplit-4.0.8",
        "sticky-ranges-4.0.8",
    ],
)
def test_a_recording_that_begins_later_is_judged_and_breaks_nothing_else(name: str) -> None:
    part = tables_of_logs(name, _as_recorded_now(name), complete_from_start=False)
    whole = {(row["rule"], row["seq"], row["severity"]) for row in recorded_tables(name)["violations"]}
    assert {found for found in _found(part) if found[2] != "not_provable"} <= whole
    # Without the joins in front of it, less than a tenth was judged of those that change their consumers all the time.
    assert all(row["completeness"] > 0.8 for row in part["coverage"])


def _found(tables: Tables) -> Iterator[tuple[str, int, str]]:
    return ((row["rule"], row["seq"], row["severity"]) for row in tables["violations"])
