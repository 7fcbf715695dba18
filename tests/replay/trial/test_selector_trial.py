"""When rows show another selector than the claimed one, when they show too little, and when they show it too late."""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from local_replay import (
    AUTO_SPLIT,
    GROUP,
    HIGH,
    LOW,
    LOWEST,
    SKEW_US,
    Log,
    Tables,
    chunks_of,
    recorded_logs,
    reported,
    tables_of,
)
from windowed_replay import tables_of_windows

from dispatch_audit.pipeline.assignment import make_selector
from dispatch_audit.pipeline.contract.profile import SelectorKind, profile_for
from dispatch_audit.pipeline.groups.replay_rows import packed_rows, with_shown_selector
from dispatch_audit.pipeline.packing.packed_batch import merged
from dispatch_audit.pipeline.replay.config import CONSISTENT_HASHING, REPLICA_POINTS, ReplayConfig
from dispatch_audit.pipeline.replay.subscription.subscription import Subscription
from dispatch_audit.pipeline.replay.trial import selector_trial
from dispatch_audit.pipeline.replay.trial.selector_trial import on_trial
from dispatch_audit.udfs.sticky_key_hash import sticky_hashes

RINGS: Mapping[str, object] = {CONSISTENT_HASHING: True}


def config_of(settings: Mapping[str, object], **rules: Any) -> ReplayConfig:
    profile = profile_for("4.0.8", settings)
    return ReplayConfig(profile, "4.0.8", profile.broker(settings), SKEW_US, 1_000_000, **rules)


def snapshot(log: Log, kind: SelectorKind, *consumers: int, points: int = 100) -> None:
    """A snapshot of consumers that joined in this order, with the ranges that a selector gives them."""
    selector = make_selector(kind, points, "pulsar-4.0.7")
    for consumer in consumers:
        selector.add(consumer, f"c{consumer}")
    ranges: dict[int, list[list[int]]] = {consumer: [] for consumer in consumers}
    for start, end, consumer in selector.ranges().rows:
        ranges[consumer].append([start, end])
    log.now_us += 200_000
    seq = len(log.rows)
    listed = (reported(consumer, key_hash_ranges=of_one) for consumer, of_one in ranges.items())
    log.snapshot(*listed, seq_begin=seq, seq_end=seq)
    log.now_us += 200_000


def found_in(tables: Tables) -> Counter[tuple[str, str]]:
    return Counter((row["rule"], row["severity"]) for row in tables["violations"] if row["severity"] != "info")


@pytest.fixture
def two() -> Log:
    """Two consumers of a broker with AUTO_SPLIT: consumer 2 has the lower half."""
    log = Log()
    log.join(1)
    log.join(2)
    return log


def test_a_snapshot_of_two_consumers_shows_the_selector(two: Log) -> None:
    snapshot(two, "auto_split", 1, 2)
    assert found_in(tables_of(two.rows, settings=RINGS)) == {("settings_mismatch", "not_provable"): 1}
    assert not found_in(tables_of(two.rows))


def test_a_consumer_alone_shows_the_selector() -> None:
    log = Log()
    log.join(1)
    snapshot(log, "auto_split", 1)
    assert found_in(tables_of(log.rows, settings=RINGS)) == {("settings_mismatch", "not_provable"): 1}


WHOLE = ([0, 65_535], [1, 65_535], [0, 65_536], [1, 2_147_483_646], [0, 2_147_483_646])


@pytest.mark.parametrize("ranges", WHOLE, ids=str)
@pytest.mark.parametrize("claimed", [AUTO_SPLIT, RINGS], ids=["auto_split", "rings"])
@pytest.mark.parametrize("version", ["3.0.7", "4.0.8"])
def test_a_consumer_alone_with_all_hashes_breaks_nothing(
    ranges: list[int], claimed: Mapping[str, object], version: str
) -> None:
    log = Log()
    log.join(1)
    log.now_us += 200_000
    log.snapshot(reported(1, key_hash_ranges=[ranges]), seq_begin=2, seq_end=2)
    found = found_in(tables_of(log.rows, version=version, settings=claimed))
    assert found.keys() <= {("settings_mismatch", "not_provable"), ("assignment_mismatch", "not_provable")}
    assert len(found) <= 1


def test_a_consumer_alone_without_some_hashes_is_a_fault_of_the_broker() -> None:
    log = Log()
    log.join(1)
    log.now_us += 200_000
    log.snapshot(reported(1, key_hash_ranges=[[0, 30_000], [30_002, 65_536]]), seq_begin=2, seq_end=2)
    assert found_in(tables_of(log.rows)) == {("assignment_mismatch", "violation"): 1}


