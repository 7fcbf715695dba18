"""Recordings of real brokers: who blocked whom, and what was stuck, as the stories of the recordings tell it."""

import json
from collections import defaultdict
from typing import TypeAlias

import pytest
from local_replay import Columns, Replay, recorded_logs, replayed_recording
from recorded import ALL, RECORDINGS, of_each

from dispatch_audit.pipeline.replay.verdicts.stalls.stall_findings import stuck_findings

# Where the draining dispatcher counts a hash twice (contract 3.9), and what that leaves lying (README of the traces).
STUCK = {"double-registration-4.0.1": (15, 598), "hash-unblock-12-4.0.1": (1, 27)}
HUNG = "c7"
Entry: TypeAlias = tuple[str, int, int]  # topic, ledger, entry


def replays(name: str) -> list[Replay]:
    """The replays of a recording, one for each subscription of a partition."""
    return list(replayed_recording(name).values())


def number_of(replay: Replay, consumer_name: str) -> int:
    (number,) = [number for number, stay in replay.replayed.membership.stays.items() if stay.row.name == consumer_name]
    return number


def owned_by(replay: Replay, number: int) -> list[tuple[int, int]]:
    """The ranges of a consumer before anybody leaves, when all are there."""
    fullest = max(replay.epochs, key=lambda placed: len(placed.epoch.names))
    return [(start, end) for start, end, owner in fullest.epoch.owned.rows if owner == number]


@of_each(["hung-consumer-4.0.8", "hung-consumer-4.2.4"])
def test_the_hung_consumer_stops_everybody_by_the_limit_of_look_ahead(name: str) -> None:
    (replay,) = replays(name)
    hung = number_of(replay, HUNG)
    (stall,) = replay.waits_of("subscription")
    assert (stall.cause, stall.blocking, stall.ended_by) == ("look_ahead_limit", hung, "leave")
    seconds = (stall.to_us - stall.from_us) / 1e6
    first_us = min(row["ts_us"] for log in recorded_logs(name) for row in log if row["event"] == "dispatch")
    print(f"\n{name}: nothing sent for {seconds:.2f} s, {(stall.from_us - first_us) / 1e6:.2f} s after the first")
    assert seconds == pytest.approx(7.3, abs=0.05)
    assert (stall.from_us - first_us) / 1e6 == pytest.approx(4.73, abs=0.05)
    assert (stall.detail["consumers"], stall.detail["with_permits"]) == (10, 9)
    assert (stall.detail["look_ahead_limit"], stall.detail["replay_size_reported"]) == (200, 200)


@of_each(["hung-consumer-4.0.8", "hung-consumer-4.2.4"])
def test_the_stall_names_the_hashes_of_the_hung_consumer(name: str) -> None:
    (replay,) = replays(name)
    ranges = owned_by(replay, number_of(replay, HUNG))
    (stall,) = replay.waits_of("subscription")
    hashes = stall.detail["hashes"]
    assert isinstance(hashes, list)
    assert hashes
    assert all(any(start <= h <= end for start, end in ranges) for h in hashes)


@pytest.mark.recordings
def test_without_a_limit_of_look_ahead_the_others_go_on() -> None:
    (replay,) = replays("hung-consumer-3.0.7")
    assert replay.waits_of("subscription") == []


@of_each(["hung-consumer-3.0.7", "hung-consumer-4.0.8", "hung-consumer-4.2.4"])
def test_the_hung_consumer_has_no_permits_until_it_leaves_and_nobody_else_lacks_any(name: str) -> None:
    (replay,) = replays(name)
    hung = number_of(replay, HUNG)
    (wait,) = replay.waits_of("consumer")
    assert (wait.cause, wait.blocking, wait.ended_by) == ("no_permits", hung, "leave")
    hashes = replay.waits_of("hash", "no_permits")
    ranges = owned_by(replay, hung)
    assert all(any(start <= of_hash.hash <= end for start, end in ranges) for of_hash in hashes)
    # What waited for the consumer is what waited for its hashes.
    assert sum(of_hash.entries for of_hash in hashes) == wait.entries
    assert sum(of_hash.waited_us for of_hash in hashes) == wait.waited_us


@of_each(["hung-consumer-4.0.8", "hung-consumer-4.2.4"])
def test_other_hashes_are_not_read_because_of_the_limit(name: str) -> None:
    (replay,) = replays(name)
    hung = owned_by(replay, number_of(replay, HUNG))
    waits = replay.waits_of("hash", "look_ahead_limit")
    assert waits
    assert not any(start <= wait.hash <= end for wait in waits for start, end in hung)


@of_each(STUCK)
def test_hashes_counted_twice_are_stuck_and_nothing_else(name: str) -> None:
    (replay,) = replays(name)
    stuck = replay.passed_over
    assert (len(stuck), sum(found.entries for found in stuck)) == STUCK[name]
    assert all(found.registered == 2 and len(found.moves) >= 2 for found in stuck)


