"""Every snapshot that a broker took of itself in the recordings, against the replay at that moment.

Where the two disagree something explains it, and what does is checked here, not listed.
"""

import json
import re
from collections.abc import Mapping
from functools import cache, lru_cache
from itertools import pairwise
from typing import NamedTuple

import pytest
from local_replay import Columns, Excess, Replay, recorded_logs, replayed_recording
from recorded import ALL, of_each

from dispatch_audit.pipeline.contract.known_bugs import known_bugs
from dispatch_audit.pipeline.packing.packed_batch import Group


class Recording(NamedTuple):
    """A recorded trace: its replays, and its rows in the order of seq."""

    replays: Mapping[Group, Replay]
    rows: list[Columns]


class Sent(NamedTuple):
    """A dispatch."""

    seq: int
    consumer: int


# Its tests stand after each other (conftest).
@lru_cache(maxsize=1)
def recording(name: str) -> Recording:
    """A recording and its replays; nobody may change its rows."""
    rows = sorted((row for log in recorded_logs(name) for row in log), key=lambda row: row["seq"])
    return Recording(replayed_recording(name), rows)


@cache
def agreements(name: str) -> list[dict[str, tuple[int, int]]]:
    """Of each subscription how often the broker agreed; kept, as it is small, for the test of all recordings."""
    return [replay.agreement for replay in replayed_recording(name).values()]


def is_4_0(replay: Replay) -> bool:
    """4.0.x: the counter of unacknowledged messages forgets what mark-delete passes, and part of a batch (3.11)."""
    return replay.config.version.startswith("4.0.")


@of_each(ALL)
def test_the_share_that_agrees(name: str) -> None:
    """Prints it; what the trace shows in part only, the replay queue, agrees mostly."""
    replays = replayed_recording(name)
    for (group, replay), agreement in zip(replays.items(), agreements(name), strict=True):
        shares = ", ".join(f"{what} {agreed}/{count}" for what, (agreed, count) in agreement.items())
        print(f"\n{name} {group.topic[-11:]}: {shares}")
        assert agreement["assignment_mismatch"][1] > 0
        assert agreement["unacked_messages"][1] > 0
        drains = replay.config.profile.dispatcher == "draining" and replay.replayed.dispatcher.policy.keeps_order
        sticky = any(row["event"] == "join" and row["key_shared_mode"] == "STICKY" for row in recording(name).rows)
        assert ("draining_mismatch" in agreement) == (drains and not sticky)


@pytest.mark.recordings
@pytest.mark.slow
def test_of_the_replay_queue_most_agrees_over_all_recordings() -> None:
    shares = [agreement["msg_in_replay"] for name in ALL for agreement in agreements(name)]
    agreed, compared = sum(share[0] for share in shares), sum(share[1] for share in shares)
    print(f"\nmsg_in_replay: {agreed} of {compared}")
    assert agreed > 0.85 * compared


@of_each(ALL)
def test_assignments_never_differ(name: str) -> None:
    # Snapshots are evidence of the order of joins and leaves as well, and the broker cannot contradict itself.
    for replay in recording(name).replays.values():
        agreed, compared = replay.agreement["assignment_mismatch"]
        assert agreed == compared > 0


@of_each(ALL)
def test_draining_hashes_differ_only_where_the_broker_counted_them_twice(name: str) -> None:
    for replay in recording(name).replays.values():
        differing = [d for d in replay.disagreements if d.rule == "draining_mismatch"]
        agreed, compared = replay.agreement.get("draining_mismatch", (0, 0))
        assert compared - agreed == len(differing)
        if not differing:
            continue
        assert "#23845" in known_bugs(replay.config.release, replay.config.profile.dispatcher)
        for mismatch in differing:
            # The broker counts too many, never too few (3.9); each hash came back to its holder and left it again.
            assert mismatch.surplus == ()
            for text in mismatch.missing:
                found = re.fullmatch(r"(\d+) \((\d+) entr(?:y|ies), expected (?:\d+ to )?(\d+)\)", text)
                assert found is not None
                assert int(found[2]) > int(found[3])
                assert _left_its_holder_twice(replay, int(found[1]), mismatch.consumer, mismatch.seq)


def _left_its_holder_twice(replay: Replay, sticky_hash: int, holder: int, seq: int) -> bool:
    """Whether a hash moved away from a consumer at least twice, and back in between, before a row."""
    owners = []
    for placed in replay.epochs:
        if placed.since.seq < seq:
            owners += [owner for start, end, owner in placed.epoch.owned.rows if start <= sticky_hash <= end]
    return sum(before == holder != after for before, after in pairwise(owners)) >= 2


def _sent_twice(replay: Replay) -> list[Sent]:
    """Entries sent twice to a consumer (F10)."""
    return [Sent(f.seq, f.consumer) for f in replay.findings if f.rule == "early_duplicate"]


def _until(sent: list[Sent], excess: Excess) -> int:
    """How many of them a consumer had got when the broker counted."""
    return sum(seq <= excess.seq_end and consumer == excess.consumer for seq, consumer in sent)


