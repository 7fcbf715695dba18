"""Faults that no single dispatch shows: wrong snapshots, and what is not sent. Each is found by its rule and no other.

The last test holds all rules against their faults, so that a new rule without one does not go unnoticed.
"""

import importlib
import json
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Final

import pytest
from local_replay import Columns, recorded_logs, replayed_logs

from dispatch_audit.pipeline.contract.rules import CLIENT_RULES, RULES, RuleName

# Each replays a recording several times.
pytestmark = pytest.mark.recordings

Logs = Sequence[Sequence[Columns]]
PLACES = 3


def weighed(name: str, logs: Logs) -> Counter[tuple[str, str]]:
    """How many findings of each rule and severity."""
    found: Counter[tuple[str, str]] = Counter()
    for replay in replayed_logs(name, logs).values():
        found.update(replay.weighed)
    return found


def changed(logs: Logs, change: Callable[[Columns], Columns | None]) -> Logs:
    """The logs with every row replaced by what `change` makes of it; None: left out."""
    return [[new for row in log if (new := change(row)) is not None] for log in logs]


def snapshots(logs: Logs) -> list[Columns]:
    return sorted((row for log in logs for row in log if row["event"] == "stats"), key=lambda row: row["seq"])


def spread(rows: list[Columns]) -> list[Columns]:
    """Places from all over a recording, the same in every run."""
    return rows[:: max(1, len(rows) // PLACES)][:PLACES]


def edited(logs: Logs, seq: int, edit: Callable[[dict[str, Any]], None]) -> Logs:
    """The logs with one snapshot changed."""

    def change(row: Columns) -> Columns:
        if row["seq"] != seq:
            return row
        snapshot = json.loads(row["snapshot"])
        edit(snapshot)
        return row | {"snapshot": json.dumps(snapshot)}

    return changed(logs, change)


def test_a_snapshot_reports_other_ranges() -> None:
    name = "join-leave-1-4.0.8"
    logs = recorded_logs(name)
    untouched = weighed(name, logs)
    with_ranges = [
        row
        for row in snapshots(logs)
        if any(c.get("key_hash_ranges") for c in json.loads(row["snapshot"])["consumers"])
    ]
    for row in spread(with_ranges):

        def edit(snapshot: dict[str, Any]) -> None:
            snapshot["consumers"] = [
                c | {"key_hash_ranges": c["key_hash_ranges"][1:]} for c in snapshot["consumers"][:1]
            ]

        beyond = weighed(name, edited(logs, row["seq"], edit)) - untouched
        assert set(beyond) == {("assignment_mismatch", "violation")}


def test_a_snapshot_reports_other_draining_hashes() -> None:
    name = "join-leave-1-4.0.8"
    logs = recorded_logs(name)
    untouched = weighed(name, logs)
    draining = [
        row
        for row in snapshots(logs)
        if any(c.get("draining_hashes") for c in json.loads(row["snapshot"])["consumers"])
    ]
    assert len(draining) >= PLACES
    for row in spread(draining):

        def edit(snapshot: dict[str, Any]) -> None:
            for consumer in snapshot["consumers"]:
                for drained in consumer["draining_hashes"]:
                    drained["unacked_messages"] += 1000

        beyond = weighed(name, edited(logs, row["seq"], edit)) - untouched
        assert set(beyond) == {("draining_mismatch", "violation")}


def test_a_snapshot_reports_fewer_than_no_messages() -> None:
    name = "join-leave-1-4.0.8"
    logs = recorded_logs(name)
    untouched = weighed(name, logs)
    for row in spread(snapshots(logs)[10:]):

        def edit(snapshot: dict[str, Any]) -> None:
            snapshot["consumers"][0]["unacked_messages"] = -5

        assert weighed(name, edited(logs, row["seq"], edit)) - untouched == {("impossible_counter", "info"): 1}


def stands_still(logs: Logs, sent: Columns) -> Logs:
    """The logs with three seconds in front of a row in which nothing at all is written."""

    def change(row: Columns) -> Columns:
        return row | {"ts_us": row["ts_us"] + 3_000_000} if row["seq"] >= sent["seq"] else row

    return changed(logs, change)


def starts_of(logs: Logs) -> list[Columns]:
    """The dispatches, each after the publish of its entry."""
    starts = [row for log in logs for row in log if row["event"] == "dispatch" and row["phase"] == "start"]
    return sorted(starts, key=lambda row: row["seq"])


def test_everything_stands_still_for_three_seconds() -> None:
    """So early that it is not known when snapshots are due."""
    name = "steady-4.0.8"
    logs = recorded_logs(name)
    untouched = weighed(name, logs)
    first, *_, last = snapshots(logs)[1:8]
    early = [row for row in starts_of(logs) if first["seq"] < row["seq"] < last["seq"]]
    for sent in spread(early):
        beyond = weighed(name, stands_still(logs, sent)) - untouched
        # In front of the end of a dispatch, the rows are those of a write that takes three seconds (#26635).
        assert beyond in ({("stalled", "violation"): 1}, {("stalled", "known_bug"): 1})


def test_a_broker_that_stands_still_proves_nothing_of_its_dispatcher() -> None:
    """No snapshot is there either, though some were due: as in a garbage collection of three seconds."""
    name = "steady-4.0.8"
    logs = recorded_logs(name)
    untouched, starts = weighed(name, logs), starts_of(logs)
    for sent in spread(starts[len(starts) // 4 :]):
        assert weighed(name, stands_still(logs, sent)) - untouched == {("stalled", "not_provable"): 1}


def test_a_hash_is_not_served_once_it_has_drained() -> None:
    name = "join-leave-1-4.0.8"
    logs = [[row for row in log if row["event"] != "stats"] for log in recorded_logs(name)]
    untouched = weighed(name, logs)
    (replay,) = replayed_logs(name, logs).values()
    rows = sorted((row for log in logs for row in log), key=lambda row: row["seq"])
    ends_us, ts_us = rows[-1]["ts_us"], {row["seq"]: row["ts_us"] for row in rows}
    tried = 0
    for episode in replay.episodes:
        # It shows after a second in which the new owner is sent other entries.
        if episode.ended_by != "ack" or not episode.awaited or ends_us - ts_us[episode.to_seq] < 3_000_000:
            continue
        positions = {
            (p["ledger_id"], p["entry_id"]) for r in rows if r["seq"] == episode.to_seq for p in r["positions"]
        }
        keys = {r.get("key") for r in rows if r["event"] == "publish" and (r["ledger_id"], r["entry_id"]) in positions}
        if len(keys) != 1:
            continue
        lost = {
            (r["ledger_id"], r["entry_id"])
            for r in rows
            if r["event"] == "dispatch" and r["seq"] > episode.to_seq and r.get("key") in keys
        }

        def change(row: Columns, lost: set[tuple[int, int]] = lost) -> Columns | None:
            if row["event"] == "dispatch" and (row["ledger_id"], row["entry_id"]) in lost:
                return None
            if row["event"] == "ack":
                kept = [p for p in row["positions"] if (p["ledger_id"], p["entry_id"]) not in lost]
                return row | {"positions": kept}
            return row

        assert set(weighed(name, changed(logs, change)) - untouched) == {("draining_stuck", "violation")}
        tried += 1
        if tried == PLACES:
            break
    assert tried == PLACES, "the recording has too few places for this fault"


# Where each rule has its fault. Both a module and a test of it, so that a name that is gone shows.
FAULT_OF: Final[dict[RuleName, tuple[str, str]]] = {
    "single_holder": ("test_faults", "test_a_message_to_the_new_owner_while_the_hash_drains"),
    "ownership": ("test_faults", "test_two_consumers_swapped_on_a_dispatch"),
    "first_delivery_order": ("test_faults", "test_two_dispatches_of_a_key_exchanged"),
    "early_duplicate": ("test_faults", "test_an_entry_sent_twice"),
    "redelivery_order": ("test_faults_of_order_and_limits", "test_what_a_leaver_held_is_redelivered_in_another_order"),
    "replay_overtaken": ("test_faults_of_order_and_limits", "test_an_entry_is_never_sent_and_those_behind_it_are"),
    "redelivery_count": ("test_faults_of_order_and_limits", "test_a_redelivery_count_is_wrong"),
    "unacked_limit": ("test_faults_of_order_and_limits", "test_a_consumer_is_sent_more_than_its_limit"),
    "gap_delivery": ("test_faults_of_order_and_limits", "test_a_consumer_gets_more_than_it_declared"),
    "cumulative_ack": ("test_faults_of_order_and_limits", "test_an_acknowledgement_is_cumulative"),
    "foreign_ack": ("test_faults_of_order_and_limits", "test_an_acknowledgement_comes_from_another_consumer"),
    "stalled": (__name__, "test_everything_stands_still_for_three_seconds"),
    "draining_stuck": (__name__, "test_a_hash_is_not_served_once_it_has_drained"),
    "assignment_mismatch": (__name__, "test_a_snapshot_reports_other_ranges"),
    "draining_mismatch": (__name__, "test_a_snapshot_reports_other_draining_hashes"),
    "impossible_counter": (__name__, "test_a_snapshot_reports_fewer_than_no_messages"),
}
# These have tests of their own: no fault of the broker breaks them.
ELSEWHERE: Final[set[RuleName]] = {"mixed_key_batch", "settings_mismatch", "clocks_apart", *CLIENT_RULES}


def test_every_rule_has_a_fault_that_it_finds() -> None:
    assert set(FAULT_OF) | ELSEWHERE == set(RULES)
    for module, test in FAULT_OF.values():
        assert callable(getattr(importlib.import_module(module), test))
