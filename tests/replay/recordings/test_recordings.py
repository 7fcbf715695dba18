"""Recordings of real brokers against what those brokers knew themselves."""

import json
from collections import Counter
from functools import cache
from typing import Any

import pytest
from local_replay import Episode, recorded_logs, replayed_logs, replayed_recording
from oracle import Drained, drained, membership_changes, oracle_rows
from recorded import ALL, RECORDINGS, of_each

from dispatch_audit.pipeline.contract.rules import CLIENT_RULES
from dispatch_audit.pipeline.replay.verdicts.finding import FindingVerdict

# Of the draining dispatcher, without resets.
DRAINING = [
    f"{story}-{version}"
    for version, stories in {
        "4.0.8": (
            "steady",
            "join-leave-1",
            "join-leave-autosplit",
            "crash-1",
            "heavy-churn-1",
            "rolling-restart-heavy-1",
            "hung-consumer",
            "hot-key",
            "four-partitions",
            "ordering-and-null-key",
            "equal-names",
            "last-consumer-leaves",
            "batch-index-ack",
            "pause",
        ),
        "4.2.4": ("join-leave-1", "crash-1", "hung-consumer", "rate-limited"),
        "5.0.0-M1": ("hung-consumer", "rolling-restart-crash-1"),
    }.items()
    for story in stories
]
# Consumers come and go at once, and some of the order leaves no trace (`test_epochs_of_recordings`).
BURSTS = ("seek", "unload", "overlap", "many-consumers-2", "hash-unblock-2", "crash-3", "expire-skip-clear-ch", "two-s")
# Rows between the two sides of an acknowledgement, in the recordings.
ROWS_IN_A_BRACKET_MAX = 60
LABELS = {
    "single_holder": "two_holders",
    "early_duplicate": "sent_again_while_held",
    "first_delivery_order": "late_first_delivery",
}
OVERTAKING = ("redelivery_order", "replay_overtaken")
# Facts outside of the contract, which the labels do not name.
UNLABELLED = ("cumulative_ack", "foreign_ack", *CLIENT_RULES)
# The flaws behind what is broken in the recordings, and how many findings each explains.
FLAWS: dict[str, dict[tuple[str, tuple[str, ...]], int]] = {
    "crash-1-3.3.2": {("early_duplicate", ("F10",)): 57},
    "crash-3-4.0.8-classic": {
        ("redelivery_order", ("F11",)): 21,
        ("replay_overtaken", ("F11",)): 1,
        ("first_delivery_order", ("F11",)): 1,
    },
    "hash-unblock-21-4.0.8": {("early_duplicate", ("F10",)): 6},
    "join-leave-1-3.0.7": {("single_holder", ("F1",)): 1, ("single_holder", ("F1", "F4")): 1},
    "rolling-restart-heavy-1-4.0.8-classic": {
        ("single_holder", ("F2", "F4")): 216,
        ("single_holder", ("F1", "F4")): 12,
        ("redelivery_order", ("F11",)): 27,
        ("redelivery_order", ("F2", "F4")): 2,
    },
    "hash-unblock-1-4.0.1": {("replay_overtaken", ("#23870",)): 18, ("first_delivery_order", ("#23870",)): 19},
    "heavy-churn-1-3.0.7": {("single_holder", ("F2",)): 11, ("single_holder", ("F2", "F4")): 2},
    "heavy-churn-1-4.0.8-classic": {
        ("single_holder", ("F2", "F11")): 5,
        ("redelivery_order", ("F11",)): 43,
        ("early_duplicate", ("F10",)): 1,
    },
    "join-leave-1-4.0.8": {("early_duplicate", ("F10",)): 1},
    "join-leave-1-4.0.8-classic": {("redelivery_order", ("F11",)): 1},
    "join-leave-autosplit-3.0.7": {("early_duplicate", ("F10",)): 2},
    "join-leave-autosplit-4.0.8-classic": {("redelivery_order", ("F11",)): 8},
    "max-unacked-consumer-3.0.7": {
        ("single_holder", ("F2",)): 45,
        ("single_holder", ("F2", "F4")): 24,
        ("single_holder", ("F1",)): 7,
        ("single_holder", ("F1", "F4")): 4,
        ("early_duplicate", ("F10",)): 1,
    },
    "seek-unload-3-3.0.7": {("early_duplicate", ("F10",)): 14},
    "rolling-restart-heavy-1-3.0.7": {("single_holder", ("F2", "F4")): 53, ("single_holder", ("F1", "F4")): 2},
}