@of_each(STUCK)
def test_what_is_stuck_is_told_as_the_known_bug_with_its_moves(name: str) -> None:
    (replay,) = replays(name)
    found = [one for of_rule in stuck_findings(replay.context) for one in of_rule.worst]
    assert len(found) == STUCK[name][0]
    for finding in found:
        assert (finding.severity, finding.known_bugs) == ("known_bug", ("#23845",))
        assert sum("moves from" in line for line in finding.evidence) >= 2


@of_each(name for name in ALL if name.endswith(("-4.0.8", "-4.2.4")))
def test_later_brokers_leave_nothing_behind(name: str) -> None:
    for replay in replays(name):
        assert replay.passed_over == []
        assert [of_rule.counts for of_rule in stuck_findings(replay.context)] == [{}, {}]


@of_each(name for name in ALL if name.endswith(("-4.0.8", "-4.2.4")))
def test_cleared_hashes_are_those_that_the_broker_counts(name: str) -> None:
    """But for one at most of a consumer, which it cleared between the rows of the change that moved it."""
    for group, replay in replayed_recording(name).items():
        cleared = [e for e in replay.episodes if e.returned_seq == -1 and e.ended_by not in ("open", "reset")]
        rows = [row for log in recorded_logs(name) for row in log if row["event"] == "stats"]
        for row in (row for row in rows if (row["topic"], row["subscription"]) == (group.topic, group.subscription)):
            snapshot = json.loads(row["snapshot"])
            for consumer in snapshot["consumers"]:
                counted = consumer.get("draining_hashes_cleared_total", 0)
                seqs = [e.to_seq for e in cleared if e.holder == consumer["consumer"]]
                assert sum(seq <= snapshot["seq_begin"] for seq in seqs) <= counted
                assert counted - 1 <= sum(seq <= row["seq"] for seq in seqs)


@of_each(ALL)
def test_no_stall_is_without_a_cause(name: str) -> None:
    assert [wait for replay in replays(name) for wait in replay.waits if wait.cause == "unexplained"] == []


@of_each(ALL)
def test_the_largest_replay_queue_is_the_one_that_the_broker_reported(name: str) -> None:
    expected = json.loads((RECORDINGS / name / "expect.json").read_text())["max_msg_in_replay"]
    reported = [sample.replay_size for replay in replays(name) for sample in replay.samples if sample.reported]
    assert max(reported) == expected


@of_each(ALL)
def test_no_wait_ends_before_it_begins(name: str) -> None:
    for replay in replays(name):
        for wait in replay.waits:
            assert wait.from_us <= wait.to_us
            assert wait.from_seq <= wait.to_seq
            assert wait.waited_us >= 0


def _waited_seconds(rows: list[Columns]) -> float:
    """The message-seconds that all entries waited, from rows alone: since they were published, or came back."""
    waits: dict[Entry, int] = {}
    held: defaultdict[tuple[str, int], set[Entry]] = defaultdict(set)
    messages: dict[Entry, int] = {}
    total_us = 0

    def ends(entry: Entry, ts_us: int) -> None:
        nonlocal total_us
        total_us += messages.get(entry, 1) * max(ts_us - waits.pop(entry, ts_us), 0)

    for row in rows:
        event, topic, ts_us = row["event"], row["topic"], row["ts_us"]
        consumer = (topic, row.get("consumer", -1))
        positions = {(topic, p["ledger_id"], p["entry_id"]) for p in row.get("positions") or () if not p.get("ack_set")}
        if event == "publish":
            entry = (topic, row["ledger_id"], row["entry_id"])
            messages[entry], waits[entry] = row.get("batch_size") or 1, ts_us
        elif event == "dispatch" and row.get("phase") == "start":
            entry = (topic, row["ledger_id"], row["entry_id"])
            ends(entry, ts_us)
            held[consumer].add(entry)
        elif event == "ack" and row.get("phase") == "start":
            for entry in positions:
                ends(entry, ts_us)
            for entries in held.values():
                entries.difference_update(positions)
        elif event in ("redeliver", "leave") and row.get("phase") != "start":
            back = held[consumer] & positions if positions else set(held[consumer])
            held[consumer] -= back
            waits.update((entry, ts_us) for entry in back)
    for entry in list(waits):
        ends(entry, rows[-1]["ts_us"])
    return total_us / 1e6


@of_each(name for name in ALL if not name.startswith("two-subscriptions"))
def test_what_waited_for_hashes_adds_up_to_no_more_than_what_waited(name: str) -> None:
    rows = sorted((row for log in recorded_logs(name) for row in log), key=lambda row: row["seq"])
    waited = sum(wait.waited_us for replay in replays(name) for wait in replay.waits_of("hash")) / 1e6
    drained = sum(episode.waited_us for replay in replays(name) for episode in replay.episodes) / 1e6
    assert waited + drained <= 1.001 * _waited_seconds(rows)
