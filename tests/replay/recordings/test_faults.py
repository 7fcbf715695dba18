"""Faults put into recordings of real brokers: each is found under its rule, and nothing else is.

Every fault is tried at several places of several recordings; what the untouched recording has is left out.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice, pairwise
from typing import Any, NamedTuple

import pytest
from local_replay import Columns, Finding, Replay, recorded_logs, replayed_logs, replayed_recording

from dispatch_audit.pipeline.packing.packed_batch import Group

# Each fault replays a recording several times.
pytestmark = pytest.mark.recordings

NAMES = [
    "join-leave-1-4.0.8",
    *(pytest.param(name, marks=pytest.mark.slow) for name in ("crash-1-4.2.4", "heavy-churn-1-4.0.8")),
]
PLACES = 5
# Acknowledgements that follow a fault may be odd as well.
FACTS = ("cumulative_ack", "foreign_ack")


Position = tuple[int, int]


class Fault(NamedTuple):
    """A changed recording, and what must be found in it beyond what was there.

    Attributes:
        logs: the rows.
        expected: rule, position, consumer and other consumer of each finding.
    """

    logs: Sequence[Sequence[Columns]]
    expected: set[tuple[str, Position, int, int]]


class Recording:
    """A recording with its rows at hand."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.logs = recorded_logs(name)
        self.rows = sorted((row for log in self.logs for row in log), key=lambda row: row["seq"])
        self.untouched = _findings(replayed_recording(name))
        self._seqs = [row["seq"] for row in self.rows]
        self._changes = [row["seq"] for row in self.rows if row["event"] in {"join", "leave"}]
        self.sent = [row for row in self.rows if row["event"] == "dispatch" and row["phase"] == "start"]

    def found(self, logs: Sequence[Sequence[Columns]]) -> dict[Group, list[Finding]]:
        return _findings(replayed_logs(self.name, logs))

    def changed(self, change: Callable[[Columns], list[Columns]]) -> list[list[Columns]]:
        """The logs with every row replaced by what `change` makes of it."""
        return [[new for row in log for new in change(row)] for log in self.logs]

    def held(self, before: int) -> dict[Position, Columns]:
        """What is held for certain at a seq: the last dispatch of each entry, unless a sign of its end was seen."""
        held: dict[Position, Columns] = {}
        for row in self.rows:
            if row["seq"] >= before:
                break
            if row["event"] == "dispatch" and row["phase"] == "start":
                held[at(row)] = row
            elif row["event"] in {"ack", "redeliver"}:
                for position in row["positions"]:
                    held.pop((position["ledger_id"], position["entry_id"]), None)
            elif row["event"] == "leave":
                held = {p: sent for p, sent in held.items() if sent["consumer"] != row["consumer"]}
        return held

    def after(self, seq: int) -> Iterator[Columns]:
        """The rows after a seq."""
        return islice(self.rows, bisect_right(self._seqs, seq), None)

    def quiet(self, seq: int) -> bool:
        """Whether no consumer comes or goes about there, so that only the fault can be seen."""
        return not any(abs(change - seq) < 100 for change in self._changes)


def _findings(replays: Mapping[Group, Replay]) -> dict[Group, list[Finding]]:
    return {group: [f for f in replay.findings if f.rule not in FACTS] for group, replay in replays.items()}


def at(row: Columns) -> Position:
    return row["ledger_id"], row["entry_id"]


# The tests of one recording run one after the other (conftest).
_recording = lru_cache(maxsize=1)(Recording)


@pytest.fixture(params=NAMES)
def recording(request: pytest.FixtureRequest) -> Recording:
    return _recording(request.param)


def check(recording: Recording, faults: Iterator[Fault]) -> None:
    """Every fault is found as it must be, with nothing beside it."""
    tried = 0
    for fault in islice(faults, PLACES):
        tried += 1
        entries = {row["seq"]: at(row) for row in recording.sent}
        entries |= {row["seq"]: at(row) for log in fault.logs for row in log if row["event"] == "dispatch"}
        beyond = {
            (f.rule, entries[f.seq], f.consumer, f.other_consumer)
            for group, findings in recording.found(fault.logs).items()
            for f in findings
            if f not in recording.untouched[group]
        }
        assert beyond == fault.expected
    assert tried == PLACES, "the recording has too few places for this fault"