def read(name: str, file: str) -> Any:
    return json.loads((RECORDINGS / name / file).read_text())


def found(name: str) -> list[tuple[str, int]]:
    """Rule and seq of every finding."""
    return sorted(broken for replayed in replayed_recording(name).values() for broken in replayed.broken)


def labelled(name: str, label: str) -> list[int]:
    """The seqs of a label."""
    return sorted(row["seq"] for row in read(name, "labels.json")[label])


def kept_by_its_consumer(name: str) -> list[int]:
    """The seqs of overtakes of an entry that the same consumer was sent before, in order.

    When an administrator moves mark-delete the broker drops the older one, and the labels have it held by nobody (E6).
    Its consumer goes on with both, and no promise is broken.
    """
    overtakes = {row["seq"]: tuple(row["older"]) for row in read(name, "labels.json")["overtakes"]}
    rows = sorted((row for log in recorded_logs(name) for row in log), key=lambda row: row["seq"])
    if not any(row.get("reason") in ("expire", "skip", "clear") for row in rows):
        return []
    sent_to: dict[tuple[int, int], int] = {}
    kept = []
    for row in rows:
        if row["event"] == "dispatch" and row.get("phase") == "start":
            if row["seq"] in overtakes and sent_to.get(overtakes[row["seq"]]) == row["consumer"]:
                kept.append(row["seq"])
            sent_to[row["ledger_id"], row["entry_id"]] = row["consumer"]
    return kept


def verdicts(name: str) -> list[tuple[str, int, FindingVerdict]]:
    """Rule, seq and verdict of every finding."""
    return [(*broken, verdict) for r in replayed_recording(name).values() for broken, verdict in r.verdicts.items()]


@of_each(ALL)
def test_findings_are_those_that_the_labels_name(name: str) -> None:
    # What the broker dropped, perhaps or for certain, the labels count neither as held nor as settled (E6).
    dropped = [("single_holder", "E6"), ("early_duplicate", "E6")]
    judged = [(rule, seq) for rule, seq, v in verdicts(name) if (rule, v.permitted_by) not in dropped]
    for rule, label in LABELS.items():
        assert sorted(seq for r, seq in judged if r == rule) == labelled(name, label), rule
    overtakes = labelled(name, "overtakes")
    two_holders = {seq for rule, seq in found(name) if rule == "single_holder"}
    overtaking = {seq for rule, seq in judged if rule in OVERTAKING}
    # To overtake one that another consumer holds is to be the second holder.
    assert sorted(overtaking | (two_holders & set(overtakes)) | set(kept_by_its_consumer(name))) == overtakes
    assert {rule for rule, _ in judged} <= {*LABELS, *OVERTAKING, *UNLABELLED}


@of_each(ALL)
def test_findings_weigh_what_they_must(name: str) -> None:
    found = verdicts(name)
    overtakes = set(labelled(name, "overtakes"))
    rules_of = {rule: [rule] for rule in LABELS} | {"overtakes": [*OVERTAKING, "single_holder"]}
    for expectation, rules in rules_of.items():
        counted: dict[str, set[int]] = {"violation": set(), "permitted": set()}
        for rule, seq, verdict in found:
            if rule in rules and (expectation != "overtakes" or seq in overtakes):
                severity = "violation" if verdict.severity == "known_bug" else verdict.severity
                counted[severity].add(seq)
        if expectation == "overtakes":
            counted["permitted"] |= set(kept_by_its_consumer(name))
        for severity, count in read(name, "expect.json")[expectation].items():
            assert len(counted[severity]) == count, (expectation, severity)


