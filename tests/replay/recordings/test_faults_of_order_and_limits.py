"""One fault for each rule on order, counts, limits, gaps and acknowledgements, put into recordings of real brokers.

Each is found by that rule and no other, and nothing excuses it.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TypeVar

import pytest
from local_replay import Columns, Replay, recorded_logs, replayed_logs, replayed_recording

from dispatch_audit.pipeline.packing.packed_batch import Group
from dispatch_audit.pipeline.replay.durations import READ_US
from dispatch_audit.udfs.sticky_key_hash import sticky_hashes

# Each replays a recording several times.
pytestmark = pytest.mark.recordings

PLACES = 3


# Of rows without a consumer.
NO_CONSUMER = -1

Place = TypeVar("Place")
Logs = Sequence[Sequence[Columns]]
Told = Counter[tuple[str, int, str]]
"""How often a rule, a seq and a severity were reported."""


def reported(name: str, logs: Logs, changed: Mapping[str, object] = MappingProxyType({})) -> Told:
    """Every finding of a changed recording."""
    return _told(replayed_logs(name, logs, changed=changed))


def _told(replays: Mapping[Group, Replay]) -> Told:
    return Counter((*broken, v.severity) for replay in replays.values() for broken, v in replay.verdicts.items())


def beyond(name: str, logs: Logs) -> list[tuple[str, int, str]]:
    """What is found in changed logs, but not in the recording itself."""
    return sorted((reported(name, logs) - _told(replayed_recording(name))).elements(), key=lambda found: found[1])


def in_order(logs: Logs) -> list[Columns]:
    return sorted((row for log in logs for row in log), key=lambda row: row["seq"])


def entry(row: Columns) -> tuple[int, int]:
    return row["ledger_id"], row["entry_id"]


def sent(logs: Logs) -> list[Columns]:
    """The decisions to dispatch."""
    return [row for row in in_order(logs) if row["event"] == "dispatch" and row["phase"] == "start"]


def names(row: Columns, position: tuple[int, int]) -> bool:
    """Whether an acknowledgement names the entry."""
    return row["event"] == "ack" and position in {(p["ledger_id"], p["entry_id"]) for p in row["positions"]}


def spread(rows: list[Place]) -> list[Place]:
    """Places from all over a recording, the same in every run."""
    return rows[11 :: max(1, len(rows) // PLACES)][:PLACES]


def test_what_a_leaver_held_is_redelivered_in_another_order() -> None:
    name = "heavy-churn-1-4.0.8"
    logs = recorded_logs(name)
    times = Counter(entry(row) for row in sent(logs))
    before: dict[bytes, Columns] = {}
    seen: Counter[tuple[int, int]] = Counter()
    pairs = []
    for row in sent(logs):
        seen[entry(row)] += 1
        earlier = before.get(row["key"])
        again = seen[entry(row)] == times[entry(row)] == 2
        # Redelivered together: in one read, that is with few rows between.
        if (
            again
            and earlier is not None
            and row["seq"] - earlier["seq"] < 40
            and row["consumer"] == earlier["consumer"]
        ):
            pairs.append((earlier, row))
        before[row["key"]] = row
        if not again:
            before.pop(row["key"])
    assert len(pairs) >= PLACES
    for earlier, later in pairs[:PLACES]:
        twin = {entry(earlier): later, entry(later): earlier}

        def change(row: Columns, twin: dict[tuple[int, int], Columns] = twin, since: int = earlier["seq"]) -> Columns:
            if row["event"] != "dispatch" or row["seq"] < since or entry(row) not in twin:
                return row
            other = twin[entry(row)]
            return row | {"ledger_id": other["ledger_id"], "entry_id": other["entry_id"]}

        changed = [[change(row) for row in log] for log in logs]
        assert beyond(name, changed) == [("redelivery_order", earlier["seq"], "violation")]


def test_an_entry_is_never_sent_and_those_behind_it_are() -> None:
    name = "join-leave-1-4.0.8"
    # Snapshots would tell that mark-delete passed it. Without any, a filter may have rejected it.
    logs = [[row for row in log if row.get("snapshot") is None] for log in recorded_logs(name)]
    untouched, last_us = reported(name, logs), max(row["ts_us"] for log in logs for row in log)
    for lost in spread(sent(logs)[len(sent(logs)) // 2 :]):
        changed = [[without(row, entry(lost)) for row in log if not is_dispatch(row, entry(lost))] for log in logs]
        later = [r for r in sent(logs) if r["key"] == lost["key"] and entry(r) > entry(lost)]
        assert later
        # What was passed in the last second may still have been on its way.
        severity = "not_provable" if later[0]["ts_us"] <= last_us - READ_US else "violation"
        expected = Counter(("replay_overtaken", r["seq"], severity) for r in later)
        assert reported(name, changed) - untouched == expected


def is_dispatch(row: Columns, position: tuple[int, int]) -> bool:
    return row["event"] == "dispatch" and entry(row) == position


def without(row: Columns, position: tuple[int, int]) -> Columns:
    """An acknowledgement that leaves out the entry."""
    if not names(row, position):
        return row
    return row | {"positions": [p for p in row["positions"] if (p["ledger_id"], p["entry_id"]) != position]}


@pytest.mark.parametrize(("by", "severity"), [(1, "not_provable"), (-1, "violation")])
def test_a_redelivery_count_is_wrong(by: int, severity: str) -> None:
    name = "nack-timeout-redeliver-4.0.8"
    logs = recorded_logs(name)
    last = {entry(row): row["seq"] for row in sent(logs)}
    counted = [r for r in sent(logs) if r["redelivery_count"] >= max(0, -by) and last[entry(r)] == r["seq"]]
    for wrong in spread(counted):
        changed = [
            [
                row | {"redelivery_count": row["redelivery_count"] + by}
                if row["event"] == "dispatch" and row["seq"] >= wrong["seq"] and entry(row) == entry(wrong)
                else row
                for row in log
            ]
            for log in logs
        ]
        assert beyond(name, changed) == [("redelivery_count", wrong["seq"], severity)]


def _at_limit(logs: Logs, limit: int) -> list[list[Columns]]:
    """Both sides of an acknowledgement of a consumer at its limit, and of the entry that it is sent next."""
    held: dict[tuple[int, int], int] = {}
    published: dict[tuple[int, int], int] = {}
    freed: dict[int, list[Columns]] = {}
    found = []
    for row in in_order(logs):
        consumer = row.get("consumer", NO_CONSUMER)
        if row["event"] == "publish":
            published[entry(row)] = row["seq"]
        elif row["event"] == "ack" and row["phase"] == "start":
            at_limit = Counter(held.values())[consumer] == limit and len(row["positions"]) == 1
            for position in row["positions"]:
                held.pop((position["ledger_id"], position["entry_id"]), None)
            freed[consumer] = [row] if at_limit else []
        elif row["event"] == "ack" and freed.get(consumer) and freed[consumer][0]["positions"] == row["positions"]:
            freed[consumer].append(row)
        elif row["event"] == "dispatch" and row["phase"] == "start":
            sides = freed.pop(consumer, [])
            if len(sides) == 2 and published.get(entry(row), row["seq"]) < sides[0]["seq"]:
                found.append([*sides, row])
            held[entry(row)] = consumer
        elif row["event"] == "dispatch" and found and entry(found[-1][2]) == entry(row) and len(found[-1]) == 3:
            found[-1].append(row)
    return [rows for rows in found if len(rows) == 4]


def test_a_consumer_is_sent_more_than_its_limit() -> None:
    """The broker keeps the limit everywhere else, so the limit is its own."""
    name, limit = "max-unacked-consumer-4.0.8", 50
    logs = recorded_logs(name)
    for acked, settled, began, ended in spread(_at_limit(logs, limit)):
        # The entry is sent first, and then the acknowledgement comes.
        places = [(row["seq"], row["ts_us"]) for row in (acked, settled, began, ended)]
        moved = {row["seq"]: at for row, at in zip((began, ended, acked, settled), places, strict=True)}
        changed = [
            [
                row | dict(zip(("seq", "ts_us"), moved[row["seq"]], strict=True)) if row["seq"] in moved else row
                for row in log
            ]
            for log in logs
        ]
        assert beyond(name, changed) == [("unacked_limit", acked["seq"], "violation")]


def test_a_limit_that_the_broker_never_had_is_a_wrong_claim_and_no_violation() -> None:
    name = "steady-4.0.8"
    replays = replayed_logs(name, recorded_logs(name), changed={"maxUnackedMessagesPerConsumer": 3})
    found = _told(replays)
    assert {(rule, severity) for rule, _, severity in found} == {("unacked_limit", "not_provable")}
    (replay,) = replays.values()
    assert list(replay.replayed.loop.settings.found) == ["maxUnackedMessagesPerConsumer"]


def test_an_acknowledgement_is_cumulative() -> None:
    name = "join-leave-1-4.0.8"
    logs = recorded_logs(name)
    acks = [row for row in in_order(logs) if row["event"] == "ack" and row["phase"] == "start"]
    for ack in spread(acks):
        # The gaps that the oracle's rows left in the numbers are not everywhere: all are doubled to make room.
        changed = [[row | {"seq": 2 * row["seq"]} for row in log] for log in logs]
        changed[0].append(ack | {"seq": 2 * ack["seq"] + 1, "ack_type": "cumulative"})
        found = [f for f in reported(name, changed) if f[0] != "early_duplicate"]
        assert found == [("cumulative_ack", 2 * ack["seq"] + 1, "info")]


def test_an_acknowledgement_comes_from_another_consumer() -> None:
    name = "steady-4.0.8"
    logs = recorded_logs(name)
    consumers = sorted({row["consumer"] for row in sent(logs)})
    acks = [r for r in in_order(logs) if r["event"] == "ack" and r["phase"] == "start" and len(r["positions"]) == 1]
    for ack in spread(acks):
        (named,) = ack["positions"]
        position = named["ledger_id"], named["entry_id"]
        other = next(number for number in consumers if number != ack["consumer"])
        changed = [[row | {"consumer": other} if names(row, position) else row for row in log] for log in logs]
        assert beyond(name, changed) == [("foreign_ack", ack["seq"], "info")]


def test_a_consumer_gets_more_than_it_declared() -> None:
    name = "sticky-ranges-4.0.8"
    logs = recorded_logs(name)
    joins = [row for row in in_order(logs) if row["event"] == "join" and row["phase"] == "start"]
    for join in joins[:PLACES]:
        first, *others = join["ranges"]
        middle = (first["start"] + first["end"]) // 2
        narrowed = [first | {"end": middle}, *others]
        changed = [
            [
                row | {"ranges": narrowed}
                if row["event"] == "join" and row.get("consumer") == join["consumer"]
                else row
                for row in log
            ]
            for log in logs
        ]
        dispatched = sent(logs)
        slots = sticky_hashes([row["key"] for row in dispatched], "exclusive").tolist()
        mine = [
            (r["seq"], slot) for r, slot in zip(dispatched, slots, strict=True) if r["consumer"] == join["consumer"]
        ]
        outside = [seq for seq, slot in mine if middle < slot <= first["end"]]
        assert outside
        assert beyond(name, changed) == [("gap_delivery", seq, "violation") for seq in outside]