def spread(rows: list[Any]) -> list[Any]:
    """Places from all over a recording, the same in every run."""
    return rows[7 :: max(1, len(rows) // (PLACES * 12))]


def swapped(row: Columns, consumers: dict[Position, int], seqs: set[int]) -> list[Columns]:
    """The rows of some dispatches with another consumer."""
    if row["event"] == "dispatch" and row["seq"] in seqs:
        return [row | {"consumer": consumers[at(row)]}]
    return [row]


def both_sides(recording: Recording, sent: Columns) -> set[int]:
    """The seqs of a dispatch, start and end."""
    ends = (
        row["seq"]
        for row in recording.after(sent["seq"])
        if row["event"] == "dispatch" and row["phase"] == "end" and at(row) == at(sent)
    )
    return {sent["seq"], *islice(ends, 1)}


def idle(recording: Recording, sent: Columns) -> bool:
    """Whether nothing of the key is held when it is sent."""
    return not any(held["key"] == sent["key"] for held in recording.held(sent["seq"]).values())


def alone(recording: Recording, sent: Columns) -> bool:
    """Whether nothing else of the key is sent before this dispatch is acknowledged."""
    for row in recording.after(sent["seq"]):
        if row["event"] == "ack" and any((p["ledger_id"], p["entry_id"]) == at(sent) for p in row["positions"]):
            return True
        if row["event"] == "dispatch" and row["phase"] == "start" and row["key"] == sent["key"]:
            return False
    return False


def test_two_consumers_swapped_on_a_dispatch(recording: Recording) -> None:
    def faults() -> Iterator[Fault]:
        # Looked for one by one: each question reads much of the recording, and few places are needed.
        candidates = (s for s in recording.sent[::3] if recording.quiet(s["seq"]) and alone(recording, s))
        candidates = (s for s in candidates if idle(recording, s))
        # Near to each other, so that both consumers are there at both places: a stranger's row would be refused.
        pairs = (p for p in pairwise(candidates) if p[1]["seq"] - p[0]["seq"] < 200)
        for one, other in pairs:
            if one["consumer"] == other["consumer"] or one["key"] == other["key"]:
                continue
            consumers = {at(one): other["consumer"], at(other): one["consumer"]}
            seqs = both_sides(recording, one) | both_sides(recording, other)
            # The defaults bind what this round of the loop swaps; mypy cannot infer the type of such a lambda.
            logs = recording.changed(lambda row, c=consumers, s=seqs: swapped(row, c, s))  # type: ignore[misc]  # mypy infers no type of a lambda with a default
            yield Fault(
                logs,
                {
                    ("ownership", at(one), other["consumer"], one["consumer"]),
                    ("ownership", at(other), one["consumer"], other["consumer"]),
                },
            )

    check(recording, faults())


def test_two_dispatches_of_a_key_exchanged(recording: Recording) -> None:
    def faults() -> Iterator[Fault]:
        first_sent: dict[Position, int] = {}
        for sent in recording.sent:
            first_sent.setdefault(at(sent), sent["seq"])
        by_key: dict[bytes, list[Columns]] = {}
        for sent in recording.sent:
            by_key.setdefault(sent["key"], []).append(sent)
        pairs = [(a, b) for of_key in by_key.values() for a, b in pairwise(of_key)]
        for earlier, later in spread(sorted(pairs, key=lambda pair: pair[0]["seq"])):
            firsts = first_sent[at(earlier)] == earlier["seq"] and first_sent[at(later)] == later["seq"]
            if not firsts or earlier["consumer"] != later["consumer"] or not recording.quiet(earlier["seq"]):
                continue
            if at(earlier) not in recording.held(later["seq"]):
                continue  # else the later one would be acknowledged before it is sent
            seqs = both_sides(recording, earlier) | both_sides(recording, later)
            exchanged = {at(earlier): later, at(later): earlier}

            def change(
                row: Columns, seqs: set[int] = seqs, exchanged: dict[Position, Columns] = exchanged
            ) -> list[Columns]:
                if row["event"] == "dispatch" and row["seq"] in seqs:
                    twin = exchanged[at(row)]
                    return [row | {"ledger_id": twin["ledger_id"], "entry_id": twin["entry_id"]}]
                return [row]

            consumer = earlier["consumer"]
            broken = {
                ("replay_overtaken", at(later), consumer, -1),
                ("first_delivery_order", at(earlier), consumer, consumer),
            }
            yield Fault(recording.changed(change), broken)

    check(recording, faults())


def test_an_acknowledgement_dropped_before_the_hash_moves_on(recording: Recording) -> None:
    def faults() -> Iterator[Fault]:
        # The last entry that a consumer had of a key, before the key went to another one that stays.
        last: dict[bytes, Columns] = {}
        handovers = []
        for sent in recording.sent:
            before = last.get(sent["key"])
            if before is not None and before["consumer"] != sent["consumer"]:
                handovers.append((before, sent))
            last[sent["key"]] = sent
        left = {row["consumer"]: row["seq"] for row in reversed(recording.rows) if row["event"] == "leave"}
        for before, after in handovers:
            if left.get(before["consumer"], 1 << 62) < after["seq"]:
                continue  # what a leaver held is given back, acknowledged or not
            lost = at(before)
            holds = {before["consumer"]}

            def change(row: Columns, lost: Position = lost) -> list[Columns]:
                if row.get("snapshot") is not None:
                    return []  # a snapshot would tell that mark-delete passed it
                named = row["event"] == "ack" and lost in {(p["ledger_id"], p["entry_id"]) for p in row["positions"]}
                return [] if named else [row]

            # Until it leaves the holder is in the way of every dispatch of the key to somebody else.
            until = left.get(before["consumer"], 1 << 62)
            broken = {
                ("single_holder", at(sent), sent["consumer"], before["consumer"])
                for sent in recording.sent
                if sent["key"] == before["key"]
                and before["seq"] < sent["seq"] < until
                and sent["consumer"] not in holds
            }
            # From then on it waits for ever, and every later one of the key overtakes it.
            broken |= {
                ("redelivery_order", at(sent), sent["consumer"], before["consumer"])
                for sent in recording.sent
                if sent["key"] == before["key"] and sent["seq"] > until and at(sent) > lost
            }
            yield Fault(recording.changed(change), broken)

    check(recording, faults())


def test_an_entry_sent_twice(recording: Recording) -> None:
    def faults() -> Iterator[Fault]:
        for sent in spread(recording.sent):
            if not recording.quiet(sent["seq"]) or not alone(recording, sent):
                continue
            seqs = both_sides(recording, sent)

            def change(row: Columns, seqs: set[int] = seqs) -> list[Columns]:
                # The gaps that the oracle's rows left in the numbers have room for one more.
                again = row | {"seq": row["seq"] * 2 + 1}
                doubled = row | {"seq": row["seq"] * 2}
                return [doubled, again] if row["event"] == "dispatch" and row["seq"] in seqs else [doubled]

            yield Fault(recording.changed(change), {("early_duplicate", at(sent), sent["consumer"], sent["consumer"])})

    check_renumbered(recording, faults())


def check_renumbered(recording: Recording, faults: Iterator[Fault]) -> None:
    """As `check`, for rows whose seqs were doubled to make room."""
    expected_before = {
        (f.rule, f.seq * 2, f.consumer, f.other_consumer) for fs in recording.untouched.values() for f in fs
    }
    tried = 0
    for fault in islice(faults, PLACES):
        tried += 1
        entries = {row["seq"]: at(row) for log in fault.logs for row in log if row["event"] == "dispatch"}
        found = [f for findings in recording.found(fault.logs).values() for f in findings]
        beyond = {
            (f.rule, entries[f.seq], f.consumer, f.other_consumer)
            for f in found
            if (f.rule, f.seq, f.consumer, f.other_consumer) not in expected_before
        }
        assert beyond == fault.expected
    assert tried == PLACES, "the recording has too few places for this fault"


def test_a_message_to_the_new_owner_while_the_hash_drains(recording: Recording) -> None:
    def faults() -> Iterator[Fault]:
        (replay,) = replayed_recording(recording.name).values()
        by_seq = {row["seq"]: row for row in recording.rows}
        for episode in replay.episodes:
            # The first message that the new owner got of the hash, moved to the middle of the draining.
            held = [s for s in recording.held(episode.to_seq).values() if s["consumer"] == episode.holder]
            if episode.ended_by != "ack" or episode.returned_seq != -1 or episode.to_seq - episode.from_seq < 40:
                continue
            ending = by_seq[episode.to_seq]
            keys = {s["key"] for s in held if at(s) in {(p["ledger_id"], p["entry_id"]) for p in ending["positions"]}}
            after = [s for s in recording.sent if s["key"] in keys and s["seq"] > episode.to_seq and s["entry_id"] >= 0]
            if len(keys) != 1 or not after or after[0]["consumer"] != episode.new_owner:
                continue
            published = next(r for r in recording.rows if r["event"] == "publish" and at(r) == at(after[0]))
            place = (episode.from_seq + episode.to_seq) // 2
            quiet = not any(
                row["event"] in {"join", "leave"} and episode.from_seq + 60 < row["seq"] < after[0]["seq"]
                for row in recording.rows
            )
            if published["seq"] > place or not quiet or place < episode.from_seq + 60:
                continue
            moved = both_sides(recording, after[0])
            now_us = max(row["ts_us"] for row in recording.rows if row["seq"] <= place)

            def change(
                row: Columns, moved: set[int] = moved, place: int = place, now_us: int = now_us
            ) -> list[Columns]:
                if row["event"] == "dispatch" and row["seq"] in moved:
                    late = 1 if row["phase"] == "start" else 2
                    return [row | {"seq": place * 3 + late, "ts_us": now_us}]
                return [row | {"seq": row["seq"] * 3}]

            yield Fault(
                recording.changed(change),
                {("single_holder", at(after[0]), episode.new_owner, episode.holder)},
            )

    tried = 0
    before = {(f.rule, f.seq * 3) for fs in recording.untouched.values() for f in fs}
    for fault in islice(faults(), PLACES):
        tried += 1
        entries = {row["seq"]: at(row) for log in fault.logs for row in log if row["event"] == "dispatch"}
        found = [f for findings in recording.found(fault.logs).values() for f in findings]
        beyond = [f for f in found if (f.rule, f.seq) not in before]
        assert {(f.rule, entries[f.seq], f.consumer, f.other_consumer) for f in beyond} == fault.expected
        assert all(f.draining for f in beyond)
    assert tried > 0, "the recording has no place for this fault"