@of_each(ALL)
def test_every_break_of_the_contract_has_the_flaw_that_made_it(name: str) -> None:
    broken = Counter((rule, v.known_bugs) for rule, _, v in verdicts(name) if v.severity == "known_bug")
    assert broken == FLAWS.get(name, {})
    assert [finding for finding in verdicts(name) if finding[2].severity == "violation"] == []


@of_each(ALL)
def test_every_dispatch_goes_to_the_owner(name: str) -> None:
    # contract 9.2: V2 holds for all versions and modes, also where the broker breaks the order.
    assert [f for f in found(name) if f[0] == "ownership"] == []


@of_each(ALL)
def test_no_row_is_refused(name: str) -> None:
    assert [refused for replayed in replayed_recording(name).values() for refused in replayed.refused] == []


@of_each(name for name in ALL if not name.startswith(BURSTS))
def test_epochs_are_those_of_the_broker(name: str) -> None:
    changes = membership_changes(oracle_rows(RECORDINGS / name))
    for group, replayed in replayed_recording(name).items():
        of_group = [row for row in changes if row["topic"] == group.topic]
        assert len(replayed.epochs) == len(of_group)
        for placed, row in zip(replayed.epochs, of_group, strict=True):
            reported = {(start, end, r["ci"]) for r in row["ranges"] for start, end in r["r"]}
            assert set(placed.epoch.owned.rows) == reported, placed.epoch.change
            assert placed.epoch.undecided.ranges == ()


def _paired(name: str) -> tuple[list[tuple[Episode, Drained]], list[Episode], list[Drained]]:
    """Each draining episode with the broker's that began nearest to it, and what has no twin on either side."""
    missed = drained(oracle_rows(RECORDINGS / name))
    pairs, alone = [], []
    for group, replayed in replayed_recording(name).items():
        for episode in replayed.drainings:
            same = [t for t in missed if (t.topic, t.hash, t.holder) == (group.topic, episode.hash, episode.holder)]
            if same:
                twin = min(same, key=lambda t: abs(t.seq - episode.from_seq))
                missed.remove(twin)
                pairs.append((episode, twin))
            else:
                alone.append(episode)
    return pairs, alone, missed


@cache
def _differences(name: str) -> tuple[list[object], int]:
    """Draining hashes that differ from the broker's, and how many it had; kept for the test of all recordings."""
    pairs, alone, missed = _paired(name)
    unequal = [pair for pair in pairs if pair[0].held_at_start != pair[1].entries]
    return [*unequal, *alone, *missed], len(pairs) + len(missed)


@of_each(DRAINING)
def test_draining_hashes_are_those_of_the_broker(name: str) -> None:
    # An acknowledgement inside the bracket of a join may lie on either side of it: 5 % of a trace at most.
    differing, hashes = _differences(name)
    assert len(differing) <= 0.05 * hashes, differing


@pytest.mark.recordings
def test_draining_hashes_of_all_recordings_together() -> None:
    counted = [_differences(name) for name in DRAINING]
    differing = sum(len(different) for different, _ in counted)
    hashes = sum(of_broker for _, of_broker in counted)
    print(f"\ndraining hashes that differ from the broker's: {differing} of {hashes}")
    assert differing <= 0.02 * hashes


@of_each(DRAINING)
def test_draining_ends_with_the_row_that_gave_up_the_last_entry(name: str) -> None:
    # The broker removes a pending entry between the two sides of an acknowledgement.
    for episode, twin in _paired(name)[0]:
        if episode.ended_by == "ack":
            assert twin.ended is not None
            assert 0 <= twin.ended - episode.to_seq <= ROWS_IN_A_BRACKET_MAX, (episode, twin)
        elif episode.ended_by == "open":
            assert twin.ended is None


@of_each(["join-leave-1-4.0.8", "batch-index-ack-4.0.8", "four-partitions-4.0.8"])
def test_how_the_rows_are_cut_does_not_matter(name: str) -> None:
    whole, cut = replayed_recording(name), replayed_logs(name, recorded_logs(name), rows_per_batch=777)
    assert {group: r.bytes for group, r in whole.items()} == {group: r.bytes for group, r in cut.items()}