def _mark_delete_moved(rows: list[Columns], seq: int) -> bool:
    return any(row.get("reason") in ("expire", "skip", "clear") for row in rows if row["seq"] <= seq)


def _sent_though_acknowledged(rows: list[Columns]) -> list[Sent]:
    """Entries that were sent after they had been acknowledged, by a read in flight, since the last reset.

    Mark-delete passes them while they are pending, which 4.0.x does not count (5.9).
    """
    acknowledged: set[tuple[int, int]] = set()
    sent = []
    for row in rows:
        if row["event"] == "reset":
            acknowledged.clear()
        elif row["event"] == "ack":
            acknowledged |= {(p["ledger_id"], p["entry_id"]) for p in row["positions"] if not p["ack_set"]}
        elif row["event"] == "dispatch" and row.get("phase") == "start":
            position = (row["ledger_id"], row["entry_id"])
            if position in acknowledged:
                sent.append(Sent(row["seq"], row["consumer"]))
                acknowledged.discard(position)
    return sent


def _lowered_late(rows: list[Columns], replay: Replay, excess: Excess) -> bool:
    """Whether a count is too high by messages that were acknowledged just before, and right in the next snapshot.

    5.0.0-M1 lowers the counter up to some milliseconds after its interceptor is told that an entry is acknowledged.
    """
    later = [e for e in replay.excesses if e.consumer == excess.consumer and e.seq_begin > excess.seq_begin]
    taken_us = max(row["ts_us"] for row in rows if row["seq"] <= excess.seq_end)
    acknowledged = sum(
        row["event"] == "ack" and row["consumer"] == excess.consumer and row.get("phase") == "end"
        for row in rows
        if row["seq"] <= excess.seq_begin and row["ts_us"] >= taken_us - 30_000
    )
    return bool(later) and later[0].messages == 0 and 0 < excess.messages <= acknowledged


def _counts_parts(replay: Replay) -> bool:
    return is_4_0(replay) and replay.config.broker["acknowledgmentAtBatchIndexLevelEnabled"] is True


def _explanation(
    rows: list[Columns], replay: Replay, twice: list[Sent], late: list[Sent], excess: Excess
) -> str | None:
    """Why the broker counts so many unacknowledged messages more or less than are held; None: nothing does."""
    # The counter of the consumer is raised twice and lowered once until it leaves (6.6).
    if excess.messages > 0 and excess.messages == _until(twice, excess):
        return "sent twice"
    if excess.messages > 0 and is_4_0(replay) and _mark_delete_moved(rows, excess.seq_end):
        return "passed by mark-delete"
    if 0 < excess.messages <= _until(late, excess) and is_4_0(replay):
        return "acknowledged before it was sent"
    in_part = [p for row in rows if row["seq"] <= excess.seq_end for p in row.get("positions") or () if p["ack_set"]]
    if _counts_parts(replay) and in_part:
        return "acknowledged in part"
    return "lowered late" if _lowered_late(rows, replay, excess) else None


@of_each(ALL)
def test_unacknowledged_messages_differ_only_where_the_broker_miscounts(name: str) -> None:
    reported = recording(name)
    for replay in reported.replays.values():
        differing = [excess for excess in replay.excesses if excess.messages != 0]
        twice, late = _sent_twice(replay), _sent_though_acknowledged(reported.rows)
        found = {excess: _explanation(reported.rows, replay, twice, late, excess) for excess in differing}
        assert None not in found.values(), found
        agreed, compared = replay.agreement["unacked_messages"]
        # Snapshots of a moment that the trace leaves in doubt are compared as well. Where acknowledged parts count, the
        # broker's number may lie outside of what is possible then, by messages that it miscounts.
        assert (compared == agreed) == (differing == []) or _counts_parts(replay)
        if differing:
            print(f"\n{name}: {compared - agreed} of {compared} differ: {sorted(map(str, set(found.values())))}")


@of_each(ALL)
def test_wherever_entries_were_sent_twice_the_broker_counts_them_twice(name: str) -> None:
    reported = recording(name)
    for replay in reported.replays.values():
        if not _counts_parts(replay) and not (
            is_4_0(replay) and _mark_delete_moved(reported.rows, reported.rows[-1]["seq"])
        ):
            twice, late = _sent_twice(replay), _sent_though_acknowledged(reported.rows)
            differing = [e for e in replay.excesses if e.messages != _until(twice, e)]
            # What else it may count by is looked for only where it matters: that takes long.
            assert [
                e
                for e in differing
                if not (is_4_0(replay) and _until(late, e)) and not _lowered_late(reported.rows, replay, e)
            ] == []


@of_each(ALL)
def test_the_snapshots_carry_what_is_compared(name: str) -> None:
    """Otherwise agreement would mean nothing: most snapshots list consumers with all three numbers."""
    stats = [json.loads(row["snapshot"]) for row in recording(name).rows if row["event"] == "stats"]
    listed = [consumer for snapshot in stats for consumer in snapshot["consumers"]]
    assert listed
    assert all(consumer["unacked_messages"] is not None for consumer in listed)
    assert any(consumer["key_hash_ranges"] for consumer in listed)