def late(log: Log, kind: SelectorKind) -> Tables:
    """A trace that begins after consumer 9 has come; it leaves, and snapshots list 1 and 2."""
    log.leave(9)
    for _ in range(2):
        snapshot(log, kind, 1, 2)
    many_keys(log, kind)
    return tables_of(log.rows, settings=RINGS, complete_from_start=False)


def test_a_trace_that_begins_late_shows_the_selector_too(two: Log) -> None:
    found = late(two, "auto_split")
    assert found_in(found) == {("settings_mismatch", "not_provable"): 1}
    assert found["coverage"][0]["dispatches_judged"] > 0


def test_a_trace_that_begins_late_may_have_ranges_of_consumers_that_left_before_it(two: Log) -> None:
    # Consumer 9 had the lowest quarter, and left it to its neighbour.
    for _ in range(3):
        two.now_us += 200_000
        two.snapshot(
            reported(1, key_hash_ranges=[[49_153, 65_536]]),
            reported(2, key_hash_ranges=[[0, 49_152]]),
            seq_begin=len(two.rows),
            seq_end=len(two.rows),
        )
    found = tables_of(two.rows, complete_from_start=False)
    assert not found.get("violations")


@pytest.mark.parametrize("points", [1, 7, 20, 37, 150, 1000])
def test_the_ends_of_ranges_show_the_number_of_ring_points(two: Log, points: int) -> None:
    for consumer in range(3, 9):
        two.join(consumer)
    snapshot(two, "consistent_hashing", *range(1, 9), points=points)
    (row,) = tables_of(two.rows, settings=RINGS)["violations"]
    assert row["rule"] == "settings_mismatch"
    detail = json.loads(row["detail"])
    assert (detail["setting"], detail["claimed"], detail["shown"]) == (REPLICA_POINTS, "100", str(points))


@pytest.mark.parametrize("phases", ["start end", "end"])
def test_dispatches_show_the_number_of_ring_points_whichever_side_of_them_is_there(two: Log, phases: str) -> None:
    for consumer in range(3, 6):
        two.join(consumer)
    selector = make_selector("consistent_hashing", 37, "pulsar-4.0.7")
    for consumer in range(1, 6):
        selector.add(consumer, f"c{consumer}")
    keys = [f"k{number}".encode() for number in range(300)]
    owners = selector.routing().owners_of(sticky_hashes(keys, profile_for("4.0.8", {}).hash["consistent_hashing"]))
    two.now_us += 200_000
    for entry, (key, owner) in enumerate(zip(keys, owners.tolist(), strict=True)):
        two.publish(entry, key)
        two.dispatch(owner, entry, key, phases=phases)
        two.ack(owner, entry)
    found = tables_of(two.rows, settings=RINGS)["violations"]
    assert [json.loads(row["detail"])["shown"] for row in found if row["rule"] == "settings_mismatch"] == ["37"]
    assert not any(row["severity"] == "violation" for row in found)


def test_ranges_of_a_consumer_that_no_selector_gives_are_a_fault_of_the_broker(two: Log) -> None:
    two.now_us += 200_000
    seq = len(two.rows)
    for _ in range(3):
        two.snapshot(
            reported(1, key_hash_ranges=[[40_000, 65_536]]),
            reported(2, key_hash_ranges=[[0, 39_999]]),
            seq_begin=seq,
            seq_end=seq,
        )
    two.now_us += 200_000
    for entry in range(20):
        two.publish(entry, LOW)
        two.dispatch(2, entry, LOW)
    assert found_in(tables_of(two.rows)) == {("assignment_mismatch", "violation"): 6}


def test_many_dispatches_of_few_hashes_to_a_wrong_consumer_are_a_fault_of_the_broker(two: Log) -> None:
    # Consistent hashing gives LOW and LOWEST to consumer 1, as it happens, but two hashes are too few to tell.
    two.now_us += 200_000
    for entry in range(40):
        two.publish(entry, (LOW, LOWEST)[entry % 2])
        two.dispatch(1, entry, (LOW, LOWEST)[entry % 2])
        two.ack(1, entry)
    assert found_in(tables_of(two.rows)) == {("ownership", "violation"): 40}


def many_keys(log: Log, kind: SelectorKind) -> None:
    """A hundred entries of as many keys, each to the consumer that a selector gives its hash to."""
    selector = make_selector(kind, 100, "pulsar-4.0.7")
    for consumer in (1, 2):
        selector.add(consumer, f"c{consumer}")
    log.now_us += 200_000
    keys = [b"key-%d" % number for number in range(100)]
    for entry, (key, sticky) in enumerate(zip(keys, sticky_hashes(keys, kind).tolist(), strict=True)):
        log.publish(entry, key)
        log.dispatch(selector.select(sticky) or 0, entry, key)
    log.now_us += 200_000


def test_dispatches_of_many_hashes_show_the_selector_without_a_snapshot(two: Log) -> None:
    many_keys(two, "consistent_hashing")
    assert found_in(tables_of(two.rows)) == {("settings_mismatch", "not_provable"): 1}
    assert not found_in(tables_of(two.rows, settings=RINGS))


def test_what_shows_after_the_trial_leaves_owners_open(two: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    two.now_us += 200_000
    for entry in range(5):
        two.publish(entry, HIGH)
        two.dispatch(1, entry, HIGH)
        two.ack(1, entry)
    for _ in range(3):
        snapshot(two, "consistent_hashing", 1, 2)
    in_time = found_in(tables_of(two.rows))
    monkeypatch.setattr(selector_trial, "TRIAL_ROWS", 10)
    late = tables_of(two.rows)
    assert in_time == {("settings_mismatch", "not_provable"): 1}
    assert found_in(late) == {("settings_mismatch", "not_provable"): 1, ("assignment_mismatch", "not_provable"): 6}
    assert late["coverage"][0]["dispatches_undecided"] == 5


@pytest.mark.parametrize("rows", [1 << 17, 700, 60, 20])
def test_the_decision_does_not_depend_on_how_rows_are_cut(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selector_trial, "TRIAL_ROWS", rows)
    config = replace(config_of(AUTO_SPLIT), open_entries_max=10_000_000)
    logs = [log[:3_000] for log in recorded_logs("join-leave-1-4.0.8")]
    (group,) = chunks_of(logs, config)
    decided = []
    for rows_per_batch, rows_min in ((None, 1 << 16), (100, 1), (13, 300)):
        chunks = chunks_of(logs, config, rows_per_batch)[group]
        replay, _ = on_trial(Subscription(config), merged(chunks, rows_min), goes_on=False)
        found = replay.loop.settings.found
        decided.append((replay.config, {name: contradiction.at for name, contradiction in found.items()}))
    assert decided[0] == decided[1] == decided[2]


def test_rows_are_kept_no_longer_than_until_a_snapshot_confirms_the_selector(two: Log) -> None:
    snapshot(two, "auto_split", 1, 2)
    first = len(two.rows)
    for entry in range(2_000):
        two.publish(entry, LOW)
        two.dispatch(2, entry, LOW)
        two.ack(2, entry)
    chunks = chunks_of([two.rows], config_of(AUTO_SPLIT), 100)[GROUP]
    _, kept = on_trial(Subscription(config_of(AUTO_SPLIT)), merged(chunks, 1), goes_on=False)
    taken = sum(part.events.seq.size for part in kept)
    # A snapshot decides once no row can come any more that belongs before it.
    assert first <= taken < first + 1_000


def test_windows_go_on_by_the_selector_that_the_first_one_showed() -> None:
    logs = recorded_logs("join-leave-1-4.0.8")
    seqs = sorted(row["seq"] for log in logs for row in log)
    rules = replace(config_of(AUTO_SPLIT, unsettled_us=1_000_000), open_entries_max=10_000_000)
    windows = tables_of_windows(logs, rules, [seqs[len(seqs) // 3], seqs[2 * len(seqs) // 3]])
    found: Counter[tuple[str, str]] = sum((found_in(window) for window in windows), Counter())
    assert found == {("settings_mismatch", "not_provable"): 1, ("early_duplicate", "known_bug"): 1}
    checked = [row["checked"] for window in windows for row in window["metrics"] if row["rule"] == "settings_mismatch"]
    assert checked == [2, 0, 0]


def test_a_story_is_told_by_the_selector_that_the_rows_show(two: Log) -> None:
    snapshot(two, "auto_split", 1, 2)
    (chunks,) = chunks_of([two.rows], config_of(RINGS)).values()
    packed = replace(packed_rows([], config_of(RINGS), []), of_group={GROUP: list(chunks)})
    assert with_shown_selector(packed, GROUP, config_of(RINGS)).selector(sticky=False) == "auto_split"
    assert with_shown_selector(packed, GROUP, config_of(AUTO_SPLIT)) == config_of(AUTO_SPLIT)
